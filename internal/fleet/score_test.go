package fleet_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/fleet"
)

const timeout = 10 * time.Second

// at is an instant of the tables: seconds after an arbitrary one. The device
// connects at 0.
func at(seconds float64) time.Time {
	return time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

// device has sent its last heartbeat at 300, or at last, and done steps.
func device(last float64, steps ...fleet.Step) fleet.Device {
	state := fleet.ConnOpen
	for _, s := range steps {
		switch s.Action {
		case fleet.Close, fleet.Reset, fleet.Bye:
			state = fleet.ConnClosed
		case fleet.Dropped:
			state = fleet.ConnLost
		case fleet.Silent, fleet.Last:
		case fleet.Reconnect, fleet.Duplicate:
			state = fleet.ConnOpen
		}
	}
	return fleet.Device{
		ID: "d", State: state, TTL: timeout, ConnectedAt: at(0), LastHeartbeat: at(last), Steps: steps,
	}
}

// step was done a second after a heartbeat.
func step(a fleet.Action, when float64) fleet.Step {
	s := fleet.Step{Action: a, At: at(when), LastHeartbeat: at(when - 1)}
	if a == fleet.Reconnect || a == fleet.Duplicate {
		s.Hello, s.Answered = at(when), at(when)
	}
	return s
}

func failed(s fleet.Step) fleet.Step {
	s.Err, s.Hello, s.Answered = "no", time.Time{}, time.Time{}
	return s
}

// on and off are events of device d; events numbers them.
func on(when float64) fleet.Event { return fleet.Event{Type: fleet.TypeOnline, Time: at(when)} }

func off(reason string, when float64) fleet.Event {
	return fleet.Event{Type: fleet.TypeOffline, Reason: reason, Time: at(when)}
}

func events(list ...fleet.Event) []fleet.Event {
	for i := range list {
		list[i].Device, list[i].Seq = "d", uint64(i+1)
		list[i].ID = "d:" + strconv.Itoa(i+1)
	}
	return list
}

func edit(list []fleet.Event, i int, change func(*fleet.Event)) []fleet.Event {
	change(&list[i])
	return list
}

type scoreCase struct {
	name   string
	device fleet.Device
	events []fleet.Event
	opts   fleet.Options
	due    int
	faults []fleet.FaultKind // in order of kind
}

func TestScore(t *testing.T) {
	for _, cases := range [][]scoreCase{verdictCases(), returnCases(), sequenceCases(), dataCases(), clientCases()} {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				c.opts.CloseGrace = 2 * time.Second
				r := fleet.Score([]fleet.Device{c.device}, c.events, c.opts)
				var kinds []fleet.FaultKind
				for _, f := range r.Faults {
					kinds = append(kinds, f.Kind)
				}
				if !slices.Equal(kinds, c.faults) || r.Due != c.due {
					t.Errorf("Score: due %d, faults %q; want %d, %q\n%v", r.Due, kinds, c.due, c.faults, &r)
				}
			})
		}
	}
}

type kinds = []fleet.FaultKind

