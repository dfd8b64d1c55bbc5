package learn

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holter-iot/holter/internal/habit"
)

// How Holter lets what it learned take effect.
const (
	ceiling = 24 * time.Hour
	reserve = 1.25 // a deadline that a gap comes closer to than that is learned anew at once, others once a day
	slowest = 1.5  // by what a deadline falls at most in a day
	fall    = 0.1  // a deadline falls only if it falls by that share
)

// ours is Holter with a budget of false alarms per device and month.
func ours(budget float64) contender {
	return contender{
		ourName(budget), fmt.Sprintf("package `internal/habit`; accepted false alarms per device and month: %g", budget),
		func() group { return &peers{budget: budget} },
	}
}

func ourName(budget float64) string { return fmt.Sprintf("Holter, budget %g", budget) }

// peers are the devices of a group, with one shape.
type peers struct {
	shape  habit.Shape
	budget float64
}

func (p *peers) detector(policy time.Duration, r *rand.Rand) detector {
	return &learner{peers: p, policy: policy, r: r}
}

func (p *peers) weekly() { p.shape.Halve() }

// learner uses a habit as a registry does.
type learner struct {
	peers  *peers
	policy time.Duration
	r      *rand.Rand
	habit  habit.Habit
	daily  time.Duration // when it was last looked at although no gap came close to the deadline
}

func (l *learner) deadline() time.Duration {
	if d := l.habit.InForce(); d > 0 {
		return d
	}
	return l.policy
}

func (l *learner) heard(now, gap time.Duration) {
	l.habit.Add(gap, l.policy, l.peers.budget, &l.peers.shape, l.r.Uint32())
	inForce, due := l.deadline(), now-l.daily >= day
	if !due && float64(gap)*reserve <= float64(inForce) {
		return
	}
	basis, ok := l.habit.Explain(&l.peers.shape, l.peers.budget)
	if !ok {
		return
	}
	learned := min(basis.Deadline(), ceiling)
	switch {
	case learned > inForce:
		l.habit.SetInForce(learned)
	case due && (basis.Known || basis.Gaps >= habit.Sure) && float64(learned) <= (1-fall)*float64(inForce):
		l.habit.SetInForce(max(learned, time.Duration(float64(inForce)/slowest)))
	}
	if due {
		l.daily = now
	}
}
