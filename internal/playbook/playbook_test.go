package playbook_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/playbook"
	"github.com/holter-iot/holter/liveness"
)

// escalate is the playbook that the documentation begins with.
func escalate() playbook.Playbook {
	page, resolve := tell("page"), tell("resolve")
	page.If, page.After = "still", []string{"still"}
	resolve.If, resolve.Not, resolve.After = "still", true, []string{"still"}
	return playbook.Playbook{
		Name: "escalate", On: offline(), Recovery: playbook.Ignore,
		Steps: []playbook.Step{
			tell("tell"), wait("patience"),
			{Name: "still", Do: playbook.Condition{Is: []string{"offline"}}},
			page,
			{Name: "further", Do: playbook.Note{Text: "only after a page"}},
			resolve,
			{Name: "end", After: []string{"page", "resolve"}, Do: playbook.Note{Text: "${device} of ${group}: ${reason}"}},
		},
	}
}

func TestEscalation(t *testing.T) {
	tests := []struct {
		name  string
		back  bool
		told  string
		still bool
	}{
		{name: "still offline", told: "page a", still: true},
		{name: "back", back: true, told: "resolve a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, escalate())
			r.event("a", liveness.DeviceOffline)
			run, steps := r.state("a", playbook.RunWaiting)
			if steps["patience"].State != playbook.StepWaiting || !run.Wake.Equal(steps["patience"].Wake) || run.Event == 0 {
				t.Errorf("the run is %+v, its step %+v", run, steps["patience"])
			}
			r.told("tell a")
			if tt.back {
				r.event("a", liveness.DeviceOnline)
			}
			r.later(11 * time.Minute)
			run, steps = r.state("a", playbook.RunDone)
			r.told("tell a", tt.told)
			if s := steps["still"]; s.Holds != tt.still {
				t.Errorf("the condition is %+v", s)
			}
			skipped := playbook.Skipped(escalate().Steps, func(step string) playbook.RunStep { return steps[step] })
			for step, done := range map[string]bool{"page": tt.still, "further": tt.still, "resolve": !tt.still, "end": true} {
				if (steps[step].State == playbook.StepDone) != done || skipped[step] == done {
					t.Errorf("the step %s is %+v; skipped: %v", step, steps[step], skipped[step])
				}
			}
			if got := steps["end"].Output; got != "a of site: silence" {
				t.Errorf("the note says %q", got)
			}
			if run.Ended.IsZero() || run.Error != "" {
				t.Errorf("the run is %+v", run)
			}
		})
	}
}

// What is told holds what is known: of the run, the event and the steps before.
func TestBody(t *testing.T) {
	own := tell("own")
	own.Do = playbook.Deliver{Endpoint: "ops", Body: json.RawMessage(`{"step":"${step}","subject":"${device}","n":12345678901234567890,"list":["${type} ${x"]}`)}
	if err := playbook.Check([]playbook.Playbook{{Name: "p", Steps: []playbook.Step{own}}}); err == nil || !strings.Contains(err.Error(), "${x") {
		t.Errorf("a text with half a name passes: %v", err)
	}
	own.Do = playbook.Deliver{Endpoint: "ops", Body: json.RawMessage(`{"step":"${step}","subject":"${device}","n":12345678901234567890,"list":["${type} $x"]}`)}
	r := newRig(t, playbook.Playbook{Name: "p", On: offline(), Steps: []playbook.Step{tell("first"), own}})
	r.event("b", liveness.DeviceOffline)
	r.told("first b", "own b")
	var all struct {
		Playbook string
		Run      uint64
		Outputs  map[string]string
		State    []string
		Event    struct {
			Type string
			Data struct{ Reason string }
		}
	}
	r.check(json.Unmarshal(r.memo.messages[0].Data, &all))
	if all.Playbook != "p" || all.Run == 0 || all.Event.Type != "io.holter.device.offline" || all.Event.Data.Reason != "silence" || all.State[0] != "offline" {
		t.Errorf("the body is %s", r.memo.messages[0].Data)
	}
	if got, want := string(r.memo.messages[1].Data), `{"list":["device.offline $x"],"n":12345678901234567890,"step":"own","subject":"b"}`; got != want {
		t.Errorf("the body is %s, want %s", got, want)
	}
}

