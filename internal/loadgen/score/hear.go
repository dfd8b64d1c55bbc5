package score

import (
	"fmt"
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/report"
)

// Verdict adds an event, in the order in which it was read from its gateway.
func (s *Score) Verdict(v Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.boundLocked(&v)
	if v.Kind >= SourceDeaf {
		s.streamLocked(&v)
		return
	}
	s.report.Events++
	n, ok := s.plan.Number(v.Device)
	if !ok {
		s.report.add(Strangers, func() report.Example {
			return report.Example{Device: v.Device, Done: "it is no device of the plan", Said: said(&v), At: v.when()}
		})
		return
	}
	p := s.placeLocked(v.URL, v.Source)
	p.used = true
	s.wholeLocked(p.gateway, &v)
	t := s.trackLocked(n, p, &v)
	if v.Source != "" {
		t.place = p
	}
	fresh, inTurn := s.countedLocked(n, t, &v)
	if !fresh {
		return
	}
	s.followsLocked(n, t, &v, inTurn)
	s.stateLocked(n, p, t, &v)
	if v.Kind == Offline {
		s.offlineLocked(n, p, &v)
	}
}

// when returns the time of the event, or of its arrival if it has none.
func (v *Verdict) when() time.Time {
	if v.Time.IsZero() {
		return v.Seen
	}
	return v.Time
}

// streamLocked handles an event that is about no device.
func (s *Score) streamLocked(v *Verdict) {
	p := s.placeLocked(v.URL, v.Source)
	g := p.gateway
	switch v.Kind {
	case SourceDeaf, SourceHeard:
		p.deafen(v)
	case Following:
		g.fresh, g.followed, g.full = g.fresh || !g.followed && v.Offset == 0, true, v.Full
		if s.began == 0 {
			s.began = nanos(v.Seen)
		}
	case Skipped:
		s.report.Figures[LogGaps].add(v.Seq, 0, v.inLog("the log goes on %d events later", v.Seq))
	case Rewound:
		s.report.add(LogOrder, v.inLog("the log goes back"))
	case Clock:
		g.addVerdict(v)
	case Behind:
		at := nanos(v.Time)
		p.listening.note(shown{at, at - int64(max(v.Lag, 0))})
	case Missed:
		if len(s.report.Incomplete) < maxExamples {
			s.report.Incomplete = append(s.report.Incomplete, v.missed())
		}
	case Broken, Other, Online, Offline, Late, Sleeping, Replaced, Forgotten:
	}
}

// inLog describes what is wrong with a log.
func (v *Verdict) inLog(format string, args ...any) func() report.Example {
	told := *v
	return func() report.Example {
		return report.Example{
			Device: "the log", Done: "it was read without a filter", At: told.Seen.UTC(),
			Said: fmt.Sprintf("offset %d: ", told.Offset) + fmt.Sprintf(format, args...),
		}
	}
}

// missed says what was missed.
func (v *Verdict) missed() string {
	if v.Offset == 0 {
		return v.URL + ": nothing was read while the connection was broken"
	}
	return fmt.Sprintf("%s: what came before offset %d was no longer kept when it was to be read", v.URL, v.Offset)
}

// placeLocked returns a source of a gateway.
func (s *Score) placeLocked(url, source string) *place {
	for _, p := range s.places {
		if p.gateway.url == url && p.name == source {
			return p
		}
	}
	g := slices.IndexFunc(s.gateways, func(g *gateway) bool { return g.url == url })
	if g < 0 {
		g = len(s.gateways)
		s.gateways = append(s.gateways, &gateway{url: url})
	}
	p := &place{gateway: s.gateways[g], name: source}
	s.places = append(s.places, p)
	return p
}

// trackLocked returns the state of a device at a gateway so far.
func (s *Score) trackLocked(n int, p *place, v *Verdict) *track {
	d := &s.devices[n]
	for _, t := range d.tracks {
		if t.place.gateway == p.gateway {
			return t
		}
	}
	t := &track{place: p}
	first := uint64(1)
	if !p.gateway.fresh && v.Seq != 0 {
		first = v.Seq
	}
	t.begin(first)
	d.tracks = append(d.tracks, t)
	return t
}

