package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

func TestNewRejects(t *testing.T) {
	log, err := eventlog.New(0)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := liveness.New(log, liveness.Config{})
	if err != nil {
		t.Fatal(err)
	}
	events := httpapi.LogEvents{Log: log}
	twice := prometheus.NewGauge(prometheus.GaugeOpts{Name: "holter_flapping_devices", Help: "another"})
	tests := []struct {
		name     string
		registry *liveness.Registry
		events   httpapi.Events
		config   httpapi.Config
		want     string
	}{
		{"no registry", nil, events, httpapi.Config{}, "httpapi: New needs a registry and its events"},
		{"no events", registry, nil, httpapi.Config{}, "httpapi: New needs a registry and its events"},
		{"no log", registry, httpapi.LogEvents{}, httpapi.Config{}, "httpapi: New needs a registry and its events"},
		{"rate", registry, events, httpapi.Config{Rate: -1}, "httpapi: Rate is -1, want 0 to 1000000 requests per second"},
		{"no rate", registry, events, httpapi.Config{Rate: math.NaN()}, "httpapi: Rate is NaN"},
		{"source", registry, events, httpapi.Config{BeatSource: "a\nb"}, "httpapi: source of heartbeats: "},
		{"connections", registry, events, httpapi.Config{MaxConnections: 3}, "httpapi: MaxConnections is 3, want 4 or more"},
		{"negative", registry, events, httpapi.Config{MaxConnections: -1}, "httpapi: MaxConnections is -1, want 4 or more"},
		{"collector", registry, events, httpapi.Config{Collectors: []prometheus.Collector{twice}}, "httpapi: register a collector: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := httpapi.New(tt.registry, tt.events, tt.config); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("New: %v, want %s", err, tt.want)
			}
		})
	}
}

