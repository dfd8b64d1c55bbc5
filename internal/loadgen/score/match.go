package score

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/report"
)

// matchLocked finds the absence that a claim fits best, and how well.
func (s *Score) matchLocked(n int, c *claim) (best *absence, how fit) {
	t := s.terms
	t.clock = c.err
	for _, a := range s.devices[n].absences {
		t.deafened = c.place.awake(a.at, c.deadline) < c.deadline-a.at
		away := a.back != 0 && s.elsewhereLocked(n, a, c.place.gateway)
		if f := a.fit(c, away, &t); f > how {
			best, how = a, f
		}
	}
	return best, how
}

// certainLocked reports whether a claim that fits an absence can no longer turn out to be false: no
// return from before its deadline, or long before it came, can still be added.
func (s *Score) certainLocked(c *claim, a *absence) bool {
	return a.back != 0 || max(c.deadline, c.came-s.terms.slack) <= s.complete
}

// elsewhereLocked reports whether a device came back from an absence at another gateway.
func (s *Score) elsewhereLocked(n int, a *absence, g *gateway) bool {
	return slices.ContainsFunc(s.devices[n].tracks, func(t *track) bool {
		// One that holds it for present still need not say so again.
		return t.place.gateway != g && (t.since >= a.back-s.terms.slack || t.state.here())
	})
}

// placeOfLocked returns the source that a device was heard at last.
func (s *Score) placeOfLocked(n int) *place {
	p, since := &place{}, int64(0)
	for _, t := range s.devices[n].tracks {
		if t.since >= since {
			p, since = t.place, t.since
		}
	}
	return p
}

// commitLocked counts a claim that is right.
func (s *Score) commitLocked(n int, c *claim, a *absence) {
	s.takeLocked(n, a)
	s.report.Right++
	if c.reason == closed && c.exact && a.closes() {
		c.place.listening.readEnd(a.at, c.deadline-a.at-s.terms.grace)
	}
	longest := s.report.told.HighestTrackableValue()
	due := c.place.extend(a.from(c, &s.terms), a.last, c.time, &s.terms)
	record := func(d int64) int64 { return min(max(d, 0)/int64(unit), longest) }
	_ = s.report.decided.RecordValue(record(c.time - due)) // in its range
	told := c.came - c.place.extend(a.from(c, &s.terms), a.last, c.came, &s.terms)
	_ = s.report.told.RecordValue(record(told))
	if told > s.terms.late {
		s.lateLocked(c, s.caseLocked(n, a, c))
	}
}

// takeLocked notes that an absence has its verdict, right or not.
func (s *Score) takeLocked(n int, a *absence) {
	if a.mark.has(missed) {
		s.report.Figures[MissedOffline].retract(s.plan.DeviceID(n), a.at)
		a.mark &^= missed
	}
	a.mark |= judged
}

// passLocked counts a claim that cannot be judged, and reports whether it is one. If it fits an
// absence, that may have its verdict.
func (s *Score) passLocked(n int, c *claim) bool {
	if c.deadline < s.knownLocked(n) {
		return false
	}
	s.report.Unjudged++
	if a, how := s.matchLocked(n, c); how > open {
		s.takeLocked(n, a)
	}
	return true
}

// resolveLocked judges a claim, and reports whether that is final. As long as the truth may be
// incomplete, it can only be found right.
func (s *Score) resolveLocked(n int, c *claim, ripe, final bool) bool {
	if s.passLocked(n, c) {
		s.report.Waiting--
		return true
	}
	a, how := s.matchLocked(n, c)
	certain := ripe && (how != open || final)
	if how == right {
		certain = final || s.certainLocked(c, a)
	}
	if !certain {
		return false
	}
	example := s.caseLocked(n, a, c)
	switch how {
	case right:
		if s.overtakenLocked(n, c, a) {
			s.takeLocked(n, a)
			s.report.add(FalseOffline, example)
			s.report.add(Overtaken, example)
			break
		}
		s.commitLocked(n, c, a)
	case wrong:
		s.takeLocked(n, a)
		s.report.add(WrongReason, example)
	case repeated:
		s.report.add(Duplicates, example)
	case excused, open:
		s.report.Excused++
	case early:
		a.mark |= judged // there will be no other
		s.report.add(FalseOffline, example)
		s.report.add(EarlyOffline, example)
	case none:
		a = s.returnedLocked(n, c)
		example = s.caseLocked(n, a, c)
		s.report.add(FalseOffline, example)
		if a != nil && (c.reason == closed || c.reason == will || c.reason == unsaid) {
			s.report.add(OldConnection, example)
		}
	}
	s.report.Waiting--
	return true
}