// countedLocked checks numbers, and reports whether the event is new, and whether it is the next
// one.
func (s *Score) countedLocked(n int, t *track, v *Verdict) (fresh, inTurn bool) {
	if v.Seq == 0 {
		known := v.Kind == Offline && !t.state.here() || v.Kind == Online && t.state.here()
		return !v.Retained || !known, false
	}
	example := func(format string, args ...any) func() report.Example {
		return func() report.Example {
			e := s.exampleLocked(n, nil, v)
			e.Said = fmt.Sprintf(format, args...) + ": " + e.Said
			return e
		}
	}
	if v.Kind == Forgotten {
		s.report.add(Removed, example("it was not requested"))
	}
	seq, top := v.Seq, t.top
	switch what, gap := t.number(seq); what {
	case duplicate:
		s.report.add(Duplicates, example("number %d again, after %d", seq, top))
		return false, false
	case disorder:
		s.report.add(Order, example("number %d after %d", seq, top))
		s.report.Figures[Gaps].retract(s.plan.DeviceID(n), int64(seq))
		return true, false
	case skips:
		s.report.Figures[Gaps].add(gap, int64(top)+1, example("number %d after %d", seq, top))
	case inOrder:
		inTurn = true
	}
	switch again := v.Epoch != 0 && v.Epoch == t.epoch; {
	case v.Kind != Online && v.Kind != Offline:
	case t.session(v.Epoch):
		s.report.add(Order, example("session %d after a later one", v.Epoch))
	case inTurn && again && v.Kind == Online && t.state == parted && !s.plan.SpeaksMQTT():
		s.report.add(Order, example("session %d again, which was over", v.Epoch))
	}
	return true, inTurn
}

// stateLocked notes the state of a device at a gateway.
func (s *Score) stateLocked(n int, p *place, t *track, v *Verdict) {
	switch v.Kind {
	case Offline:
		t.state, t.gone = absent, nanos(v.when())
		if r := reasonOf(v.Reason); r == closed || r == bye {
			t.state = parted
		}
		return
	case Online:
		if t.state.away() && v.Seq != 0 {
			s.devices[n].claims = append(s.devices[n].claims, v.claim(p, returned, t.gone))
		}
		t.since, t.state = nanos(v.when()), present
	case Late:
		t.state = late
	case Sleeping:
		t.state = asleep
	case Replaced:
		t.state = present
	case Forgotten:
		t.epoch, t.state = 0, removed
		return
	case Other, SourceDeaf, SourceHeard, Following, Missed, Broken, Skipped, Rewound, Clock, Behind:
		return
	}
	s.devices[n].flags |= online
}

// claim is an offline verdict or a return, as a place reported it. It was due when it was decided
// at the latest, and did not come before.
func (v *Verdict) claim(p *place, r reason, due int64) *claim {
	at := nanos(v.when())
	return &claim{time: at, came: max(nanos(v.Came), at), deadline: min(due, at), err: int64(v.Error), place: p, reason: r}
}

// offlineLocked takes an offline verdict, and judges it if that can be done at once.
func (s *Score) offlineLocked(n int, p *place, v *Verdict) {
	r := reasonOf(v.Reason)
	deadline, exact := v.Deadline, true
	switch {
	case !deadline.IsZero():
	case r == silence && v.HeardSilence > 0 && v.Timeout > 0 && !v.Time.IsZero():
		deadline = v.Time.Add(v.Timeout - v.HeardSilence)
	default:
		deadline, exact = v.when(), false
	}
	c := v.claim(p, r, nanos(deadline))
	if c.exact = exact; exact && (r == silence || r == closed) {
		p.listening.reached = max(p.listening.reached, c.deadline)
	}
	if v.Timeout != 0 && c.reason == silence && (v.Timeout-time.Duration(s.terms.timeout)).Abs() >= time.Millisecond {
		s.report.add(AnotherTimeout, func() report.Example {
			e := s.exampleLocked(n, nil, v)
			e.Said += fmt.Sprintf(", by a timeout of %v instead of %v", v.Timeout, time.Duration(s.terms.timeout))
			return e
		})
	}
	if s.passLocked(n, c) {
		return
	}
	if a, f := s.matchLocked(n, c); f == right && s.certainLocked(c, a) && !s.overtakenLocked(n, c, a) {
		s.commitLocked(n, c, a)
		return
	}
	s.devices[n].claims = append(s.devices[n].claims, c)
	s.report.Waiting++
}
