package score

import (
	"fmt"

	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// attempt is a time in which a device that is away said hello, on one connection or on several one
// after the other, and was not welcomed. The gateway may have heard it: then the device was online
// for it, and its connection ended, without anybody but the gateway knowing. Times are those of
// absence.
type attempt struct {
	greeted int64 // when it said hello for the first time
	ended   int64 // when that connection ended,
	last    int64 // and the last of those that followed within a close grace
}

// try adds an attempt. They come in order; one that is told again changes nothing.
func (a *absence) try(b attempt, grace int64) {
	n := len(a.attempts)
	switch {
	case n == 0 || b.greeted > a.attempts[n-1].last+grace:
		a.attempts = append(a.attempts, b)
	case b.greeted >= a.attempts[n-1].greeted:
		a.attempts[n-1].last = max(a.attempts[n-1].last, b.last)
	}
}

// due returns when the gateway may judge a device that it has heard in an attempt; never if it may
// not for this reason.
func (b *attempt) due(r reason, t *terms) int64 {
	switch r {
	case silence:
		return b.greeted + t.timeout
	case closed:
		return b.ended + t.grace
	case will:
		if !t.wills {
			return never
		}
		return min(b.ended+t.grace, b.greeted+t.timeout)
	case unsaid: // a gateway that turned the device away knows that it is there
		return max(b.ended+t.grace, b.greeted+t.timeout)
	case bye, ended, strange, returned:
	}
	return never
}

// latest returns when the gateway must have judged a device that it has heard in an attempt.
func (b *attempt) latest(t *terms) int64 { return b.last + max(t.grace, t.timeout) }

// again reports whether a verdict with a deadline may be on an attempt, and not on what was before.
func (a *absence) again(d int64, r reason, t *terms) bool {
	return len(a.attempts) > 0 && d >= sub(a.attempts[0].due(r, t), t.clock)
}

// instead reports whether a claim may be on an attempt that the gateway heard before it had to judge
// the device for what was before.
func (a *absence) instead(c *claim, t *terms) bool {
	if !a.again(c.deadline, c.reason, t) {
		return false
	}
	due := c.place.extend(a.due(unsaid, t), a.last, c.time, t)
	return c.place.before(a.attempts[0].greeted, due, t)
}

// tried reports whether the gateway may have heard an attempt by an instant.
func (a *absence) tried(at int64) bool { return len(a.attempts) > 0 && a.attempts[0].greeted <= at }

// introduce makes the absence of a device that no gateway has welcomed yet one since its first
// attempt, if there was one: then a gateway may know the device. It reports whether that is so.
func (d *device) introduce(a *absence) bool {
	if len(a.attempts) == 0 {
		return false
	}
	a.last = a.attempts[0].greeted
	for _, old := range d.absences {
		if old.back == 0 || old.at == a.at && old.kind == a.kind {
			a.last = min(a.last, old.last)
		}
	}
	a.mark |= unheard
	return true
}

// dueLocked returns when an absence has to be judged. A gateway that heard an attempt before then
// waits for what that leads to.
func (s *Score) dueLocked(n int, a *absence) int64 {
	p := s.placeOfLocked(n)
	due := p.extend(a.expected(&p.listening, &s.terms), a.last, never, &s.terms)
	for i := range a.attempts {
		b := &a.attempts[i]
		if a.kind == plan.Bye || !p.before(b.greeted, due, &s.terms) {
			break
		}
		due = max(due, p.extend(b.latest(&s.terms), b.greeted, never, &s.terms))
	}
	return due
}

// openLocked reports whether a gateway may still hold a device to be online because it heard an
// attempt.
func (s *Score) openLocked(n int, a *absence, now int64) bool {
	if len(a.attempts) == 0 {
		return false
	}
	b := &a.attempts[len(a.attempts)-1]
	due := s.placeOfLocked(n).extend(b.latest(&s.terms), b.greeted, never, &s.terms)
	return now <= due+s.terms.slack
}

// words describes the attempts for a person.
func (a *absence) words() string {
	if len(a.attempts) == 0 {
		return ""
	}
	b := &a.attempts[0]
	return fmt.Sprintf(", hello at %s was not answered until %s", clock(b.greeted), clock(b.ended))
}

// sub is a difference of instants, in which never stays never.
func sub(at, d int64) int64 {
	if at == never {
		return never
	}
	return at - d
}
