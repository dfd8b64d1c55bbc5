package score

import (
	"fmt"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/report"
)

// tooFar is how far an event's time may be from its arrival. A time beyond is wrong, and is cut so
// that arithmetic cannot overflow.
const tooFar = 365 * 24 * time.Hour

// ahead is how far an event's time may be after its arrival: the clock may be set while it is on
// its way.
const ahead = 10 * time.Millisecond

// boundLocked counts an event that is stamped later than it came, and brings its times to where
// they can be.
func (s *Score) boundLocked(v *Verdict) {
	if v.Seen.IsZero() {
		return
	}
	if v.Came.IsZero() || v.Came.After(v.Seen) {
		v.Came = v.Seen
	}
	if v.Time.After(v.Seen.Add(v.Error + ahead)) {
		told := *v
		s.report.add(Future, func() report.Example {
			return report.Example{
				Device: told.subject(), Done: "it came at " + clock(told.Seen.UnixNano()),
				Said: told.word() + " at " + far(told.Time), At: told.Seen.UTC(),
			}
		})
	}
	if first := v.Seen.Add(-tooFar); !v.Time.IsZero() && v.Time.Before(first) {
		v.Time = first
	}
	if v.Time.After(v.Seen) {
		v.Time = v.Seen
	}
	if last := v.Seen.Add(tooFar); v.Deadline.After(last) {
		v.Deadline = last
	}
	if first := v.Seen.Add(-2 * tooFar); !v.Deadline.IsZero() && v.Deadline.Before(first) {
		v.Deadline = first
	}
}

