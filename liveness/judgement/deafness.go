package judgement

import (
	"sync/atomic"
	"time"
)

// DeafInterval is a time in which a source heard nothing.
type DeafInterval struct {
	From, To time.Time
	// Listened is the source's listening time, which stood still.
	Listened time.Duration
}

// MaxGraces bounds, in reconnect graces, by how much all gaps since a device's last heartbeat put
// its verdict off.
const MaxGraces = 3

// Deafness are the times in which a source was deaf, as far as they put verdicts off. What a gap costs
// a device depends on what it broke:
//
//   - A stall stopped the process, its machine or its input. Connections stood, and what was sent meanwhile waits
//     in them. It puts a verdict off by its own length at most.
//   - A cut ended the connections: a restart, a lost broker. It gives each device its reconnect grace to connect
//     again.
//   - A blank is a cut before which it is not known what was heard last. It counts as a heartbeat, at the end of its afterlife, of
//     every device that was not heard since.
//
// All of them together never put a verdict off by more than MaxGraces times the reconnect grace, so
// that no sequence of gaps keeps a dead device from being judged.
type Deafness struct {
	cut    atomic.Int64            // listening time at the latest cut; -1 if there was none
	blank  atomic.Int64            // at the latest blank; 0 if there was none
	stalls atomic.Pointer[[]stall] // those since the latest cut that still matter, oldest first; nil if there are none; replaced, never changed
}

// stall is a gap that ended no connection.
type stall struct {
	at     time.Duration // listening time, which stood still
	length time.Duration
}

// Init makes g that of a source that was never deaf.
func (g *Deafness) Init() {
	g.cut.Store(-1)
	g.blank.Store(0)
	g.stalls.Store(nil)
}

// Cut returns the listening time at the latest cut, -1 if there was none.
func (g *Deafness) Cut() time.Duration { return time.Duration(g.cut.Load()) }

// Blank returns the listening time at the latest blank, 0 if there was none.
func (g *Deafness) Blank() time.Duration { return time.Duration(g.blank.Load()) }

// RestoreBlank sets the latest blank, as it was before a restart.
func (g *Deafness) RestoreBlank(at time.Duration) { g.blank.Store(int64(at)) }

// kept returns the stalls that still matter.
func (g *Deafness) kept() []stall {
	if kept := g.stalls.Load(); kept != nil {
		return *kept
	}
	return nil
}

// stallsKept is how many stalls are kept. A stall matters for no longer than it lasted.
const stallsKept = 64

// AddStall records a stall while the clock reads now. It drops stalls that this one outlasts, and
// those whose length has passed since. Calls must not overlap.
func (g *Deafness) AddStall(at, length, now time.Duration) {
	var kept []stall
	for _, st := range g.kept() {
		if st.length > length && st.at+st.length > now {
			kept = append(kept, st)
		}
	}
	kept = append(kept[max(len(kept)-stallsKept+1, 0):], stall{at, length})
	g.stalls.Store(&kept)
}

// AddCut records a cut.
func (g *Deafness) AddCut(at time.Duration) {
	g.cut.Store(int64(at))
	g.stalls.Store(nil)
}

// Latest returns the listening time of the latest gap, -1 if there was none.
func (g *Deafness) Latest() time.Duration {
	at := g.Cut()
	for _, st := range g.kept() {
		at = max(at, st.at)
	}
	return at
}

// Since reports whether there was a gap after a listening time.
func (g *Deafness) Since(last time.Duration) bool { return last < g.Latest() }

// afterlife is for how long the process before may have gone on to answer heartbeats, of which this one
// does not know: one that is cut off from its database while another takes over takes a moment to
// notice.
const afterlife = 3 * time.Second

// AddBlank records a cut before which it is not known what was heard.
func (g *Deafness) AddBlank(at time.Duration) {
	g.blank.Store(int64(at))
	g.AddCut(at)
}

// notBefore returns the listening time before which a device of which all is known up to last is not
// judged, 0 if there is none. What a gap costs is of the time that counts, by the device's pace. If ended is
// not 0, the end of its connection was heard after the latest cut, which then costs no more than up to there.
func (g *Deafness) notBefore(last, ended, timeout, grace time.Duration, by *Pace) (at time.Duration) {
	if cut := g.Cut(); last < cut {
		at = by.After(cut, grace)
	}
	if blank := g.Blank(); last < blank {
		at = max(at, by.After(blank+afterlife, timeout))
	}
	if ended != 0 {
		at = min(at, ended)
	}
	for _, st := range g.kept() {
		if last < st.at {
			at = max(at, by.After(st.at, min(grace, st.length)))
		}
	}
	return at
}

// Grace returns the reconnect grace: how long a device has to be heard after a cut. base is what it has beside
// its interval, and most bounds both together.
func (p Policy) Grace(base, most time.Duration) time.Duration { return min(p.Interval+base, most) }

// Bounded is notBefore for a device whose silence counts from an instant, within the bounds of what gaps
// may put a verdict off; skipped is by how much later these are.
func (g *Deafness) Bounded(whole, from, ended, timeout, grace, skipped time.Duration, by *Pace) time.Duration {
	at := min(g.notBefore(whole, ended, timeout, grace, by.unexpecting()), by.After(from, timeout+MaxGraces*grace)+skipped)
	if cut := g.Cut(); whole < cut {
		at = max(at, cut+HeardTick) // after a restart nobody is judged before the source listens
	}
	return at
}
