package cli

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/doctor"
)

func TestDoctorAPI(t *testing.T) {
	const well = "ok API, ok ready, ok outbox, ok source gateway, ok source http"
	tests := []struct {
		name    string
		handler http.Handler
		want    string
	}{
		{"all is well", statsServer(t, nil), well},
		{"not ready", statsServer(t, func(r *apiclient.Overview) { r.Problem = "the database does not answer" }), strings.Replace(well, "ok ready", "fail ready", 1)},
		{"stalled", statsServer(t, func(r *apiclient.Overview) { r.Stats.Stalled, r.Sources[0].Held = 5000, true }), "ok API, ok ready, fail outbox, fail source gateway, ok source http"},
		{"events lost", statsServer(t, func(r *apiclient.Overview) { r.Stats.Lost = 5 }), strings.Replace(well, "ok outbox", "fail outbox", 1)},
		{"events wait", statsServer(t, func(r *apiclient.Overview) { r.Stats.Queued = 200_000 }), strings.Replace(well, "ok outbox", "warn outbox", 1)},
		{"overloaded", statsServer(t, func(r *apiclient.Overview) { r.Sources[0].Behind = 5000 }), strings.Replace(well, "ok source gateway", "warn source gateway", 1)},
		{"a source that is gone", statsServer(t, func(r *apiclient.Overview) { r.Sources[1].Absent = true }), strings.Replace(well, "ok source http", "warn source http", 1)},
		{"a source that is retired", statsServer(t, func(r *apiclient.Overview) { r.Sources[1].Absent, r.Sources[1].Retired = true, true }), well},
		{"another version", statsServer(t, func(r *apiclient.Overview) { r.Stats.Version = "v9" }), strings.Replace(well, "ok outbox", "warn version, ok outbox", 1)},
		{"token wanted", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/readyz" {
				answer(200, "text/plain", "ok\n")(w, r)
				return
			}
			problem(401, "it wants a token")(w, r)
		}), "ok API, ok ready, fail token"},
		{"starting", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			problem(503, "starting: devices are being restored")(w, r)
		}), "ok API, fail ready"},
		{"another program", answer(404, "text/html", "<h1>no</h1>"), "fail API"},
		{"another program that says yes", answer(200, "text/html", "<h1>hi</h1>"), "ok API, ok ready, fail stats"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			said := typeLine(t.Context(), t, "doctor", "--json", "--data", t.TempDir(), "--api", serveTest(t, tt.handler))
			var got []string
			for line := range strings.Lines(said.stdout) {
				var f doctor.Finding
				if err := json.Unmarshal([]byte(line), &f); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				about, _, _ := strings.Cut(f.Check, " ")
				if !slices.Contains([]string{"API", "ready", "token", "stats", "version", "outbox", "source"}, about) {
					continue
				}
				if f.Check == "API" && strings.Contains(f.Text, "but only after") { // a busy machine may be slow
					f.Level = doctor.LevelOK
				}
				got = append(got, string(f.Level)+" "+f.Check)
			}
			if strings.Join(got, ", ") != tt.want {
				t.Errorf("doctor found %q, want %q\n%s", got, tt.want, said.stderr)
			}
			if failed := strings.Contains(said.stdout, `"level":"fail"`); failed != (said.code == exitFailed) || strings.Contains(tt.want, "fail ") && !failed {
				t.Errorf("doctor ended with %d\n%s", said.code, said.stdout)
			}
		})
	}
}

// The whole of it, on this machine and with a database of its own.
func TestDoctor(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	if got := typeLine(t.Context(), t, "tokens", "create", "--role=read", "--name=a", "--data", data); got.code != 0 {
		t.Fatalf("token create = %+v", got)
	}
	api := serveTest(t, statsServer(t, nil))
	got := typeLine(t.Context(), t, "doctor", "--json", "--data", data, "--api", api, "--connections=10")
	seen := map[string]doctor.Level{}
	for line := range strings.Lines(got.stdout) {
		var f doctor.Finding
		if err := json.Unmarshal([]byte(line), &f); err != nil || f.Text == "" {
			t.Fatalf("%s: %v", line, err)
		}
		seen[f.Check] = f.Level
	}
	for _, check := range []string{"data directory", "lock", "database", "API", "ready", "outbox", "open files"} {
		if l, ok := seen[check]; !ok || l == doctor.LevelFail {
			t.Errorf("%s is %q\n%s", check, l, got.stdout)
		}
	}
	bad := typeLine(t.Context(), t, "doctor", "--data", data, "--api", api, "--config", tempFile(t, "policy:\n  timout: 90s\n"))
	if bad.code != exitFailed || !strings.Contains(bad.stdout, "fail  configuration") || !strings.Contains(bad.stdout, ":2:3") {
		t.Errorf("with a bad configuration: %+v", bad)
	}
}

func TestDoctorOfLoad(t *testing.T) {
	got := typeLine(t.Context(), t, "doctor", "--data", t.TempDir(), "--connections=10", "--source", "127.0.0.2-127.0.0.3", "--source", "192.0.2.1")
	if got.code != exitFailed || !strings.Contains(got.stdout, "fail  load: sources") || strings.Contains(got.stdout, "local ports") {
		t.Errorf("doctor = %+v", got)
	}
	for _, args := range [][]string{{"--source", "127.0.0.2"}, {"--connections=10", "--source", "here"}} {
		if got := typeLine(t.Context(), t, append([]string{"doctor"}, args...)...); got.code != exitUsage || !strings.Contains(got.stderr, "--source") {
			t.Errorf("%q: %+v", args, got)
		}
	}
}
