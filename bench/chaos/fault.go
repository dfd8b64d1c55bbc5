package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// FaultKind is a kind of fault that is injected into the server.
type FaultKind string

const (
	Kill       FaultKind = "kill"         // SIGKILL, and a start after Down
	Stop       FaultKind = "stop"         // SIGSTOP, and SIGCONT after Length
	Term       FaultKind = "term"         // SIGTERM, and a start after Down
	Loop       FaultKind = "loop"         // Kill again and again, each time 3 to 30 s after the server was ready
	Stalls     FaultKind = "stalls"       // Stop for 0.9 to 3 s again and again, 1 to 9 s apart
	Quota      FaultKind = "quota"        // Share percent of a core, for Length
	Beat       FaultKind = "beat+kill"    // Kill within 0.3 s of heartbeats of devices that then fall silent
	Write      FaultKind = "write+kill"   // Kill as soon as the server has answered writes of operators and devices
	Disk       FaultKind = "disk"         // the disk is full for Length
	DiskKill   FaultKind = "disk+kill"    // Disk, with Write in the middle; the disk is often full at the start, too
	Freeze     FaultKind = "db stop"      // SIGSTOP for the database's processes, for Length
	FreezeKill FaultKind = "db stop+kill" // Freeze, with Write in the middle
	Crash      FaultKind = "db kill"      // SIGKILL for the database's processes, which start again after Length
	CrashKill  FaultKind = "db+kill"      // Crash, with Write in the middle
	Files      FaultKind = "files"        // the database is deleted or truncated; once, at the end: the log is gone
)

// More faults of several nodes; those above are of the judge.
const (
	LongStop    FaultKind = "long stop"    // Stop for 1 to 20 s
	StandbyKill FaultKind = "standby kill" // Kill of another node
	Rolling     FaultKind = "rolling"      // Term of one node after the other
	Upgrade     FaultKind = "upgrade"      // Rolling, of the ears too, to the other one of two versions
	KillAll     FaultKind = "kill all"     // Kill of all nodes at once
	Cut         FaultKind = "cut"          // the judge is cut off from the database for Length
	CutAll      FaultKind = "cut all"      // all nodes are
	CutTo       FaultKind = "cut to db"    // nothing that the judge says reaches the database, for Length
	CutFrom     FaultKind = "cut from db"  // nothing that the database says reaches the judge
	SlowDB      FaultKind = "slow db"      // the judge's link to the database is slow
	LossyDB     FaultKind = "lossy db"     // it loses packets
	// Promote and PromoteLoss kill the database, and promote its replica, for which commits wait or which was cut off for Length.
	// The latter loses answered writes that are no events, so it is planned only if it is the only fault.
	Promote     FaultKind = "db promote"
	PromoteLoss FaultKind = "db promote+loss"
)

// Faults of one of the ears. They go on while the next ones begin.
const (
	EarKill     FaultKind = "ear kill"           // SIGKILL, and a start after Down
	EarStop     FaultKind = "ear stop"           // SIGSTOP for 0.2 to 2 s: verdicts wait
	EarLongStop FaultKind = "ear long stop"      // SIGSTOP for 4 to 12 s: it is removed, and lets go of its connections when it wakes
	EarTerm     FaultKind = "ear term"           // SIGTERM, which drains it, and a start
	EarCut      FaultKind = "ear cut"            // it is cut off from the judges for Length
	EarCutTo    FaultKind = "ear cut to judge"   // nothing that it says reaches a judge, for Length
	EarCutFrom  FaultKind = "ear cut from judge" // nothing that a judge says reaches it
	EarSlow     FaultKind = "ear slow"           // its links to the judges are slow
	EarLossy    FaultKind = "ear lossy"          // they lose packets
)

// AllFaults are all kinds of faults.
func AllFaults() []FaultKind {
	return []FaultKind{
		Kill, Stop, Term, Loop, Stalls, Quota, Beat, Write,
		Disk, DiskKill, Freeze, FreezeKill, Crash, CrashKill, Files,
		LongStop, StandbyKill, Rolling, Upgrade, KillAll, Cut, CutAll, CutTo, CutFrom, SlowDB, LossyDB, Promote, PromoteLoss,
		EarKill, EarStop, EarLongStop, EarTerm, EarCut, EarCutTo, EarCutFrom, EarSlow, EarLossy,
	}
}

// possible returns the kinds of faults that can be injected at any time: Files comes at the end.
func (c *Config) possible(disk bool) []FaultKind {
	return slices.DeleteFunc(slices.Clone(c.Faults), func(kind FaultKind) bool {
		switch kind {
		case Disk, DiskKill:
			return !disk
		case Freeze, FreezeKill, Crash, CrashKill:
			return c.Database == SQLite
		case LongStop, StandbyKill, Rolling, KillAll, Cut, CutAll, CutTo, CutFrom, SlowDB:
			return c.Nodes == 1
		case LossyDB:
			return c.Nodes == 1 || !c.Namespaces
		case EarLossy:
			return c.Ears == 0 || !c.Namespaces
		case Upgrade:
			return c.Nodes == 1 || c.Previous == ""
		case Promote, PromoteLoss:
			return c.Nodes == 1 || c.Database != Postgres || kind == PromoteLoss && len(c.Faults) > 1
		case EarKill, EarStop, EarLongStop, EarTerm, EarCut, EarCutTo, EarCutFrom, EarSlow:
			return c.Ears == 0
		default:
			return kind == Files
		}
	})
}

