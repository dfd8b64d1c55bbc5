package dag

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// perform runs node i, and returns its outcome. It treats the methods of a returned error as
// foreign code as well: if one panics, as those of a nil pointer do, the node has failed.
func (r *run[T]) perform(i int32) (o Outcome, err error) {
	n, report := r.at(i)
	report.Start = r.now()
	defer func() {
		if v := recover(); v != nil {
			o, err = Failed, r.fail(i, recovered(v))
		}
		report.End = r.now()
	}()
	if n.wrapped == nil {
		err = n.turn(r.ctx, r.state, report)
	} else {
		err = protect(n.wrapped, context.WithValue(r.ctx, reportKey{}, report), r.state)
	}
	return r.settled(i, err)
}

// settled returns the outcome for the error of node i, and cancels the run at a failure unless it
// is to continue.
func (r *run[T]) settled(i int32, err error) (Outcome, error) {
	switch {
	case err == nil:
		return Done, nil
	case errors.Is(err, ErrSkipped):
		return Skipped, err
	case errors.Is(err, ErrWaiting):
		return Waiting, err
	case gaveUp(r.ctx, err) && !errors.Is(err, ErrAbandoned):
		return Canceled, err
	}
	return Failed, r.fail(i, err)
}

// fail returns the error of node i that has failed, and cancels the run unless it is to continue.
func (r *run[T]) fail(i int32, err error) error {
	_, report := r.at(i)
	failure := &NodeError{Node: report.Name, Attempts: report.Attempts, Err: err}
	if !r.graph.cfg.Continue {
		r.cancel(failure)
	}
	return failure
}

// gaveUp reports whether the error is that of a context that has ended.
func gaveUp(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}

// reportKey is the key of the node's report in the context that interceptors get.
type reportKey struct{}

// intercepted is the innermost func that an interceptor stands around.
func (n *node[T]) intercepted(ctx context.Context, state *T) error {
	report, ok := ctx.Value(reportKey{}).(*NodeReport)
	if !ok {
		return errors.New("an interceptor passed on a context that does not come from its own")
	}
	return n.turn(ctx, state, report)
}

// turn asks the condition and makes the attempts.
func (n *node[T]) turn(ctx context.Context, state *T, report *NodeReport) error {
	if n.When != nil {
		if err := protect(n.when, ctx, state); err != nil {
			return err
		}
	}
	for attempt := 1; ; attempt++ {
		report.Attempts++
		err := n.attempt(ctx, state)
		if err == nil || attempt >= n.retry.Attempts || isFinal(err) || gaveUp(ctx, err) {
			return err
		}
		d, again := n.retry.next(attempt, err)
		if !again {
			return err
		}
		if !pause(ctx, d) {
			return fmt.Errorf("%w, before the node was tried again after: %w", ended(ctx), err)
		}
	}
}

// isFinal reports whether no attempt may follow one with this error.
func isFinal(err error) bool {
	return errors.Is(err, ErrSkipped) || errors.Is(err, ErrWaiting) || errors.Is(err, ErrGoexit) || errors.Is(err, ErrAbandoned)
}

// when asks the condition. If it does not hold, the error is ErrSkipped.
func (n *node[T]) when(_ context.Context, state *T) error {
	if n.When(state) {
		return nil
	}
	return ErrSkipped
}

// protect calls f, and makes a panic an error.
func protect[T any](f Func[T], ctx context.Context, state *T) (err error) { //nolint:revive // the func comes first, as in a call of it
	returned := false
	defer func() {
		if !returned {
			err = recovered(recover())
		}
	}()
	err = f(ctx, state)
	returned = true
	return err
}

// recovered returns the value of recover as an error. After runtime.Goexit nothing reads it.
func recovered(v any) error {
	return &PanicError{Value: v, Stack: debug.Stack()}
}

// pause waits, and reports whether the context still lasts.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
