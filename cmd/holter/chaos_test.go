package main

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/fleet"
	"github.com/holter-iot/holter/internal/fleet/chaos"
)

// chaosConfig is the small form, unless HOLTER_CHAOS says otherwise: words such as devices=3000 for=5m seed=7 timeout=6s
// database=postgres faults=kill,stop.
func chaosConfig(t *testing.T) chaos.Config {
	t.Helper()
	cfg := chaos.Config{
		Devices: 300, For: 20 * time.Second, Seed: 45, // with that seed each kind of fault has its turn
		Rules: chaos.Rules{Timeout: 2 * time.Second, Allowance: time.Second, Checkpoint: 250 * time.Millisecond, Epsilon: 4 * time.Second},
	}
	for word := range strings.FieldsSeq(os.Getenv("HOLTER_CHAOS")) {
		if err := cfg.Set(word); err != nil {
			t.Fatalf("HOLTER_CHAOS: %v", err)
		}
	}
	return cfg
}

// The program is killed, stopped and restarted, and its disk is filled, while devices come and go: no verdict is wrong or missing, and
// no event is lost, comes twice or out of order. `go run ./bench/chaos` is the large form.
func TestChaos(t *testing.T) {
	cfg := chaosConfig(t)
	cfg.Dir, cfg.Log = t.TempDir(), t.Output()
	cfg.Command = func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, os.Args[0], args...)
		cmd.Env = append(os.Environ(), programEnv+"=1", "HOLTER_MQTT=off")
		cmd.Dir = cfg.Dir
		return cmd
	}
	ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(cfg.For, time.Minute)+3*time.Minute)
	defer cancel()
	report, err := chaos.Run(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.WriteText(t.Output()); err != nil {
		t.Fatal(err)
	}
	if !report.Clean() {
		t.Errorf("%d promises were broken\nThe end of the server's log:\n%s", len(report.Violations), report.ServerLog)
	}
	if report.Lives < 2 || report.Due == 0 || report.Events == 0 {
		t.Errorf("%d lives, %d verdicts due, %d events: nothing was proved", report.Lives, report.Due, report.Events)
	}
	testTampered(t, report.Evidence)
}

// testTampered checks that the proof would have failed if the log were not what it is, or the server had other rules.
func testTampered(t *testing.T, e *chaos.Evidence) {
	t.Helper()
	verdict := func(reason string) int {
		return slices.IndexFunc(e.Events, func(e fleet.Event) bool { return e.Type == fleet.TypeOffline && e.Reason == reason })
	}
	if verdict(fleet.ReasonSilence) < 0 || len(e.Events) < 10 {
		t.Error("there is no verdict for silence to tamper with")
		return
	}
	tests := []struct {
		name   string
		tamper func(e *chaos.Evidence)
		want   chaos.ViolationKind
	}{
		{"a verdict is taken out", func(e *chaos.Evidence) {
			i := verdict(fleet.ReasonSilence)
			e.Events = slices.Delete(e.Events, i, i+1)
		}, chaos.LostEvent},
		{"verdicts come earlier", func(e *chaos.Evidence) {
			for i := range e.Events {
				if e.Events[i].Reason == fleet.ReasonSilence {
					e.Events[i].Time = e.Events[i].Time.Add(-e.Rules.Timeout / 2)
				}
			}
		}, chaos.FalseOffline},
		{"the log is cut", func(e *chaos.Evidence) { e.Events = e.Events[:len(e.Events)-5] }, chaos.LostEvent},
		{"the timeout is longer", func(e *chaos.Evidence) { e.Rules.Timeout += e.Rules.Timeout / 2 }, chaos.FalseOffline},
		{"devices are judged that fell silent long after", func(e *chaos.Evidence) {
			for i := range e.Devices {
				e.Devices[i].Steps = nil
			}
		}, chaos.WrongState},
		{"the API has no devices", func(e *chaos.Evidence) { e.States = nil }, chaos.WrongState},
	}
	for _, tt := range tests {
		other := *e
		other.Events, other.Devices = slices.Clone(e.Events), slices.Clone(e.Devices)
		tt.tamper(&other)
		f := chaos.Score(&other)
		if !slices.ContainsFunc(f.Violations, func(v chaos.Violation) bool { return v.Kind == tt.want }) {
			t.Errorf("%s: no %s is found", tt.name, tt.want)
		}
	}
}
