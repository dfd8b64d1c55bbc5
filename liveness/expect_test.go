package liveness_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/operate"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// inExpect runs a test in which it is 02:00 on 1 January 2000, and devices are expected at 03:00 each day.
func inExpect(t *testing.T, cfg liveness.Config, f func(r *rig)) {
	t.Helper()
	cfg.Policy.Expect = "0 3 * * * UTC"
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(2 * time.Hour)
		r := &rig{T: t, log: newLog(t, 0), start: time.Now(), sessions: make(map[string]*liveness.Session)}
		r.registry = newRegistry(t, r.log, cfg)
		defer start(t, r.registry)()
		r.source = r.addSource(liveness.SourceConfig{Name: "http", MaxGap: time.Minute})
		f(r)
	})
}

// until lets the source listen until an instant such as "2 03:00:00", a day of January.
func (r *rig) until(clock string) {
	r.Helper()
	at, err := time.Parse("2006-01 2 15:04:05", "2000-01 "+clock)
	if err != nil {
		r.Fatal(err)
	}
	for time.Now().Before(at) {
		time.Sleep(min(30*time.Second, time.Until(at)))
		r.pulse()
	}
}

func (r *rig) signal(id string, sig liveness.Signal) {
	r.Helper()
	sig.At = r.now()
	if _, err := r.source.Apply(id, sig); err != nil {
		r.Fatal(err)
	}
	synctest.Wait()
}

// wantNever checks that nobody was judged, and that the device a is shown in a state.
func (r *rig) wantNever(state liveness.State) {
	r.Helper()
	r.wantState("a", state)
	for _, e := range r.events() {
		if e.Type == liveness.DeviceOffline {
			r.Errorf("%s offline at %v", e.Subject, e.Time)
		}
	}
}

func TestExpectLateAndRecover(t *testing.T) {
	inExpect(t, liveness.Config{Policy: liveness.Policy{LateAfter: 10 * time.Minute, RecoverAfter: 2}}, func(r *rig) {
		r.signal("a", liveness.Signal{})
		r.until("1 03:09:59")
		r.wantState("a", liveness.Online)
		r.until("1 03:10:01")
		r.wantState("a", liveness.Late)
		r.until("1 03:30:00")
		r.signal("a", liveness.Signal{})
		r.wantState("a", liveness.Online)
		r.until("2 05:00:00")
		r.wantState("a", liveness.Offline)
		r.signal("a", liveness.Signal{})
		r.wantState("a", liveness.Offline)
		if v := r.device("a"); v.Recovering != 1 {
			t.Errorf("%d heartbeats count", v.Recovering)
		}
		r.until("3 03:05:00") // in time: a whole day is no pause
		r.signal("a", liveness.Signal{})
		r.wantState("a", liveness.Online)
	})
}

// A maintenance window over the instant excuses the report that was due in it.
func TestExpectMaintenance(t *testing.T) {
	inExpect(t, liveness.Config{}, func(r *rig) {
		r.signal("a", liveness.Signal{})
		r.until("1 02:45:00")
		cover(t, r.registry, "", operate.Window{Name: "w", Suppress: time.Hour}, "a")
		r.until("1 03:45:00")
		cover(t, r.registry, "w", operate.Window{}, "")
		r.until("1 06:00:00")
		r.wantNever(liveness.Online)
		if v := r.device("a"); !v.Deadline.Equal(time.Date(2000, 1, 2, 4, 0, 0, 0, time.UTC)) {
			t.Errorf("offline at %v, want 2 04:00", v.Deadline)
		}
		r.until("2 04:00:01")
		r.wantState("a", liveness.Offline)
	})
}

// The layers of a policy are joined field by field; a rule with an Expect alone has a Timeout all the same.
func TestExpectLayers(t *testing.T) {
	const daily, weekly = "0 3 * * * UTC", "0 0 * * 0 UTC"
	cfg := liveness.Config{
		Groups: []liveness.GroupConfig{
			{Name: "jobs", Match: "job-*", Policy: liveness.Policy{Expect: weekly, Timeout: 2 * time.Hour}},
			{Name: "short", Match: "short-*", Policy: liveness.Policy{Timeout: 10 * time.Minute}},
		},
		Devices: map[string]liveness.Policy{"job-own": {Expect: daily}},
	}
	inRig(t, cfg, liveness.SourceConfig{}, func(r *rig) {
		tests := []struct {
			id, expect, from  string
			timeout, interval time.Duration
			announced         liveness.Policy
		}{
			{"plain", "", "default", 30 * unit, 10 * unit, liveness.Policy{}},
			{"says", daily, "announced", time.Hour, 24 * time.Hour, liveness.Policy{Expect: daily}},
			{"says-both", daily, "announced", time.Minute, 24 * time.Hour, liveness.Policy{Expect: daily, Timeout: time.Minute}},
			{"job-1", weekly, "group jobs", 2 * time.Hour, 7 * 24 * time.Hour, liveness.Policy{Expect: daily, Timeout: time.Minute}},
			{"job-own", daily, "device", time.Hour, 24 * time.Hour, liveness.Policy{}},
			{"short-1", daily, "group short", 10 * time.Minute, 24 * time.Hour, liveness.Policy{Expect: daily}},
		}
		for _, tt := range tests {
			r.signal(tt.id, liveness.Signal{Announced: tt.announced})
			v := r.device(tt.id)
			if v.Policy.Expect != tt.expect || v.Policy.Timeout != tt.timeout || v.Policy.Interval != tt.interval || v.From != tt.from {
				t.Errorf("%s: %+v, from %s", tt.id, v.Policy, v.From)
			}
			learned, err := r.registry.Learned(tt.id)
			if err != nil || learned.Fixed != (tt.expect != "") {
				t.Errorf("%s: Learned = %+v, %v", tt.id, learned, err)
			}
		}
	})
}

