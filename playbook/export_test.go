package playbook

import (
	"context"
	"time"

	"github.com/holter-iot/holter/store"
)

// Busy takes its time, and does what is asked for.
type Busy struct {
	For time.Duration
	Do  func(step string)
}

// Kind implements Action.
func (Busy) Kind() string { return "busy" }

func (Busy) check() error { return nil }

func (b Busy) do(ctx context.Context, _ *run, s *Step, _ store.RunStep) outcome {
	select {
	case <-time.After(b.For):
	case <-ctx.Done():
		return outcome{err: ctx.Err()}
	}
	b.Do(s.Name)
	return outcome{}
}
