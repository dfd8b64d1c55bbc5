package liveness

import (
	"sync/atomic"
	"time"
)

// maxGraces bounds, in reconnect graces, by how much all gaps since a device's last heartbeat put
// its verdict off.
const maxGraces = 3

// gaps are the times in which a source was deaf, as far as they put verdicts off. What a gap costs
// a device depends on what it broke:
//
//   - A stall stopped the process, its machine or its input. Connections stood, and what was sent meanwhile waits
//     in them. It puts a verdict off by its own length at most.
//   - A cut ended the connections: a restart, a lost broker. It gives each device its reconnect grace to connect
//     again.
//   - A blank is a cut before which it is not known what was heard last. It counts as a heartbeat, at the end of its afterlife, of
//     every device that was not heard since.
//
// All of them together never put a verdict off by more than maxGraces times the reconnect grace, so
// that no sequence of gaps keeps a dead device from being judged.
type gaps struct {
	cut    atomic.Int64            // listening time at the latest cut; -1 if there was none
	blank  atomic.Int64            // at the latest blank; 0 if there was none
	stalls atomic.Pointer[[]stall] // those since the latest cut that still matter, oldest first; nil if there are none; replaced, never changed
}

// stall is a gap that ended no connection.
type stall struct {
	at     time.Duration // listening time, which stood still
	length time.Duration
}

func (g *gaps) init() {
	g.cut.Store(-1)
	g.blank.Store(0)
	g.stalls.Store(nil)
}

// kept returns the stalls that still matter.
func (g *gaps) kept() []stall {
	if kept := g.stalls.Load(); kept != nil {
		return *kept
	}
	return nil
}

// stallsKept is how many stalls are kept. A stall matters for no longer than it lasted.
const stallsKept = 64

// addStall records a stall while the clock reads now. It drops stalls that this one outlasts, and
// those whose length has passed since. Calls must not overlap.
func (g *gaps) addStall(at, length, now time.Duration) {
	var kept []stall
	for _, st := range g.kept() {
		if st.length > length && st.at+st.length > now {
			kept = append(kept, st)
		}
	}
	kept = append(kept[max(len(kept)-stallsKept+1, 0):], stall{at, length})
	g.stalls.Store(&kept)
}

// addCut records a cut.
func (g *gaps) addCut(at time.Duration) {
	g.cut.Store(int64(at))
	g.stalls.Store(nil)
}

// latest returns the listening time of the latest gap, -1 if there was none.
func (g *gaps) latest() time.Duration {
	at := time.Duration(g.cut.Load())
	for _, st := range g.kept() {
		at = max(at, st.at)
	}
	return at
}

// since reports whether there was a gap after a listening time.
func (g *gaps) since(last time.Duration) bool { return last < g.latest() }

// afterlife is for how long the process before may have gone on to answer heartbeats, of which this one
// does not know: one that is cut off from its database while another takes over takes a moment to
// notice.
const afterlife = 3 * time.Second

// addBlank records a cut before which it is not known what was heard.
func (g *gaps) addBlank(at time.Duration) {
	g.blank.Store(int64(at))
	g.addCut(at)
}

// notBefore returns the listening time before which a device of which all is known up to last is not
// judged, 0 if there is none. What a gap costs is of the time that counts, by the device's pace. If ended is
// not 0, the end of its connection was heard after the latest cut, which then costs no more than up to there.
func (g *gaps) notBefore(last, ended, timeout, grace time.Duration, by *pace) (at time.Duration) {
	if cut := time.Duration(g.cut.Load()); last < cut {
		at = by.after(cut, grace)
	}
	if blank := time.Duration(g.blank.Load()); last < blank {
		at = max(at, by.after(blank+afterlife, timeout))
	}
	if ended != 0 {
		at = min(at, ended)
	}
	for _, st := range g.kept() {
		if last < st.at {
			at = max(at, by.after(st.at, min(grace, st.length)))
		}
	}
	return at
}

// grace returns the reconnect grace: how long a device has to be heard after a cut.
func (p Policy) grace(cfg *SourceConfig) time.Duration {
	return min(p.Interval+cfg.ReconnectGrace, cfg.ReconnectGraceMax)
}

// notBefore returns the listening time before which a device is not judged because the source was
// deaf, 0 if there is none. All that the device said up to whole is known, and its silence counts from
// from. See gaps.notBefore for ended.
func (s *Source) notBefore(whole, from, ended time.Duration, p Policy, by *pace) time.Duration {
	skipped := time.Duration(0)
	if whole < time.Duration(s.outlived.Load()) {
		skipped = time.Duration(s.skipped.Load())
	}
	return s.gaps.bounded(whole, from, ended, p.Timeout, p.grace(s.config.Load()), skipped, by)
}

// bounded is notBefore for a device whose silence counts from an instant, within the bounds of what gaps
// may put a verdict off; skipped is by how much later these are.
func (g *gaps) bounded(whole, from, ended, timeout, grace, skipped time.Duration, by *pace) time.Duration {
	at := min(g.notBefore(whole, ended, timeout, grace, by.unexpecting()), by.after(from, timeout+maxGraces*grace)+skipped)
	if cut := time.Duration(g.cut.Load()); whole < cut {
		at = max(at, cut+heardTick) // after a restart nobody is judged before the source listens
	}
	return at
}

// unheard reports whether the source is deaf, or has lost its connections since all was known of a
// device.
func (s *Source) unheard(whole time.Duration) bool {
	p := s.latest.Load()
	return p != nil && p.deaf || whole < time.Duration(s.gaps.cut.Load())
}

// wholeLocked returns the listening time up to which all is known that a device said which was heard
// last at an instant: then, or when this process went on if the device's connection has outlived the
// one before.
func (d *device) wholeLocked(last time.Duration) time.Duration {
	switch {
	case d.marks&outlived != 0:
		return max(last, time.Duration(d.source.outlived.Load()))
	case d.marks&toldSince != 0:
		return 0
	}
	return last
}
