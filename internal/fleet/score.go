package fleet

import (
	"slices"
	"strconv"
	"time"
)

// Options says how a gateway is configured, and what to tolerate of it.
type Options struct {
	// Timeout is the silence after which a device is offline. Default: the TTL
	// that the device was granted.
	Timeout time.Duration
	// CloseGrace is how long a closed connection may stay away. Default none.
	CloseGrace time.Duration
	// MaxLag is how late a verdict may come before a return of the device, or
	// the end of the observation, excuses its absence. Default 2 s. A verdict
	// later than that is no fault, unless the device was told by then that it is
	// back; its lag is in the report.
	MaxLag time.Duration
	// Slack is how far the gateway's clock may differ from the fleet's. Default
	// none: on one machine a verdict is false if it comes a nanosecond early.
	Slack time.Duration
	// Until is the instant at which the events were asked for; none can be of a
	// later one, but for MaxLag. Default: late enough for every verdict.
	Until time.Time
	// AllowDrops makes a connection that the peer ended no fault, but an
	// absence of the device, as when the gateway was restarted on purpose.
	AllowDrops bool
}

// scorer is what Score knows while it works on one device.
type scorer struct {
	opts    Options
	report  *Report
	device  Device
	timeout time.Duration
	away    []absence
	online  bool // by the events so far
	stalled bool // the latest offline event was the client's own fault
}

// Score holds the events of a gateway, in the order of its feed, against the
// truth. Only devices of the truth may have events. It is a pure function. It
// takes time in proportion to the events, if no device has many absences.
func Score(truth []Device, events []Event, opts Options) Report {
	if opts.MaxLag == 0 {
		opts.MaxLag = 2 * time.Second
	}
	r := Report{Devices: len(truth), Events: len(events)}
	byDevice := make(map[string][]Event, len(truth))
	for _, e := range events {
		if e.Device != "" {
			byDevice[e.Device] = append(byDevice[e.Device], e)
		}
	}
	for _, d := range truth {
		s := scorer{opts: opts, report: &r, device: d, timeout: opts.Timeout}
		if s.timeout == 0 {
			s.timeout = d.TTL
		}
		s.away = absences(d.Steps, opts.AllowDrops)
		s.judge(byDevice[d.ID])
		delete(byDevice, d.ID)
	}
	for id, list := range byDevice {
		r.fault(FaultStranger, id, list[0].Seq, "%d events of a device that is not in the fleet", len(list))
	}
	r.sort()
	return r
}

// judge checks all events of the device.
func (s *scorer) judge(events []Event) {
	for _, st := range s.device.Steps {
		if st.Action == Dropped && !s.opts.AllowDrops {
			s.fault(FaultDropped, 0, "connection ended by the peer at %s", clock(st.At))
		}
	}
	var epoch uint64
	heard := false
	for _, e := range s.sequence(events) {
		if e.Type != TypeOnline && e.Type != TypeOffline {
			continue
		}
		if e.Epoch < epoch {
			s.fault(FaultOrder, e.Seq, "epoch %d after %d", e.Epoch, epoch)
		}
		epoch = max(epoch, e.Epoch)
		if e.Type == TypeOnline {
			s.online, s.stalled, heard = true, false, true
			continue
		}
		s.offline(e)
		s.online = false
	}
	s.missed()
	s.final(heard)
}

// sequence checks the numbers, and returns each event once.
func (s *scorer) sequence(events []Event) []Event {
	once := make([]Event, 0, len(events))
	next := uint64(1)
	for i, e := range events {
		has := func(list []Event, seq uint64) bool {
			return slices.ContainsFunc(list, func(o Event) bool { return o.Seq == seq })
		}
		switch {
		case e.Seq < next && has(events[:i], e.Seq):
			s.fault(FaultTwice, e.Seq, "event %s again", e.ID)
			continue
		case e.Seq < next:
			s.fault(FaultOrder, e.Seq, "comes after %d", next-1)
		case e.Seq > next && !has(events[i:], next):
			s.fault(FaultSeq, e.Seq, "%d is missing", next)
		}
		if want := s.device.ID + ":" + strconv.FormatUint(e.Seq, 10); e.ID != want {
			s.fault(FaultData, e.Seq, "id %q, want %q", e.ID, want)
		}
		next = max(next, e.Seq+1)
		once = append(once, e)
	}
	return once
}

// offline finds the absence that an offline event speaks of.
func (s *scorer) offline(e Event) {
	var latest *absence
	for i := len(s.away) - 1; i >= 0; i-- {
		a := &s.away[i]
		if a.began.After(e.Time.Add(s.opts.Slack)) {
			continue
		}
		if latest == nil {
			latest = a
		}
		due, ok := a.due(e.Reason, s.timeout, s.opts)
		if a.judged || !ok || due.After(e.Time.Add(s.opts.Slack)) || a.over(e.Time, s.opts) {
			continue
		}
		a.judged = true
		s.report.judged(e.Reason, e.Time.Sub(due))
		if !s.online {
			s.fault(FaultOnline, e.Seq, "offline twice, and no online between")
		}
		s.data(e, a)
		return
	}
	s.unfounded(e, latest)
}

