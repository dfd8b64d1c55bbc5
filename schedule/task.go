package schedule

import (
	"context"
	"slices"
	"time"
)

// Task is a func of a run that may fail; see [Plan.DoTask].
type Task func(context.Context, Run) error

// Then returns the task that runs t and then the next ones, one after the other, until one fails or the context ends. They are one
// run of the schedule, which ends with the last of them. It panics if one is nil.
func (t Task) Then(next ...Task) Task {
	tasks := slices.Insert(slices.Clone(next), 0, t)
	if slices.ContainsFunc(tasks, func(t Task) bool { return t == nil }) {
		panic("schedule: Then: a task is nil")
	}
	return func(ctx context.Context, r Run) error {
		for i, task := range tasks {
			if i > 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if err := task(ctx, r); err != nil {
				return err
			}
		}
		return nil
	}
}

// Retry returns the task that runs t again when it fails, up to retries times: after wait, and each further time after twice as
// long, but not beyond [MaxRetryWait] unless wait is. It fails with the latest error of t, and at once when the context ends. All
// that is one run of the schedule, which keeps its worker while it waits. A panic is no error: it ends the run. Retry panics if t is
// nil.
func (t Task) Retry(retries int, wait time.Duration) Task {
	if t == nil {
		panic("schedule: Retry: the task is nil")
	}
	return func(ctx context.Context, r Run) error {
		err := t(ctx, r)
		for i, d := 0, wait; i < retries && err != nil && pause(ctx, d); i++ {
			d = max(d, min(2*d, MaxRetryWait))
			err = t(ctx, r)
		}
		return err
	}
}

// MaxRetryWait is how long the waits of [Task.Retry] become.
const MaxRetryWait = time.Hour

// pause waits, and reports whether it did to the end.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err() == nil
}