func TestProblems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		if w := get(f.api(httpapi.Config{Detail: func() string { return "one row is damaged" }}).Handler(), "/readyz"); w.Code != 200 ||
			w.Body.String() != "ok\none row is damaged\n" {
			t.Errorf("GET /readyz = %d %q", w.Code, w.Body)
		}
		h := f.api(httpapi.Config{Ready: func() error { return errors.New("the disk is full") }}).Handler()
		tests := []struct {
			method, target string
			code           int
			detail         string // part of it
		}{
			{"GET", "/v1/devices?limit=0", 422, "query.limit: expected number >= 1"},
			{"GET", "/v1/devices?limit=1001", 422, "query.limit: expected number <= 1000"},
			{"GET", "/v1/devices?limit=ten", 422, "query.limit: invalid integer"},
			{"GET", "/v1/devices?state=gone", 422, "query.state"},
			{"GET", "/v1/devices?after=zzz", 422, "after: not a cursor"},
			{"GET", "/v1/devices?page=2", 422, "query.page: unknown query parameter"},
			{"GET", "/v1/devices?prefix=" + strings.Repeat("x", 129), 422, "query.prefix"},
			{"GET", "/v1/devices?connected=perhaps", 422, "query.connected: expected true or false"},
			{"GET", "/v1/devices?seen_before=yesterday", 422, "query.seen_before: expected an instant like"},
			{"GET", "/v1/devices?seen_before=300000h", 422, "like 10m, up to 366 days"},
			{"GET", "/v1/devices?seen_after=-10m", 422, "query.seen_after"},
			{"GET", "/v1/devices?group=" + strings.Repeat("&group=g", 101), 422, "query.group: given 101 times"},
			{"GET", "/v1/devices/nobody/explain", 404, "no device with this id"},
			{"GET", "/v1/devices/nobody/events", 404, "no device with this id"},
			{"GET", "/v1/devices/a/events?after=-1", 422, "query.after"},
			{"DELETE", "/v1/devices/nobody", 404, "no device with this id"},
			{"DELETE", "/v1/devices/nobody/policy", 404, "no device with this id"},
			{"DELETE", "/v1/devices/%FF/maintenance", 404, "no device with this id"},
			{"DELETE", "/v1/devices/", 404, "write / in its id as %2F"},
			{"GET", "/v1/events?type=device.gone", 422, "query.type: expected values of: device.online, "},
			{"GET", "/v1/events/stream?type=device.gone", 422, "query.type: expected values of: device.online, "},
			{"GET", "/v1/events/stream?device=%zz", 422, "query: invalid URL escape"},
			{"GET", "/v1/devices/nobody", 404, "no device with this id"},
			{"GET", "/v1/devices/%FF%00", 404, "no device with this id"},
			{"GET", "/v1/devices/a/b", 404, "write / in its id as %2F"},
			{"GET", "/v1/devices/", 404, "write / in its id as %2F"},
			{"GET", "/v1/events?after=-1", 422, "query.after"},
			{"GET", "/v1/events?after=x", 422, "query.after: invalid integer"},
			{"GET", "/v1/events?limit=0", 422, "query.limit"},
			{"GET", "/v1/events?devices=a", 422, "query.devices"},
			{"GET", "/v1/events/stream?after=x", 422, `query.after: "x" is not an offset`},
			{"GET", "/v1/events/stream?from=1", 422, "query.from: there is no such parameter"},
			{"GET", "/v1/nothing", 404, "/docs lists what there is"},
			{"GET", "/", 404, "/docs lists what there is"},
			{"POST", "/v1/devices", 405, "this path takes GET, HEAD and nothing else"},
			{"PATCH", "/v1/devices/a", 405, "this path takes GET, HEAD, DELETE and nothing else"},
			{"GET", "/v1/devices/nobody/policy", 404, "no device with this id"},
			{"POST", "/v1/devices/a/policy", 405, "this path takes GET, HEAD, PUT, DELETE and nothing else"},
			{"PUT", "/v1/events/stream", 405, "this path takes GET, HEAD and nothing else"},
			{"GET", "/readyz", 503, "not ready: the disk is full"},
		}
		for _, tt := range tests {
			wantProblem(t, ask(h, tt.method, tt.target), tt.method+" "+tt.target, tt.code, tt.detail)
		}
	})
}

