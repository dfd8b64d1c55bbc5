package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"
)

const (
	// commitWithin is how long a request waits until its change is stored. crowdedWithin replaces
	// it when half of MaxConnections wait, so that other requests find a connection while the
	// database does not answer.
	commitWithin  = 3 * time.Second
	crowdedWithin = 500 * time.Millisecond
)

// errUncommitted says that a change was made and is not stored yet.
var errUncommitted = errors.New("it is not stored yet, because the database did not answer in time: it may still take effect, " +
	"or be lost if the process ends before; it may be repeated, which does no harm")

// settled returns the result of a change of the registry once it may be answered: when the sink has
// stored everything up to now. The same goes for the answer that a device is not known. It waits
// even if the client disconnects or the process stops.
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

// turn is the time in which a request with heartbeats is handled. The listening clock does not pass
// it. It is the request's ResponseWriter.
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

// heard is settled for a heartbeat. The heartbeat counts as heard, so the clock does not wait until
// it is stored.
func (a *API) heard(w http.ResponseWriter, r *http.Request, err error) error {
	if t, ok := w.(*turn); ok {
		t.leave()
	}
	return a.settled(r.Context(), err)
}
