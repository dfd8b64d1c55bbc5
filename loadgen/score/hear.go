package score

import (
	"fmt"
	"math"
	"time"
)

// Verdict takes what was said, in the order in which it was read from its gateway.
func (s *Score) Verdict(v Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.Kind >= SourceDeaf {
		s.streamLocked(&v)
		return
	}
	s.report.Verdicts++
	if v.Kind == Offline {
		s.report.Offlines++
	}
	n, ok := s.plan.Number(v.Device)
	if !ok {
		s.report.Strangers.add(1, func() Example {
			return Example{Device: v.Device, Number: -1, URL: v.URL, Done: "it is no device of the plan", Said: said(&v), At: v.when()}
		})
		return
	}
	p := s.placeLocked(v.URL, v.Source)
	t := s.trackLocked(n, p, &v)
	if v.Source != "" {
		t.place = p
	}
	if !s.countedLocked(n, t, &v) {
		return
	}
	s.stateLocked(n, t, &v)
	if v.Kind == Offline {
		s.offlineLocked(n, p, &v)
	}
}

// when is the instant of what was said, as well as it is known.
func (v *Verdict) when() time.Time {
	if v.Time.IsZero() {
		return v.Seen
	}
	return v.Time
}

// streamLocked takes what was said of no device.
func (s *Score) streamLocked(v *Verdict) {
	p := s.placeLocked(v.URL, v.Source)
	g := &s.gateways[s.places[p].url]
	switch v.Kind {
	case SourceDeaf, SourceHeard:
		s.places[p].deafen(v)
	case Following:
		g.fresh, g.followed = g.fresh || !g.followed && v.Offset == 0, true
	case Missed:
		if len(s.report.Incomplete) < maxExamples {
			s.report.Incomplete = append(s.report.Incomplete, v.missed())
		}
	case Broken:
		s.report.Breaks++
	case Other, Online, Offline, Late, Sleeping, Replaced, Forgotten:
	}
}

// missed says what was missed.
func (v *Verdict) missed() string {
	if v.Offset == 0 {
		return v.URL + ": nobody was listening while the connection was broken"
	}
	return fmt.Sprintf("%s: what came before offset %d was no longer kept when it was to be read", v.URL, v.Offset)
}

// placeLocked returns the number of a source of a gateway.
func (s *Score) placeLocked(url, source string) uint16 {
	name := placeName{url, source}
	if p, ok := s.placeOf[name]; ok {
		return p
	}
	g := 0
	for g < len(s.gateways) && s.gateways[g].url != url {
		g++
	}
	if g == len(s.gateways) {
		s.gateways = append(s.gateways, gateway{url: url})
	}
	if len(s.places) > math.MaxUint16 {
		return 0 // more sources than anybody has
	}
	p := uint16(len(s.places))                                       //nolint:gosec // checked
	s.places = append(s.places, place{url: uint16(g), name: source}) //nolint:gosec // not more than places
	s.placeOf[name] = p
	return p
}

// trackLocked returns what a gateway said of a device before.
func (s *Score) trackLocked(n int, p uint16, v *Verdict) *track {
	d, url := &s.devices[n], s.places[p].url
	for t := range s.tracks.all(d.tracks) {
		if s.places[t.place].url == url {
			return t
		}
	}
	t := s.tracks.push(&d.tracks, track{place: p})
	first := uint32(1)
	if !s.gateways[url].fresh && v.Seq != 0 {
		first = uint32(v.Seq) //nolint:gosec // a device has not as many events
	}
	t.begin(first)
	return t
}

// countedLocked checks numbers, and says whether what was said is new.
func (s *Score) countedLocked(n int, t *track, v *Verdict) bool {
	if v.Seq == 0 {
		known := v.Kind == Offline && t.state != present || v.Kind == Online && t.state == present
		return !v.Retained || !known
	}
	example := func(key int64, format string, args ...any) func() Example {
		return func() Example {
			e := s.exampleLocked(n, nil, v)
			e.Said, e.key = fmt.Sprintf(format, args...)+": "+e.Said, key
			return e
		}
	}
	if v.Kind == Forgotten {
		t.begin(1)
		t.epoch, t.state = 0, unknown
		return false
	}
	seq := uint32(v.Seq) //nolint:gosec // a device has not as many events
	top := t.top
	switch what, gap := t.number(seq); what {
	case duplicate:
		s.report.Duplicates.add(1, example(0, "number %d again, after %d", seq, top))
		return false
	case disorder:
		s.report.Order.add(1, example(0, "number %d after %d", seq, top))
		s.report.Gaps.retract(n, int64(seq))
		return true
	case skips:
		s.report.Gaps.add(uint64(gap), example(int64(top)+1, "number %d after %d", seq, top))
	case inOrder:
	}
	if (v.Kind == Online || v.Kind == Offline) && t.session(v.Epoch) {
		s.report.Order.add(1, example(0, "session %d after a later one", v.Epoch))
	}
	return true
}

// stateLocked notes what a gateway holds a device for.
func (s *Score) stateLocked(n int, t *track, v *Verdict) {
	switch v.Kind {
	case Offline:
		t.state = absent
		return
	case Online:
		at := nanos(v.when())
		if s.base == 0 {
			s.base = at - int64(time.Hour)
		}
		t.since = uint32(min(max(at-s.base, 0)/int64(time.Millisecond), math.MaxUint32)) //nolint:gosec // bounded
		t.state = present
	case Late, Sleeping, Replaced:
		t.state = present
	case Other, Forgotten, SourceDeaf, SourceHeard, Following, Missed, Broken:
		return
	}
	s.devices[n].flags |= online
}

// offlineLocked takes an offline verdict, and judges it if that can be done at once.
func (s *Score) offlineLocked(n int, p uint16, v *Verdict) {
	c := claim{time: nanos(v.when()), place: p, reason: reasonOf(v.Reason)}
	deadline := v.when()
	switch {
	case !v.Deadline.IsZero():
		deadline, c.exact = v.Deadline, true
	case c.reason == silence && v.HeardSilence > 0 && v.Timeout > 0 && !v.Time.IsZero():
		deadline, c.exact = v.Time.Add(v.Timeout-v.HeardSilence), true
	}
	c.ahead = micros(v.when().Sub(deadline))
	c.lag = micros(v.Seen.Sub(v.when()))
	if v.Timeout != 0 && c.reason == silence && (v.Timeout-s.options.Timeout).Abs() >= time.Millisecond {
		s.report.OtherTimeout.add(1, func() Example {
			e := s.exampleLocked(n, nil, v)
			e.Said += fmt.Sprintf(", by a timeout of %v instead of %v", v.Timeout, s.options.Timeout)
			return e
		})
	}
	if s.passLocked(n, &c) {
		return
	}
	if a, f := s.matchLocked(n, &c); f == right && s.certainLocked(&c, a) {
		s.commitLocked(n, &c, a)
		return
	}
	s.claims.push(&s.devices[n].claims, c)
	s.report.Waiting++
}

// micros rounds down.
func micros(d time.Duration) uint32 {
	return uint32(min(max(d/time.Microsecond, 0), math.MaxUint32)) //nolint:gosec // bounded
}