func verdictCases() []scoreCase {
	silent, closed := device(49, step(fleet.Silent, 50)), device(49, step(fleet.Close, 50))
	reset, bye := device(49, step(fleet.Reset, 50)), device(49, step(fleet.Bye, 50))
	return []scoreCase{
		{"well", device(300), events(on(0)), fleet.Options{}, 0, nil},
		{"silence", silent, events(on(0), off("silence", 59)), fleet.Options{}, 1, nil},
		{"closed", closed, events(on(0), off("closed", 52)), fleet.Options{}, 1, nil},
		{"reset", reset, events(on(0), off("closed", 52.5)), fleet.Options{}, 1, nil},
		{"bye", bye, events(on(0), off("bye", 50)), fleet.Options{}, 1, nil},
		{"never told", device(300), events(on(0), off("silence", 100), on(101)), fleet.Options{}, 0, kinds{fleet.FaultFalse}},
		{"before it was told", silent, events(on(0), off("silence", 40), on(41), off("silence", 59)), fleet.Options{}, 1, kinds{fleet.FaultFalse}},
		{"1 ns early", silent, events(on(0), off("silence", 59-1e-9)), fleet.Options{}, 1, kinds{fleet.FaultFalse}},
		{"1 ns early within slack", silent, events(on(0), off("silence", 59-1e-9)), fleet.Options{Slack: 2}, 1, nil},
		{"closed without grace", closed, events(on(0), off("closed", 50)), fleet.Options{}, 1, kinds{fleet.FaultFalse}},
		{"missed silence", silent, events(on(0)), fleet.Options{}, 1, kinds{fleet.FaultMissed}},
		{"missed closed", closed, events(on(0)), fleet.Options{}, 1, kinds{fleet.FaultMissed}},
		{"missed bye", bye, events(on(0)), fleet.Options{}, 1, kinds{fleet.FaultMissed}},
		{"not due yet", silent, events(on(0)), fleet.Options{Until: at(60.9)}, 0, nil},
		{"due by now", silent, events(on(0)), fleet.Options{Until: at(61)}, 1, kinds{fleet.FaultMissed}},
		{"late is no fault", silent, events(on(0), off("silence", 99)), fleet.Options{}, 1, nil},
		{"silence called closed", silent, events(on(0), off("closed", 59)), fleet.Options{}, 1, kinds{fleet.FaultReason}},
		{"closed called silence", closed, events(on(0), off("silence", 59)), fleet.Options{}, 1, kinds{fleet.FaultReason}},
		{"bye called closed", bye, events(on(0), off("closed", 52)), fleet.Options{}, 1, kinds{fleet.FaultReason}},
		{"bye called silence", bye, events(on(0), off("silence", 59)), fleet.Options{}, 1, kinds{fleet.FaultReason}},
		{"unheard-of reason", silent, events(on(0), off("will", 59)), fleet.Options{}, 1, kinds{fleet.FaultReason}},
		{"longer timeout", silent, events(on(0), off("silence", 79)), fleet.Options{Timeout: 30 * time.Second}, 1, nil},
		{"offline twice", silent, events(on(0), off("silence", 59), off("silence", 60)), fleet.Options{}, 1, kinds{fleet.FaultTwice}},
		{"silent, then closed before the timeout", device(49, step(fleet.Silent, 50), step(fleet.Close, 55)), events(on(0), off("closed", 57)), fleet.Options{}, 1, nil},
		{"silent, then closed after the verdict", device(49, step(fleet.Silent, 50), step(fleet.Close, 90)), events(on(0), off("silence", 59)), fleet.Options{}, 1, nil},
		{"silence and close fall together", device(49, step(fleet.Silent, 50), step(fleet.Close, 57.5)), events(on(0), off("closed", 59.5)), fleet.Options{}, 1, nil},
		{"silence just after the close was due", device(49, step(fleet.Silent, 50), step(fleet.Close, 56)), events(on(0), off("silence", 59)), fleet.Options{}, 1, nil},
		{"an order that failed", device(300, failed(step(fleet.Close, 50))), events(on(0)), fleet.Options{}, 0, nil},
	}
}

