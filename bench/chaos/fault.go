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
	// Loop kills it as soon as each of its Lives of 3 to 30 s is over, and starts
	// it at once.
	Loop FaultKind = "loop"
	// Stalls stops it after each of its Lives, for Length of 0.9 to 3 s.
	Stalls FaultKind = "stalls"
	// Quota leaves it Share percent of a core, for Length.
	Quota FaultKind = "quota"
	// Beat kills it, like Kill, within 0.3 s of heartbeats of devices that are
	// silent from then on.
	Beat FaultKind = "beat+kill"
	// Write kills it, like Kill, as soon as it has answered writes of operators and
	// devices. The other faults that kill it in a trouble do so, too.
	Write FaultKind = "write+kill"
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
	// Files deletes or truncates the files of the database. It comes once, after
	// everything else, and ends the run: nothing is left of the log.
	Files FaultKind = "files"
)

// Fault is one thing to be done.
type Fault struct {
	Kind   FaultKind       `json:"kind"`
	Wait   time.Duration   `json:"wait"` // from the end of the one before
	Length time.Duration   `json:"length,omitempty"`
	Down   time.Duration   `json:"down,omitempty"`
	Lives  []time.Duration `json:"lives,omitempty"`
	Share  int             `json:"share,omitempty"`
}

// restarts reports whether the server is away for Down.
func (f *Fault) restarts() bool {
	return f.Kind == Kill || f.Kind == Term || f.Kind == Beat || f.Kind == Write || f.kills()
}

// String describes the fault in one line.
func (f Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s after %v", f.Kind, f.Wait)
	if f.Length > 0 {
		fmt.Fprintf(&b, ", for %v", f.Length)
	}
	if f.Share > 0 {
		fmt.Fprintf(&b, ", %d %% of a core", f.Share)
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

// writes reports whether it kills the server after answered writes.
func (f Fault) writes() bool { return f.Kind == Write || f.kills() }

// span is how long the fault takes, at least.
func (f *Fault) span() time.Duration {
	span := f.Wait + max(f.Length, f.Length/2+f.Down)
	for _, life := range f.Lives {
		span += life
	}
	if f.Kind == Stalls {
		span += f.Length * time.Duration(len(f.Lives)-1)
	}
	return span
}

// Plan returns the faults that fill a time, of the given kinds. It follows from
// the seed alone; each kind has its turn before one comes again, but for those
// that would take too long. It is empty if there are no kinds.
func Plan(seed uint64, kinds []FaultKind, length time.Duration, r *Rules) []Fault {
	p := planner{chance: rand.New(rand.NewPCG(seed, 2)), ttl: slices.Min(r.TTLs)}
	p.longest = (length - p.ttl) / time.Duration(max(1, min(5, len(kinds))))
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
	ttl     time.Duration // the shortest
	longest time.Duration
}

// between returns a duration by chance, to a millisecond.
func (p *planner) between(least, most time.Duration) time.Duration {
	return (least + time.Duration(p.chance.Int64N(int64(max(most-least, 0))+1))).Round(time.Millisecond)
}

func (p *planner) fault(kind FaultKind) Fault {
	f := Fault{Kind: kind, Wait: p.between(p.ttl/8, p.ttl/2)}
	switch kind {
	case Kill, Term, Beat, Write:
		f.Down = p.down()
	case Stop:
		f.Length = min(p.between(0, 3*p.ttl), p.longest)
	case Loop:
		f.Lives = p.lives(3*time.Second, p.between(4*time.Second, 30*time.Second), 0)
	case Stalls:
		f.Length = p.between(900*time.Millisecond, 3*time.Second)
		f.Lives = p.lives(time.Second, 9*time.Second, f.Length)
	case Quota:
		f.Length, f.Share = min(p.between(p.ttl/2, 3*p.ttl), p.longest), 10+p.chance.IntN(21)
	case Disk, Freeze, Crash:
		f.Length = min(p.between(p.ttl/4, 2*p.ttl), p.longest)
	case DiskKill, FreezeKill, CrashKill:
		f.Length = min(p.between(p.ttl/2, 2*p.ttl), p.longest)
		f.Down = min(p.down(), p.longest/2)
	case Files, Starved:
	}
	return f
}

// lives returns two lives or more, with breaks between, that take about the
// longest time that a fault may take, if that is enough.
func (p *planner) lives(least, most, pause time.Duration) []time.Duration {
	var lives []time.Duration
	for left := p.longest; ; {
		life := p.between(least, max(least, min(most, p.longest/3)))
		if left -= life + pause; left < 0 && len(lives) > 1 {
			return lives
		}
		lives = append(lives, life)
	}
}

// down is a downtime: none, a short one, or one of some timeouts.
func (p *planner) down() time.Duration {
	switch n := p.chance.IntN(10); {
	case n < 3:
		return 0
	case n < 8:
		return min(p.between(0, p.ttl), p.longest)
	default:
		return min(p.between(p.ttl, 5*p.ttl), p.longest)
	}
}
