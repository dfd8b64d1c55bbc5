package chaos

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

// absence is an interval in which a device was silent or had no connection, so that a verdict
// became due.
type absence struct {
	from   time.Duration // when it fell silent, or ended its connection
	end    time.Duration // the HELLO that ended it, be it that it was told "busy"; never if none did
	action plan.Kind     // how it began
}

// absences returns the device's absences, from its steps. A connection that the server ended is
// none, since the device goes on trying.
func (j *judge) absences() []absence {
	var list []absence
	for _, s := range j.device.Steps {
		switch s.Kind {
		case plan.Silent, plan.Close, plan.Reset, plan.Bye:
		default:
			continue
		}
		at := j.history.when(s.At)
		if n := len(list); n > 0 && list[n-1].end > at {
			continue // it was silent already
		}
		a := absence{from: at, end: never, action: s.Kind}
		if back := j.after(at + 1); back < len(j.device.Signs) {
			a.end = j.sign(back)
		}
		for _, heard := range j.device.Busy {
			if t := j.history.at(heard); t > at {
				a.end = min(a.end, t)
			}
		}
		list = append(list, a)
	}
	return list
}

// deadline is when the device must be offline at the latest.
func (j *judge) deadline(a *absence) time.Duration {
	need := j.policy.CloseGrace
	switch a.action {
	case plan.Silent:
		return j.silent(a)
	case plan.Bye:
		need = 0
	default:
	}
	if !j.told(a.from) {
		return j.policy.deadline(j.outages, j.since(a))
	}
	if again := j.rejoined(j.after(a.from)-1, a.from); again > 0 && need > 0 {
		need = max(need, again+j.policy.Grace-a.from)
	}
	soon := a.from + need + j.policy.Epsilon
	from := a.from
	if heard := j.unheardSince(a.from); heard < from {
		from = heard
	} else if quiet(j.outages, a.from-j.policy.Epsilon, soon) {
		return soon
	}
	return max(soon, j.policy.deadline(j.outages, from))
}

// unheardSince returns the last sign of life before an instant, if an ear was lost at it or after it: until the device is heard again it
// has the failover of those who may have been with that ear. Else it returns the instant.
func (j *judge) unheardSince(t time.Duration) time.Duration {
	i := j.after(t) - 1
	if i < 0 || !slices.ContainsFunc(j.outages, func(o outage) bool { return o.lost && o.from < t && j.sign(i) < o.to }) {
		return t
	}
	return j.sign(i)
}

// told reports whether the judge at an instant learns what a device does with its connection: the
// device is not connected to a node that was stopped or cut off, and does not judge any more, or to
// an ear that is lost.
func (j *judge) told(t time.Duration) bool {
	if len(j.history.Ears) > 0 {
		i := j.after(t) - 1
		return !slices.ContainsFunc(j.lapses, func(l Lapse) bool { return l.lost() && j.with(&l, i, t) })
	}
	process, _ := j.history.process(t)
	if process < 0 || j.history.Breaks[process].Node == "" {
		return true
	}
	i := j.after(t) - 1
	for i > 0 && j.device.Signs[i].Granted == 0 {
		i--
	}
	return i >= 0 && j.sign(i) >= j.history.Breaks[process].Ending
}

// since returns the instant from which silence counts: that of the last sign of life, because
// outages after it put the verdict off. The end of a connection is heard by the server, and counts
// from itself.
func (j *judge) since(a *absence) time.Duration {
	if i := j.after(a.from) - 1; i >= 0 && (a.action == plan.Silent || !j.told(a.from)) {
		return min(a.from, j.heardBy(i))
	}
	return a.from
}

// silent returns when a device that falls silent must be offline at the latest. A greeting that was not welcomed was perhaps heard.
func (j *judge) silent(a *absence) time.Duration {
	due := j.policy.deadline(j.outages, j.since(a))
	for _, greeted := range j.device.Busy {
		if at := j.history.at(greeted); at < a.from {
			due = max(due, j.policy.deadline(j.outages, min(a.from, at+j.policy.Epsilon)))
		}
	}
	return due
}

// absence checks that the device was judged in time, and stayed offline.
func (j *judge) absence(a *absence) {
	due, bound := j.deadline(a), j.policy.bound(j.outages, j.since(a))
	seen := min(a.end, j.evidence.Until)
	if due >= seen {
		return
	}
	j.Due++
	if bound < seen {
		j.Bound++
	}
	online, late := false, time.Duration(0)
	var last *cloudevent.Event
	for i := range j.events {
		e := &j.events[i]
		if e.Type != typeOnline && e.Type != typeOffline {
			continue
		}
		t := j.history.when(e.Time)
		if t <= due {
			online, last = e.Type == typeOnline, e
			continue
		}
		if e.Type == typeOnline && t < a.end {
			j.violation(WrongState, e.Data.Offset, t, "online at %s, but it fell silent (%v) at %s until %s",
				clock(t), a.action, clock(a.from), clock(a.end))
			return
		}
		if online && late == 0 && e.Type == typeOffline && t < a.end {
			late = t
		}
	}
	if !online {
		return
	}
	told := "it never was"
	if late > 0 {
		told = "it was at " + clock(late)
	}
	kind := MissedOffline
	if bound < seen && (late == 0 || late > bound) {
		kind, due = Unjudged, bound
	}
	j.violation(kind, last.Data.Offset, due, "%v at %s, to be offline by %s, and %s", a.action, clock(a.from), clock(due), told)
}

// final checks the state in the end.
func (j *judge) final(away []absence) {
	if len(j.device.Signs) == 0 {
		return // the server does not know it
	}
	want := "online"
	if n := len(away); n > 0 && away[n-1].end == never {
		want = "offline"
		if j.deadline(&away[n-1]) > j.evidence.Until {
			return
		}
	}
	logged, seq := "unknown", uint64(0)
	for i := range j.events {
		e := &j.events[i]
		if e.Type == typeOnline || e.Type == typeOffline {
			logged = strings.TrimPrefix(e.Type, ofDevice)
		}
		seq = max(seq, e.Data.Seq)
	}
	shown, known := j.evidence.States[j.device.ID]
	if logged != want {
		j.violation(WrongState, 0, j.evidence.Until, "%s by its events, want %s", logged, want)
	}
	if shown.State != want {
		j.violation(WrongState, 0, j.evidence.Until, "%s (%s) by the API, want %s", cmp.Or(shown.State, "unknown"), shown.Reason, want)
	}
	if ttl := j.device.TTL; known && shown.Timeout != float64(ttl.Milliseconds()) {
		j.violation(WrongState, 0, j.evidence.Until, "has a timeout of %vms by the API, and announced one of %v", shown.Timeout, ttl)
	}
	if known {
		j.forgotten(0, j.evidence.Until, shown.LastSeen)
	}
	if shown.Seq != seq {
		j.violation(SequenceGap, 0, j.evidence.Until, "its latest event has number %d, the API says %d", seq, shown.Seq)
	}
}
