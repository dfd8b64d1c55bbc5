package dag

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// grace is how long after its timeout an attempt is waited for, so that one which looks at its context never runs beside what comes
// next.
const grace = time.Second

// attempt runs the node once.
func (n *node[T]) attempt(parent context.Context, state *T) error {
	if n.Timeout == 0 {
		return protect(n.Run, parent, state)
	}
	deadline := time.Now().Add(n.Timeout)
	ctx, cancel := context.WithTimeoutCause(parent, n.Timeout, n.late)
	defer cancel()
	t := timed{returned: make(chan error, 1), abandoned: n.abandoned}
	go t.run(func() error { return protect(n.Run, ctx, state) })
	limit := time.NewTimer(n.Timeout + min(grace, math.MaxInt64-n.Timeout))
	defer limit.Stop()
	select {
	case err := <-t.returned:
		if time.Now().Before(deadline) {
			return err
		}
		return n.afterTimeout(err)
	case <-limit.C:
		return t.abandon(n.late)
	}
}

// afterTimeout returns the error of an attempt that returned err too late.
func (n *node[T]) afterTimeout(err error) error {
	switch {
	case errors.Is(err, n.late): // it returned the cause of its context
		return err
	case err == nil, errors.Is(err, ErrSkipped), errors.Is(err, ErrWaiting):
		return n.late
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("not done within %v: %w", n.Timeout, err)
	}
	return fmt.Errorf("%w: %w", n.late, err)
}

// timed is an attempt in a goroutine of its own.
type timed struct {
	returned  chan error // has room for the only value, so that nobody has to read it
	over      atomic.Bool
	abandoned *atomic.Int64
}

// run is the goroutine.
func (t *timed) run(f func() error) {
	err := ErrGoexit
	defer func() {
		if t.over.Swap(true) {
			t.abandoned.Add(-1)
		}
		t.returned <- err
	}()
	err = f()
}

// abandon returns the error of an attempt that is not waited for any longer.
func (t *timed) abandon(late error) error {
	t.abandoned.Add(1)
	if t.over.Swap(true) { // it has just returned
		t.abandoned.Add(-1)
		return late
	}
	return fmt.Errorf("%w, %w", late, ErrAbandoned)
}