func TestRestart(t *testing.T) {
	r := newRig(t, escalate())
	r.event("a", liveness.DeviceOffline)
	before, _ := r.state("a", playbook.RunWaiting)
	r.told("tell a")
	r.restart()
	r.later(time.Minute) // not yet
	r.restart()
	r.later(10 * time.Minute)
	after, steps := r.state("a", playbook.RunDone)
	r.told("tell a", "page a")
	if after.ID != before.ID || !after.Started.Equal(before.Started) {
		t.Errorf("the run was %+v, and is %+v", before, after)
	}
	if s := steps["patience"]; s.Ended.Sub(s.Started) < 10*time.Minute {
		t.Errorf("it waited from %v to %v", s.Started, s.Ended)
	}
}

func TestRecovery(t *testing.T) {
	book := func(r playbook.Recovery) playbook.Playbook {
		p := playbook.Playbook{Name: "p", On: offline(), Recovery: r, Steps: []playbook.Step{tell("alarm"), wait("patience"), tell("page")}}
		if r == playbook.Divert {
			p.Recovered = []playbook.Step{tell("calm"), wait("rest"), tell("end")}
		}
		return p
	}
	tests := []struct {
		name     string
		recovery playbook.Recovery
		down     bool // the device is back while nobody watches
		again    bool // and gone again before anybody looks
	}{
		{name: "cancel", recovery: playbook.Cancel},
		{name: "cancel while down", recovery: playbook.Cancel, down: true},
		{name: "cancel and gone again while down", recovery: playbook.Cancel, down: true, again: true},
		{name: "divert", recovery: playbook.Divert},
		{name: "divert while down", recovery: playbook.Divert, down: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, book(tt.recovery))
			r.event("a", liveness.DeviceOffline)
			first, _ := r.state("a", playbook.RunWaiting)
			r.told("alarm a")
			if tt.down {
				r.stop()
				r.event("a", liveness.DeviceOnline)
				if tt.again {
					r.event("a", liveness.DeviceOffline)
				}
				r.check(r.store.Close())
				r.start()
			} else {
				r.event("a", liveness.DeviceOnline)
			}
			if tt.recovery == playbook.Divert {
				run, _ := r.state("a", playbook.RunWaiting)
				r.until("it was diverted", func() bool { run, _ = r.state("a", playbook.RunWaiting); return run.Diverted })
				r.told("alarm a", "calm a")
				r.later(11 * time.Minute)
				r.state("a", playbook.RunRecovered)
				r.told("alarm a", "calm a", "end a")
				return
			}
			r.until("the first run is recovered", func() bool {
				run, _, err := r.engine.Show(t.Context(), first.ID)
				r.check(err)
				return run.State == playbook.RunRecovered
			})
			if tt.again {
				second, _ := r.state("a", playbook.RunWaiting)
				if second.ID == first.ID {
					t.Error("the second silence is no other run")
				}
				r.told("alarm a", "alarm a")
				return
			}
			r.told("alarm a")
		})
	}
}

// An outage is over when it is over.
func TestGroup(t *testing.T) {
	r := newRig(t, playbook.Playbook{
		Name: "outage", On: &playbook.Trigger{Types: []string{"group.outage.started"}}, Steps: []playbook.Step{tell("alarm"), wait("patience"), tell("page")},
	})
	r.fleet.group = liveness.GroupView{Name: "site", Outage: true}
	r.check(r.store.Append(t.Context(), []liveness.Event{{Type: liveness.GroupOutageStarted, Subject: "site", Seq: 1, Time: time.Now(), Members: 3, Silent: 3}}))
	r.state("site", playbook.RunWaiting)
	r.fleet.mu.Lock()
	r.fleet.group.Outage = false
	r.fleet.mu.Unlock()
	r.check(r.store.Append(t.Context(), []liveness.Event{{Type: liveness.GroupOutageEnded, Subject: "site", Seq: 2, Time: time.Now(), Members: 3}}))
	r.state("site", playbook.RunRecovered)
	r.told("alarm site")
}

