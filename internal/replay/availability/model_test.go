package availability_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/replay/availability"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// model is a device, looked at second by second.
type model struct {
	events  []liveness.Event // the oldest first, with the instants that count
	deaf    map[string][]bool
	present availability.Present
}

const seconds = 100

// newModel sets clocks right: no event is later than one after it, nor than the present.
func newModel(events []liveness.Event, breaks []judgement.Break, present availability.Present) *model {
	m := &model{events: slices.Clone(events), deaf: map[string][]bool{"a": make([]bool, seconds), "b": make([]bool, seconds)}, present: present}
	end := at(seconds)
	for i := len(m.events) - 1; i >= 0; i-- {
		if m.events[i].Time.After(end) {
			m.events[i].Time = end
		}
		end = m.events[i].Time
	}
	if m.present.Since.After(end) {
		m.present.Since = end
	}
	for _, b := range breaks {
		for s := range seconds {
			if b.Kind != judgement.BreakSpare && !at(s).Before(b.To.Add(-b.Length)) && at(s).Before(b.To) {
				m.deaf[b.Source][s] = true
			}
		}
	}
	return m
}

// look returns what a second counts as.
func (m *model) look(second int) (kind availability.Kind, failed bool) {
	states := map[liveness.Type]liveness.State{
		liveness.DeviceOnline: liveness.Online, liveness.DeviceLate: liveness.Late, liveness.DeviceOffline: liveness.Offline, liveness.DeviceSleeping: liveness.Sleeping,
		liveness.DeviceForgotten: liveness.NeverSeen,
	}
	state, reason, source, maintained := liveness.NeverSeen, liveness.NoReason, m.present.Source, m.present.Maintenance
	if len(m.events) > 0 {
		first := m.events[0]
		maintained = first.Type == liveness.DeviceMaintenanceStopped || first.Type != liveness.DeviceMaintenanceStarted && first.Maintenance
	}
	tells := func(e liveness.Event) bool { _, ok := states[e.Type]; return ok }
	if !slices.ContainsFunc(m.events, tells) && !m.present.Since.IsZero() && !at(second).Before(m.present.Since) {
		state, reason = m.present.State, m.present.Reason
	}
	for _, e := range m.events {
		if e.Time.After(at(second)) {
			break
		}
		source, maintained = e.Source, e.Maintenance
		if tells(e) {
			state, reason = states[e.Type], e.Reason
		}
	}
	failed = state == liveness.Offline && reason != liveness.Bye
	switch {
	case state == liveness.NeverSeen:
		return availability.Unknown, false
	case maintained:
		return availability.Maintenance, failed
	case m.deaf[source][second]:
		return availability.Deaf, failed
	case state == liveness.Online:
		return availability.Online, false
	case state == liveness.Late:
		return availability.Late, false
	case state == liveness.Sleeping:
		return availability.Sleeping, false
	case failed:
		return availability.Offline, true
	}
	return availability.Bye, false
}

// report adds up all seconds.
func (m *model) report() (r availability.Report) {
	var run time.Duration
	end := func() {
		if run > 0 {
			r.Outages++
		}
		r.Longest, run = max(r.Longest, run), 0
	}
	for s := range seconds {
		kind, failed := m.look(s)
		r.Times[kind] += time.Second
		if kind != availability.Unknown && r.Known.IsZero() {
			r.Known = at(s)
		}
		if !failed {
			end()
		} else if kind == availability.Offline {
			run += time.Second
		}
	}
	end()
	return r
}

// chance makes a device at random.
type chance struct{ *rand.Rand }

func (c chance) events() (events []liveness.Event) {
	now := -20 + c.IntN(40)
	for range c.IntN(12) {
		e := event(now, liveness.Type(c.IntN(int(liveness.DeviceForgotten)+1)))
		if now += c.IntN(25); c.IntN(10) == 0 {
			now -= c.IntN(40) // the clock was set back
		}
		if e.Type == liveness.DeviceOffline {
			e.Reason = liveness.Silence + liveness.Reason(c.IntN(3))
		}
		e.Source = []string{"a", "b"}[c.IntN(2)]
		e.Maintenance = c.IntN(4) == 0
		events = append(events, e)
	}
	return events
}

func (c chance) breaks() (breaks []judgement.Break) {
	for range c.IntN(8) {
		from := -10 + c.IntN(110)
		b := cut([]string{"a", "b"}[c.IntN(2)], from, from+c.IntN(20))
		b.Kind = judgement.BreakKind(c.IntN(4))
		breaks = append(breaks, b)
	}
	return breaks
}

func (c chance) present() availability.Present {
	p := availability.Present{State: liveness.Online, Source: "a", Maintenance: c.IntN(4) == 0}
	if c.IntN(2) == 0 {
		p.State, p.Reason = liveness.Offline, liveness.Silence
	}
	if c.IntN(3) > 0 {
		p.Since = at(-20 + c.IntN(130))
	}
	return p
}

// TestModel compares histories with one that looks at every second.
func TestModel(t *testing.T) {
	for seed := range uint64(20_000) {
		c := chance{rand.New(rand.NewPCG(seed, 1))}
		events, breaks, present := c.events(), c.breaks(), c.present()
		want := text(newModel(events, breaks, present).report())
		deaf := availability.DeafnessOf(breaks, nil, at(seconds))
		if got := figures(events, deaf, present); got != want {
			t.Fatalf("seed %d: the figures are\n%s\nand by the second\n%s\nof %+v\n%+v\n%+v", seed, got, want, events, breaks, present)
		}
		timelineAgrees(t, seed, events, deaf, present)
	}
}

// timelineAgrees compares the timeline of a history with its figures: what no list shortens adds up.
func timelineAgrees(t *testing.T, seed uint64, events []liveness.Event, deaf *availability.Deafness, present availability.Present) {
	t.Helper()
	h := availability.New(span(0, seconds), deaf, present)
	h.KeepTimeline(seconds)
	takeAll(h, events)
	r := h.Report()
	l := h.Timeline()
	known := time.Duration(0)
	for i, s := range l.States {
		known += s.Length()
		if s.Length() <= 0 || i > 0 && s.From.Before(l.States[i-1].To) {
			t.Fatalf("seed %d: %+v is not in order", seed, l.States)
		}
	}
	if want := r.Length() - r.Times[availability.Unknown]; known != want {
		t.Fatalf("seed %d: states of %v, want %v", seed, known, want)
	}
	sum := time.Duration(0)
	for _, d := range r.Times {
		sum += d
		if d < 0 {
			t.Fatalf("seed %d: %v", seed, r.Times)
		}
	}
	if sum != r.Length() {
		t.Fatalf("seed %d: the times add up to %v of %v", seed, sum, r.Length())
	}
	kept := time.Duration(0)
	for _, s := range l.Maintenance {
		kept += s.Length()
	}
	if kept != r.Times[availability.Maintenance] {
		t.Fatalf("seed %d: %v in maintenance, want %v", seed, kept, r.Times[availability.Maintenance])
	}
}
