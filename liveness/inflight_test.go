package liveness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/timer"
)

const s = time.Second

// flight is a registry with one device whose timer has expired, after heartbeats that only the
// timer knew, and whose verdict waits.
type flight struct {
	*testing.T

	registry *Registry
	source   *Source
	session  *Session
	land     func() // lets the verdict go on
}

// sinkSlice is a sink that keeps all events. It is read when the registry has ended.
type sinkSlice []Event

func (k *sinkSlice) Append(_ context.Context, events []Event) error {
	*k = append(*k, events...)
	return nil
}

// inFlight opens a device at 10 s and lets it be heard at 17 s; it is to come back within 5 s when
// its connection ends. At 48 s its timer has expired for the timeout of 30 s, or at 44 s for
// lateAfter, if that is given, and f is called. inFlight returns what became of the device and its
// events.
func inFlight(t *testing.T, lateAfter time.Duration, f func(*flight)) (v View, lines []string) {
	t.Helper()
	at := 48 * s
	if lateAfter > 0 {
		at = 44 * s
	}
	synctest.Test(t, func(t *testing.T) {
		var taken sinkSlice
		r, err := New(&taken, Config{Policy: Policy{Timeout: 30 * s, CloseGrace: 5 * s, LateAfter: lateAfter}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		source, err := r.AddSource(SourceConfig{Name: "edge", MaxGap: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		gate := make(chan struct{})
		source.group, err = source.engine.Group(func(expired []timer.Expired) {
			<-gate
			source.expired(expired)
		})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		listen := func(until time.Duration) {
			time.Sleep(until - time.Since(begin))
			source.Watermark(0, source.Pulse(time.Now()))
			synctest.Wait()
		}
		listen(0)
		listen(10 * s)
		session := new(Session)
		if _, err := source.Open(session, "a", Hello{}, nil, 10*s); err != nil {
			t.Fatal(err)
		}
		listen(17 * s)
		session.Beat(17 * s)
		listen(at)
		if _, armed := source.engine.Touched(session.device.timer); armed || !session.device.touched {
			t.Fatal("nothing is in flight")
		}
		landed := false
		land := func() {
			if !landed {
				close(gate)
			}
			landed = true
			synctest.Wait()
		}
		f(&flight{t, r, source, session, land})
		land()
		listen(100 * s)
		if v, err = r.Device("a"); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for _, e := range taken {
			seen, at := e.LastSeen.Sub(begin).Round(time.Millisecond), e.Time.Sub(begin)
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%d %v at %v seen %v %v", e.Seq, e.Type, at, seen, e.Reason)))
		}
	})
	return v, lines
}

func TestInFlight(t *testing.T) {
	online := "1 device.online at 10s seen 10s"
	tests := []struct {
		name string
		late time.Duration
		f    func(f *flight)
		want []string
	}{
		{"nothing", 0, func(*flight) {}, []string{"2 device.offline at 48s seen 17s silence"}},
		{
			"close", 0, func(f *flight) {
				if !f.session.Close(48*s, Closed) {
					f.Error("Close = false")
				}
			},
			[]string{"2 device.offline at 48s seen 17s silence"},
		},
		{
			"early close", 0, func(f *flight) { f.session.Close(40*s, Closed) },
			[]string{"2 device.offline at 48s seen 17s closed"},
		},
		{
			"close as it becomes late", 25 * s, func(f *flight) { f.session.Close(40*s, Closed) },
			[]string{"2 device.late at 44s seen 17s", "3 device.offline at 1m40s seen 17s closed"},
		},
		{
			"heartbeat as it becomes late", 25 * s, func(f *flight) { f.session.Beat(44 * s) },
			[]string{"2 device.offline at 1m40s seen 44s silence"},
		},
		{"old heartbeat", 0, func(f *flight) { f.session.Beat(10 * s) }, []string{"2 device.offline at 48s seen 17s silence"}},
		{
			"heartbeat", 0, func(f *flight) {
				if !f.session.Beat(48 * s) {
					f.Error("Beat = false")
				}
			},
			[]string{"2 device.offline at 1m40s seen 48s silence"},
		},
		{
			"failure", 0, func(f *flight) { f.session.Fail(48*s, "disk") },
			[]string{"2 device.failed at 48s seen 48s", "3 device.offline at 1m40s seen 48s silence"},
		},
		{
			"old failure", 0, func(f *flight) { f.session.Fail(10*s, "disk") },
			[]string{"2 device.failed at 48s seen 18s", "3 device.offline at 48s seen 17s silence"}, // when it was heard is not known at the moment: not later
		},
		{"goodbye", 0, func(f *flight) { f.session.Bye(48 * s) }, []string{"2 device.offline at 48s seen 48s bye"}},
		{
			"sleep", 0, func(f *flight) { f.session.Sleep(48*s, 10*s) },
			[]string{"2 device.sleeping at 48s seen 48s", "3 device.offline at 1m40s seen 48s silence"},
		},
		{
			"another session", 0, func(f *flight) {
				if _, err := f.source.Open(new(Session), "a", Hello{}, nil, 48*s); err != nil {
					f.Error(err)
				}
			},
			[]string{"2 device.session_replaced at 48s seen 48s", "3 device.offline at 1m40s seen 48s silence"},
		},
		{
			"close and another session", 0, func(f *flight) {
				f.session.Close(48*s, Closed)
				if _, err := f.source.Open(new(Session), "a", Hello{}, nil, 48*s); err != nil {
					f.Error(err)
				}
			},
			[]string{"2 device.offline at 1m40s seen 48s silence"},
		},
		{
			"another source", 0, func(f *flight) {
				other, err := f.registry.AddSource(SourceConfig{Name: "other"})
				if err != nil {
					f.Fatal(err)
				}
				other.Pulse(time.Now())
				if _, err := other.Open(new(Session), "a", Hello{}, nil, 0); err != nil {
					f.Error(err)
				}
			},
			[]string{"2 device.session_replaced at 48s seen 48s"},
		},
		{
			"another policy", 0, func(f *flight) {
				if _, err := f.session.UpdatePolicy(48*s, Policy{Timeout: 300 * s}); err != nil {
					f.Error(err)
				}
			},
			[]string{"2 device.changed at 48s seen 48s"},
		},
		{
			"a look", 0, func(f *flight) {
				v, err := f.registry.Device("a")
				if err != nil || v.State != Online || v.Last < 17*s || v.Last > 18*s {
					f.Errorf("Device = %+v, %v, want it heard between 17 s and 18 s", v, err)
				}
			},
			[]string{"2 device.offline at 48s seen 17s silence"},
		},
		{
			"end of flapping", 0, func(f *flight) {
				f.session.device.changes = &changes{flapping: true}
				f.registry.flaps.set(f.session.device.handle, true)
				f.registry.endFlapping(f.session.device.handle)
				f.land()
				f.registry.endFlapping(f.session.device.handle)
			},
			[]string{"2 device.offline at 48s seen 17s silence", "3 device.flapping.stopped at 48s seen 17s silence"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, got := inFlight(t, tt.late, tt.f)
			if want := append([]string{online}, tt.want...); !slices.Equal(got, want) {
				t.Errorf("events:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
			}
			if last := got[len(got)-1]; (v.State == Offline) != (v.Reason != NoReason) || !strings.HasSuffix(last, v.Reason.String()) {
				t.Errorf("%v %v after %s", v.State, v.Reason, last)
			}
		})
	}
}
