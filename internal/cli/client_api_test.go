package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// realIDs are such as are hard to write into a path.
func realIDs() []string { return []string{"site-7/pump 3", "..", "/", "100%"} }

// realAPI serves the API of a registry with these devices, heard at the source line once, which was deaf for 9 s since.
func realAPI(t *testing.T, ids ...string) (url string) {
	t.Helper()
	log, err := eventlog.New(0)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := liveness.New(log, liveness.Config{Policy: liveness.Policy{Timeout: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	source, err := registry.AddSource(liveness.SourceConfig{Name: "line"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- registry.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	now := time.Now().Add(-20 * time.Second)
	source.Pulse(now)
	for _, id := range ids {
		if _, err := source.Open(&liveness.Session{}, id, liveness.Hello{}, nil, source.Time(now)); err != nil {
			t.Fatal(err)
		}
	}
	source.Watermark(0, source.Pulse(now.Add(time.Second)))
	source.Deafen(now.Add(time.Second))
	for _, after := range []time.Duration{10 * time.Second, 11 * time.Second} {
		source.Watermark(0, source.Pulse(now.Add(after)))
	}
	if err := registry.Keeper().RestoreSource(keep.SourceRecord{Name: "bridge/old", Listened: time.Minute, At: now}); err != nil {
		t.Fatal(err)
	}
	wait, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for latest := uint64(0); latest < uint64(len(ids))+2; _, latest = log.Bounds() { // the source's two events, too
		if _, err := log.Wait(wait, nil, latest, 100); err != nil {
			t.Fatal(err)
		}
	}
	api, err := httpapi.New(registry, httpapi.LogEvents{Log: log}, httpapi.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return serveTest(t, api.Handler())
}

// All commands against a real API.
func TestCommandsAskTheAPI(t *testing.T) {
	t.Setenv("HOLTER_API", realAPI(t, realIDs()...))
	steps := []struct {
		args []string
		want []string // in the output, each once
		not  string
	}{
		{[]string{"devices"}, []string{"site-7/pump 3", "\n..", "\n/ ", "100%", "\n\n4 devices; in all 4: 4 unknown\n"}, ""},
		{[]string{"devices", "--state=unknown", "--source=line", "--prefix=1", "--seen-after=1h"}, []string{"100%  unknown ", "1 device; in all 4"}, "pump"},
		{[]string{"devices", "--group=none", "--state=late,offline"}, []string{"0 devices; in all 4"}, "pump"},
		{[]string{"devices", "get", "..", "/", "--json"}, []string{`"id":".."`, `"id":"/"`}, "pump"},
		{[]string{"events"}, []string{"site-7/pump 3  at line", "source.deaf", "source.heard"}, ""},
		{[]string{"events", "--device=site-7/pump 3"}, []string{"device.online"}, "100%"},
		{[]string{"events", "--type=source.heard", "--source=line", "--since=1h"}, []string{"source.heard"}, "device.online"},
		{[]string{"stats"}, []string{"ready, up for ", "6 kept, offsets 1 to 6", "\n  line "}, ""},
		{[]string{"devices", "policy", "site-7/pump 3", "--timeout=2m", "--interval=30s"}, []string{"has a policy of its own"}, ""},
		{[]string{"explain", "site-7/pump 3"}, []string{"timeout set for this device, with", "2m  timeout,"}, ""},
		{[]string{"devices", "maintenance", "/", "on"}, []string{"/ is in maintenance"}, ""},
		{[]string{"devices", "--maintenance"}, []string{"/ ", "maintenance", "1 device; in all 4"}, "pump"},
		{[]string{"devices", "maintenance", "/", "off"}, []string{"is not in maintenance"}, ""},
		{[]string{"devices", "policy", "site-7/pump 3", "--clear"}, []string{"no policy of its own"}, ""},
		{[]string{"sources", "list"}, []string{"\nline        listening ", "\nbridge/old  absent for "}, "retired"},
		{[]string{"sources", "list", "--json"}, []string{`"name":"bridge/old"`, `"absent":true,"retired":false`}, "LISTENED"},
		{[]string{"sources", "retire", "bridge/old"}, []string{"source bridge/old retired; its devices are judged"}, ""},
		{[]string{"sources", "list"}, []string{"\nline        listening ", "\nbridge/old  retired "}, "absent"},
		{[]string{"devices", "disconnect", "/"}, []string{"device / disconnected\n"}, ""},
		{[]string{"devices", "forget", ".."}, []string{"device .. forgotten"}, ""},
		{[]string{"devices"}, []string{"3 devices; in all 3: 3 unknown\n"}, "\n.."},
		{[]string{"events", "--type=device.forgotten,device.maintenance.stopped"}, []string{"device.forgotten", "device.maintenance.stopped"}, "device.online"},
	}
	for _, step := range steps {
		got := typeLine(t.Context(), t, step.args...)
		if got.code != 0 || got.stderr != "" {
			t.Errorf("%q = %+v", step.args, got)
		}
		for _, want := range step.want {
			if strings.Count(got.stdout, want) != 1 {
				t.Errorf("%q: want %q once in\n%s", step.args, want, got.stdout)
			}
		}
		if step.not != "" && strings.Contains(got.stdout, step.not) {
			t.Errorf("%q: do not want %q in\n%s", step.args, step.not, got.stdout)
		}
	}
	if got := typeLine(t.Context(), t, "devices", "forget", ".."); got.code != exitFailed || !strings.Contains(got.stderr, `unknown device ".."`) {
		t.Errorf("forget again = %+v", got)
	}
	for _, tt := range []struct{ args, want string }{
		{"devices disconnect /", `409 Conflict: the device has no session here that could be ended; it was heard last at "line"`},
		{"devices disconnect none", `unknown device "none"`},
		{"sources retire line", "remove it from the configuration"},
		{"sources retire none", `404 Not Found: there is no source "none"`},
	} {
		if got := typeLine(t.Context(), t, strings.Fields(tt.args)...); got.code != exitFailed || !strings.Contains(got.stderr, tt.want) {
			t.Errorf("%s = %+v, want %q", tt.args, got, tt.want)
		}
	}
	if got := typeLine(t.Context(), t, "sources", "retire", ""); got.code != exitUsage || !strings.Contains(got.stderr, "the name of the source is empty") {
		t.Errorf("retire nothing = %+v", got)
	}
}

// A command counts by the server's clock, whatever this machine's is.
func TestCommandsUseTheServersClock(t *testing.T) {
	now := time.Date(2040, 1, 2, 3, 4, 5, 0, time.UTC)
	since := now.Add(-3 * time.Second)
	var job httpapi.NewJob
	var lists atomic.Int32
	t.Setenv("HOLTER_API", serveTest(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/stats":
			_ = json.NewEncoder(w).Encode(httpapi.Stats{AsOf: now})
		case "/v1/sources":
			lists.Add(1)
			_ = json.NewEncoder(w).Encode(map[string]any{"as_of": now, "sources": []httpapi.Source{{Name: "http", DeafSince: &since}}})
		default:
			if err := json.NewDecoder(r.Body).Decode(&job); err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, `{"job":7}`)
		}
	})))
	if got := typeLine(t.Context(), t, "sources", "list"); !strings.Contains(got.stdout, "deaf for 3s") || lists.Load() != 1 {
		t.Errorf("sources list = %+v, after %d requests, want 1", got, lists.Load())
	}
	if got := typeLine(t.Context(), t, "jobs", "add", "1", "--url=http://a/", "--in=10m", "--within=1h"); got.stdout != "job 7\n" {
		t.Errorf("jobs add = %+v", got)
	}
	if !job.RunAt.Equal(now.Add(10*time.Minute)) || !job.Deadline.Equal(now.Add(time.Hour)) {
		t.Errorf("the job is to run at %v, until %v; it is %v at the server", job.RunAt, job.Deadline, now)
	}
}

// writerFunc is a function that takes what is written.
type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// What happened before reaches those who follow, and what happens then, through a filter.
func TestFollowAsksTheAPI(t *testing.T) {
	api, err := (&apiFlags{API: realAPI(t, "pump", "valve")}).ProvideClient()
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got, said strings.Builder
	out := writerFunc(func(p []byte) {
		got.Write(p)
		if strings.Contains(string(p), "device.forgotten") {
			cancel()
			return
		}
		for _, id := range []string{"valve", "pump"} {
			if err := api.Ask(ctx, "DELETE", pathOf("devices", id), nil, nil); err != nil {
				t.Error(err)
			}
		}
	})
	f := newFollower(api, url.Values{"device": {"pump"}}, newEventList(out, true), &said)
	if err := f.run(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("run: %v, want the interrupt", err)
	}
	if strings.Count(got.String(), "\n") != 2 || strings.Contains(got.String(), "valve") || said.Len() > 0 {
		t.Errorf("got\n%s%s", got.String(), said.String())
	}
}