// returnedLocked returns an absence that had just ended when a claim was due.
func (s *Score) returnedLocked(n int, c *claim) *absence {
	var latest *absence
	for _, a := range s.devices[n].absences {
		ends := a.back != 0 && (a.closes() || a.mark.has(lost) || a.kind == plan.Duplicate)
		if d := c.deadline; ends && d >= a.at && d <= a.back+s.terms.grace+s.terms.slack {
			latest = a
		}
	}
	return latest
}

// judgeUntilLocked judges what is ripe.
func (s *Score) judgeUntilLocked(until int64, final bool) {
	s.complete = max(s.complete, until)
	for n := range s.devices {
		d := &s.devices[n]
		d.claims = slices.DeleteFunc(d.claims, func(c *claim) bool {
			if c.reason == returned {
				return s.onlineLocked(n, c, until, final)
			}
			ripe := c.time+s.terms.slack <= until || final && c.time <= until
			if s.resolveLocked(n, c, ripe, final) {
				return true
			}
			if final && c.came > until { // it is not this run's
				s.report.Waiting--
				return true
			}
			return false
		})
	}
	for n := range s.devices { // by what the verdicts on all have shown of the clocks
		s.overdueLocked(n, until, final)
		if final {
			s.finalLocked(n, until)
		}
	}
}

// overdueLocked looks for absences of a device that are missed, and forgets those that are over.
func (s *Score) overdueLocked(n int, until int64, final bool) {
	d := &s.devices[n]
	for _, a := range d.absences {
		if a.mark.has(judged) {
			continue
		}
		due := s.dueLocked(n, a)
		must, spares := a.required(due, min(until, s.knownLocked(n)), s.placeOfLocked(n), &s.terms)
		if spares && !a.mark.has(spared) {
			a.mark |= spared
			s.report.Behind.Back++
		}
		switch {
		case must && !a.mark.has(missed):
			a.mark |= missed
			s.report.Figures[MissedOffline].add(1, a.at, s.missedLocked(n, a, due))
		case !must && a.mark.has(missed): // more is known now
			a.mark &^= missed
			s.report.Figures[MissedOffline].retract(s.plan.DeviceID(n), a.at)
		}
	}
	if final || len(d.claims) > 0 {
		return
	}
	d.absences = slices.DeleteFunc(d.absences, func(a *absence) bool {
		return a.back != 0 && !a.mark.has(missed|inferred) && a.back+s.terms.keep+s.terms.timeout <= until
	})
}

// finalLocked checks the last known state of a device.
func (s *Score) finalLocked(n int, now int64) {
	d := &s.devices[n]
	if d.flags&abandoned != 0 {
		return
	}
	if d.flags&vouched != 0 && len(d.tracks) == 0 {
		return
	}
	if d.flags&online == 0 {
		if d.flags&(unwelcomed|vouched) == 0 {
			s.report.add(NeverOnline, func() report.Example {
				return report.Example{Device: s.plan.DeviceID(n), Done: "it had a connection", Said: "never said to be online", At: instant(now)}
			})
		}
		return
	}
	s.falseOnlineLocked(n, now)
	if slices.ContainsFunc(d.tracks, func(t *track) bool { return !t.state.away() }) {
		return
	}
	var latest *absence
	for _, a := range d.absences {
		if a.back == 0 || a.back+s.terms.slack > now {
			return
		}
		latest = a
	}
	s.report.add(Stuck, func() report.Example {
		e := s.exampleLocked(n, latest, nil)
		e.Said, e.At = "still offline at "+clock(now), instant(now)
		return e
	})
}

