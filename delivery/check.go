package delivery

import (
	"cmp"
	"time"
	"unicode/utf8"

	"github.com/holter-iot/holter/store"
)

// CheckRoute says what is wrong with the events that a route chooses. Errors: ErrBad.
func CheckRoute(r store.Route) error {
	if _, err := compile(r); err != nil {
		return bad("%w", err)
	}
	if len(r.Types) > maxList || len(r.Reasons) > maxList {
		return bad("a route takes at most %d types and %d reasons", maxList, maxList)
	}
	for _, pattern := range []string{r.Group, r.Device} {
		if len(pattern) > maxPattern || !utf8.ValidString(pattern) || !printable(pattern) {
			return bad("the pattern %.80q is too long, or has control characters", pattern)
		}
	}
	return nil
}

// Check says what is wrong with a request for a job, as far as that can be told before it is made. Errors: ErrBad, store.ErrUnknown.
func (e *Engine) Check(r Request) error {
	_, _, err := e.lane(r)
	return err
}

// lane checks a request, and returns its queue, and the lane that its job will be in.
func (e *Engine) lane(r Request) (q store.Queue, lane store.Lane, err error) {
	if err := r.check(time.Now()); err != nil {
		return q, lane, err
	}
	if q, err = e.Queue(cmp.Or(r.Queue, DefaultQueue)); err != nil || r.Endpoint == "" {
		return q, store.Lane{Queue: q.Num}, err
	}
	p, err := e.Endpoint(r.Endpoint)
	return q, store.Lane{Queue: q.Num, Endpoint: p.Num}, err
}
