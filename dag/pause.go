package dag

import (
	"context"
	"errors"
	"time"
)

// Pause lets a node wait inside of its run while that is at work anyway: it returns nil after d. As soon as no other node of the run is at
// work or ready, other than those that pause too, it returns an error that wraps [ErrWaiting], which is for the node to return. After the end
// of ctx, which has to come from that of the node, it returns its error.
func Pause(ctx context.Context, d time.Duration) error {
	s, ok := ctx.Value(runKey{}).(sleeper)
	if !ok {
		return errors.New("dag: Pause is for a node, with the context that it was given")
	}
	if err := ctx.Err(); err != nil { // also of an attempt that was abandoned, which is no worker any more
		return err
	}
	alone := s.sleep()
	defer s.awake()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-alone:
		return ErrWaiting
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runKey is the key of the run in the context of its nodes.
type runKey struct{}

// sleeper is a run of any kind.
type sleeper interface {
	// sleep records that a worker pauses. The channel is closed when only pausing workers are left.
	sleep() (alone <-chan struct{})
	awake()
}

// idle is the state of the pausing nodes of a run.
type idle struct {
	asleep int
	alone  chan struct{} // closed when only pausing workers are left; nil until the next call of sleep
}

func (r *run[T]) sleep() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle.asleep++
	if r.idle.alone == nil {
		r.idle.alone = make(chan struct{})
	}
	alone := r.idle.alone
	r.wakeIdleLocked()
	return alone
}

func (r *run[T]) awake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle.asleep--
}

// wakeIdleLocked ends the pauses if nothing goes on but them, or nothing can because of them.
func (r *run[T]) wakeIdleLocked() {
	if r.idle.alone != nil && r.working == r.idle.asleep && (r.progress.ready() == 0 || !r.roomLocked()) {
		close(r.idle.alone)
		r.idle.alone = nil
	}
}