// Fault is a fault that is to be injected.
type Fault struct {
	Kind   FaultKind
	Wait   time.Duration // from the end of the one before
	Length time.Duration
	Down   time.Duration
	Share  int
	Hang   bool // what is cut off hangs, and is not refused
}

// String describes the fault in one line.
func (f Fault) String() string {
	text := fmt.Sprintf("%s after %v", f.Kind, f.Wait)
	add := func(there bool, format string, what any) {
		if there {
			text += fmt.Sprintf(format, what)
		}
	}
	add(f.Length > 0, ", for %v", f.Length)
	add(f.Share > 0, ", %d %% of a core", f.Share)
	add(f.Down > 0, ", down %v", f.Down)
	if f.Hang {
		text += ", connections hang"
	}
	return text
}

// link is the state of the links while the fault lasts.
func (f Fault) link() linkState {
	switch f.Kind {
	case CutTo, EarCutTo:
		return hangingTo
	case CutFrom, EarCutFrom:
		return hangingFrom
	case SlowDB, EarSlow:
		return slow
	case LossyDB, EarLossy:
		return lossy
	default:
		if f.Hang {
			return hanging
		}
		return refused
	}
}

// writes reports whether it kills the server after answered writes.
func (f Fault) writes() bool {
	return f.Kind == Write || f.Kind == DiskKill || f.Kind == FreezeKill || f.Kind == CrashKill
}

// span is how long the faults take, at least.
func span(faults []Fault) (sum time.Duration) {
	for _, f := range faults {
		sum += f.Wait + max(f.Length, f.Length/2+f.Down)
	}
	return sum
}

// Plan returns faults of the given kinds that fill a time. It depends on the seed alone. Each kind
// is planned once before any is planned again, except those that would take too long. It is empty
// if there are no kinds.
func Plan(seed uint64, kinds []FaultKind, length time.Duration, r *Rules) []Fault {
	p := planner{chance: rand.New(rand.NewPCG(seed, 2)), ttl: slices.Min(r.TTLs)}
	p.longest = (length - p.ttl) / time.Duration(max(1, min(5, len(kinds))))
	var plan []Fault
	for before := -1; len(plan) > before; {
		before = len(plan)
		deck := slices.Clone(kinds)
		p.chance.Shuffle(len(deck), func(i, k int) { deck[i], deck[k] = deck[k], deck[i] })
		for _, kind := range deck {
			if more := p.faults(kind); span(plan)+span(more) < length {
				plan = append(plan, more...)
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

// faults returns a fault of a kind, or several of a kind that comes again and again.
func (p *planner) faults(kind FaultKind) []Fault {
	f := Fault{Kind: kind, Wait: p.between(p.ttl/8, p.ttl/2)}
	switch kind {
	case Kill, Term, Beat, Write, StandbyKill, KillAll:
		f.Down = p.down()
	case Stop:
		f.Length = min(p.between(0, 3*p.ttl), p.longest)
	case LongStop:
		f.Length = min(p.between(time.Second, 20*time.Second), p.longest)
	case Cut, CutAll:
		f.Length, f.Hang = min(p.between(time.Second, 25*time.Second), p.longest), p.chance.IntN(2) == 0
	case CutTo, CutFrom:
		f.Length = min(p.between(time.Second, 25*time.Second), p.longest)
	case Promote, PromoteLoss:
		f.Length = p.between(500*time.Millisecond, 5*time.Second)
	case SlowDB, LossyDB:
		f.Length = min(p.between(5*time.Second, 25*time.Second), p.longest)
	case Loop:
		return p.again(f, 3*time.Second, p.between(4*time.Second, 30*time.Second))
	case Stalls:
		f.Length = p.between(900*time.Millisecond, 3*time.Second)
		return p.again(f, time.Second, 9*time.Second)
	case Quota:
		f.Length, f.Share = min(p.between(p.ttl/2, 3*p.ttl), p.longest), 10+p.chance.IntN(21)
	case Disk, Freeze, Crash:
		f.Length = min(p.between(p.ttl/4, 2*p.ttl), p.longest)
	case DiskKill, FreezeKill, CrashKill:
		f.Length = min(p.between(p.ttl/2, 2*p.ttl), p.longest)
		f.Down = min(p.down(), p.longest/2)
	case EarKill:
		f.Down = p.between(500*time.Millisecond, 8*time.Second)
	case EarStop:
		f.Length = p.between(200*time.Millisecond, 2*time.Second)
	case EarLongStop:
		f.Length = p.between(4*time.Second, 12*time.Second)
	case EarCut:
		f.Length, f.Hang = p.between(time.Second, 10*time.Second), p.chance.IntN(2) == 0
	case EarCutTo, EarCutFrom:
		f.Length = p.between(time.Second, 10*time.Second)
	case EarSlow, EarLossy:
		f.Length = p.between(2*time.Second, 20*time.Second)
	case Rolling, Upgrade, EarTerm, Files, Starved:
	}
	return []Fault{f}
}

// again repeats a fault twice or more, after waits of two lengths and what lies between. Together
// they take about as long as a fault may take, if two fit into that.
func (p *planner) again(f Fault, least, most time.Duration) (list []Fault) {
	for left := p.longest; ; list = append(list, f) {
		f.Wait = p.between(least, max(least, min(most, p.longest/3)))
		if left -= f.Wait + f.Length; left < 0 && len(list) > 1 {
			return list
		}
	}
}

// down returns a downtime: none, a short one, or one of some timeouts.
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