func TestProbe(t *testing.T) {
	probe := playbook.Step{Name: "ask", Do: playbook.Probe{Times: 3, Wait: time.Minute}}
	book := playbook.Playbook{Name: "p", On: offline(), Steps: []playbook.Step{probe, tell("page")}}
	t.Run("silent", func(t *testing.T) {
		r := newRig(t, book)
		p := &peer{}
		r.fleet.peers["a"] = p
		r.event("a", liveness.DeviceOffline)
		for asked := int64(1); asked <= 3; asked++ {
			r.until("it was asked", func() bool { _, steps := r.state("a", playbook.RunWaiting); return steps["ask"].Attempts == int(asked) })
			if p.asked.Load() != asked {
				t.Fatalf("asked %d times, want %d", p.asked.Load(), asked)
			}
			r.later(2 * time.Minute)
		}
		_, steps := r.state("a", playbook.RunDone)
		if got := steps["ask"].Output; got != "silent, asked 3 times" || p.asked.Load() != 3 {
			t.Errorf("the probe says %q; asked %d times", got, p.asked.Load())
		}
		r.told("page a")
	})
	t.Run("answers", func(t *testing.T) {
		ignoring := book
		ignoring.Recovery = playbook.Ignore
		r := newRig(t, ignoring)
		p := &peer{}
		p.answer = func() {
			r.fleet.set("a", func(v *liveness.View) { v.LastSeen = time.Now().Add(time.Duration(r.ahead.Load()) + time.Second) })
		}
		r.fleet.peers["a"] = p
		r.event("a", liveness.DeviceOffline)
		r.state("a", playbook.RunWaiting)
		r.later(2 * time.Minute)
		_, steps := r.state("a", playbook.RunDone)
		if got := steps["ask"].Output; !strings.HasPrefix(got, "heard at ") || p.asked.Load() != 1 {
			t.Errorf("the probe says %q", got)
		}
	})
	t.Run("cannot be asked", func(t *testing.T) {
		r := newRig(t, book)
		r.fleet.peers["a"] = &peer{mute: true}
		r.event("a", liveness.DeviceOffline)
		r.event("b", liveness.DeviceOffline)
		_, a := r.state("a", playbook.RunDone)
		_, b := r.state("b", playbook.RunDone)
		if a["ask"].Output != "not asked: its protocol has no question" || b["ask"].Output != "not asked: it is not connected" {
			t.Errorf("the probes say %q and %q", a["ask"].Output, b["ask"].Output)
		}
	})
}

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "tries.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ncat > input; echo x >> tries; echo \"$HOLTER_DEVICE $HOLTER_REASON\"\n[ $(wc -l < tries) -ge 3 ]\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	step := playbook.Step{Name: "run", Do: playbook.Command{Argv: []string{script}, Dir: dir}, Attempts: 5, Pause: 5 * time.Minute} // it is random up to that: hardly ever over before each failure is seen
	r := newRig(t, playbook.Playbook{Name: "p", On: offline(), Steps: []playbook.Step{step, tell("after")}})
	r.event("a", liveness.DeviceOffline)
	for failed := 1; failed <= 2; failed++ {
		r.until("it has failed", func() bool {
			_, steps := r.state("a", playbook.RunWaiting)
			return steps["run"].Attempts == failed && steps["run"].Error == "exit status 1"
		})
		r.later(time.Hour)
	}
	_, steps := r.state("a", playbook.RunDone)
	if got := steps["run"]; got.Output != "a silence\n" || got.Attempts != 2 {
		t.Errorf("the step is %+v", got)
	}
	input, err := os.ReadFile(filepath.Join(dir, "input"))
	if err != nil || !json.Valid(input) {
		t.Errorf("the program got %s, %v", input, err)
	}
	r.told("after a")
}