// The wall clock decides when the instant is, and may be set.
func TestExpectClockIsSet(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  time.Duration // at 02:30
		off  time.Duration // listened until then, since 02:00
	}{
		{"not at all", 0, 2 * time.Hour},
		{"forward", 20 * time.Minute, 100 * time.Minute},
		{"forward beyond the instant", 2 * time.Hour, 90 * time.Minute},
		{"back", -20 * time.Minute, 140 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			told := make(verdicts, 1)
			registry := newRegistry(t, told, liveness.Config{Policy: liveness.Policy{Expect: "0 3 * * *"}})
			defer start(t, registry)()
			source := addSource(t, registry, liveness.SourceConfig{Name: "edge", MaxGap: 3 * time.Minute})
			begin := time.Now().Add(-24 * time.Hour) // with a monotonic reading, which the time of a bubble has not
			two := time.Date(begin.Year(), begin.Month(), begin.Day(), 2, 0, 0, 0, time.UTC)
			begin = jump(begin, two.Sub(begin))
			var at time.Time
			for n := 0; n <= int(tt.off/time.Minute); n++ {
				at = begin.Add(time.Duration(n) * time.Minute)
				if n >= 30 {
					at = jump(at, tt.set)
				}
				listened := source.Pulse(at)
				if n == 0 {
					if _, err := source.Apply("a", liveness.Signal{At: listened}); err != nil {
						t.Fatal(err)
					}
				}
				source.Watermark(0, listened)
				if n != 31 {
					continue
				}
				v, err := registry.Device("a")
				if left := v.Deadline.Sub(jump(at, 0).Round(0)); err != nil || (v.HeardSilence+left-tt.off).Abs() > time.Second {
					t.Errorf("offline %v after now, after a silence of %v, want %v; %v", left, v.HeardSilence, tt.off, err)
				}
			}
			var e liveness.Event
			testwait.Until(t, "the verdict", func() bool { // with a later pulse, if the device is armed anew only now for the clock
				at = at.Add(time.Millisecond)
				source.Watermark(0, source.Pulse(at))
				select {
				case e = <-told:
					return true
				default:
					return false
				}
			})
			if e.HeardSilence < tt.off-time.Second {
				t.Errorf("offline after %v of heard silence, want %v", e.HeardSilence, tt.off)
			}
		})
	}
}

// With a Timeout of Never only another signal ends the session of a device. Where that comes before the device
// is expected, or in a quiet window, it has its CloseGrace from there on, not a year.
func TestPacedNever(t *testing.T) {
	for _, tt := range []struct {
		name        string
		policy      liveness.Policy
		closed, due string
	}{
		{"before it is expected", liveness.Policy{Expect: "0 3 * * * UTC"}, "1 02:30:00", "1 03:05:00"},
		{"after that", liveness.Policy{Expect: "0 3 * * * UTC"}, "1 03:30:00", "1 03:35:00"},
		{"in a quiet window", liveness.Policy{Quiet: "02:15-04:00"}, "1 02:30:00", "1 04:05:00"},
		{"after it", liveness.Policy{Quiet: "02:15-02:20"}, "1 02:30:00", "1 02:35:00"},
		{"it ends shortly before one", liveness.Policy{Quiet: "02:32-04:00"}, "1 02:30:00", "1 04:03:00"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.policy.Timeout, tt.policy.CloseGrace = liveness.Never, 5*time.Minute
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(2 * time.Hour)
				r := &rig{T: t, log: newLog(t, 0), start: time.Now(), sessions: make(map[string]*liveness.Session)}
				r.registry = newRegistry(t, r.log, liveness.Config{Policy: tt.policy})
				defer start(t, r.registry)()
				r.source = r.addSource(liveness.SourceConfig{Name: "broker", MaxGap: time.Minute})
				r.signal("a", liveness.Signal{})
				r.until(tt.closed)
				r.signal("a", liveness.Signal{Kind: liveness.Disconnected, Reason: liveness.Will})
				due, _ := time.Parse("2006-01 2 15:04:05", "2000-01 "+tt.due)
				if v := r.device("a"); !v.Deadline.Round(time.Second).Equal(due) {
					t.Errorf("offline at %v, want %v", v.Deadline, due)
				}
				r.until(due.Add(-time.Minute).Format("2 15:04:05"))
				r.wantNever(liveness.Online)
				r.until(due.Add(time.Minute).Format("2 15:04:05"))
				if v := r.device("a"); v.State != liveness.Offline || v.Reason != liveness.Will {
					t.Errorf("%v, %v", v.State, v.Reason)
				}
			})
		})
	}
}
