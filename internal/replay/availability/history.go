package availability

import (
	"time"

	"github.com/holter-iot/holter/liveness"
)

// Present is the state that a device has now. It stands in for events that are no longer kept: those of
// a device whose state has not changed for long.
type Present struct {
	State       liveness.State
	Reason      liveness.Reason
	Since       time.Time // when the state changed last; zero: nothing is known
	Source      string
	Maintenance bool
}

// PresentOf returns the present of a device. One that is unknown or suspect now was online before, as far
// as is known; of one whose state waits to be stored nothing is known.
func PresentOf(v *liveness.View) Present {
	p := Present{State: v.State, Reason: v.Reason, Since: v.Since, Source: v.Source, Maintenance: v.Maintenance}
	switch v.State {
	case liveness.Unknown, liveness.Suspect:
		p.State = liveness.Online
	case liveness.NeverSeen, liveness.Pending:
		p.Since = time.Time{}
	case liveness.Online, liveness.Late, liveness.Sleeping, liveness.Offline:
	}
	return p
}

// Report is what is known of a device in a window.
type Report struct {
	Window
	Figures

	// Known is the first instant of the window at which the device's state is known. It is zero if there
	// is none.
	Known time.Time
}

// History works out what a device was in a window, from its events.
type History struct {
	window   Window
	deaf     *Deafness
	present  Present
	timeline *timeline // nil if it is not asked for

	end    time.Time // what is to come is before it
	open   []part    // the earliest parts so far, whose state is not known yet, the latest first
	stated bool      // an event told a state
	done   bool      // the state at the begin of the window is known
	before bool      // the device was in maintenance before the events so far, as far as they tell

	report Report
	run    time.Duration // of the outage that the parts so far begin with: what counts as offline
}

// part is a part of the window in which no event happened that matters.
type part struct {
	Window

	source      string
	maintenance bool
}

// New returns the history of a device before any event is taken. The window must not be negative, nor
// end after the present.
func New(w Window, deaf *Deafness, present Present) *History {
	w = Window{w.From.Round(0), w.To.Round(0)}
	return &History{window: w, deaf: deaf, present: present, end: w.To, before: present.Maintenance, report: Report{Window: w}}
}

// Take takes an event of the device, each by Seq before the one that was taken last, and the latest first.
// It needs Type, Reason, Time, Source and Maintenance of it, and keeps nothing. It reports whether earlier
// events matter.
//
// Wall clocks are set: an event that says it is later than one after it counts as being of the same instant.
func (h *History) Take(e *liveness.Event) (more bool) {
	if h.done || !e.Type.OfDevice() {
		return !h.done
	}
	begin := earlier(e.Time.Round(0), h.end)
	h.add(part{Window{later(begin, h.window.From), h.end}, e.Source, e.Maintenance})
	h.before = e.Maintenance
	switch e.Type {
	case liveness.DeviceMaintenanceStarted:
		h.before = false
	case liveness.DeviceMaintenanceStopped:
		h.before = true
	default:
	}
	if state, ok := e.Type.StateAfter(); ok {
		h.settle(state, e.Reason)
		h.done = !begin.After(h.window.From)
	}
	return !h.done
}

// add adds the part before those so far.
func (h *History) add(p part) {
	h.end = p.From
	if !p.From.Before(p.To) {
		return
	}
	if n := len(h.open); n > 0 && h.open[n-1].source == p.source && h.open[n-1].maintenance == p.maintenance {
		h.open[n-1].From = p.From
		return
	}
	h.open = append(h.open, p)
}

// settle tells the state of the open parts.
func (h *History) settle(state liveness.State, reason liveness.Reason) {
	for i := range h.open {
		h.count(&h.open[i], state, reason)
	}
	h.open = h.open[:0]
	h.stated = true
}

// count counts a part, which is before those that were counted.
func (h *History) count(p *part, state liveness.State, reason liveness.Reason) {
	kind, length := kindOf(state, reason), p.Length()
	if kind == Unknown {
		h.endOutage()
		h.report.Times[Unknown] += length
		return
	}
	h.report.Known = p.From
	h.timeline.add(p, state, reason, h.deaf)
	if kind != Offline {
		h.endOutage()
	}
	if p.maintenance {
		h.report.Times[Maintenance] += length
		return
	}
	deaf := h.deaf.within(p.source, p.Window)
	h.report.Times[Deaf] += deaf
	h.report.Times[kind] += length - deaf
	if kind == Offline {
		h.run += length - deaf
	}
}

// endOutage ends the outage that the parts so far begin with, if there is one.
func (h *History) endOutage() {
	if h.run > 0 {
		h.report.Outages++
		h.report.Longest = max(h.report.Longest, h.run)
		h.run = 0
	}
}

// Report returns what is known once all events were taken that Take asked for, or all there are. Nothing
// may be taken after it.
func (h *History) Report() Report {
	if !h.done && !h.stated && !h.present.Since.IsZero() {
		begin := later(earlier(h.present.Since.Round(0), h.end), h.window.From)
		h.add(part{Window{begin, h.end}, h.present.Source, h.before})
		h.settle(h.present.State, h.present.Reason)
	}
	h.settle(liveness.NeverSeen, liveness.NoReason)
	h.endOutage()
	if !h.done {
		h.report.Times[Unknown] += h.end.Sub(h.window.From)
	}
	h.done, h.end = true, h.window.From
	return h.report
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