func TestFailure(t *testing.T) {
	tests := []struct {
		name string
		do   playbook.Action
		tell string // part of the error
		once bool
	}{
		{name: "command that fails", do: playbook.Command{Shell: "echo no; exit 7"}, tell: "exit status 7"},
		{name: "command that does not end", do: playbook.Command{Shell: "sleep 1000 & sleep 1000"}, tell: "did not end in time"},
		{name: "unknown endpoint", do: playbook.Deliver{Endpoint: "nobody"}, tell: `there is no endpoint "nobody"`},
		{name: "endpoint of another kind", do: playbook.Deliver{As: "mqtt", Endpoint: "ops"}, tell: `endpoint "ops" is of kind memo, not mqtt`, once: true},
		{
			name: "body that is too long", do: playbook.Deliver{Endpoint: "ops", Body: []byte(`"` + strings.Repeat("x", delivery.MaxBody) + `"`)},
			tell: "want 1048576 at most", once: true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			step := playbook.Step{Name: "bad", Do: tt.do, Attempts: 2, Timeout: 300 * time.Millisecond, Pause: time.Millisecond}
			other := tell("beside")
			other.After = []string{}
			r := newRig(t, playbook.Playbook{Name: "p", On: offline(), Steps: []playbook.Step{step, tell("after"), other}})
			r.event("a", liveness.DeviceOffline)
			r.until("the run has failed", func() bool { r.later(time.Hour); return len(r.runs()) > 0 && r.runs()[0].State == playbook.RunFailed })
			run, steps := r.state("a", playbook.RunFailed)
			attempts := 2
			if tt.once {
				attempts = 1
			}
			if s := steps["bad"]; s.State != playbook.StepFailed || s.Attempts != attempts || !strings.Contains(s.Error, tt.tell) || !strings.Contains(run.Error, tt.tell) {
				t.Errorf("the step is %+v, the run %+v", s, run)
			}
			if s, begun := steps["after"]; begun {
				t.Errorf("the step after it is %+v", s)
			}
		})
	}
}

func TestStartAndCancel(t *testing.T) {
	p := playbook.Playbook{Name: "by-hand", Steps: []playbook.Step{wait("patience"), tell("page")}}
	r := newRig(t, p)
	r.event("a", liveness.DeviceOffline) // begins nothing
	id, err := r.engine.Start(t.Context(), "by-hand", "a")
	r.check(err)
	if run, _ := r.state("a", playbook.RunWaiting); run.ID != id || run.Event != 0 {
		t.Errorf("the run is %+v", run)
	}
	for name, device := range map[string]string{"by-hand": "nobody", "other": "a"} {
		if _, err := r.engine.Start(t.Context(), name, device); !errors.Is(err, playbook.ErrUnknown) {
			t.Errorf("Start(%q, %q): %v", name, device, err)
		}
	}
	r.check(r.engine.Cancel(t.Context(), id, "by a test"))
	if run, _ := r.state("a", playbook.RunCanceled); run.Error != "by a test" || run.Ended.IsZero() {
		t.Errorf("the run is %+v", run)
	}
	if err := r.engine.Cancel(t.Context(), id, ""); !errors.Is(err, playbook.ErrEnded) || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("Cancel again: %v", err)
	}
	if err := r.engine.Cancel(t.Context(), 999, ""); !errors.Is(err, playbook.ErrUnknown) {
		t.Errorf("Cancel of nothing: %v", err)
	}
	if len(r.jobs.Jobs().Depths()) != 0 {
		t.Errorf("jobs are left: %v", r.jobs.Jobs().Depths())
	}
}

