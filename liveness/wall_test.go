package liveness_test

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/liveness"
)

// verdicts passes on offline verdicts.
type verdicts chan liveness.Event

func (v verdicts) Append(_ context.Context, events []liveness.Event) error {
	for i := range events {
		if events[i].Type == liveness.DeviceOffline {
			v <- events[i]
		}
	}
	return nil
}

// A device is heard at 4 and has a timeout of 10: its verdict has the same instants whatever the
// wall clock shows in between. A torn reading of the two clocks does not count as the time of day,
// and a clock that is set keeps the order of events.
func TestToldInstants(t *testing.T) {
	const hour = 3600 * unit
	from := func(first int, by time.Duration) map[int]time.Duration {
		set := make(map[int]time.Duration)
		for n := first; n <= 14; n++ {
			set[n] = by
		}
		return set
	}
	for _, tt := range []struct {
		name      string
		set       map[int]time.Duration // how far the wall reading of a pulse is off
		seen, due time.Duration
	}{
		{"a clock that goes on", nil, 4 * unit, 14 * unit},
		{"torn at the verdict", map[int]time.Duration{14: -10 * time.Millisecond}, 4 * unit, 14 * unit},
		{"torn by a lot", map[int]time.Duration{14: -time.Minute}, 4 * unit, 14 * unit},
		{"torn before the verdict", map[int]time.Duration{13: -10 * time.Millisecond}, 4 * unit, 14 * unit},
		{"set forward", from(9, hour), 4 * unit, 14*unit + hour},
		{"set back", from(9, -hour), 4*unit - hour, 14*unit - hour},
		{"set back at the verdict", from(14, -hour), 4 * unit, 14 * unit},
	} {
		t.Run(tt.name, func(t *testing.T) {
			told := make(verdicts, 1) // there is one
			registry := newRegistry(t, told, liveness.Config{Policy: liveness.Policy{Timeout: 10 * unit}})
			defer start(t, registry)()
			source := addSource(t, registry, liveness.SourceConfig{Name: "edge", MaxGap: 2 * hour})
			begin := time.Now().Add(-20 * unit) // with a monotonic reading, which the time of a bubble has not
			for n := range 15 {
				at := begin.Add(time.Duration(n) * unit)
				listened := source.Pulse(jump(at, tt.set[n]))
				if n == 4 {
					if _, err := source.Apply("a", liveness.Signal{At: listened}); err != nil {
						t.Fatal(err)
					}
				}
				source.Watermark(0, listened)
			}
			e := <-told
			if want := begin.Round(0).Add(tt.seen); !e.LastSeen.Equal(want) {
				t.Errorf("seen last %v after it was", e.LastSeen.Sub(want))
			}
			if want := begin.Round(0).Add(tt.due); !e.Deadline.Equal(want) {
				t.Errorf("due %v after it was", e.Deadline.Sub(want))
			}
			if decided := e.Time.Round(0); decided.Before(e.Deadline) {
				t.Errorf("decided %v before it was due", e.Deadline.Sub(decided))
			}
		})
	}
}

// The instants in a View are in order, however its source listens and its clock is set; and they
// are true if it is not set, even if some readings are torn.
func TestShownInstants(t *testing.T) {
	const timeout = 3 * unit
	rapid.Check(t, func(rt *rapid.T) {
		registry, err := liveness.New(discard{}, liveness.Config{Policy: liveness.Policy{Timeout: timeout}})
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { start(t, registry)() }()
		source, err := registry.AddSource(liveness.SourceConfig{Name: "edge", MaxGap: 2 * unit})
		if err != nil {
			rt.Fatal(err)
		}
		begin := time.Now()
		at, set, deaf := begin, time.Duration(0), false
		heard := at
		beat := func(listened time.Duration) {
			heard = at
			if _, err := source.Apply("a", liveness.Signal{At: listened}); err != nil {
				rt.Fatal(err)
			}
		}
		source.Pulse(at)
		at = at.Add(step) // the timers know no instant before their first tick
		beat(source.Pulse(at))
		torn, wasSet := false, false
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			at = at.Add(time.Duration(rapid.IntRange(1, 4).Draw(rt, "gap")) * step)
			reading := jump(at, set)
			switch what := rapid.SampledFrom([]string{"pulse", "pulse", "beat", "torn", "gap", "deafen", "set"}).Draw(rt, "what"); {
			case what == "torn" && !torn:
				torn = true
				source.Pulse(jump(reading, -time.Duration(rapid.IntRange(1, 1000).Draw(rt, "by"))*time.Millisecond))
				deaf = false
				continue
			case what == "gap":
				at = at.Add(100 * unit)
				reading = jump(at, set)
			case what == "deafen":
				source.Deafen(reading)
				deaf, torn = true, true // whoever hears it again reads the clock as it is
				continue
			case what == "set":
				set += time.Duration(rapid.IntRange(-1000, 1000).Draw(rt, "by")) * unit
				reading, wasSet = jump(at, set), true
			case what == "beat" && !deaf:
				beat(source.Pulse(reading))
			}
			source.Pulse(reading)
			torn, deaf = false, false
		}
		v, err := registry.Device("a")
		if err != nil {
			rt.Fatal(err)
		}
		if early := timeout - v.Deadline.Sub(v.LastSeen); early > 0 {
			rt.Errorf("due %v before its timeout", early)
		}
		if want := heard.Round(0); !wasSet && !v.LastSeen.Equal(want) {
			rt.Errorf("seen last %v after it was", v.LastSeen.Sub(want))
		}
		if early := heard.Round(0).Add(timeout).Sub(v.Deadline); !wasSet && early > 0 {
			rt.Errorf("due %v before it was", early)
		}
	})
}
