//go:build linux

package replays

import (
	"time"

	"github.com/holter-iot/holter/liveness"
)

// maxGap is how long a server that is stopped counts as listening, see liveness.SourceConfig.
const maxGap = time.Second

// reconnectGrace is by how much a stall puts verdicts off at most, beside the interval.
const reconnectGrace = 10 * time.Second

// verdict is what is said of a silence. The delays are heard time since it began, 0 if it was neither.
type verdict struct {
	late, offline time.Duration
	reason        liveness.Reason
}

// listened returns the listening time at an instant. What arrives in a stall is read at its end.
func (p *plan) listened(at time.Duration) time.Duration {
	sum := at
	for _, s := range p.stalls {
		switch {
		case at >= s.at+s.length:
			sum -= s.length - maxGap
		case at > s.at:
			sum -= at - s.at - maxGap
		}
	}
	return sum
}

// seen returns when a server reads what arrives at an instant.
func (p *plan) seen(at time.Duration) time.Duration {
	for _, s := range p.stalls {
		if at > s.at && at < s.at+s.length {
			return s.at + s.length
		}
	}
	return at
}

// heard returns how long a silence is in listening time, until the end of the plan if it does not end.
func (p *plan) heard(s *silence) time.Duration {
	end := s.end
	if end == 0 {
		end = p.length
	}
	return p.listened(end) - p.listened(s.start)
}

// judged returns what a server with a timeout says of a silence.
func (p *plan) judged(s *silence, timeout time.Duration) (v verdict) {
	at, reason := p.putOff(s, timeout), liveness.Silence
	if closed := s.closed - s.start; s.closed > 0 && closed < at && closed+p.closeGrace < at {
		at, reason = closed+p.closeGrace, liveness.Closed
	}
	if p.heard(s) > at {
		v.offline, v.reason = at, reason
	}
	return v
}

// putOff returns when a verdict is due that would be due after a time, because of the stalls.
func (p *plan) putOff(s *silence, due time.Duration) time.Duration {
	start := p.listened(s.start)
	for _, st := range p.stalls {
		if at := p.listened(st.at) + maxGap - start; s.start < st.at && (s.end == 0 || s.end > st.at) && due > at-maxGap {
			due = max(due, at+min(st.length-maxGap, p.interval+reconnectGrace))
		}
	}
	return due
}

// outage reports whether a silence that was judged is an outage for a replay, and no false alarm. Where the
// server that recorded it ended the session, since it judged the device, only the length tells.
func (p *plan) outage(s *silence, v verdict) bool {
	if s.end == 0 || v.reason != liveness.Silence {
		return true
	}
	said := p.judged(s, p.recorded).offline
	cutOff := said > 0 && (s.closed == 0 || p.listened(s.closed)-p.listened(s.start) > said)
	if s.sessionless || cutOff {
		return p.heard(s) > 2*p.recorded
	}
	return s.ending != beat
}

// clear reports whether what each timeout says of a silence does not depend on a moment.
func (p *plan) clear(s *silence) bool {
	if p.heard(s) < margin { // nobody hears of it
		return false
	}
	for _, st := range p.stalls {
		if !p.away(s, st) {
			return false
		}
	}
	dues := append([]time.Duration{p.lateAfter, 2 * p.recorded}, p.timeouts...)
	for _, due := range dues {
		if !p.distinct(s, due) {
			return false
		}
	}
	return true
}

// away reports whether a silence neither begins nor ends near the edges of a stall.
func (p *plan) away(s *silence, st stall) bool {
	for _, edge := range []time.Duration{st.at, st.at + st.length} {
		for _, at := range []time.Duration{s.start, s.end, s.closed} {
			if near(at, edge) {
				return false
			}
		}
	}
	return s.closed == 0 || s.end < st.at || s.start > st.at+st.length
}

// distinct reports whether a silence neither ends nor is closed near a deadline, and whether the deadline is not
// near a stall.
func (p *plan) distinct(s *silence, due time.Duration) bool {
	heard, start := p.heard(s), p.listened(s.start)
	late := p.putOff(s, due)
	if near(heard, due) || near(heard, late) {
		return false
	}
	for _, st := range p.stalls {
		if at := p.listened(st.at) - start; due > at-margin && due < at+maxGap+margin {
			return false
		}
	}
	if s.closed == 0 {
		return true
	}
	closed := s.closed - s.start
	if closed > p.recorded-margin { // the recording server ended it before, for its verdict
		return false
	}
	return !near(closed, due) && !near(closed+p.closeGrace, due) && !near(closed+p.closeGrace, heard)
}

func near(a, b time.Duration) bool { return (a - b).Abs() < margin }
