package chaos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
)

// starvedEvery is a fifth of the pause in this program's running that counts as starved.
const starvedEvery = 100 * time.Millisecond

// record is what is known of a run: the history, and what went wrong beside it. Its methods may be
// called concurrently.
type record struct {
	gone chan error // gets the end of a process that nobody asked for, or another failure; one is enough

	mu      sync.Mutex // guards the fields below
	history History    // its origin does not change
	wrong   []Violation
	starts  int // processes so far
}

// newRecord returns the record of a run that begins now, before the first process.
func newRecord() *record {
	return &record{gone: make(chan error, 1), history: History{
		Origin: time.Now().Round(0),
		Breaks: []Break{{Kind: Start, Asked: ever, Began: ever, Ending: never, Over: never}},
	}}
}

// now returns the current instant of the history.
func (r *record) now() time.Duration { return time.Since(r.history.Origin) }

// snapshot returns a copy of the history.
func (r *record) snapshot() History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.history
	h.Breaks, h.Troubles, h.Lapses = slices.Clone(h.Breaks), slices.Clone(h.Troubles), slices.Clone(h.Lapses)
	return h
}

// change changes the latest break.
func (r *record) change(do func(last *Break)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do(&r.history.Breaks[len(r.history.Breaks)-1])
}

// begin notes a break that was asked for at an instant and has begun now. It ends an earlier one
// that still lasts.
func (r *record) begin(kind BreakKind, asked time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := &r.history.Breaks[len(r.history.Breaks)-1]
	last.Over = min(last.Over, asked)
	r.history.Breaks = append(r.history.Breaks, Break{Kind: kind, Asked: asked, Began: r.now(), Ending: never, Over: never})
}

// listens notes that the process after a break listens now, even if it was stopped before that.
func (r *record) listens(at int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Breaks[at].Over = min(r.history.Breaks[at].Over, r.now())
	for i := range r.history.Breaks[at+1:] {
		b := &r.history.Breaks[at+1+i]
		b.Over = max(b.Over, r.now())
	}
}

// trouble notes the beginning of a time in which nothing can be saved; the function that it returns
// notes the end.
func (r *record) trouble(kind FaultKind) (over func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := len(r.history.Troubles)
	r.history.Troubles = append(r.history.Troubles, Trouble{Kind: kind, From: r.now(), To: never})
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.history.Troubles[at].To = r.now()
	}
}

// troubled reports whether a trouble lasts, or was over only a while before t.
func (r *record) troubled(t time.Duration) bool {
	h := r.snapshot()
	return slices.ContainsFunc(h.Troubles, func(trouble Trouble) bool { return t < trouble.To+2*time.Second })
}

// violation records a broken promise.
func (r *record) violation(kind ViolationKind, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = append(r.wrong, Violation{Kind: kind, Detail: fmt.Sprintf(format, args...) + " at " + clock(r.now())})
}

// failed notes what ends the run.
func (r *record) failed(err error) {
	select {
	case r.gone <- err:
	default:
	}
}

// starve records the times in which this program could not run, until ctx is done.
func (r *record) starve(ctx context.Context) {
	for last := r.now(); run.Wait(ctx, starvedEvery) == nil; last = r.now() {
		if now := r.now(); now-last > 5*starvedEvery {
			r.mu.Lock()
			r.history.Troubles = append(r.history.Troubles, Trouble{Kind: Starved, From: last, To: now})
			r.mu.Unlock()
		}
	}
}

// wait waits while no process ends by itself.
func (r *record) wait(ctx context.Context, length time.Duration) error {
	select {
	case <-time.After(length):
		return nil
	case err := <-r.gone:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