func TestOverview(t *testing.T) {
	cfg := liveness.Config{
		Groups:  []liveness.GroupConfig{{Name: "site", Match: "site/*", Policy: liveness.Policy{Timeout: 90 * time.Second}}},
		Devices: map[string]liveness.Policy{"never": {}},
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, cfg, 0)
		h := f.api(httpapi.Config{Version: "v1.2.3"}).Handler()
		f.open("site/1")
		f.listen(2 * time.Second)
		time.Sleep(3500 * time.Millisecond)
		f.source.Pulse(time.Now())
		f.listen(91 * time.Second)
		f.open("site/2")
		f.source.Pulse(time.Now().Add(250 * time.Millisecond)) // and no watermark

		sources := getJSON[struct{ Sources []httpapi.Source }](t, h, "/v1/sources").Sources
		if len(sources) != 1 {
			t.Fatalf("sources: %+v", sources)
		}
		s := sources[0]
		if s.Name != "line" || s.Listened != 94_000 || s.Behind != 250 || s.DeafTotal != 2500 || len(s.Deaf) != 1 || s.Timers.Armed != 1 || s.Timers.Fired == 0 {
			t.Errorf("source: %+v", s)
		}
		policies := getJSON[struct {
			Groups  []httpapi.GroupPolicy
			Default httpapi.Policy
		}](t, h, "/v1/policies")
		if len(policies.Groups) != 1 || !reflect.DeepEqual(policies.Groups[0], httpapi.GroupPolicy{Name: "site", Match: "site/*", Policy: httpapi.PolicyChange{Timeout: 90_000}}) ||
			policies.Default.Timeout != 90_000 || policies.Default.SleepLimit != 86_400_000 || policies.Default.From != "default" {
			t.Errorf("policies: %+v", policies)
		}
		groups := getJSON[struct{ Groups []httpapi.Group }](t, h, "/v1/groups").Groups
		want := httpapi.Group{Name: "site", Match: "site/*", Members: 2, Silent: 1, States: map[string]int{
			"never_seen": 0, "online": 1, "late": 0, "sleeping": 0, "offline": 1, "unknown": 0, "suspect": 0, "pending": 0,
		}}
		if len(groups) != 1 || !reflect.DeepEqual(groups[0], want) {
			t.Errorf("groups: %+v, want %+v", groups, want)
		}
		st := getJSON[httpapi.Stats](t, h, "/v1/stats")
		states := fmt.Sprint(st.States)
		if st.Devices != 3 || states != "map[late:0 never_seen:1 offline:1 online:1 pending:0 sleeping:0 suspect:0 unknown:0]" || st.Version != "v1.2.3" || st.Node != "node-1" {
			t.Errorf("stats: %+v", st)
		}
		if st.Oldest != 1 || st.Latest != 5 {
			t.Errorf("events from %d to %d, want 1 to 5", st.Oldest, st.Latest)
		}
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		extra := prometheus.NewGauge(prometheus.GaugeOpts{Name: "holter_gateway_connections", Help: "of the gateway"})
		h := f.api(httpapi.Config{Version: "v1.2.3", Collectors: []prometheus.Collector{extra}}).Handler()
		f.open("secret-device")
		f.open("other")
		f.listen(91 * time.Second)
		w := get(h, "/metrics")
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
			t.Errorf("GET /metrics = %d %s", w.Code, w.Header())
		}
		text := w.Body.String()
		for _, want := range []string{
			`holter_devices{state="online"} 0`, `holter_devices{state="offline"} 2`, `holter_devices{state="unknown"} 0`, `holter_devices{state="pending"} 0`, `holter_events_total 4`, `holter_memory_per_device_bytes `, `holter_events_oldest_offset 1`,
			`holter_outbox_queued 0`, `holter_outbox_waits_total 0`, `holter_sink_failures_total 0`, `holter_flapping_devices 0`,
			`holter_source_listening_seconds_total{source="line"} 91`, `holter_source_behind_seconds{source="line"} 0`,
			`holter_source_deaf_seconds_total{source="line"} 0`, `holter_timers_armed{source="line"} 0`,
			`holter_timers_fired_total{source="line"} 2`, `holter_timer_lateness_seconds_bucket{source="line",le="+Inf"} 2`,
			`holter_timer_lateness_seconds_count{source="line"} 2`, `holter_build_info{goversion=`, `version="v1.2.3"} 1`,
			`holter_gateway_connections 0`, `holter_http_streams 0`, "go_goroutines ", "process_open_fds ",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s is missing from\n%s", want, text)
			}
		}
		if strings.Contains(text, "secret-device") {
			t.Error("a device is in the metrics")
		}
	})
}

