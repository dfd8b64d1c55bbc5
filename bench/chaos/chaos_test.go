package chaos

import (
	"context"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

// smallConfig is a run of less than a minute in which each kind of fault has its turn, by its seed.
func smallConfig() Config {
	c := defaults()
	c.Devices, c.For, c.Seed = 300, 45*time.Second, 45
	c.Rules = Rules{TTLs: []time.Duration{2 * time.Second, 4 * time.Second, 18 * time.Second}, Epsilon: 4 * time.Second}
	return c
}

// buildHolter builds the program, with the race detector if this test has it, and returns its path.
func buildHolter(t *testing.T) string {
	t.Helper()
	var flags []string
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		flags = []string{"-race"}
	}
	path, err := run.Build(t.Context(), t.TempDir(), flags...)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestChaos(t *testing.T) {
	testenv.Check(t)
	holter := buildHolter(t)
	// The program, with its default settings, is killed, stopped, starved and restarted, its disk
	// is filled and its database destroyed, while devices come and go: no verdict is wrong or
	// missing, nothing that was answered is lost, and no event is lost, comes twice or out of
	// order. It goes on until some devices were silent for longer than anything excuses. `go run
	// . chaos` is the large form.
	t.Run("all faults", func(t *testing.T) {
		t.Parallel()
		report := runChaos(t, holter, smallConfig())
		if report.Starts < 2 || report.Bound == 0 || len(report.Evidence.Writes) == 0 {
			t.Errorf("%d processes of the server, %d verdicts due whatever happened, %d writes: something was not proved",
				report.Starts, report.Bound, len(report.Evidence.Writes))
		}
		testTampered(t, report.Evidence)
	})
	// A judge and a standby on one database: whichever of them judges, the same holds, and a follower
	// that goes from one to the other sees one log. `go run . chaos -nodes 2` is the large form.
	t.Run("nodes", func(t *testing.T) {
		testdb.Need(t, Postgres)
		t.Parallel()
		cfg := smallConfig()
		cfg.Database, cfg.Nodes, cfg.Devices, cfg.For, cfg.Seed = Postgres, 2, 100, 32*time.Second, 16
		cfg.Faults = []FaultKind{Kill, Term, LongStop, Cut}
		cfg.Rules.TTLs = []time.Duration{2 * time.Second, 4 * time.Second, 6 * time.Second}
		report := runChaos(t, holter, cfg)
		if turns := len(report.Evidence.Turns); turns < 3 || len(report.Evidence.Terms) < 3 {
			t.Errorf("%d turns, %d terms: something was not proved", turns, len(report.Evidence.Terms))
		}
		t.Logf("%d verdicts were due", report.Due) // on a busy machine each turn may put all of them off
	})
	// Two ears hold the devices' connections, and one after the other is killed, stopped, ended or cut
	// off from the judge, or their link loses packets, if this process may make network namespaces: the devices find
	// the other one, and the same holds. `go run . chaos -ears 3` is the large form.
	t.Run("ears", func(t *testing.T) {
		t.Parallel()
		cfg := smallConfig()
		cfg.Ears, cfg.Devices, cfg.For, cfg.Seed, cfg.Namespaces = 2, 100, 20*time.Second, 1, true
		cfg.Faults = []FaultKind{EarKill, EarStop, EarLongStop, EarTerm, EarCut, EarLossy}
		cfg.Rules.TTLs = []time.Duration{2 * time.Second, 3 * time.Second}
		report := runChaos(t, holter, cfg)
		if len(report.Evidence.History.Lapses) == 0 {
			t.Error("nothing happened to an ear: nothing was proved")
		}
		t.Logf("%d verdicts were due", report.Due) // each ear that is lost puts verdicts off
	})
}

// TestSoakChaos is the same with each database, for longer, and with more devices. `go run . chaos` is the form for hours.
func TestSoakChaos(t *testing.T) {
	testenv.Soak(t)
	holter := buildHolter(t)
	for _, tt := range []struct {
		name   string
		change func(c *Config)
	}{
		{"sqlite", func(*Config) {}},
		{"postgres", func(c *Config) { c.Database = Postgres }},
		{"mariadb", func(c *Config) { c.Database = MariaDB }},
		{"nodes", func(c *Config) { c.Database, c.Nodes = Postgres, 2 }},
		{"nodes on mariadb", func(c *Config) { c.Database, c.Nodes = MariaDB, 2 }},
		{"ears", func(c *Config) { c.Ears, c.Namespaces = 3, true }},
		{"ears of nodes", func(c *Config) { c.Database, c.Nodes, c.Ears, c.Namespaces = Postgres, 2, 3, true }},
		// Stopped again and again, for so long that silent devices must be judged meanwhile: 1.3 s every 7 s.
		{"stalls", func(c *Config) {
			c.Devices, c.Faults, c.Seed, c.Rules.TTLs = 60, []FaultKind{Stalls}, 9, c.Rules.TTLs[:2]
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := smallConfig()
			cfg.Devices = 1000
			tt.change(&cfg)
			cfg.For = testenv.SoakFor(t, 75*time.Second)
			testdb.Need(t, cfg.Database)
			report := runChaos(t, holter, cfg)
			if tt.name == "stalls" && report.Bound == 0 {
				t.Error("no verdict was due whatever happened: nothing was proved")
			}
		})
	}
}

// runChaos runs the program as the configuration says, and checks that no promise was broken.
func runChaos(t *testing.T, holter string, cfg Config) *Report {
	t.Helper()
	cfg.Program, cfg.Dir, cfg.Log = holter, t.TempDir(), t.Output()
	ctx, cancel := context.WithTimeout(t.Context(), cfg.For+3*time.Minute)
	defer cancel()
	report, err := Run(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.WriteText(t.Output()); err != nil {
		t.Fatal(err)
	}
	if len(report.of(NoJudge)) < len(report.Violations) { // a busy machine may be slow
		t.Errorf("%d promises were broken\nThe end of the server's log:\n%s", len(report.Violations), report.ServerLog)
	}
	return report
}

// testTampered checks that the proof would have failed if the log were not what it is, or the
// server had other rules.
func testTampered(t *testing.T, e *Evidence) {
	t.Helper()
	verdict := func(reason string) int {
		return slices.IndexFunc(e.Events, func(e cloudevent.Event) bool { return e.Type == typeOffline && e.Data.Reason == reason })
	}
	if verdict(reasonSilence) < 0 || len(e.Events) < 10 || len(e.Writes) == 0 {
		t.Error("there is no verdict for silence, or no write, to tamper with")
		return
	}
	tests := []struct {
		name   string
		tamper func(e *Evidence)
		want   ViolationKind
	}{
		{"a verdict is taken out", func(e *Evidence) {
			i := verdict(reasonSilence)
			e.Events = slices.Delete(e.Events, i, i+1)
		}, LostEvent},
		{"verdicts come earlier", func(e *Evidence) {
			for i := range e.Events {
				if e.Events[i].Data.Reason == reasonSilence {
					e.Events[i].Time = e.Events[i].Time.Add(-e.Rules.TTLs[0] / 2)
				}
			}
		}, FalseOffline},
		{"the log is cut", func(e *Evidence) { e.Events = e.Events[:len(e.Events)-5] }, LostEvent},
		{"the timeouts are longer", func(e *Evidence) {
			for i := range e.Devices {
				e.Devices[i].TTL *= 2
			}
		}, FalseOffline},
		{"the dead are never judged", func(e *Evidence) {
			e.Events = slices.DeleteFunc(e.Events, func(e cloudevent.Event) bool { return e.Data.Reason == reasonSilence })
		}, Unjudged},
		{"a verdict knows of no recent heartbeat", func(e *Evidence) {
			i := verdict(reasonSilence)
			e.Events[i].Data.LastSeen = e.Events[i].Data.LastSeen.Add(-5 * time.Second)
		}, AnswerLost},
		{"a device was never written to", func(e *Evidence) {
			e.Writes[0].Found = &State{} // deleted is not deleted, all else was never written
		}, AnswerLost},
		{"a state was shown that never was", func(e *Evidence) { e.Shown = map[string]bool{e.Events[0].Subject + ":1000": true} }, AnswerLost},
		{"devices are judged that fell silent long after", func(e *Evidence) {
			for i := range e.Devices {
				e.Devices[i].Steps = nil
			}
		}, WrongState},
		{"the API has no devices", func(e *Evidence) { e.States = nil }, WrongState},
	}
	for _, tt := range tests {
		other := *e
		other.Events, other.Devices, other.Writes = slices.Clone(e.Events), slices.Clone(e.Devices), slices.Clone(e.Writes)
		tt.tamper(&other)
		f := Score(&other)
		if !slices.ContainsFunc(f.Violations, func(v Violation) bool { return v.Kind == tt.want }) {
			t.Errorf("%s: no %s is found", tt.name, tt.want)
		}
	}
}
