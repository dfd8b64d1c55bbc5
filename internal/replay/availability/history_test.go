package availability_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/replay/availability"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// base is second 0 of the tests, and where their windows begin.
var base = time.Unix(1_700_000_000, 0)

func at(second int) time.Time { return base.Add(time.Duration(second) * time.Second) }

func span(from, to int) availability.Window { return availability.Window{From: at(from), To: at(to)} }

// event returns an event of a device that was heard at source a.
func event(second int, t liveness.Type) liveness.Event {
	return liveness.Event{Type: t, Time: at(second), Source: "a"}
}

func offline(second int, reason liveness.Reason) liveness.Event {
	e := event(second, liveness.DeviceOffline)
	e.Reason = reason
	return e
}

// inMaintenance returns an event of a device in maintenance.
func inMaintenance(e liveness.Event) liveness.Event {
	e.Maintenance = true
	return e
}

// cut returns a break of a source.
func cut(source string, from, to int) judgement.Break {
	return judgement.Break{Source: source, Kind: judgement.BreakCut, To: at(to), Length: at(to).Sub(at(from))}
}

// figures returns the history of events, the oldest first, in the seconds 0 to 100, as text.
func figures(events []liveness.Event, deaf *availability.Deafness, present availability.Present) string {
	h := availability.New(span(0, 100), deaf, present)
	takeAll(h, events)
	return text(h.Report())
}

// takeAll takes events, the oldest first, as far as they matter.
func takeAll(h *availability.History, events []liveness.Event) {
	for _, e := range slices.Backward(events) {
		if !h.Take(&e) {
			return
		}
	}
}

// text returns the figures of a report that are not zero, in seconds.
func text(r availability.Report) string {
	var parts []string
	add := func(name string, n int) {
		if n != 0 {
			parts = append(parts, fmt.Sprint(name, " ", n))
		}
	}
	for k, name := range []string{"online", "late", "sleeping", "offline", "bye", "deaf", "maintenance", "unknown"} {
		add(name, int(r.Times[k]/time.Second))
	}
	add("outages", r.Outages)
	add("longest", int(r.Longest/time.Second))
	if !r.Known.IsZero() {
		add("known from", int(r.Known.Sub(base)/time.Second))
	}
	return strings.Join(parts, ", ")
}