// TestOpenAPI checks that the description is complete, that its references lead somewhere, and that the page needs no internet.
func TestOpenAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.beating(httpapi.Config{}).Handler()
		spec := getJSON[struct {
			OpenAPI    string
			Servers    []struct{ URL string }
			Tags       []struct{ Name, Description string }
			Paths      map[string]map[string]any
			Components struct{ Schemas map[string]any }
		}](t, h, "/openapi.json")
		if !strings.HasPrefix(spec.OpenAPI, "3.1") {
			t.Errorf("openapi %s, want 3.1", spec.OpenAPI)
		}
		page := get(h, "/docs").Body.String()
		if len(spec.Servers) != 1 || spec.Servers[0].URL != "/" {
			t.Errorf("servers %v", spec.Servers)
		}
		tagged := map[string]bool{}
		for _, tag := range spec.Tags {
			tagged[tag.Name] = tag.Description != ""
		}
		for path, item := range spec.Paths {
			for method, op := range item {
				described := op.(map[string]any)
				responses := described["responses"].(map[string]any)
				if described["summary"] == nil || described["description"] == nil || !tagged[described["tags"].([]any)[0].(string)] || responses["421"] == nil {
					t.Errorf("%s %s is not described whole: %v", method, path, described)
				}
				for _, status := range []string{"401", "403", "429", "503"} {
					if len(described["security"].([]any)) > 0 && responses[status] == nil {
						t.Errorf("%s %s does not have %s", method, path, status)
					}
				}
				for status := range responses {
					code, _ := strconv.Atoi(status)
					if anchor := strings.ReplaceAll(strings.ToLower(http.StatusText(code)), " ", "-"); code >= 400 && !slices.Contains(problemHeadings(t), anchor) {
						t.Errorf("%s %s: %s is not in docs/reference/problems.md", method, path, status)
					}
				}
			}
		}
		for _, operation := range []string{
			"GET /healthz", "GET /readyz", "GET /metrics", "GET /debug/pprof/{profile}", "GET /v1/devices", "GET /v1/devices/{id}",
			"DELETE /v1/devices/{id}", "GET /v1/devices/{id}/explain", "GET /v1/devices/{id}/events", "PUT /v1/devices/{id}/policy",
			"DELETE /v1/devices/{id}/policy", "PUT /v1/devices/{id}/maintenance", "DELETE /v1/devices/{id}/maintenance", "GET /v1/events",
			"GET /v1/events/stream", "POST /v1/devices/{id}/send", "GET /v1/sources", "GET /v1/groups", "GET /v1/stats", "POST /v1/beat/{id}", "GET /v1/beat/{id}",
			"POST /v1/beat/{id}/fail", "POST /v1/beat/{id}/bye", "POST /v1/beat/{id}/sleep", "POST /v1/beats",
		} {
			method, path, _ := strings.Cut(operation, " ")
			described, ok := spec.Paths[path][strings.ToLower(method)].(map[string]any)
			if !ok || described["summary"] == "" || described["responses"] == nil || described["security"] == nil {
				t.Errorf("%s is not described whole: %v", operation, described)
			}
			if !strings.Contains(page, "<code>"+operation+"</code>") {
				t.Errorf("%s is not on the page", operation)
			}
		}
		raw := get(h, "/openapi.json").Body.String()
		for _, ref := range regexp.MustCompile(`"#/components/schemas/(\w+)"`).FindAllStringSubmatch(raw, -1) {
			if spec.Components.Schemas[ref[1]] == nil {
				t.Errorf("%s leads nowhere", ref[0])
			}
		}
		if strings.Contains(page, "http://") || strings.Contains(page, "https://") || strings.Contains(page, "<script") {
			t.Errorf("the page loads something:\n%s", page)
		}
		for _, want := range []string{
			"heard_silence_ms", "last_seen", "oldest", "never_seen online", "default 100", "device.late device.offline", "Needs the role <code>admin</code>", "granted_ms",
			"string or object", "late_after_ms", "text/plain",
		} {
			if !strings.Contains(page, want) {
				t.Errorf("%s is missing from the page", want)
			}
		}
	})
}

// gone is the answer to a client that is gone.
type gone struct {
	header   http.Header
	statuses []int
}

func (g *gone) Header() http.Header     { return g.header }
func (g *gone) WriteHeader(status int)  { g.statuses = append(g.statuses, status) }
func (*gone) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// An answer has one status, also if its client is gone before its end: of another one the log would say
// that it is superfluous.
func TestOneStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		f.open("dev")
		h := f.api(httpapi.Config{}).Handler()
		for _, path := range []string{"/metrics", "/v1/devices", "/v1/stats", "/openapi.json", "/healthz"} {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			g := &gone{header: make(http.Header)}
			h.ServeHTTP(g, httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody))
			if len(g.statuses) > 1 {
				t.Errorf("%s is answered with %v", path, g.statuses)
			}
		}
	})
}
