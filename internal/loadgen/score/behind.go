package score

import (
	"cmp"
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/report"
)

// A gateway judges a device when its listening clock reaches the deadline. A clock that is behind,
// because input waits to be read, reaches it later, and a device that is back before then is rightly
// not judged. The gateway publishes how far its clocks are behind.

const (
	// inTime is how far a clock may be behind and still count as being in time.
	inTime = int64(time.Second)
	// unknownFor is how long after a reading the next may come before it is unknown what the clock
	// did in between.
	unknownFor = int64(3 * time.Second)
	// mostBehind bounds what a clock that is behind excuses. Holter's gateway waits no longer than
	// that for connections that are not accepted yet.
	mostBehind = int64(30 * time.Second)
	// readingsKept is how many readings of a clock that is behind are remembered.
	readingsKept = 1 << 14
)

// shown is what a listening clock showed at an instant; never if it was in time, and is until the
// next reading.
type shown struct{ at, clock int64 }

// listening is what is known of a listening clock.
type listening struct {
	readings []shown // oldest first; none before it was behind
	latest   shown
	reached  int64 // the latest deadline by which the source has judged: the clock has reached that
	most     int64 // how far it was behind, at most
	// lateEnds is how late ends of connections were read, at most, by the second in which they came. The
	// deadlines of verdicts tell.
	lateEnds map[int64]int64
}

// note adds a reading. Instants must not decrease.
func (l *listening) note(r shown) {
	r.clock = max(r.clock, min(l.reached, r.at))
	before := l.latest
	behind := r.at - r.clock
	l.latest, l.most = r, max(l.most, behind)
	if before.at != 0 && l.inTime() && (behind > inTime || r.at-before.at > unknownFor) {
		l.keep(before) // for all that is known it stood still since
	}
	switch {
	case behind > inTime:
		l.keep(r)
	case !l.inTime():
		l.keep(shown{r.at, never})
	}
}

// inTime reports whether nothing else is known since the latest reading that is kept.
func (l *listening) inTime() bool {
	n := len(l.readings)
	return n == 0 || l.readings[n-1].clock == never
}

func (l *listening) keep(r shown) {
	if len(l.readings) == readingsKept {
		l.readings = slices.Delete(l.readings, 0, readingsKept/2)
	}
	l.readings = append(l.readings, r)
}

// at returns what the clock had reached at an instant for sure.
func (l *listening) at(at int64) int64 {
	i, _ := slices.BinarySearchFunc(l.readings, at, func(r shown, at int64) int {
		if r.at <= at {
			return -1
		}
		return 1
	})
	if i == 0 {
		return at
	}
	return min(max(l.readings[i-1].clock, at-mostBehind), at)
}

// readEnd notes that the end of a connection was read so much later than it came.
func (l *listening) readEnd(at, late int64) {
	if late <= 0 {
		return
	}
	if l.lateEnds == nil {
		l.lateEnds = make(map[int64]int64)
	}
	second := at / int64(time.Second)
	l.lateEnds[second] = max(l.lateEnds[second], late)
}

// endRead returns when the end of a connection had certainly been read: at once, unless the clock was
// behind, and others that came at that time are known to have been read late.
func (l *listening) endRead(at int64) int64 {
	second, late := at/int64(time.Second), int64(0)
	for s := second - 1; s <= second+1; s++ {
		late = max(late, l.lateEnds[s])
	}
	i, _ := slices.BinarySearchFunc(l.readings, at, func(r shown, at int64) int { return cmp.Compare(r.at, at+1) })
	if i == 0 {
		return at
	}
	read := at + min(late, mostBehind)
	for _, r := range l.readings[i-1:] {
		if r.clock >= at {
			return min(max(r.at, at), read)
		}
	}
	return read
}

// before reports whether what happened at an instant came before a deadline by the listening clock
// of a source, or a slack after it at most.
func (p *place) before(at, due int64, t *terms) bool { return p.listening.at(at) <= due+t.slack }

// sumBehindLocked adds what the clocks of the sources at which devices of the plan are heard were
// behind.
func (s *Score) sumBehindLocked(r *Report) {
	for _, p := range s.places {
		if p.used {
			r.Behind.Most = max(r.Behind.Most, report.Millis(p.listening.most))
		}
	}
}