func TestHistory(t *testing.T) {
	type events = []liveness.Event
	stable := availability.Present{State: liveness.Online, Since: at(-500), Source: "a"}
	tests := []struct {
		name    string
		events  events
		breaks  []judgement.Break
		present availability.Present
		want    string
	}{
		{name: "nothing is known", want: "unknown 100"},
		{name: "online throughout", events: events{event(-7, liveness.DeviceOnline)}, want: "online 100"},
		{name: "events gone, state known", present: stable, want: "online 100"},
		{
			name: "events gone, state since", present: availability.Present{State: liveness.Offline, Reason: liveness.Silence, Since: at(40)},
			want: "offline 60, unknown 40, outages 1, longest 60, known from 40",
		},
		{
			name: "events gone but those that tell no state", present: stable,
			events: events{inMaintenance(event(30, liveness.DeviceMaintenanceStarted)), event(50, liveness.DeviceMaintenanceStopped)},
			want:   "online 80, maintenance 20",
		},
		{
			name: "the first event kept ends a maintenance", present: stable, events: events{event(30, liveness.DeviceMaintenanceStopped)},
			want: "online 70, maintenance 30",
		},
		{name: "young", events: events{event(25, liveness.DeviceOnline)}, present: stable, want: "online 75, unknown 25, known from 25"},
		{
			name:   "two outages",
			events: events{event(-5, liveness.DeviceOnline), event(5, liveness.DeviceLate), offline(10, liveness.Silence), event(20, liveness.DeviceOnline), offline(60, liveness.Closed), event(90, liveness.DeviceOnline)},
			want:   "online 55, late 5, offline 40, outages 2, longest 30",
		},
		{name: "an outage from before", events: events{offline(-50, liveness.Will), event(10, liveness.DeviceOnline)}, want: "online 90, offline 10, outages 1, longest 10"},
		{name: "an outage that is not over", events: events{event(-50, liveness.DeviceOnline), offline(70, liveness.Silence)}, want: "online 70, offline 30, outages 1, longest 30"},
		{
			name:   "said goodbye",
			events: events{event(-50, liveness.DeviceOnline), offline(70, liveness.Bye), event(80, liveness.DeviceOnline), event(90, liveness.DeviceSleeping)},
			want:   "online 80, sleeping 10, bye 10",
		},
		{
			name:   "events that tell no state",
			events: events{event(-50, liveness.DeviceOnline), event(10, liveness.DeviceFailed), event(20, liveness.DeviceFlappingStarted), event(30, liveness.DeviceChanged), event(40, liveness.DeviceSessionReplaced), event(50, liveness.DeviceFlappingStopped)},
			want:   "online 100",
		},
		{
			name: "deaf counts neither for nor against", events: events{event(-50, liveness.DeviceOnline), offline(50, liveness.Silence)},
			breaks: []judgement.Break{cut("a", -10, 10), cut("a", 40, 60), cut("a", 55, 62), cut("a", 95, 120), cut("b", 0, 100)},
			want:   "online 30, offline 33, deaf 37, outages 1, longest 33",
		},
		{
			name: "a spare is not deaf", events: events{event(-50, liveness.DeviceOnline)},
			breaks: []judgement.Break{{Source: "a", Kind: judgement.BreakSpare, To: at(50), Length: 10 * time.Second}}, want: "online 100",
		},
		{
			name: "an outage nobody could hear", events: events{event(-50, liveness.DeviceOnline), offline(50, liveness.Reported), event(60, liveness.DeviceOnline)},
			breaks: []judgement.Break{cut("a", 45, 65)}, want: "online 80, deaf 20",
		},
		{
			name:   "moved to another source",
			events: events{event(-50, liveness.DeviceOnline), {Type: liveness.DeviceChanged, Time: at(50), Source: "b"}},
			breaks: []judgement.Break{cut("a", 0, 100)}, want: "online 50, deaf 50",
		},
		{
			name: "maintenance",
			events: events{
				event(-50, liveness.DeviceOnline), inMaintenance(event(10, liveness.DeviceMaintenanceStarted)), inMaintenance(offline(20, liveness.Silence)),
				inMaintenance(event(30, liveness.DeviceMaintenanceStopped)), // the window still covers it
				event(40, liveness.DeviceMaintenanceStopped), event(50, liveness.DeviceOnline),
			},
			breaks: []judgement.Break{cut("a", 35, 45)}, want: "online 60, offline 5, deaf 5, maintenance 30, outages 1, longest 5",
		},
		{
			name:   "forgotten and back",
			events: events{event(-50, liveness.DeviceOnline), event(20, liveness.DeviceForgotten), event(70, liveness.DeviceOnline)},
			want:   "online 50, unknown 50",
		},
		{name: "forgotten before", events: events{event(-50, liveness.DeviceOnline), event(-20, liveness.DeviceForgotten), event(70, liveness.DeviceOnline)}, want: "online 30, unknown 70, known from 70"},
		{
			name:   "the clock was ahead, and was set back",
			events: events{event(-50, liveness.DeviceOnline), offline(90, liveness.Silence), event(40, liveness.DeviceOnline)},
			want:   "online 100",
		},
		{name: "an event after the window", events: events{event(-50, liveness.DeviceOnline), offline(150, liveness.Silence)}, want: "online 100"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := figures(tt.events, availability.DeafnessOf(tt.breaks, nil, at(100)), tt.present)
			if got != tt.want {
				t.Errorf("the figures are %s, want %s", got, tt.want)
			}
		})
	}
}

// TestSourcesOwnMemory takes deaf times from what sources remember themselves, as far as they are not recorded.
func TestSourcesOwnMemory(t *testing.T) {
	deaf := availability.DeafnessOf([]judgement.Break{cut("a", 10, 20)}, []liveness.SourceView{{
		Name: "a", DeafSince: at(90), Deaf: []judgement.DeafInterval{{From: at(10), To: at(20)}, {From: at(20), To: at(25)}, {From: at(50), To: at(40)}},
	}}, at(100))
	got := figures([]liveness.Event{event(-1, liveness.DeviceOnline)}, deaf, availability.Present{})
	if want := "online 75, deaf 25"; got != want {
		t.Errorf("the figures are %s, want %s", got, want)
	}
}

