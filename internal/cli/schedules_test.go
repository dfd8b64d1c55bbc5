package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/server"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// An operator sets schedules from the command line, and they run, also after a crash.
func TestSchedules(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	data := t.TempDir()
	mark := filepath.Join(t.TempDir(), "mark")
	p := startServe(t, server.PrivateEnv+"=127.0.0.1", server.CommandsEnv+"=true", "--data", data)
	holter := func(want string, args ...string) string { t.Helper(); return p.operate(want, args...) }
	until := func(what string, ok func() bool) {
		t.Helper()
		testwait.Until(t, what, ok, func() string { return holter("", "schedules", "history") })
	}
	holter("schedule tick set; next run at ", "schedules", "set", "tick", "--kind", "webhook", "--when", "@every 1s", "--settings", `{"url":"`+h.URL+`"}`)
	h.until(t, "a webhook came", func(came []string) bool { return len(came) >= 1 })
	holter("schedule tick paused", "schedules", "pause", "tick")
	holter("there is a schedule \"tick\"", "schedules", "set", "tick", "--new", "--kind", "webhook", "--when", "@daily")
	holter("field 2 (hour) is 25", "schedules", "set", "tick", "--when", "0 25 * * *")
	holter("it is paused", "schedules", "set", "tick", "--when", "0 3 * * *", "--zone", "Europe/Berlin", "--overlap", "queue(2)", "--jitter", "2s", "--at-most-once")
	var s httpapi.Schedule
	if err := json.Unmarshal([]byte(holter("tick", "schedules", "list", "--json")), &s); err != nil {
		t.Fatal(err)
	}
	if s.Name != "tick" || !s.Paused || s.Zone != "Europe/Berlin" || s.Overlap != "queue(2)" || s.Jitter != 2000 || !s.Once || !strings.Contains(string(s.Settings), h.URL) {
		t.Errorf("schedule %+v", s)
	}
	holter("schedule tick resumed", "schedules", "resume", "tick")

	holter("set; ", "schedules", "set", "slow", "--kind", "command", "--when", "@yearly",
		"--settings", `{"command":"echo begun; [ -e `+mark+` ] || { touch `+mark+`; sleep 1000; }","shell":true}`)
	holter("starts as soon as a worker is free", "schedules", "run", "slow")
	until("the command runs", func() bool {
		_, err := os.Stat(mark)
		return err == nil
	})
	holter("OWNER", "schedules", "list")
	holter("a run still goes on", "schedules", "run", "slow")
	if err := p.stop(syscall.SIGKILL); err == nil {
		t.Error("it was killed and ended well")
	}
	p = startServe(t, server.PrivateEnv+"=127.0.0.1", server.CommandsEnv+"=true", "--data", data)
	until("it was done again", func() bool {
		return strings.Contains(holter("", "schedules", "history", "slow", "--state", "done"), "begun")
	})

	p.do(http.MethodPost, "/v1/beat/a", "")
	holter("set; ", "schedules", "set", "night", "--kind", "maintenance", "--when", "@yearly", "--settings", `{"for_ms":3600000,"device":"*"}`)
	holter("starts", "schedules", "run", "night")
	until("a is in maintenance", func() bool { return strings.Contains(holter("", "devices"), "maintenance") })
	p.untilGet("/metrics", 200, `holter_schedule_runs_total{state="done"} 1`)
	p.untilGet("/metrics", 200, "holter_schedule_windows_open 1")
	holter("deleted", "schedules", "delete", "night")
	until("a is in maintenance no longer", func() bool { return !strings.Contains(holter("", "devices"), "maintenance") })
	holter("slow", "schedules", "list")
	holter("not JSON", "schedules", "set", "slow", "--settings", "{")
	holter("no schedule \"none\"", "schedules", "history", "none")
	holter("no schedule \"none\"", "schedules", "run", "none")
}

// One that has no instant left is not called paused.
func TestScheduleSetOver(t *testing.T) {
	for extra, want := range map[string]string{
		"":                               "schedule a set; it has no next run\n",
		`,"paused":true`:                 "schedule a set; it is paused\n",
		`,"next":"2026-03-02T12:00:00Z"`: "schedule a set; next run at 2026-03-02T12:00:00.000Z\n",
	} {
		schedule := `{"name":"a","kind":"webhook","when":"2026-03-02T12:00:00Z","runs":1` + extra + `}`
		mux := http.NewServeMux()
		mux.Handle("GET /v1/schedules/a", answer(http.StatusOK, "application/json", schedule))
		mux.Handle("PUT /v1/schedules/a", answer(http.StatusOK, "application/json", schedule))
		url := serveTest(t, mux)
		if got := typeLine(t.Context(), t, "schedules", "set", "a", "--settings", `{"endpoint":"ops"}`, "--api", url); got.stdout != want {
			t.Errorf("%s: %+v, want %q", extra, got, want)
		}
	}
}

// In a file, what is wide in one line makes no other line wide.
func TestSchedulesHistoryWidth(t *testing.T) {
	url := serveTest(t, answer(http.StatusOK, "application/json", `{"runs":[
		{"run":2,"schedule":"a","state":"failed","scheduled":"2026-03-02T12:00:00Z","error":"exit status 1","output":"`+strings.Repeat("x", 4096)+`"},
		{"run":1,"schedule":"a","state":"failed","scheduled":"2026-03-02T11:00:00Z","error":"exit status 22"}]}`))
	got := typeLine(t.Context(), t, "schedules", "history", "--api", url)
	lines := strings.Split(got.stdout, "\n")
	if len(lines) != 4 || !strings.HasSuffix(lines[2], " exit status 22") || len(lines[2]) > 80 {
		t.Errorf("history: %+v", got)
	}
}