// unfounded says what is wrong with an offline event that no absence explains;
// a is the latest that began before it, or nil.
func (s *scorer) unfounded(e Event, a *absence) {
	present := a == nil || (!a.end.IsZero() && !e.Time.Before(a.end))
	switch {
	case s.future(e):
		s.fault(FaultFalse, e.Seq, "offline (%s) at %s, and the events were read at %s", e.Reason, clock(e.Time), clock(s.opts.Until))
	case present && s.late(e):
		s.stalled = true
		s.fault(FaultStalled, e.Seq, "offline, but the client sent nothing for %v and from %s on",
			s.device.LongestGap.Length(), clock(s.device.LastHeartbeat))
	case a == nil:
		s.fault(FaultFalse, e.Seq, "offline (%s) at %s, never told to stop before; %s, last heartbeat %s",
			e.Reason, clock(e.Time), s.device.State, clock(s.device.LastHeartbeat))
	case present:
		s.fault(FaultFalse, e.Seq, "offline (%s) at %s, but it came back at %s", e.Reason, clock(e.Time), clock(a.end))
	case a.judged:
		s.fault(FaultTwice, e.Seq, "offline (%s) again at %s", e.Reason, clock(e.Time))
	default:
		s.hasty(e, a)
	}
}

// hasty says what is wrong with an event in an absence that does not justify it.
func (s *scorer) hasty(e Event, a *absence) {
	a.judged = true
	due, ok := a.due(e.Reason, s.timeout, s.opts)
	if ok {
		s.fault(FaultFalse, e.Seq, "offline (%s) at %s, %v before it was due", e.Reason, clock(e.Time), due.Sub(e.Time))
		return
	}
	if reason, _ := a.first(s.timeout, s.opts); reason != "" {
		s.fault(FaultReason, e.Seq, "offline for %q, want %q", e.Reason, reason)
		return
	}
	s.fault(FaultFalse, e.Seq, "offline (%s) at %s, but it came back at %s, in time", e.Reason, clock(e.Time), clock(a.end))
}

// late reports whether the client itself was silent for long enough to earn an
// offline event.
func (s *scorer) late(e Event) bool {
	gap := s.device.LongestGap
	inGap := gap.Length() >= s.timeout && !e.Time.Before(gap.From.Add(s.timeout)) && !e.Time.After(gap.To.Add(s.opts.MaxLag))
	return e.Reason == ReasonSilence && (inGap || !e.Time.Before(s.device.LastHeartbeat.Add(s.timeout)))
}

// future reports whether an event is of a time after all events were read.
func (s *scorer) future(e Event) bool {
	return !s.opts.Until.IsZero() && e.Time.After(s.opts.Until.Add(s.opts.MaxLag+s.opts.Slack))
}

// data checks what a justified offline event tells.
func (s *scorer) data(e Event, a *absence) {
	if e.Reason != ReasonSilence {
		return
	}
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			s.fault(FaultData, e.Seq, format, args...)
		}
	}
	const unit = time.Millisecond // of the durations in the feed
	bad(e.Timeout != 0 && (e.Timeout-s.timeout).Abs() >= unit, "timeout %v, want %v", e.Timeout, s.timeout)
	bad(e.HeardSilence != 0 && e.HeardSilence+unit <= s.timeout, "heard silence %v of %v", e.HeardSilence, s.timeout)
	bad(a.closed.IsZero() && e.HeardSilence > e.Time.Sub(a.heartbeat)+s.opts.Slack+unit,
		"heard silence %v, but a heartbeat was sent %v before", e.HeardSilence, e.Time.Sub(a.heartbeat))
	bad(!e.Deadline.IsZero() && e.DecidedAt.Before(e.Deadline), "decided at %s, deadline %s", clock(e.DecidedAt), clock(e.Deadline))
	bad(!e.LastSeen.IsZero() && a.closed.IsZero() && e.LastSeen.Add(s.opts.Slack).Before(a.heartbeat),
		"last seen %s, but a heartbeat was sent at %s", clock(e.LastSeen), clock(a.heartbeat))
}

// missed finds the absences that had to be judged and were not.
func (s *scorer) missed() {
	for i := range s.away {
		a := &s.away[i]
		reason, due := a.first(s.timeout, s.opts)
		if reason == "" || !a.required(reason, due, s.opts) {
			continue
		}
		s.report.Due++
		if !a.judged {
			s.fault(FaultMissed, 0, "no offline (%s), due at %s", reason, clock(due))
		}
	}
}

// final checks that a device that was granted a connection came online, and
// that one which is well is not offline in the end.
func (s *scorer) final(heard bool) {
	d := &s.device
	tooFresh := !s.opts.Until.IsZero() && s.opts.Until.Before(d.ConnectedAt.Add(s.opts.MaxLag))
	if d.ConnectedAt.IsZero() || (tooFresh && heard) {
		return
	}
	here := d.State == ConnOpen && (len(s.away) == 0 || !s.away[len(s.away)-1].end.IsZero())
	if !heard || (here && !s.online && !s.stalled) {
		s.fault(FaultOnline, 0, "connected at %s and not online", clock(d.ConnectedAt))
	}
}

func (s *scorer) fault(kind FaultKind, seq uint64, format string, args ...any) {
	s.report.fault(kind, s.device.ID, seq, format, args...)
}

// clock prints an instant as a report shows it.
func clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("15:04:05.000000")
}
