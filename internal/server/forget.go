package server

import (
	"context"
	"errors"
	"time"

	"github.com/holter-iot/holter/internal/duration"
	"github.com/holter-iot/holter/liveness"
)

const (
	// forgetEvery is the time between two passes over all devices.
	forgetEvery = time.Minute
	// forgetAtOnce is how many devices are looked at before others have their turn.
	forgetAtOnce = 1000
)

// forget forgets devices that were silent for too long, until ctx is done.
func (s *server) forget(ctx context.Context) error {
	after := s.config.ForgetAfter
	if after == 0 {
		return nil
	}
	why := "it was silent for " + duration.String(after)
	tick := time.NewTicker(forgetEvery)
	defer tick.Stop()
	var at liveness.Cursor
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		total := 0
		for {
			next, n, err := s.registry.ForgetSilent(at, forgetAtOnce, after, why)
			at, total = next, total+n
			if errors.Is(err, liveness.ErrBusy) || at == 0 || ctx.Err() != nil { // the rest has its turn the next time
				break
			}
		}
		if total > 0 {
			s.forgotten.Add(uint64(total))
			s.log.Info("devices were forgotten", "devices", total, "silent_for", duration.String(after))
		}
	}
}