// A run goes on with the steps that there are now; events begin no runs of a playbook that is gone.
func TestDefinitionChanged(t *testing.T) {
	old := playbook.Playbook{Name: "p", On: offline(), Steps: []playbook.Step{tell("one"), wait("patience"), tell("two")}}
	r := newRig(t, old)
	r.event("a", liveness.DeviceOffline)
	r.state("a", playbook.RunWaiting)
	changed := old
	changed.Steps = []playbook.Step{tell("one"), wait("patience"), tell("three")}
	r.books = []playbook.Playbook{changed}
	r.restart()
	r.later(11 * time.Minute)
	r.state("a", playbook.RunDone)
	r.told("one a", "three a")
	r.event("b", liveness.DeviceOffline)
	r.state("b", playbook.RunWaiting)
	r.books = nil
	r.restart()
	if p, err := r.jobs.Endpoint("playbook-p"); err != nil || p.Kind != playbook.EndpointKind {
		t.Errorf("the endpoint is %+v, %v; its jobs need it", p, err)
	}
	if routes := r.jobs.Settings().Routes; len(routes) != 0 {
		t.Errorf("the routes are %+v", routes)
	}
	r.event("c", liveness.DeviceOffline)
	if runs := r.runs(); len(runs) != 2 {
		t.Errorf("the runs are %+v", runs)
	}
	r.books = []playbook.Playbook{changed} // and it is back
	r.restart()
	r.later(11 * time.Minute)
	r.state("b", playbook.RunDone)
}

// A run that was diverted when the steps for it went from the configuration is over.
func TestRecoveryRemoved(t *testing.T) {
	p := playbook.Playbook{
		Name: "p", On: offline(), Recovery: playbook.Divert,
		Steps: []playbook.Step{tell("alarm"), wait("patience")}, Recovered: []playbook.Step{tell("calm"), wait("rest"), tell("end")},
	}
	r := newRig(t, p)
	r.event("a", liveness.DeviceOffline)
	r.state("a", playbook.RunWaiting)
	r.event("a", liveness.DeviceOnline)
	r.until("it was diverted", func() bool { run, _ := r.state("a", playbook.RunWaiting); return run.Diverted })
	p.Recovery, p.Recovered = playbook.Cancel, nil
	r.books = []playbook.Playbook{p}
	r.restart()
	r.later(11 * time.Minute)
	r.state("a", playbook.RunRecovered)
	r.told("alarm a", "calm a")
}

// A URL that does not answer keeps nobody else from hearing.
func TestDeadURL(t *testing.T) {
	url := func(name, address string) playbook.Step {
		return playbook.Step{Name: name, Do: playbook.Deliver{URL: address}}
	}
	r := newRig(t, playbook.Playbook{Name: "p", On: offline(), Steps: []playbook.Step{
		url("one", "http://127.0.0.1:1/"), url("two", "http://127.0.0.1:2/"), url("again", "http://127.0.0.1:1/"),
	}})
	r.check(r.jobs.PauseQueue(t.Context(), jobs.DefaultQueue, true))
	r.event("a", liveness.DeviceOffline)
	r.state("a", playbook.RunDone)
	jobs, err := r.jobs.Jobs().List(t.Context(), jobs.Filter{}, 10, time.Now())
	r.check(err)
	if len(jobs) != 3 || jobs[0].Key == jobs[1].Key || jobs[0].Key != jobs[2].Key {
		t.Errorf("the jobs are %+v; want another key for another URL", jobs)
	}
}

// A window may end while the operator's maintenance goes on.
func TestMaintenance(t *testing.T) {
	r := newRig(t, playbook.Playbook{
		Name: "p", On: &playbook.Trigger{Types: []string{"device.maintenance.started"}, All: true}, Steps: []playbook.Step{wait("patience"), tell("end")},
	})
	maintenance := func(kind liveness.Type, goesOn bool) {
		r.seqs["a"]++
		r.fleet.set("a", func(v *liveness.View) {
			v.ID, v.State, v.Since, v.Maintenance = "a", liveness.Online, time.Now(), goesOn
		})
		r.check(r.store.Append(t.Context(), []liveness.Event{{
			Type: kind, Subject: "a", Seq: r.seqs["a"], Time: time.Now(), Maintenance: goesOn,
			Source: "line", Record: &keep.Record{Num: 1, ID: "a", State: liveness.Online, Source: "line", Seq: r.seqs["a"], Maintenance: goesOn},
		}}))
	}
	maintenance(liveness.DeviceMaintenanceStarted, true)
	r.state("a", playbook.RunWaiting)
	maintenance(liveness.DeviceMaintenanceStopped, true)
	r.later(11 * time.Minute)
	r.state("a", playbook.RunDone)
	r.told("end a")
	maintenance(liveness.DeviceMaintenanceStarted, true)
	r.state("a", playbook.RunWaiting)
	maintenance(liveness.DeviceMaintenanceStopped, false)
	r.state("a", playbook.RunRecovered)
	r.told("end a")
}