func TestPresentOf(t *testing.T) {
	tests := []struct {
		state, want liveness.State
		known       bool
	}{
		{liveness.Online, liveness.Online, true},
		{liveness.Late, liveness.Late, true},
		{liveness.Sleeping, liveness.Sleeping, true},
		{liveness.Offline, liveness.Offline, true},
		{liveness.Unknown, liveness.Online, true},
		{liveness.Suspect, liveness.Online, true},
		{liveness.Pending, liveness.Pending, false},
		{liveness.NeverSeen, liveness.NeverSeen, false},
	}
	for _, tt := range tests {
		t.Run(tt.state.String(), func(t *testing.T) {
			got := availability.PresentOf(&liveness.View{State: tt.state, Since: base})
			if got.State != tt.want || got.Since.IsZero() == tt.known {
				t.Errorf("PresentOf(%v) = %+v, want %v, known %v", tt.state, got, tt.want, tt.known)
			}
		})
	}
}

func TestTotal(t *testing.T) {
	var total availability.Total
	if _, ok := total.Share(); ok {
		t.Error("nothing has a share")
	}
	if _, ok := total.BetweenFailures(); ok {
		t.Error("there is a time between no failures")
	}
	year := 365 * 24 * time.Hour
	f := availability.Figures{Outages: 2, Longest: time.Hour}
	f.Times[availability.Online], f.Times[availability.Offline] = year-time.Hour, time.Hour
	for range 10_000 { // more time than a duration holds
		total.Add(&f)
	}
	share, ok := total.Share()
	if want := 1 - 1/(365*24.); !ok || share < want-1e-12 || share > want+1e-12 {
		t.Errorf("Share() = %v, %v, want %v", share, ok, want)
	}
	if between, _ := total.BetweenFailures(); between != float64((year-time.Hour).Milliseconds())/2 {
		t.Errorf("BetweenFailures() = %v", between)
	}
	if back, _ := total.ToRecover(); back != 1_800_000 || total.Longest != time.Hour || total.Devices != 10_000 || total.Outages != 20_000 {
		t.Errorf("%+v, %v to recover", total, back)
	}
}

func TestTimeline(t *testing.T) {
	events := []liveness.Event{
		event(-5, liveness.DeviceOnline), offline(10, liveness.Silence), event(20, liveness.DeviceOnline), event(25, liveness.DeviceChanged),
		inMaintenance(event(30, liveness.DeviceMaintenanceStarted)), event(40, liveness.DeviceMaintenanceStopped), offline(60, liveness.Bye), event(90, liveness.DeviceOnline),
	}
	deaf := availability.DeafnessOf([]judgement.Break{cut("a", -5, 5), cut("a", 22, 27), cut("a", 80, 95)}, nil, at(100))
	tests := []struct {
		limit int
		want  string
	}{
		{10, "[0 10 online][10 20 offline silence][20 60 online][60 90 offline bye][90 100 online] deaf [0 5][22 27][80 95] maintenance [30 40] whole from 0"},
		{4, "[10 20 offline silence][20 60 online][60 90 offline bye][90 100 online] deaf [22 27][80 95] maintenance [30 40] whole from 10"},
		{2, "[60 90 offline bye][90 100 online] deaf [80 95] maintenance whole from 60"},
		{1, "[90 100 online] deaf [90 95] maintenance whole from 90"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint("limit ", tt.limit), func(t *testing.T) {
			h := availability.New(span(0, 100), deaf, availability.Present{})
			h.KeepTimeline(tt.limit)
			takeAll(h, events)
			h.Report()
			if got := lines(h.Timeline()); got != tt.want {
				t.Errorf("limit %d:\n%s\nwant\n%s", tt.limit, got, tt.want)
			}
		})
	}
}

// lines returns a timeline as text.
func lines(l availability.Timeline) string {
	var b strings.Builder
	second := func(at time.Time) int { return int(at.Sub(base) / time.Second) }
	for _, i := range l.States {
		fmt.Fprintf(&b, "[%s]", strings.TrimSpace(fmt.Sprint(second(i.From), " ", second(i.To), " ", i.State, " ", i.Reason)))
	}
	spans := func(name string, all []availability.Window) {
		b.WriteString(" " + name + " ")
		for _, s := range all {
			fmt.Fprintf(&b, "[%d %d]", second(s.From), second(s.To))
		}
	}
	spans("deaf", l.Deaf)
	spans("maintenance", l.Maintenance)
	fmt.Fprintf(&b, " whole from %d", second(l.Whole))
	return strings.ReplaceAll(b.String(), "  ", " ")
}
