package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
)

const (
	// oldestEvery is how often the oldest job of each queue is looked for.
	oldestEvery = 10 * time.Second
	// oldestRest is how many times longer than a look the pause before the next one is at least.
	oldestRest = 50
)

// oldestJobs has the instants from which the ages of the oldest jobs count.
type oldestJobs struct {
	mu sync.Mutex           // guards the field below
	at map[uint32]time.Time // by queue; nil before the first look
}

// read returns the instant of a queue, zero if no job has an age, and whether it is known.
func (o *oldestJobs) read(queue uint32) (at time.Time, isKnown bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.at[queue], o.at != nil
}

// watchOldest looks for the oldest jobs until ctx is done. While the database fails, what is known stays: those
// jobs are not done, and grow older.
func (e *Engine) watchOldest(ctx context.Context) {
	for failing := false; ctx.Err() == nil; {
		began := time.Now()
		err := e.findOldest(ctx, began)
		if err != nil && !failing && ctx.Err() == nil {
			e.config.Logger.WarnContext(ctx, "cannot look for the oldest jobs; this is retried", "error", err)
		}
		failing = err != nil
		select {
		case <-time.After(max(oldestEvery, oldestRest*time.Since(began))):
		case <-ctx.Done():
		}
	}
}

// findOldest looks for the oldest jobs once.
func (e *Engine) findOldest(ctx context.Context, now time.Time) error {
	found, err := e.jobs.Oldest(ctx, now)
	if err != nil {
		return err
	}
	list := make([]jobs.Job, len(found))
	for i := range found {
		list[i].Event = found[i].Event
	}
	events, err := e.eventsOf(ctx, list)
	if err != nil {
		return err
	}
	at := make(map[uint32]time.Time)
	for _, o := range found {
		if ev := events[o.Event]; ev != nil && (o.Created.IsZero() || ev.Time.Before(o.Created)) {
			o.Created = ev.Time
		}
		if old := at[o.Lane.Queue]; !o.Created.IsZero() && (old.IsZero() || o.Created.Before(old)) {
			at[o.Lane.Queue] = o.Created
		}
	}
	e.oldest.mu.Lock()
	defer e.oldest.mu.Unlock()
	e.oldest.at = at
	return nil
}