// Who cancels a run while one of its steps is at work has the last word.
func TestCancelAtWork(t *testing.T) {
	dir := t.TempDir()
	step := playbook.Step{Name: "run", Do: playbook.Command{Shell: "touch begun; while [ ! -e go ]; do sleep 0.01; done; echo over", Dir: dir}}
	r := newRig(t, playbook.Playbook{Name: "p", On: offline(), Steps: []playbook.Step{step, tell("after")}})
	r.event("a", liveness.DeviceOffline)
	r.until("the command runs", func() bool { _, err := os.Stat(filepath.Join(dir, "begun")); return err == nil })
	id := r.runs()[0].ID
	r.check(r.engine.Cancel(t.Context(), id, "by a test"))
	r.check(os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	r.until("the command has ended", func() bool {
		_, steps, err := r.engine.Show(t.Context(), id)
		r.check(err)
		return len(steps) == 1 && steps[0].State == playbook.StepDone
	})
	if run, _ := r.state("a", playbook.RunCanceled); run.Error != "by a test" || run.Ended.IsZero() {
		t.Errorf("the run is %+v", run)
	}
	r.told()
}

// A clock that was ahead, and is set right, makes no wait longer.
func TestClockSetBack(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart=%v", restart), func(t *testing.T) {
			ask := playbook.Step{Name: "ask", After: []string{}, Do: playbook.Wait{For: 5 * time.Hour}}
			r := newRig(t, playbook.Playbook{Name: "p", On: offline(), Steps: []playbook.Step{wait("patience"), ask, tell("end")}})
			r.ahead.Store(int64(time.Hour))
			r.event("a", liveness.DeviceOffline)
			r.state("a", playbook.RunWaiting)
			if restart {
				r.end()
				r.ahead.Store(0)
				r.start()
			}
			r.ahead.Store(0)
			r.until("the wait is as long as it was to be", func() bool {
				run, steps := r.state("a", playbook.RunWaiting)
				limit := time.Now().Add(10 * time.Minute)
				return !steps["patience"].Wake.After(limit) && !run.Wake.After(limit) && !steps["patience"].Started.After(time.Now())
			})
		})
	}
}

// A wait goes on where it is under a process whose clock is behind.
func TestClockBehindAfterTakeover(t *testing.T) {
	r := newRig(t, playbook.Playbook{Name: "p", On: offline(), Steps: []playbook.Step{{Name: "patience", Do: playbook.Wait{For: 2 * time.Hour}}}})
	r.ahead.Store(int64(time.Hour))
	r.wall = r.now
	r.restart()
	r.event("a", liveness.DeviceOffline)
	r.state("a", playbook.RunWaiting)
	r.ahead.Add(int64(90 * time.Minute))
	registry, err := liveness.New(r.store, liveness.Config{})
	r.check(err)
	r.check(r.store.Checkpoint(t.Context(), registry))
	r.end()
	r.ahead.Store(0)
	r.start()
	run, steps := r.state("a", playbook.RunWaiting)
	if wait := steps["patience"].Wake.Sub(r.now()); wait > 30*time.Minute || wait < 29*time.Minute || !run.Wake.Equal(steps["patience"].Wake) {
		t.Errorf("after 90 minutes of 2 hours the step waits for %v, and the run until %v", wait, run.Wake)
	}
}

