package liveness

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holter-iot/holter/liveness/watermark"
)

// local holds the sources whose clocks [Registry.Run] keeps.
type local struct {
	mu    sync.Mutex    // guards idle
	idle  []*Source     // those whose clocks are not kept yet
	added chan struct{} // never closed; one place: one pass over idle handles all that were added before
}

// AddLocal adds a source for heartbeats that the program makes itself, for its workers, jobs or
// leases, by [Source.Beat], [Source.Apply] or [Source.Open]. Nobody else pulses it: [Registry.Run]
// keeps its clock. A call takes effect at once, so no heartbeat waits to be read, and all time for
// which the process runs is listening time. While the process is stopped, suspended or starved the
// clock stands still, but for the first second (SourceConfig.MaxGap). Errors: those of AddSource.
func (r *Registry) AddLocal(name string) (*Source, error) {
	s, err := r.AddSource(SourceConfig{Name: name, Note: "calls of the program"})
	if err != nil {
		return nil, err
	}
	r.local.mu.Lock()
	defer r.local.mu.Unlock()
	r.local.idle = append(r.local.idle, s)
	select {
	case r.local.added <- struct{}{}:
	default:
	}
	return s, nil
}

// Beat is a heartbeat of a device without a session, now: a short form of Apply. Errors: those of
// Apply. It takes a lock of a 64th of the devices, and a look-up by the id; where that is too much,
// open a [Session].
func (s *Source) Beat(id string) error {
	_, err := s.Apply(id, Signal{At: s.Time(time.Now())})
	return err
}

// keepLocal keeps the clocks of the local sources until ctx is done.
func (r *Registry) keepLocal(ctx context.Context) {
	var clocks sync.WaitGroup
	defer clocks.Wait()
	for {
		for _, s := range r.takeLocal() {
			clock := watermark.Loop{Source: s, Pulse: s.pulseLocal}
			clocks.Go(func() { _ = clock.Run(ctx) }) // fails only if pulseLocal does
		}
		select {
		case <-r.local.added:
		case <-ctx.Done():
			return
		}
	}
}

// takeLocal returns the local sources whose clocks are not kept yet.
func (r *Registry) takeLocal() []*Source {
	r.local.mu.Lock()
	defer r.local.mu.Unlock()
	taken := slices.Clone(r.local.idle)
	r.local.idle = nil
	return taken
}

// pulseLocal moves the clock of a local source. All that reached it before now has been applied: a
// call that is under way has not returned, and so has promised nothing.
func (s *Source) pulseLocal(now time.Time) (listened time.Duration, err error) {
	listened = s.Pulse(now)
	s.Watermark(0, listened)
	return listened, nil
}
