package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/replay"
)

// serveLearned is a server with three devices: one of which a deadline was learned, one of which one is a
// guess, and a new one.
func serveLearned(t *testing.T) http.Handler {
	t.Helper()
	deadline := 141_000.0
	known := httpapi.Learned{
		ID: "meter-1", Timeout: 180_000, From: "group meters", Deadline: &deadline, Interval: 60_000, Longest: 123_000, Gaps: 19_874, Known: true,
		Sentence: "beats every 1m", Change: &replay.Change{FalseAlarms: 3, Before: 1, Sooner: 2, SoonerBy: 39_000},
	}
	guess := known
	guess.ID, guess.Known, guess.Change = "meter-2", false, nil
	fresh := httpapi.Learned{ID: "meter-3", Timeout: 180_000, From: "group meters", Sentence: "no deadline is learned: 2 of 8"}
	answer := func(w http.ResponseWriter, status int, body any) {
		kind := "application/json"
		if status >= http.StatusBadRequest {
			kind = "application/problem+json"
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "GET /v1/learn":
			if q := r.URL.Query(); q.Get("group") != "meters" {
				t.Errorf("asked for %v", q)
			}
			answer(w, http.StatusOK, map[string]any{"devices": []httpapi.Learned{fresh, guess, known}})
		case "PUT /v1/devices/meter-1/learned", "PUT /v1/devices/meter-2/learned", "DELETE /v1/devices/meter-1/learned":
			answer(w, http.StatusOK, known)
		case "PUT /v1/devices/meter-3/learned":
			answer(w, http.StatusConflict, map[string]any{"status": http.StatusConflict, "title": "Conflict", "detail": fresh.Sentence})
		default:
			answer(w, http.StatusNotFound, map[string]any{"status": http.StatusNotFound, "title": "Not Found", "detail": "no such device"})
		}
	})
}

func TestLearnCommand(t *testing.T) {
	t.Setenv("HOLTER_API", serveTest(t, serveLearned(t)))
	for _, tt := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"learn --group meters", 0, "2 more false alarms, 2 outages 39s sooner", ""},
		{"learn list --group meters --no-changes", 0, "few gaps yet", ""},
		{"learn --group meters --json", 0, `"id":"meter-2"`, ""},
		{"learn apply meter-1", 0, "meter-1: beats every 1m\n", ""},
		{"learn apply --group meters", 0, "meter-2: beats every 1m\n", "holter: meter-3:"},
		{"learn apply meter-3", exitFailed, "", "no deadline was put in force"},
		{"learn apply", exitUsage, "", "say which devices"},
		{"learn apply meter-1 --group meters", exitUsage, "", "not both"},
		{"learn apply nobody", exitFailed, "", `unknown device "nobody"`},
		{"learn reset meter-1", 0, "the learned deadlines of 1 device are taken back", ""},
	} {
		got := typeLine(t.Context(), t, strings.Fields(tt.args)...)
		if got.code != tt.code || !strings.Contains(got.stdout, tt.stdout) || !strings.Contains(got.stderr, tt.stderr) {
			t.Errorf("%s = %+v, want %d, %q, %q", tt.args, got, tt.code, tt.stdout, tt.stderr)
		}
	}
}

func TestChangeText(t *testing.T) {
	for _, tt := range []struct {
		change *replay.Change
		want   string
	}{
		{nil, ""},
		{&replay.Change{}, "nothing"},
		{&replay.Change{Before: 1}, "1 false alarm less"},
		{&replay.Change{Before: 5, FalseAlarms: 1, Later: 1, LaterBy: 60_000}, "4 fewer false alarms, 1 outage 1m later"},
		{&replay.Change{FalseAlarms: 2, Bound: true}, "at least: 2 more false alarms"},
		{&replay.Change{Sooner: 1}, "1 outage sooner"},
	} {
		if got := changeText(tt.change); got != tt.want {
			t.Errorf("changeText(%+v) = %q, want %q", tt.change, got, tt.want)
		}
	}
}
