package liveness_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// story returns the events since the last call, of devices: type, message, exit status and duration.
func (r *rig) story() string {
	var lines []string
	for _, e := range r.events() {
		if !e.Type.OfDevice() {
			continue
		}
		line := strings.TrimPrefix(e.Type.String(), "device.")
		if e.ExitStatus != 0 || e.Duration != 0 || e.Message != "" {
			line += " " + strings.Join([]string{e.Message, time.Duration(e.ExitStatus).String(), e.Duration.Round(time.Second).String()}, "/")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

func (r *rig) wantStory(want string) {
	r.Helper()
	if got := r.story(); got != want {
		r.Errorf("events at %v: %s\nwant %s", time.Now().Format("2 15:04:05"), got, want)
	}
}

func TestRun(t *testing.T) {
	inExpect(t, liveness.Config{}, func(r *rig) {
		start := liveness.Signal{Kind: liveness.Start}
		r.signal("a", start)
		r.wantStory("online; run.started")
		if v := r.device("a"); !v.Expected.IsZero() || !v.Started.Equal(time.Now()) || !v.Deadline.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("%+v", v)
		}
		r.until("1 02:10:00")
		r.signal("a", liveness.Signal{})
		r.wantStory("run.finished /0s/10m0s")
		r.signal("a", liveness.Signal{})
		r.wantStory("")
		if v := r.device("a"); v.Started != (time.Time{}) || v.Expected.Hour() != 3 {
			t.Errorf("%+v", v)
		}
		r.until("1 03:00:00")
		r.signal("a", start)
		r.until("1 03:30:00")
		r.signal("a", start) // which replaces it
		r.until("1 03:31:00")
		r.signal("a", liveness.Signal{Kind: liveness.Failure, Message: "disk full", ExitStatus: 3})
		r.wantStory("run.started; run.started; failed disk full/3ns/1m0s")
		r.signal("a", liveness.Signal{Kind: liveness.Failure, Message: "again", ExitStatus: 1, Took: time.Minute})
		r.wantStory("failed again/1ns/1m0s")
		r.until("2 03:00:00")
		r.wantNever(liveness.Online)
		r.signal("a", start)
		r.until("2 04:00:01") // it hangs
		r.wantState("a", liveness.Offline)
		r.until("2 05:00:00")
		r.signal("a", liveness.Signal{Message: "done"})
		r.wantStory("run.started; offline; online; run.finished done/0s/2h0m0s")
	})
}

// A run that is under way survives a restart, with the checkpoint alone.
func TestRunRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(2 * time.Hour)
		s := newShelf(t)
		r := &rig{T: t, start: time.Now()}
		begin := func() (stop func()) {
			r.registry = newRegistry(t, s, liveness.Config{Policy: liveness.Policy{Expect: "0 3 * * *"}})
			r.source = addSource(t, r.registry, liveness.SourceConfig{Name: "http", MaxGap: time.Minute})
			if err := s.restore(r.registry); err != nil {
				t.Fatal(err)
			}
			stop = start(t, r.registry)
			r.pulse()
			return stop
		}
		stop := begin()
		r.signal("a", liveness.Signal{Kind: liveness.Start})
		r.until("1 02:20:00")
		s.checkpoint(r.registry)
		stop()
		time.Sleep(time.Hour)
		defer begin()()
		if v := r.device("a"); v.Started.Hour() != 2 || !v.Expected.IsZero() || v.State != liveness.Unknown {
			t.Errorf("%+v", v)
		}
		r.until("1 03:59:50") // 59 min 50 s of listening
		r.wantState("a", liveness.Unknown)
		r.until("1 04:00:10")
		r.wantState("a", liveness.Offline)
		r.signal("a", liveness.Signal{})
		if v := r.device("a"); !v.Started.IsZero() || v.State != liveness.Online {
			t.Errorf("%+v", v)
		}
		events, err := s.Read(nil, 0, 100)
		if err != nil || len(events) == 0 {
			t.Fatal(err)
		}
		if e := events[len(events)-1]; e.Type != liveness.DeviceRunFinished || e.Duration.Round(time.Minute) != 2*time.Hour {
			t.Errorf("the last event is %+v", e)
		}
	})
}

// While the sink takes nothing, only so many bytes of messages wait for it, and what is cut is counted.
func TestLongMessagesWait(t *testing.T) {
	total := 0
	k := &sink{}
	k.append = func(events []liveness.Event) error {
		<-k.gate
		for i := range events {
			total += len(events[i].Message)
		}
		return nil
	}
	withSink(t, k, 0, func(r *liveness.Registry, s *liveness.Source, stop func() error) {
		var session liveness.Session
		if _, err := s.Open(&session, "a", liveness.Hello{}, nil, 0); err != nil {
			t.Fatal(err)
		}
		const fails, whole = 2000, 4 << 20 / (10 << 10)
		for range fails {
			if err := session.Fail(0, strings.Repeat("y", 20<<10)); err != nil {
				t.Fatal(err)
			}
		}
		close(k.gate)
		synctest.Wait()
		if err := session.Fail(0, strings.Repeat("y", 20<<10)); err != nil {
			t.Error(err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if want := (whole+1)*10<<10 + (fails-whole)<<10; total != want || r.Stats().Cut != fails-whole {
			t.Errorf("%d bytes of messages, of which %d were cut, want %d and %d", total, r.Stats().Cut, want, fails-whole)
		}
	})
}

// A run begins whatever the state of its device is.
func TestRunInEachState(t *testing.T) {
	policy := liveness.Policy{Timeout: 30 * unit, RecoverAfter: 3}
	for _, tt := range []struct {
		name   string
		before func(r *rig)
		story  string // of a start and an exit 10 units later, which are 10.7 s
		began  liveness.State
		ended  liveness.State
	}{
		{"in maintenance", func(r *rig) { r.admit(r.registry.SetMaintenance("a", true)) }, "run.started; run.finished /0s/11s", liveness.Online, liveness.Online},
		{"asleep", func(r *rig) { r.signal("a", liveness.Signal{Kind: liveness.Sleep, Length: 100 * unit}) }, "online; run.started; run.finished /0s/11s", liveness.Online, liveness.Online},
		{"offline", func(r *rig) { r.listen(30 * unit) }, "run.started; run.finished /0s/11s", liveness.Offline, liveness.Offline},
		{"said goodbye", func(r *rig) { r.signal("a", liveness.Signal{Kind: liveness.Goodbye}) }, "online; run.started; run.finished /0s/11s", liveness.Online, liveness.Online},
		{"unknown", func(r *rig) { r.cut(unit) }, "run.started; run.finished /0s/11s", liveness.Online, liveness.Online},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, liveness.Config{Policy: policy}, liveness.SourceConfig{}, func(r *rig) {
				r.signal("a", liveness.Signal{})
				tt.before(r)
				r.story()
				r.signal("a", liveness.Signal{Kind: liveness.Start})
				if v := r.device("a"); v.State != tt.began || v.Started.IsZero() {
					t.Errorf("during the run: %+v", v)
				}
				r.listen(10 * unit)
				r.signal("a", liveness.Signal{})
				if v := r.device("a"); v.State != tt.ended || !v.Started.IsZero() {
					t.Errorf("after the run: %+v", v)
				}
				r.wantStory(tt.story)
				r.signal("a", liveness.Signal{})
				r.wantState("a", liveness.Online) // with the third heartbeat at the latest
			})
		})
	}
}

func (r *rig) admit(err error) {
	r.Helper()
	if err != nil {
		r.Error(err)
	}
}
