package availability

import (
	"slices"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// Interval is a span of time in which a device had one state.
type Interval struct {
	Window

	State  liveness.State  // Online, Late, Sleeping or Offline
	Reason liveness.Reason // of an offline device
}

// Timeline says what a device was, and when. The intervals of each list are in order, and none touches an
// equal one.
type Timeline struct {
	// States has the states as they were recorded, also those in maintenance or while the source was deaf.
	// What is in none of them is not known.
	States []Interval
	// Deaf is when the source was deaf that heard the device last.
	Deaf []Window
	// Maintenance is when the device was in maintenance.
	Maintenance []Window
	// Whole is the instant from which on the lists are whole: the begin of the window, unless that would
	// have been too many intervals.
	Whole time.Time
}

// timeline collects a Timeline from its end.
type timeline struct {
	Timeline

	limit int
	cut   bool
}

// KeepTimeline makes the history keep the latest intervals, up to limit in each list, which is at least 1. Call
// it before anything is taken.
func (h *History) KeepTimeline(limit int) { h.timeline = &timeline{limit: limit} }

// Timeline returns the intervals of a history that keeps them. Call it once, after Report.
func (h *History) Timeline() Timeline {
	t := h.timeline
	t.Whole = later(t.Whole, h.window.From)
	slices.Reverse(t.States)
	slices.Reverse(t.Deaf)
	slices.Reverse(t.Maintenance)
	whole := Window{t.Whole, h.window.To}
	t.States = slices.DeleteFunc(t.States, func(i Interval) bool { return !i.To.After(t.Whole) })
	if len(t.States) > 0 {
		t.States[0].Window = clip(t.States[0].Window, whole)
	}
	t.Deaf, t.Maintenance = clipAll(t.Deaf, whole), clipAll(t.Maintenance, whole)
	return t.Timeline
}

// clipAll clips spans that are in order.
func clipAll(spans []Window, w Window) []Window {
	spans = slices.DeleteFunc(spans, func(s Window) bool { return !s.To.After(w.From) })
	if len(spans) > 0 {
		spans[0] = clip(spans[0], w)
	}
	return spans
}

// add adds a part, which is before those so far.
func (t *timeline) add(p *part, state liveness.State, reason liveness.Reason, deaf *Deafness) {
	if t == nil || t.cut {
		return
	}
	t.addState(Interval{p.Window, state, reason})
	if p.maintenance {
		t.addSpan(&t.Maintenance, p.Window)
	}
	deaf.backwards(p.source, p.Window, func(w Window) bool { return t.addSpan(&t.Deaf, w) })
}

func (t *timeline) addState(i Interval) {
	n := len(t.States)
	switch {
	case n > 0 && t.States[n-1].State == i.State && t.States[n-1].Reason == i.Reason && t.States[n-1].From.Equal(i.To):
		t.States[n-1].From = i.From
	case n == t.limit:
		t.end(i.To)
	default:
		t.States = append(t.States, i)
	}
}

// addSpan adds a span to a list, and reports whether it has room.
func (t *timeline) addSpan(list *[]Window, w Window) bool {
	n := len(*list)
	switch {
	case n > 0 && (*list)[n-1].From.Equal(w.To):
		(*list)[n-1].From = w.From
	case n == t.limit:
		t.end(w.To)
		return false
	default:
		*list = append(*list, w)
	}
	return true
}

// end ends the lists at an instant.
func (t *timeline) end(at time.Time) {
	t.cut = true
	t.Whole = later(t.Whole, at)
}