func returnCases() []scoreCase {
	back := device(300, step(fleet.Silent, 50), step(fleet.Reconnect, 100))
	quick := device(300, step(fleet.Reset, 50), step(fleet.Reconnect, 51))
	edge := device(300, step(fleet.Silent, 50), step(fleet.Reconnect, 60))
	again := device(149, step(fleet.Silent, 50), step(fleet.Reconnect, 60), step(fleet.Silent, 61))
	twice := device(300, step(fleet.Silent, 50), step(fleet.Reconnect, 100), step(fleet.Close, 150), step(fleet.Reconnect, 200))
	drop := device(49, step(fleet.Dropped, 50))
	return []scoreCase{
		{"came back", back, events(on(0), off("silence", 59), on(100)), fleet.Options{}, 1, nil},
		{"came back, not online", back, events(on(0), off("silence", 59)), fleet.Options{}, 1, kinds{fleet.FaultOnline}},
		{"came back a moment ago", device2(back), events(on(0), off("silence", 59)), fleet.Options{Until: at(101)}, 1, nil},
		{"missed, and came back", back, events(on(0)), fleet.Options{}, 1, kinds{fleet.FaultMissed}},
		{"came back within grace", quick, events(on(0)), fleet.Options{}, 0, nil},
		{"grace ignored", quick, events(on(0), off("closed", 50.5), on(51)), fleet.Options{}, 0, kinds{fleet.FaultFalse}},
		{"verdict long after the return", edge, events(on(0), off("silence", 64), on(65)), fleet.Options{}, 0, kinds{fleet.FaultFalse}},
		{"verdict from the future", device(300), events(on(0), off("silence", 3900), on(3901)), fleet.Options{Until: at(301)}, 0, kinds{fleet.FaultFalse}},
		{"verdict while the events are read", device(289, step(fleet.Silent, 290)), events(on(0), off("silence", 301.5)), fleet.Options{Until: at(301)}, 1, nil},
		{"old session's end", quick, events(on(0), off("closed", 52), on(53)), fleet.Options{}, 0, kinds{fleet.FaultFalse}},
		{"verdict at the return", edge, events(on(0), off("silence", 59.5), on(60)), fleet.Options{}, 0, nil},
		{"verdict overtaken by the return", edge, events(on(0), off("silence", 60.1), on(60.2)), fleet.Options{}, 0, nil},
		{"no verdict at the return", edge, events(on(0)), fleet.Options{}, 0, nil},
		{"late verdict on the first of two", again, events(on(0), off("silence", 61.5), on(61.6), off("silence", 70)), fleet.Options{}, 1, nil},
		{"two absences", twice, events(on(0), off("silence", 59), on(100), off("closed", 152), on(200)), fleet.Options{}, 2, nil},
		{"two absences, no online between", twice, events(on(0), off("silence", 59), off("closed", 152), on(200)), fleet.Options{}, 2, kinds{fleet.FaultOnline}},
		{"duplicate", device(300, step(fleet.Duplicate, 50)), events(on(0)), fleet.Options{}, 0, nil},
		{"duplicate takes the device offline", device(300, step(fleet.Duplicate, 50)), events(on(0), off("closed", 52), on(53)), fleet.Options{}, 0, kinds{fleet.FaultFalse}},
		{"reconnect refused", device(49, step(fleet.Reset, 50), failed(step(fleet.Reconnect, 51))), events(on(0), off("closed", 52)), fleet.Options{}, 1, nil},
		{"bye needs a verdict at once", device(300, step(fleet.Bye, 50), step(fleet.Reconnect, 50.1)), events(on(0)), fleet.Options{}, 1, kinds{fleet.FaultMissed}},
		{"dropped", drop, events(on(0)), fleet.Options{}, 0, kinds{fleet.FaultDropped}},
		{"dropped and offline", drop, events(on(0), off("closed", 52)), fleet.Options{}, 0, kinds{fleet.FaultDropped, fleet.FaultFalse}},
		{"drop allowed, closed", drop, events(on(0), off("closed", 52)), fleet.Options{AllowDrops: true}, 1, nil},
		{"drop allowed, silence", drop, events(on(0), off("silence", 59)), fleet.Options{AllowDrops: true}, 1, nil},
	}
}

// device2 moves the instant of the last OK to 100.
func device2(d fleet.Device) fleet.Device {
	d.ConnectedAt = at(100)
	return d
}

func sequenceCases() []scoreCase {
	d := device(300)
	other := func(list ...fleet.Event) []fleet.Event {
		for i := range list {
			list[i].Type = "late"
		}
		list[0].Type = fleet.TypeOnline
		return events(list...)
	}
	four := other(on(0), on(1), on(2), on(3))
	three := four[:3]
	return []scoreCase{
		{"other types", d, three, fleet.Options{}, 0, nil},
		{"gap", d, slices.Delete(slices.Clone(three), 1, 2), fleet.Options{}, 0, kinds{fleet.FaultSeq}},
		{"begins with 2", d, slices.Clone(three)[1:], fleet.Options{}, 0, kinds{fleet.FaultSeq, fleet.FaultOnline}},
		{"swapped", d, []fleet.Event{three[0], three[2], three[1]}, fleet.Options{}, 0, kinds{fleet.FaultOrder}},
		{"swapped, and on", d, []fleet.Event{four[0], four[2], four[1], four[3]}, fleet.Options{}, 0, kinds{fleet.FaultOrder}},
		{"again", d, []fleet.Event{three[0], three[1], three[1], three[2]}, fleet.Options{}, 0, kinds{fleet.FaultTwice}},
		{"no event at all", d, nil, fleet.Options{}, 0, kinds{fleet.FaultOnline}},
		{"never connected", fleet.Device{ID: "d", State: fleet.ConnRefused}, nil, fleet.Options{}, 0, nil},
		{"stranger", d, append(events(on(0)), fleet.Event{Device: "x", Seq: 1, ID: "x:1"}), fleet.Options{}, 0, kinds{fleet.FaultStranger}},
		{"event of no device", d, append(events(on(0)), fleet.Event{Type: "source.deaf"}), fleet.Options{}, 0, nil},
		{"epoch goes back", d, edit(edit(events(on(0), on(1)), 0, func(e *fleet.Event) { e.Epoch = 2 }), 1, func(e *fleet.Event) { e.Epoch = 1 }), fleet.Options{}, 0, kinds{fleet.FaultOrder}},
		{"wrong id", d, edit(events(on(0)), 0, func(e *fleet.Event) { e.ID = "d-1" }), fleet.Options{}, 0, kinds{fleet.FaultData}},
	}
}

