package cli

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

// chaosConfig is the small form, unless HOLTER_CHAOS says otherwise: words such as devices=3000 for=5m seed=7 ttl=10s,30s
// database=postgres faults=kill,stop.
func chaosConfig(t *testing.T) chaos.Config {
	t.Helper()
	cfg := chaos.Config{
		Devices: 300, For: 45 * time.Second, Seed: 45, // with that seed each kind of fault has its turn
		Rules: chaos.Rules{TTLs: []time.Duration{2 * time.Second, 4 * time.Second, 18 * time.Second}, Epsilon: 4 * time.Second},
	}
	for word := range strings.FieldsSeq(os.Getenv("HOLTER_CHAOS")) {
		if err := cfg.Set(word); err != nil {
			t.Fatalf("HOLTER_CHAOS: %v", err)
		}
	}
	return cfg
}

// The program, with its default settings, is killed, stopped, starved and restarted, its disk is filled and its database destroyed, while
// devices come and go: no verdict is wrong or missing, nothing that was answered is lost, and no event is lost, comes twice or out of
// order. It goes on until some devices were dead for longer than anything excuses. `go run ./bench/chaos` is the large form.
func TestChaos(t *testing.T) {
	t.Parallel()
	report := runChaos(t, chaosConfig(t))
	if report.Lives < 2 || report.Bound == 0 || report.Writes == 0 {
		t.Errorf("%d lives, %d verdicts due whatever happened, %d writes: nothing was proved", report.Lives, report.Bound, report.Writes)
	}
	testTampered(t, report.Evidence)
}

// The same, stopped again and again, for so long that dead devices must be judged meanwhile.
func TestChaosOfStalls(t *testing.T) {
	t.Parallel()
	cfg := chaosConfig(t)
	cfg.Devices, cfg.Faults, cfg.For, cfg.Seed = 60, []chaos.FaultKind{chaos.Stalls}, cfg.For+30*time.Second, 9 // a stall of 1.3 s every 7 s
	cfg.Rules.TTLs = cfg.Rules.TTLs[:2]
	if report := runChaos(t, cfg); report.Bound == 0 {
		t.Error("no verdict was due whatever happened: nothing was proved")
	}
}

// runChaos runs the program as the configuration says, and checks that no promise was broken.
func runChaos(t *testing.T, cfg chaos.Config) *chaos.Report {
	t.Helper()
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
	return report
}

// testTampered checks that the proof would have failed if the log were not what it is, or the server had other rules.
func testTampered(t *testing.T, e *chaos.Evidence) {
	t.Helper()
	verdict := func(reason string) int {
		return slices.IndexFunc(e.Events, func(e fleet.Event) bool { return e.Type == fleet.TypeOffline && e.Reason == reason })
	}
	if verdict(fleet.ReasonSilence) < 0 || len(e.Events) < 10 || len(e.Writes) == 0 {
		t.Error("there is no verdict for silence, or no write, to tamper with")
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
					e.Events[i].Time = e.Events[i].Time.Add(-e.Rules.TTLs[0] / 2)
				}
			}
		}, chaos.FalseOffline},
		{"the log is cut", func(e *chaos.Evidence) { e.Events = e.Events[:len(e.Events)-5] }, chaos.LostEvent},
		{"the timeouts are longer", func(e *chaos.Evidence) {
			for i := range e.Devices {
				e.Devices[i].TTL *= 2
			}
		}, chaos.FalseOffline},
		{"the dead are never judged", func(e *chaos.Evidence) {
			e.Events = slices.DeleteFunc(e.Events, func(e fleet.Event) bool { return e.Reason == fleet.ReasonSilence })
		}, chaos.Unjudged},
		{"a verdict knows of no recent heartbeat", func(e *chaos.Evidence) {
			i := verdict(fleet.ReasonSilence)
			e.Events[i].LastSeen = e.Events[i].LastSeen.Add(-5 * time.Second)
		}, chaos.AnswerLost},
		{"a device was never written to", func(e *chaos.Evidence) {
			e.Writes[0].Found = &chaos.Found{} // deleted is not deleted, all else was never written
		}, chaos.AnswerLost},
		{"a state was shown that never was", func(e *chaos.Evidence) { e.Shown = map[string]bool{e.Events[0].Device + ":1000": true} }, chaos.AnswerLost},
		{"devices are judged that fell silent long after", func(e *chaos.Evidence) {
			for i := range e.Devices {
				e.Devices[i].Steps = nil
			}
		}, chaos.WrongState},
		{"the API has no devices", func(e *chaos.Evidence) { e.States = nil }, chaos.WrongState},
	}
	for _, tt := range tests {
		other := *e
		other.Events, other.Devices, other.Writes = slices.Clone(e.Events), slices.Clone(e.Devices), slices.Clone(e.Writes)
		tt.tamper(&other)
		f := chaos.Score(&other)
		if !slices.ContainsFunc(f.Violations, func(v chaos.Violation) bool { return v.Kind == tt.want }) {
			t.Errorf("%s: no %s is found", tt.name, tt.want)
		}
	}
}
