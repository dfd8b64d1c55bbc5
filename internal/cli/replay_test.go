package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/replay"
)

// replayServer answers with a replay, and shows the query that it was asked with.
func replayServer(t *testing.T, query *string) http.Handler {
	t.Helper()
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := replay.Answer{
		Field: replay.Timeout, From: from, To: from.Add(7 * 24 * time.Hour), Devices: 10, Silences: 50, Outages: 3, ExactFrom: 90_000, Suppressed: 2,
		Today:    replay.Point{Value: 180_000, Least: 180_000, Most: 180_000, FalseAlarms: 3, Rate: 1.25, Seen: 3, Mean: 180_000, P90: 180_000, Weekly: 12},
		Learned:  &replay.Point{Value: 141_000, Least: 120_000, Most: 150_000, FalseAlarms: 4, Rate: 1.67, Seen: 3, Mean: 141_000, P90: 150_000, Weekly: 14},
		Points:   []replay.Point{{Value: 60_000, Bound: true, FalseAlarms: 1041, Rate: 18, Seen: 3, Mean: 60_000, P90: 61_000, Weekly: 88}},
		Sentence: "1m instead of 3m: at least 41 more false alarms a month, 3 outages seen 2m sooner",
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*query = r.URL.RawQuery
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a)
	})
}

func TestReplay(t *testing.T) {
	var query string
	api := serveTest(t, replayServer(t, &query))
	file := filepath.Join(t.TempDir(), "page.html")
	got := typeLine(t.Context(), t, "replay", "--api", api, "--group", "meters", "--timeout", "60s..10m", "--last", "30d", "--html", file)
	if got.code != 0 || got.stderr != "" {
		t.Fatalf("code %d, stderr %q", got.code, got.stderr)
	}
	for _, want := range []string{"at least 41 more false alarms", "≥ 1,041", "today", "learned", "2m to 2m30s", "50 silences, 3 outages", "2 silences in maintenance"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in\n%s", want, got.stdout)
		}
	}
	if query != "from=30d&group=meters&timeout=60s..10m" {
		t.Errorf("query = %s", query)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "</html>") {
		t.Errorf("page: %v", err)
	}
	if got := typeLine(t.Context(), t, "replay", "--api", api, "--csv"); got.code != 0 || strings.Count(got.stdout, "\n") != 4 || !strings.Contains(got.stdout, "learned,141000,0,false,4,") {
		t.Errorf("CSV: %+v", got)
	}
	if got := typeLine(t.Context(), t, "replay", "--api", api, "--json"); got.code != 0 || !json.Valid([]byte(got.stdout)) {
		t.Errorf("JSON: %+v", got)
	}
}

func TestReplayMistakes(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"--timeout 60s --late-after 30s", "one setting"},
		{"--group a --device b", "not both"},
		{"--last 7d --from 3d", "not both"},
		{"--json --csv", "not both"},
		{"--timeout 10m..60s", "--timeout: the range"},
		{"--timeout 0", "not between"},
		{"--timeout x", "not a duration"},
		{"--outage-share 2", "--outage-share: 2 is not a share"},
		{"--last=-7d", "--last"},
	} {
		got := typeLine(t.Context(), t, append([]string{"replay", "--api", "http://127.0.0.1:1"}, strings.Fields(tt.line)...)...)
		if got.code != exitUsage || !strings.Contains(got.stderr, tt.want) {
			t.Errorf("%s: code %d, %q, want %q", tt.line, got.code, got.stderr, tt.want)
		}
	}
}