func dataCases() []scoreCase {
	d := device(49, step(fleet.Silent, 50))
	full := func(change func(*fleet.Event)) []fleet.Event {
		return edit(events(on(0), off("silence", 59.2)), 1, func(e *fleet.Event) {
			e.LastSeen, e.Deadline, e.DecidedAt = at(49), at(59), at(59.1)
			e.Timeout, e.HeardSilence = timeout, timeout
			change(e)
		})
	}
	bad := kinds{fleet.FaultData}
	return []scoreCase{
		{"all data", d, full(func(*fleet.Event) {}), fleet.Options{}, 1, nil},
		{"other timeout", d, full(func(e *fleet.Event) { e.Timeout = time.Second }), fleet.Options{}, 1, bad},
		{"less silence", d, full(func(e *fleet.Event) { e.HeardSilence = timeout - time.Millisecond }), fleet.Options{}, 1, bad},
		{"more silence than there was", d, full(func(e *fleet.Event) { e.HeardSilence = 10202 * time.Millisecond }), fleet.Options{}, 1, bad},
		{"decided early", d, full(func(e *fleet.Event) { e.DecidedAt = at(58.9) }), fleet.Options{}, 1, bad},
		{"heartbeat not seen", d, full(func(e *fleet.Event) { e.LastSeen = at(48.9) }), fleet.Options{}, 1, bad},
	}
}

func clientCases() []scoreCase {
	gap := device(300)
	gap.LongestGap = fleet.Gap{From: at(100), To: at(111)}
	short := device(300)
	short.LongestGap = fleet.Gap{From: at(100), To: at(109.5)}
	stalled := kinds{fleet.FaultStalled}
	return []scoreCase{
		{"client late", gap, events(on(0), off("silence", 110.5), on(111)), fleet.Options{}, 0, stalled},
		{"client late, but less", gap, events(on(0), off("silence", 109), on(111)), fleet.Options{}, 0, kinds{fleet.FaultFalse}},
		{"client late, but long ago", gap, events(on(0), off("silence", 113.5), on(114)), fleet.Options{}, 0, kinds{fleet.FaultFalse}},
		{"client late, but in time", short, events(on(0), off("silence", 110.5), on(111)), fleet.Options{}, 0, kinds{fleet.FaultFalse}},
		{"client late, other reason", gap, events(on(0), off("closed", 110.5), on(111)), fleet.Options{}, 0, kinds{fleet.FaultFalse}},
		{"client ended", device(300), events(on(0), off("silence", 310)), fleet.Options{}, 0, stalled},
		{"before the client ended", device(300), events(on(0), off("silence", 309)), fleet.Options{}, 0, kinds{fleet.FaultFalse, fleet.FaultOnline}},
	}
}

func TestReport(t *testing.T) {
	var truth []fleet.Device
	var feed []fleet.Event
	for i := range 12 {
		d := device(49, step(fleet.Silent, 50))
		d.ID = "d" + strconv.Itoa(10+i)
		truth = append(truth, d)
		feed = append(feed, fleet.Event{ID: d.ID + ":1", Type: fleet.TypeOnline, Device: d.ID, Seq: 1, Time: at(0)})
	}
	feed = append(feed, fleet.Event{
		ID: "d10:2", Type: fleet.TypeOffline, Device: "d10", Seq: 2, Reason: "silence", Time: at(59.25),
	})
	r := fleet.Score(truth, feed, fleet.Options{})
	if r.Clean() || r.Count(fleet.FaultMissed) != 11 || r.Judged != 1 || r.Due != 12 {
		t.Errorf("Score = %+v", r)
	}
	text := r.String()
	for _, want := range []string{"12 devices, 13 events, 12 offlines due, 1 judged right", "missed offline: 11", "d20 seq 0: no offline (silence), due at 03:00:59.000000", "lag of silence: n=1 p50=250ms"} {
		if !strings.Contains(text, want) {
			t.Errorf("String() has no %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "d21") {
		t.Errorf("String() shows more than ten faults of a kind:\n%s", text)
	}
}

func TestPercentile(t *testing.T) {
	lags := fleet.Lags{1, 2, 3, 4}
	for _, c := range []struct {
		lags fleet.Lags
		p    float64
		want time.Duration
	}{
		{nil, 50, 0},
		{lags, 0, 1},
		{lags, 25, 1},
		{lags, 26, 2},
		{lags, 50, 2},
		{lags, 99, 4},
		{lags, 100, 4},
		{lags, 150, 4},
	} {
		if got := c.lags.Percentile(c.p); got != c.want {
			t.Errorf("Percentile(%v) of %v = %v, want %v", c.p, c.lags, got, c.want)
		}
	}
}
