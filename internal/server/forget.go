package server

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/holter-iot/holter/internal/duration"
	"github.com/holter-iot/holter/internal/operate"
)

const (
	// forgetEvery is the time between two passes over all devices.
	forgetEvery = time.Minute
	// forgetAtOnce is how many devices are looked at before others have their turn. What is forgotten
	// of them is committed first: an answer that waits for a commit has few events before it.
	forgetAtOnce = 1000
	// manyForgotten is how many devices must have been forgotten to make it worth the trouble to give
	// memory back, and releaseAfter how many passes later that is done: until then the store has the
	// latest events in memory.
	manyForgotten = 5000
	releaseAfter  = 4
)

// forget forgets devices that were silent for too long, until ctx is done.
func (s *server) forget(ctx context.Context) error {
	tick := time.NewTicker(forgetEvery)
	defer tick.Stop()
	many, passes := 0, 0 // since memory was given back last
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		verified, unverified := s.forgettings()
		if unverified == (operate.Forgetting{}) {
			continue
		}
		many += s.forgetSilent(ctx, verified, unverified)
		if many < manyForgotten {
			continue
		}
		if passes++; passes == releaseAfter {
			s.releaseMemory(ctx)
			many, passes = 0, 0
		}
	}
}

// forgettings returns when devices are forgotten: those that were verified, and the others, for which
// the shorter of both settings holds.
func (s *server) forgettings() (verified, unverified operate.Forgetting) {
	c := s.live.Load()
	after, sooner := c.ForgetAfter, c.ForgetUnverified
	if after != 0 {
		verified = operate.Forgetting{After: after, Message: "it was silent for " + duration.String(after)}
	}
	if sooner == 0 || after != 0 && after <= sooner {
		return verified, verified
	}
	return verified, operate.Forgetting{After: sooner, Message: "it was never verified, and silent for " + duration.String(sooner)}
}

// forgetSilent passes over all devices once, and returns how many it has forgotten.
func (s *server) forgetSilent(ctx context.Context, verified, unverified operate.Forgetting) (total int) {
	for at := uint64(0); ; {
		next, n, err := s.registry.Operator().ForgetSilent(at, forgetAtOnce, verified, unverified)
		at, total = next, total+n
		s.forgotten.Add(uint64(n))
		if (n > 0 || err != nil) && s.registry.Commit(ctx) != nil || at == 0 && err == nil {
			break
		}
	}
	if total > 0 {
		s.log.Info("devices were forgotten", "devices", total)
	}
	return total
}

// releaseMemory gives the memory back that many devices have left.
func (s *server) releaseMemory(ctx context.Context) {
	if err := s.database.ReleaseMemory(ctx); err != nil && ctx.Err() == nil {
		s.log.Debug("the memory of the database cannot be released", "error", err)
	}
	debug.FreeOSMemory()
}
