package chaos

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// All instants of this package are counted from the origin of the history.

// BreakKind is why the server heard nothing.
type BreakKind string

const (
	Start   BreakKind = "start" // the time before the first process
	Stopped BreakKind = "stop"  // SIGSTOP, ended by SIGCONT
	Killed  BreakKind = "kill"  // SIGKILL, ended by a restart
	Ended   BreakKind = "term"  // SIGTERM, ended by a restart
	// Takeover is a time between two judges of which the first lives on: it was stopped or cut off.
	Takeover BreakKind = "takeover"
)

const (
	never = time.Duration(math.MaxInt64 / 4)
	ever  = -never
)

// Break is a time in which the server was deaf. It was for certain from Began to Ending, and
// perhaps from Asked to Over.
type Break struct {
	Kind BreakKind
	// Asked is just before the signal, Began when the process was seen to stand still or was gone.
	Asked time.Duration
	Began time.Duration
	// Ending is just before the process was continued or started, Over when it had been, or said
	// that it was ready. Both are never while it lasts; Over is, at the latest, when the next break
	// was asked for.
	Ending time.Duration
	Over   time.Duration

	// Of several nodes, Node is the one that judged before, By the one after it. Fault is the latest
	// fault, after which a judge had to be there within Limit; 0 if it had not.
	Node, By string
	Fault    FaultKind
	Limit    time.Duration
	// Forgets: the next judge knows only what was stored, since it is on another machine. All devices
	// count as heard when that was.
	Forgets bool
}

// Restart reports whether a new process followed.
func (b *Break) Restart() bool { return b.Kind != Stopped }

// Starved is a Trouble in which this program could not run, so the server perhaps could not,
// either.
const Starved FaultKind = "starved"

// Trouble is a time in which the server could save nothing, since its disk was full or its database
// gone, or could hardly run. To is never while it lasts.
type Trouble struct {
	Kind FaultKind
	From time.Duration
	To   time.Duration
}

// History is all that was done to the server.
type History struct {
	Origin   time.Time // wall clock only
	Breaks   []Break   // in order of time; the first is Start
	Troubles []Trouble // in order of time
	Ears     []string  // in the order in which devices know them; empty if there are none
	Lapses   []Lapse   // of ears
}

// at turns Unix time in nanoseconds into an instant of the history.
func (h *History) at(nanos int64) time.Duration { return time.Duration(nanos - h.Origin.UnixNano()) }

// when turns a time into an instant of the history.
func (h *History) when(t time.Time) time.Duration { return h.at(t.UnixNano()) }

// listenedAtMost is the most that the listening clock can have advanced between two instants.
func (h *History) listenedAtMost(from, to time.Duration) time.Duration {
	listened := max(to-from, 0)
	for _, b := range h.Breaks {
		deaf := min(to, b.Ending) - max(from, b.Began)
		if b.Kind == Stopped {
			deaf -= maxGap // that much counts as listening
		}
		listened -= max(deaf, 0)
	}
	return max(listened, 0)
}

// keepsLease is for how long a judge certainly keeps its lease without renewing it.
const keepsLease = 4 * time.Second

// stoodStill reports whether the judge was stopped, between two instants, for so long that it may have
// lost its lease.
func (h *History) stoodStill(from, to time.Duration) bool {
	return slices.ContainsFunc(h.Breaks, func(b Break) bool {
		return b.Kind == Stopped && b.Began >= from && b.Began < to && b.Ending-b.Began > keepsLease
	})
}

// process returns the index of the break that ended with the start of the process of an instant;
// false if there was none at that instant.
func (h *History) process(t time.Duration) (int, bool) {
	found := -1
	for i, b := range h.Breaks {
		if !b.Restart() {
			continue
		}
		if b.Began < t && t < b.Ending {
			return i, false
		}
		if b.Ending <= t {
			found = i
		}
	}
	return found, found >= 0
}

// before returns the index of the break that ended with the start of the process before that of a
// break.
func (h *History) before(process int) int {
	process--
	for process > 0 && !h.Breaks[process].Restart() {
		process--
	}
	return max(process, 0)
}

// forgotten reports whether nobody knows at t of a heartbeat at an earlier instant, since the memory
// of the node that heard it was lost before it was stored. A node that has not noticed that another
// one judges hears some in vain.
func (h *History) forgotten(at, t time.Duration) bool {
	for i := range h.Breaks {
		if b := &h.Breaks[i]; b.Forgets && b.Asked <= t && at >= h.stored(b.Asked, 2*checkpoint) && at <= b.Over+mostOverlap {
			return true
		}
	}
	return false
}

// stored returns the instant up to which all was stored when a node was lost, if checkpoints are
// within a time of each other while nothing hinders them.
func (h *History) stored(lost, within time.Duration) time.Duration {
	from := lost - within
	for again := true; again; {
		again = false
		for _, t := range h.Troubles {
			if earlier := t.From - within; t.From <= lost && t.To+recovery >= from && earlier < from {
				from, again = earlier, true
			}
		}
	}
	return from
}

