package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"
)

const (
	// commitWithin is for how long a request waits until what it changed is stored, and crowdedWithin for how long if half of the connections
	// that there may be are waiting already: while the database does not answer, others need the rest.
	commitWithin  = 3 * time.Second
	crowdedWithin = 500 * time.Millisecond
)

// errUncommitted says that something was done, and is not stored yet.
var errUncommitted = errors.New("it is not stored yet, because the database did not answer in time: it may still take effect, " +
	"or be lost if the process ends before; it may be repeated, which does no harm")

// settled is how a change of the registry ended, once that may be told: nobody is answered that something was done, or that a device is not
// known, before the sink has taken all that happened until then. It is not cut short by a client that goes away, nor by the end of the process.
func (a *API) settled(ctx context.Context, err error) error {
	if err != nil && !isUnknown(err) {
		return err
	}
	within := commitWithin
	if a.committing.Add(1) > int64(a.config.MaxConnections/2) {
		within = crowdedWithin
	}
	defer a.committing.Add(-1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	if a.registry.Commit(ctx) != nil {
		return errUncommitted
	}
	return err
}

// turn is the time in which a request with heartbeats is handled; the listening clock does not pass it. It is the request's ResponseWriter.
type turn struct {
	http.ResponseWriter

	ear   *hearing
	place uint32
	left  bool
}

// Unwrap is for [http.ResponseController].
func (t *turn) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// leave ends the turn, once.
func (t *turn) leave() {
	if !t.left {
		t.left = true
		t.ear.Leave(t.place)
	}
}

// heard is like settled, for what a heartbeat changed: it is heard, so the clock need not wait until it is stored.
func (a *API) heard(w http.ResponseWriter, r *http.Request, err error) error {
	if t, ok := w.(*turn); ok {
		t.leave()
	}
	return a.settled(r.Context(), err)
}
