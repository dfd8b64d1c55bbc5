//go:build linux

package chaos

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holter-iot/holter/internal/fleet"
)

// mischiefEvery is the time between two rounds of orders.
const mischiefEvery = 50 * time.Millisecond

// mischief is what the devices do beside beating: it chooses, by chance, who
// falls silent, ends its connection or says goodbye, and when it comes back.
type mischief struct {
	fleet  *fleet.Fleet
	policy *Policy
	end    time.Time // nobody comes back after that: who would is dead for good

	mu     sync.Mutex // guards the fields below
	chance *rand.Rand
	free   []time.Time // by device: when it may be chosen again; zero: at once
	done   int         // orders
}

func newMischief(f *fleet.Fleet, devices int, p *Policy, seed uint64, end time.Time) *mischief {
	return &mischief{fleet: f, policy: p, end: end, chance: rand.New(rand.NewPCG(seed, 3)), free: make([]time.Time, devices)}
}

// run gives orders until ctx is done. Some devices die at once, and each of the
// others has its turn about once in six timeouts.
func (m *mischief) run(ctx context.Context) error {
	if err := m.some(1+len(m.free)/50, m.die); err != nil {
		return err
	}
	perRound := float64(len(m.free)) * float64(mischiefEvery) / float64(6*m.policy.Timeout)
	due := 0.0
	for pause(ctx, mischiefEvery) == nil && time.Now().Before(m.end) {
		due += perRound
		if err := m.some(int(due), m.order); err != nil {
			return err
		}
		due -= float64(int(due))
	}
	return nil
}

// last lets some devices send a heartbeat at once, and fall silent.
func (m *mischief) last() error {
	return m.some(2+len(m.free)/20, func(device int, now time.Time) error {
		if err := m.fleet.Do(device, fleet.Last, now); err != nil {
			return err
		}
		return m.comeBack(device, now.Add(m.away(m.policy.Timeout)))
	})
}

// some chooses devices by chance, and lets those do something that are free.
func (m *mischief) some(n int, do func(device int, now time.Time) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for now := time.Now(); n > 0; n-- {
		device := m.chance.IntN(len(m.free))
		if m.free[device].After(now) {
			continue
		}
		m.done++
		if err := do(device, now); err != nil {
			return err
		}
	}
	return nil
}

// die makes a device fall silent for good.
func (m *mischief) die(device int, now time.Time) error {
	m.free[device] = m.end.Add(time.Hour)
	return m.fleet.Do(device, fleet.Silent, now)
}

// order makes a device do something, and come back, or not. A device that is
// away already does not do it, but comes back.
func (m *mischief) order(device int, now time.Time) error {
	actions := []fleet.Action{fleet.Silent, fleet.Silent, fleet.Silent, fleet.Close, fleet.Reset, fleet.Bye}
	action := actions[m.chance.IntN(len(actions))]
	at := now.Add(time.Duration(m.chance.Int64N(int64(mischiefEvery))))
	if err := m.fleet.Do(device, action, at); err != nil {
		return err
	}
	limit := m.policy.Timeout
	if action == fleet.Close || action == fleet.Reset {
		limit = m.policy.CloseGrace
	}
	if m.chance.IntN(12) == 0 {
		m.free[device] = m.end.Add(time.Hour) // dead
		return nil
	}
	return m.comeBack(device, at.Add(m.away(limit)))
}

// comeBack makes a device come back, unless the end comes first.
func (m *mischief) comeBack(device int, back time.Time) error {
	if back.After(m.end) {
		m.free[device] = m.end.Add(time.Hour)
		return nil
	}
	m.free[device] = back.Add(m.policy.Timeout / 2)
	return m.fleet.Do(device, fleet.Reconnect, back)
}

// away is how long a device stays away: not long enough to be judged, just
// about, or for longer.
func (m *mischief) away(limit time.Duration) time.Duration {
	return time.Duration((0.1 + 3*m.chance.Float64()*m.chance.Float64()) * float64(limit))
}