// A run behind another one is there, and can be canceled.
func TestTurn(t *testing.T) {
	r := newRig(t, playbook.Playbook{Name: "p", On: offline(), Recovery: playbook.Ignore, Steps: []playbook.Step{wait("patience"), tell("end")}})
	r.event("a", liveness.DeviceOffline)
	first, _ := r.state("a", playbook.RunWaiting)
	byHand, err := r.engine.Start(t.Context(), "p", "a")
	r.check(err)
	r.event("a", liveness.DeviceOffline)
	byEvent := byHand + 1
	for id, event := range map[uint64]uint64{byHand: 0, byEvent: 2} {
		run, steps, err := r.engine.Show(t.Context(), id)
		if err != nil || len(steps) != 0 || run.Playbook != "p" || run.Subject != "a" || run.Event != event || run.State != playbook.RunWaiting ||
			!run.Started.IsZero() || !strings.Contains(run.Error, "waits for its turn") {
			t.Errorf("Show(%d): %+v, %+v, %v", id, run, steps, err)
		}
	}
	if run, _, err := r.engine.Show(t.Context(), first.ID); err != nil || !reflect.DeepEqual(run, first) {
		t.Errorf("the first run is %+v, %v, want %+v", run, err, first)
	}
	r.check(r.engine.Cancel(t.Context(), byHand, "by a test"))
	if run, _, err := r.engine.Show(t.Context(), byHand); err != nil || run.State != playbook.RunCanceled || run.Error != "by a test" || run.Subject != "a" {
		t.Errorf("the canceled run is %+v, %v", run, err)
	}
	r.later(11 * time.Minute)
	r.state("a", playbook.RunWaiting)
	r.later(11 * time.Minute)
	if run, _ := r.state("a", playbook.RunDone); run.ID != byEvent {
		t.Errorf("the last run is %+v", run)
	}
	r.told("end a", "end a")
	other, err := r.jobs.Enqueue(t.Context(), delivery.Request{Endpoint: "ops", Body: []byte("{}"), RunAt: time.Now().Add(time.Hour)})
	r.check(err)
	if _, _, err := r.engine.Show(t.Context(), other); !errors.Is(err, playbook.ErrUnknown) {
		t.Errorf("a job that is no run: %v", err)
	}
	if err := r.engine.Cancel(t.Context(), other, ""); !errors.Is(err, playbook.ErrUnknown) || len(r.jobs.Jobs().Depths()) != 1 {
		t.Errorf("a job that is no run is canceled: %v", err)
	}
}

// What steps tell and is not there is said at once, not at the first alarm.
func TestLoadWarns(t *testing.T) {
	queue := tell("queue")
	queue.Do = playbook.Deliver{Endpoint: "ops", Queue: "nowhere"}
	p := playbook.Playbook{Name: "p", On: offline(), Recovery: playbook.Divert, Recovered: []playbook.Step{queue}, Steps: []playbook.Step{
		tell("good"),
		{Name: "nobody", Do: playbook.Deliver{Endpoint: "nobody"}},
		{Name: "kind", Do: playbook.Deliver{As: "webhook", Endpoint: "ops"}},
		{Name: "url", Do: playbook.Deliver{URL: "https://203.0.113.1/"}},
	}}
	r := newRig(t, p)
	var text bytes.Buffer
	r.logger = slog.New(slog.NewTextHandler(&text, nil))
	r.restart()
	r.end()
	if n := strings.Count(text.String(), "would fail now"); n != 3 {
		t.Errorf("%d warnings, want 3, in\n%s", n, text.String())
	}
	for _, want := range []string{"step=nobody error=\"there is no endpoint", "step=kind error=\"endpoint", "step=queue error=\"there is no queue"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
}

// A playbook whose endpoint is disabled is shown as paused, as one whose route is: events begin no runs of it.
func TestPaused(t *testing.T) {
	r := newRig(t, playbook.Playbook{Name: "watch", On: &playbook.Trigger{}, Steps: []playbook.Step{tell("page")}})
	if r.engine.Paused("watch") {
		t.Error("it is paused from the beginning")
	}
	r.check(r.jobs.EnableEndpoint(t.Context(), "playbook-watch", false, "by an operator"))
	if !r.engine.Paused("watch") {
		t.Error("it is not paused although its endpoint is disabled")
	}
	r.check(r.jobs.EnableEndpoint(t.Context(), "playbook-watch", true, ""))
	if r.engine.Paused("watch") {
		t.Error("it stays paused")
	}
}
