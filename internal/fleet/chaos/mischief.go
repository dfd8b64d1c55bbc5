//go:build linux

package chaos

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holter-iot/holter/internal/fleet"
)

// mischiefEvery is the time between two rounds of orders.
const mischiefEvery = 50 * time.Millisecond

// mischief is what the devices do beside beating: it chooses, by chance, who
// falls silent, ends its connection or says goodbye, and when it comes back.
type mischief struct {
	fleet  *fleet.Fleet
	rules  *Rules
	chance *rand.Rand
	free   []time.Time // by device: when it may be chosen again; zero: at once
	done   int         // orders
}

func newMischief(f *fleet.Fleet, devices int, r *Rules, seed uint64) *mischief {
	return &mischief{fleet: f, rules: r, chance: rand.New(rand.NewPCG(seed, 3)), free: make([]time.Time, devices)}
}

// run gives orders until ctx is done. Each device has its turn about once in six
// timeouts. Nobody comes back after end: who would is dead for good.
func (m *mischief) run(ctx context.Context, end time.Time) error {
	perRound := float64(len(m.free)) * float64(mischiefEvery) / float64(6*m.rules.Timeout)
	due := 0.0
	for pause(ctx, mischiefEvery) == nil {
		now := time.Now()
		if now.After(end) {
			return nil
		}
		for due += perRound; due >= 1; due-- {
			device := m.chance.IntN(len(m.free))
			if m.free[device].After(now) {
				continue
			}
			if err := m.order(device, now, end); err != nil {
				return err
			}
		}
	}
	return nil
}

// order makes a device do something, and come back, or not. A device that is
// away already does not do it, but comes back.
func (m *mischief) order(device int, now, end time.Time) error {
	actions := []fleet.Action{fleet.Silent, fleet.Silent, fleet.Silent, fleet.Close, fleet.Reset, fleet.Bye}
	action := actions[m.chance.IntN(len(actions))]
	at := now.Add(time.Duration(m.chance.Int64N(int64(mischiefEvery))))
	m.done++
	if err := m.fleet.Do(device, action, at); err != nil {
		return err
	}
	back := at.Add(m.away(action))
	if back.After(end) || m.chance.IntN(12) == 0 {
		m.free[device] = end.Add(time.Hour) // dead
		return nil
	}
	m.free[device] = back.Add(m.rules.Timeout / 2)
	return m.fleet.Do(device, fleet.Reconnect, back)
}

// away is how long a device stays away: not long enough to be judged, just
// about, or for longer.
func (m *mischief) away(action fleet.Action) time.Duration {
	limit := m.rules.Timeout
	if action == fleet.Close || action == fleet.Reset {
		limit = m.rules.CloseGrace
	}
	return time.Duration((0.1 + 3*m.chance.Float64()*m.chance.Float64()) * float64(limit))
}