// falseOnlineLocked counts a device that is gone for good, had its verdict, and is reported online
// after that.
func (s *Score) falseOnlineLocked(n int, now int64) {
	d := &s.devices[n]
	if slices.ContainsFunc(d.tracks, func(t *track) bool { return !t.state.here() || t.gone == 0 }) {
		return
	}
	for _, a := range d.absences {
		if !a.gone() || a.back != 0 || !a.mark.has(judged) || a.mark.has(unheard|inferred|lost|ghostly) || s.openLocked(n, a, now) {
			continue
		}
		s.report.add(FalseOnline, func() report.Example {
			e := s.exampleLocked(n, a, nil)
			e.Said, e.At = "still online at "+clock(now), instant(now)
			return e
		})
		return
	}
}

// caseLocked describes a claim and the absence that it may be about, or nil.
func (s *Score) caseLocked(n int, a *absence, c *claim) func() report.Example {
	told := *c
	return func() report.Example {
		e := s.exampleLocked(n, a, nil)
		e.At = instant(told.time)
		e.Said = fmt.Sprintf("offline%s at %s", told.reason.because(), clock(told.time))
		if told.reason == returned {
			e.Said = "online at " + clock(told.time)
		}
		if told.exact {
			e.Said += ", deadline " + clock(told.deadline)
		}
		if told.came > told.time+int64(time.Second) {
			e.Said += ", came at " + clock(told.came)
		}
		return e
	}
}

func (s *Score) missedLocked(n int, a *absence, due int64) func() report.Example {
	return func() report.Example {
		e := s.exampleLocked(n, a, nil)
		e.Said, e.At = "no verdict, due at "+clock(due), instant(due)
		return e
	}
}

// exampleLocked describes what was done to a device, in an absence or at all if it is nil, and what
// was reported.
func (s *Score) exampleLocked(n int, a *absence, v *Verdict) report.Example {
	e := report.Example{Device: s.plan.DeviceID(n), Done: "nothing was done to it"}
	if v != nil {
		e.Said, e.At = said(v), v.when().UTC()
	}
	if all := s.devices[n].absences; a == nil && len(all) > 0 {
		a = all[len(all)-1]
	}
	if a != nil {
		e.Done = a.String()
	}
	return e
}

// String describes what was done.
func (a *absence) String() string {
	text := "the connection was lost"
	if a.kind != plan.Lost {
		text = a.kind.String()
	}
	text += " at " + clock(a.at) + ", last sign of life " + clock(a.last)
	if a.kind != plan.Lost && a.mark.has(lost) {
		text += ", the connection was lost besides"
	}
	text += a.words()
	if a.back == 0 {
		return text + ", not back"
	}
	return text + ", back " + clock(a.back)
}

// said describes a verdict with its time.
func said(v *Verdict) string { return v.word() + " at " + clock(nanos(v.when())) }

// word describes a verdict without its time.
func (v *Verdict) word() string {
	word := map[Kind]string{
		Online: "online", Offline: "offline", Late: "late", Sleeping: "sleeping", Replaced: "on another session", Forgotten: "forgotten",
		SourceDeaf: "deaf", SourceHeard: "listens again",
	}[v.Kind]
	if v.Kind == Offline && v.Reason != "" {
		word += " (" + v.Reason + ")"
	}
	return cmp.Or(word, "something else")
}

func (r reason) because() string {
	return [...]string{
		unsaid: "", silence: " (silence)", closed: " (closed)", bye: " (bye)", will: " (will)", ended: " (protocol or admin)",
		strange: " (some other reason)", returned: "",
	}[r]
}

// clock prints an instant for a person.
func clock(at int64) string {
	if at == 0 {
		return "never"
	}
	return instant(at).Format("15:04:05.000000")
}