// outage is a break or a trouble.
type outage struct {
	from, to time.Duration
	restart  bool
	forgets  bool
	lost     bool          // an ear is
	drained  bool          // one is, by the end: the clock goes on
	loss     time.Duration // of listening before it, at most
	trouble  bool          // the server listened, but could not store verdicts
}

// outages returns breaks, troubles and lapses in order of time.
func (h *History) outages() []outage {
	return h.outagesOf(func(*Lapse) bool { return true })
}

// outagesOf is outages for a device: its own grace when an ear ends in order depends on whether it was with that ear.
func (h *History) outagesOf(visits func(*Lapse) bool) []outage {
	var list []outage
	for _, b := range h.Breaks {
		o := outage{from: b.Asked, to: b.Over, restart: b.Restart(), forgets: b.Forgets, loss: gapLoss}
		if b.Forgets {
			o.loss = b.Asked - h.stored(b.Asked, checkpoint+gapLoss)
		}
		list = append(list, o)
	}
	for _, t := range h.Troubles {
		list = append(list, outage{from: t.From, to: t.To, trouble: t.Kind != Starved, loss: gapLoss})
	}
	for _, l := range h.lapses() {
		if l.Kind == EarTerm && visits(&l) {
			list = append(list, outage{from: l.Asked, to: l.Over, drained: true})
		}
		if !h.drained(&l) {
			list = append(list, h.outage(&l))
		}
	}
	slices.SortStableFunc(list, func(a, b outage) int { return cmp.Compare(a.from, b.from) })
	return list
}

// deadline returns the instant by which a device that was not heard after from must be judged: when
// it was silent for its timeout in listening time, and its grace is over. A restart adds a whole
// grace, one after which nobody knows what was heard last a timeout and the afterlife, a lost ear the
// failover and a grace, an ear that has ended in order a grace from its end, a stall at most its own
// length; all together add at most three graces.
func (p *Policy) deadline(outages []outage, from time.Duration) time.Duration {
	last := p.Timeout + graces*p.Grace
	need := p.Timeout
	return p.reach(outages, from, func(o *outage, silence time.Duration) time.Duration {
		switch {
		case o == nil:
		case o.forgets:
			need = max(need, silence+max(p.Timeout+afterlife, p.Grace))
		case o.lost:
			need = max(need, silence+failover+p.Grace)
		case o.restart, o.drained:
			need = max(need, silence+p.Grace)
		default:
			need = max(need, silence+min(p.Grace, o.to-o.from))
		}
		return min(need, last)
	})
}

// bound returns the instant by which it must be judged whatever was done to the server.
func (p *Policy) bound(outages []outage, from time.Duration) time.Duration {
	return p.reach(outages, from, func(*outage, time.Duration) time.Duration { return p.Timeout + graces*p.Grace })
}

// reach returns the instant by which the silence that begins at from must have its verdict. The
// silence grows while the server listens, less a little for each break. need returns how long the
// silence must last, before any break and after each. During a trouble no verdict can be stored. A
// busy judge may remove a lost ear a little late, when the silence has begun.
// The result is never if a break or a trouble does not end.
func (p *Policy) reach(outages []outage, from time.Duration, need func(after *outage, silence time.Duration) time.Duration) time.Duration {
	silence, listening, told := time.Duration(0), from, from
	wanted := need(nil, 0)
	for i := range outages {
		o := &outages[i]
		if o.to <= from && !(o.lost && from < o.to+recovery) {
			continue
		}
		if o.from > listening {
			due := p.due(listening, wanted-silence, told)
			if due < o.from {
				return due
			}
			if !o.drained {
				silence += o.from - listening
				listening = o.from
			}
		}
		if o.drained {
			wanted = need(o, silence+max(o.to-listening, 0))
			continue
		}
		if o.trouble {
			told = max(told, o.to+recovery)
			continue
		}
		if o.to <= listening && !o.lost {
			continue // within another one
		}
		silence = max(silence-o.loss, 0)
		wanted = need(o, silence)
		listening = max(listening, o.to)
	}
	if max(listening, told) >= never {
		return never
	}
	return p.due(listening, wanted-silence, told)
}

// due returns when the verdict must be there: Epsilon after the server has listened for what is
// left, and Epsilon after it could store verdicts.
func (p *Policy) due(listening, left, told time.Duration) time.Duration {
	return max(listening+max(left+p.Epsilon, 0), told+p.Epsilon)
}

// quiet reports whether nothing was done to the server between two instants.
func quiet(outages []outage, from, to time.Duration) bool {
	return !slices.ContainsFunc(outages, func(p outage) bool { return p.from < to && p.to > from })
}
