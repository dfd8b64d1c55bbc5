package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// FaultKind is something that is done to the server.
type FaultKind string

const (
	// Kill kills it with SIGKILL, and starts it again after Down.
	Kill FaultKind = "kill"
	// Stop stops it with SIGSTOP, and continues it after Length.
	Stop FaultKind = "stop"
	// Term ends it with SIGTERM, and starts it again after Down.
	Term FaultKind = "term"
	// Loop kills it as soon as each of its Lives is over, and starts it at once.
	// A life is longer than the allowance and shorter than the timeout.
	Loop FaultKind = "loop"
	// Disk fills the disk for Length.
	Disk FaultKind = "disk"
	// DiskKill fills the disk for Length, and kills the server in the middle,
	// which starts again after Down, often on a full disk.
	DiskKill FaultKind = "disk+kill"
	// Freeze stops the database's processes with SIGSTOP for Length.
	Freeze FaultKind = "db stop"
	// FreezeKill does that, and kills the server in the middle, too.
	FreezeKill FaultKind = "db stop+kill"
	// Crash kills the database's processes with SIGKILL, and starts the database
	// again after Length.
	Crash FaultKind = "db kill"
	// CrashKill does that, and kills the server in the middle, too.
	CrashKill FaultKind = "db+kill"
)

// Fault is one thing to be done.
type Fault struct {
	Kind   FaultKind       `json:"kind"`
	Wait   time.Duration   `json:"wait"` // from the end of the one before
	Length time.Duration   `json:"length,omitempty"`
	Down   time.Duration   `json:"down,omitempty"`
	Lives  []time.Duration `json:"lives,omitempty"`
}

// restarts reports whether the server is away for Down.
func (f *Fault) restarts() bool { return f.Kind == Kill || f.Kind == Term || f.kills() }

// String describes the fault in one line.
func (f Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s after %v", f.Kind, f.Wait)
	if f.Length > 0 {
		fmt.Fprintf(&b, ", for %v", f.Length)
	}
	if f.Lives != nil {
		fmt.Fprintf(&b, ", lives %v", f.Lives)
	} else if f.restarts() {
		fmt.Fprintf(&b, ", down %v", f.Down)
	}
	return b.String()
}

// kills reports whether the server is killed in the middle of the fault.
func (f *Fault) kills() bool {
	return f.Kind == DiskKill || f.Kind == FreezeKill || f.Kind == CrashKill
}

// span is how long the fault takes, at least.
func (f *Fault) span() time.Duration {
	span := f.Wait + max(f.Length, f.Length/2+f.Down)
	for _, life := range f.Lives {
		span += life
	}
	return span
}

// Plan returns the faults that fill a time, of the given kinds. It follows from
// the seed alone; each kind has its turn before one comes again, but for those
// that would take too long. It is empty if there are no kinds.
func Plan(seed uint64, kinds []FaultKind, length time.Duration, r *Rules) []Fault {
	p := planner{chance: rand.New(rand.NewPCG(seed, 2)), rules: r, longest: length / 5}
	var plan []Fault
	left, before := length, -1
	for len(plan) > before {
		before = len(plan)
		deck := slices.Clone(kinds)
		p.chance.Shuffle(len(deck), func(i, k int) { deck[i], deck[k] = deck[k], deck[i] })
		for _, kind := range deck {
			if f := p.fault(kind); f.span() < left {
				left -= f.span()
				plan = append(plan, f)
			}
		}
	}
	return plan
}

type planner struct {
	chance  *rand.Rand
	rules   *Rules
	longest time.Duration
}

// between returns a duration by chance, to a millisecond.
func (p *planner) between(least, most time.Duration) time.Duration {
	return (least + time.Duration(p.chance.Int64N(int64(max(most-least, 0))+1))).Round(time.Millisecond)
}

func (p *planner) fault(kind FaultKind) Fault {
	timeout := p.rules.Timeout
	f := Fault{Kind: kind, Wait: p.between(timeout/4, timeout)}
	switch kind {
	case Kill, Term:
		f.Down = p.down()
	case Stop:
		f.Length = min(p.between(0, 3*timeout), p.longest)
	case Loop:
		least := p.rules.allowance() + p.rules.Checkpoint
		for range max(3, min(8, int(p.longest/timeout))) {
			f.Lives = append(f.Lives, p.between(least+(timeout-least)/4, timeout-(timeout-least)/8))
		}
	case Disk, Freeze, Crash:
		f.Length = min(p.between(timeout/4, 3*timeout), p.longest)
	case DiskKill, FreezeKill, CrashKill:
		f.Length = min(p.between(timeout/2, 3*timeout), p.longest)
		f.Down = min(p.down(), p.longest/2)
	}
	return f
}

// down is a downtime: none, a short one, or one of up to ten timeouts.
func (p *planner) down() time.Duration {
	timeout := p.rules.Timeout
	switch n := p.chance.IntN(10); {
	case n < 3:
		return 0
	case n < 8:
		return min(p.between(0, 2*timeout), p.longest)
	default:
		return min(p.between(2*timeout, 10*timeout), p.longest)
	}
}
