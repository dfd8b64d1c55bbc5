package fleet

import "time"

// absence is a time in which a device was away, as far as the gateway can know.
type absence struct {
	began     time.Time // when the device stopped, or its connection ended
	heartbeat time.Time // the last one before
	closed    time.Time // when the connection was ended; zero if it was not
	bye       time.Time // when it said goodbye; zero if it did not
	end       time.Time // the HELLO that ended it; zero if none did
	granted   time.Time // the OK to it
	dropped   bool      // the peer ended the connection
	judged    bool      // an offline event was found for it
}

// absences reads a device's history. Drops count only if they are allowed.
func absences(steps []Step, allowDrops bool) []absence {
	var list []absence
	for _, s := range steps {
		var open *absence
		if n := len(list); n > 0 && list[n-1].end.IsZero() {
			open = &list[n-1]
		}
		back := s.Action == Reconnect || s.Action == Duplicate
		switch {
		case s.Err != "" || (s.Action == Dropped && !allowDrops):
			continue
		case back && open != nil:
			open.end, open.granted = s.Hello, s.Answered // zero until the OK
			continue
		case back:
			continue
		case open == nil:
			list = append(list, absence{began: s.At, heartbeat: s.LastHeartbeat})
			open = &list[len(list)-1]
		}
		open.note(s)
	}
	return list
}

// note adds what a step did to an absence that it began or fell into.
func (a *absence) note(s Step) {
	switch s.Action {
	case Bye:
		a.bye = s.At
	case Close, Reset, Dropped:
		a.closed, a.dropped = s.At, s.Action == Dropped
	case Silent, Reconnect, Duplicate, Last:
	}
}

// due returns the earliest instant at which an absence may be judged for a
// reason, and false if it may not be.
func (a *absence) due(reason string, timeout time.Duration, o Options) (time.Time, bool) {
	closed, silence := a.closed.Add(o.CloseGrace), a.heartbeat.Add(timeout)
	switch reason {
	case ReasonBye:
		return a.bye, !a.bye.IsZero()
	case ReasonClosed:
		return closed, !a.closed.IsZero() && a.inTime(closed, o)
	case ReasonSilence:
		// Another verdict that was due well before leaves none for silence.
		late := !a.bye.IsZero() && silence.After(a.bye.Add(o.MaxLag))
		late = late || (!a.closed.IsZero() && !a.dropped && silence.After(closed.Add(o.MaxLag)))
		return silence, !late && a.inTime(silence, o)
	}
	return time.Time{}, false
}

// inTime reports whether the device was still away at t.
func (a *absence) inTime(t time.Time, o Options) bool {
	return a.end.IsZero() || !t.After(a.end.Add(o.Slack))
}

// over reports whether at t the device had been told so long ago that it was back that no verdict can have been under way.
func (a *absence) over(t time.Time, o Options) bool {
	return !a.granted.IsZero() && t.After(a.granted.Add(o.MaxLag+o.Slack))
}

// first returns the reason that is due first, and when; "" if none is.
func (a *absence) first(timeout time.Duration, o Options) (string, time.Time) {
	reason, at := "", time.Time{}
	for _, r := range []string{ReasonBye, ReasonClosed, ReasonSilence} {
		if t, ok := a.due(r, timeout, o); ok && (reason == "" || t.Before(at)) {
			reason, at = r, t
		}
	}
	return reason, at
}

// required reports whether an offline event that is due at t must be there: the
// device did not come back, and the feed was not read, within MaxLag.
func (a *absence) required(reason string, t time.Time, o Options) bool {
	limit := t.Add(o.MaxLag)
	if !o.Until.IsZero() && o.Until.Before(limit) {
		return false
	}
	return reason == ReasonBye || a.end.IsZero() || a.end.After(limit)
}