// far prints an instant that may be far away.
func far(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") }

// subject names what an event is about, in messages.
func (v *Verdict) subject() string {
	if v.Device == "" {
		return "source " + v.Source
	}
	return v.Device
}

// lacks names what an event of a device of Holter's lacks, "" if nothing.
func (v *Verdict) lacks(sessions bool) string {
	judged := v.Kind == Offline || v.Kind == Online
	switch {
	case v.Seq == 0:
		return "no number (seq)"
	case v.Offset == 0:
		return "no place in the log (offset)"
	case v.Time.IsZero():
		return "no time"
	case !v.named():
		return fmt.Sprintf("the id %.80q, which is not that of number %d", v.ID, v.Seq)
	case judged && sessions && v.Epoch == 0:
		return "no session (epoch)"
	case v.Kind == Offline && v.Reason == "":
		return "no reason"
	case v.Kind == Offline && v.Reason != ReasonBye && v.Deadline.IsZero():
		return "no deadline"
	}
	return ""
}

// named reports whether an event has the id that its device and number give.
func (v *Verdict) named() bool {
	rest, ok := strings.CutSuffix(v.ID, fmt.Sprintf(":%d", v.Seq))
	return ok && (rest == v.Device || rest == "device/"+v.Device)
}

// wholeLocked counts an event that lacks something that it is to have.
func (s *Score) wholeLocked(g *gateway, v *Verdict) {
	g.spoke, g.numbered = true, g.numbered || v.Seq != 0
	if v.Kind == Offline {
		g.offline = true
		g.reasoned = g.reasoned || v.Reason != ""
	}
	if !g.full {
		return
	}
	if what := v.lacks(!s.plan.SpeaksMQTT()); what != "" {
		told := *v
		s.report.add(Lacking, func() report.Example {
			return report.Example{Device: told.Device, Done: "its event has " + what, Said: said(&told), At: told.when()}
		})
	}
}

// followsLocked counts an event that cannot follow the one before it. Only numbers prove that there
// is none between them.
func (s *Score) followsLocked(n int, t *track, v *Verdict, inTurn bool) {
	if v.Seq == 0 {
		return
	}
	count := func(m Mistake, why string) {
		s.report.add(m, func() report.Example {
			e := s.exampleLocked(n, nil, v)
			e.Said += ", " + why
			return e
		})
	}
	at := v.when().UnixMilli()
	if inTurn && at < t.at {
		count(Backwards, fmt.Sprintf("%v earlier than the event before it", time.Duration(t.at-at)*time.Millisecond))
	}
	t.at = max(t.at, at)
	// Other verdicts follow at once from a message or an end; their deadline is that of a silence
	// that was not waited for.
	awaited := v.Kind == Offline && (v.Reason == ReasonSilence || v.Reason == ReasonClosed)
	if awaited && !v.Deadline.IsZero() && v.Time.Before(v.Deadline) {
		count(Contradictions, "before its own deadline, "+clock(nanos(v.Deadline)))
	}
	if why := s.reckonLocked(t, v); why != "" {
		count(Contradictions, why)
	}
	if !inTurn || t.state == unknown || t.state == removed {
		return
	}
	switch {
	case v.Kind == Online && t.state == present:
		count(Contradictions, "and it was online already")
	case v.Kind == Offline && t.state.away():
		count(Contradictions, "and it was offline already")
	case v.Kind == Late && t.state != present:
		count(Contradictions, "and it was not online")
	case v.Kind == Replaced && t.state != present && t.state != late:
		count(Contradictions, "and it had no session")
	}
}

// rounding is by how much what an event says of one silence may differ.
const rounding = time.Millisecond

// reckonLocked returns why a verdict's data on its silence contradict themselves; "" if they do
// not. Only deaf times put a deadline off; those before the stream began are unknown.
func (s *Score) reckonLocked(t *track, v *Verdict) string {
	own := v.LastSeen.Add(v.Timeout)
	switch {
	case v.Kind != Offline || v.LastSeen.IsZero():
	case v.LastSeen.After(v.when().Add(ahead)):
		return "and seen last after that, " + far(v.LastSeen)
	case v.Reason != ReasonSilence || v.Timeout <= 0 || v.Deadline.IsZero():
	case v.HeardSilence > 0 && v.HeardSilence < v.Timeout-rounding:
		return fmt.Sprintf("after %v of silence, by a timeout of %v", v.HeardSilence, v.Timeout)
	case v.Deadline.Before(own.Add(-rounding)):
		return fmt.Sprintf("deadline %s, before it was silent for %v, seen last %s", clock(nanos(v.Deadline)), v.Timeout, far(v.LastSeen))
	case t.since != 0 && s.hearsLocked(t.place.gateway) && int64(v.Deadline.Sub(own)) > s.terms.slack:
		return fmt.Sprintf("deadline %s, long after it was silent for %v, seen last %s, and no source was deaf",
			clock(nanos(v.Deadline)), v.Timeout, far(v.LastSeen))
	}
	return ""
}

// onlineLocked checks that a device that is called online was back, and not for long. It reports
// whether that can be decided yet: a failed attempt to connect is reported later.
func (s *Score) onlineLocked(n int, c *claim, until int64, final bool) bool {
	if c.time >= s.knownLocked(n) {
		return true
	}
	if !final && c.came+connectTakes > until {
		return false
	}
	p := c.place
	var returned *absence
	for _, a := range s.devices[n].absences {
		if !a.gone() || a.mark.has(unheard|inferred) {
			continue
		}
		if a.back != 0 && a.back <= c.came {
			if a.mark.has(judged) {
				returned = a
			}
			continue
		}
		began := max(a.at, a.last)
		allowed := s.terms.late
		if a.mark.has(judged) && c.deadline+int64(time.Millisecond) >= p.extend(a.expected(&p.listening, &s.terms), a.last, never, &s.terms) {
			allowed = c.err // it was judged in this absence, so nothing from before is told late
		}
		if !a.mark.has(lost) && !a.tried(c.time+c.err) && p.awake(began, c.time) > allowed && (a.back == 0 || c.time < a.back-c.err) {
			a.mark |= ghostly
			s.report.add(FalseOnline, s.caseLocked(n, a, c))
			return true
		}
	}
	if returned != nil && p.awake(returned.heard, c.came) > s.terms.late && !s.elsewhereLocked(n, returned, p.gateway) {
		s.lateLocked(c, s.caseLocked(n, returned, c))
	}
	return true
}

// connectTakes is how long it may take until it is known that an attempt to connect failed.
const connectTakes = int64(15 * time.Second)

// lateLocked counts what arrived late from a gateway that must be in time.
func (s *Score) lateLocked(c *claim, example func() report.Example) {
	if c.place.gateway.full {
		s.report.add(TooLate, example)
	}
}

// overtakenLocked reports whether a claim arrived long after the gateway had heard that the device
// was back.
func (s *Score) overtakenLocked(n int, c *claim, a *absence) bool {
	return a.back != 0 && c.place.awake(a.heard, c.came) > s.terms.slack && !s.elsewhereLocked(n, a, c.place.gateway)
}
