package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

func TestPolicy(t *testing.T) {
	cfg := liveness.Config{Policy: liveness.Policy{LateAfter: 20 * time.Second}}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, cfg, 0)
		h := f.api(httpapi.Config{}).Handler()
		f.open("a/1")
		f.open("/")
		w := send(h, "PUT", "/v1/devices/a%2F1/policy", `{"timeout_ms": 60000, "late_after_ms": 30000.5, "recover_after": 3, "learn": {"mode": "apply", "budget": 0.5},
			"quiet": ["22:00-06:00 Europe/Berlin", "sat-sun 00:00-24:00"]}`)
		var d httpapi.Device
		if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || w.Code != 200 {
			t.Fatalf("%d %v %s", w.Code, err, w.Body)
		}
		want := httpapi.Policy{
			Interval: 20_000, Timeout: 60_000, LateAfter: 30_000.5, CloseGrace: 10_000, SleepLimit: 86_400_000, From: "device", Own: true, Recover: 3,
			Quiet: []string{"22:00-06:00 Europe/Berlin", "Sat,Sun 00:00-24:00 UTC"}, Learn: &httpapi.Learn{Mode: "apply", Budget: 0.5, Max: 86_400_000},
		}
		if d.ID != "a/1" || !reflect.DeepEqual(d.Policy, want) || d.Listening == nil {
			t.Errorf("got %+v, want %+v", d, want)
		}
		w = send(h, "DELETE", "/v1/devices/a%2F1/policy", "")
		d = httpapi.Device{}
		if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || w.Code != 200 || d.Policy.Own || d.Policy.From != "default" {
			t.Errorf("%d %v %s", w.Code, err, w.Body)
		}
		if w := send(h, "PUT", "/v1/devices/%2F/policy", `{"timeout_ms": 60000}`); w.Code != 200 {
			t.Errorf("PUT policy of / = %d %s", w.Code, w.Body)
		}
	})
}

// A device's own policy is replaced or removed only if nobody has changed it since it was read.
func TestPolicyEdits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		f.open("a")
		h := f.api(httpapi.Config{}).Handler()
		const path = "/v1/devices/a/policy"
		read := func(want string) string {
			t.Helper()
			w := get(h, path)
			if w.Code != 200 || strings.TrimSpace(w.Body.String()) != want {
				t.Errorf("GET = %d %s, want %s", w.Code, w.Body, want)
			}
			return w.Header().Get("ETag")
		}
		none := read("{}")
		if w := send(h, "PUT", path, `{"timeout_ms":60000}`, "If-Match", none, "Content-Type", "application/json"); w.Code != 200 {
			t.Fatalf("PUT = %d %s", w.Code, w.Body)
		}
		one := read(`{"timeout_ms":60000}`)
		wantProblem(t, send(h, "PUT", path, `{"timeout_ms":70000}`, "If-Match", none, "Content-Type", "application/json"), "PUT of an old one", 412, "has changed since it was read")
		wantProblem(t, send(h, "DELETE", path, "", "If-Match", none), "DELETE of an old one", 412, "has changed since it was read")
		read(`{"timeout_ms":60000}`)
		if w := send(h, "DELETE", path, "", "If-Match", one); w.Code != 200 {
			t.Errorf("DELETE = %d %s", w.Code, w.Body)
		}
		read("{}")
		wantProblem(t, get(h, "/v1/devices/b/policy"), "GET of another", 404, "")
		wantProblem(t, send(h, "PUT", "/v1/devices/b/policy", `{"timeout_ms":70000}`, "If-Match", none, "Content-Type", "application/json"), "PUT of another", 412, "does not exist any more")
	})
}

// A device can be made before it is heard.
func TestAddDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.api(httpapi.Config{}).Handler()
		const path = "/v1/devices/a%2F1/policy"
		add := func(path, body string) *httptest.ResponseRecorder {
			return send(h, "PUT", path, body, "If-None-Match", "*", "Content-Type", "application/json")
		}
		if w := add(path, `{"timeout_ms": 60000}`); w.Code != 200 || !strings.Contains(w.Body.String(), `"state":"never_seen"`) {
			t.Errorf("PUT = %d %s", w.Code, w.Body)
		}
		wantProblem(t, add(path, `{"timeout_ms": 70000}`), "PUT again", 412, `"a/1" exists already; nothing was changed`)
		wantProblem(t, add("/v1/devices/b/policy", `{}`), "PUT of nothing", 422, "the policy is empty")
		wantProblem(t, add("/v1/devices/b/policy", `{"timeout_ms": 60000, "late_after_ms": 1, "probes": 9, "probe_wait_ms": 60000}`), "PUT of nonsense", 422, "probe")
		wantProblem(t, add("/v1/devices/%20/policy", `{"timeout_ms": 60000}`), "PUT of a blank", 422, "an id is 1 to 128 bytes")
		wantProblem(t, get(h, "/v1/devices/b"), "GET of what was not made", 404, "")
		if w := get(h, path); strings.TrimSpace(w.Body.String()) != `{"timeout_ms":60000}` {
			t.Errorf("GET = %d %s", w.Code, w.Body)
		}
	})
}

func TestPolicyProblems(t *testing.T) {
	tests := []struct {
		body   string
		code   int
		detail string
	}{
		{"", 400, "request body is required"},
		{"{}", 422, "the policy is empty"},
		{`{"timeout_ms": 0}`, 422, "the policy is empty"},
		{`{"timeout_ms": 0.0000001}`, 422, "the policy is empty"},
		{`{"timeout_ms": 5000, "probes": 5, "probe_wait_ms": 2000}`, 422, "probes × probe_wait_ms is 10s, want less than timeout_ms, 5s"},
		{`{"quiet": ["25:00-06:00"]}`, 422, `body: quiet: window "25:00-06:00": "25:00" is not a time of the day`},
		{`{"quiet": ["00:00-24:00"]}`, 422, "body: quiet: the windows leave less than 1h0m0s of some week"},
		{`{"quiet": "22:00-06:00"}`, 422, "body.quiet: expected array"},
		{`{"learn": {"mode": "on"}}`, 422, "learn.mode"},
		{`{"learn": {"budget": 10000}}`, 422, "body.learn.budget: expected number <= 1000"},
		{`{"recover_after": 256}`, 422, "body.recover_after: expected number <= 255"},
		{`{"timeout_ms": -1}`, 422, "body.timeout_ms: expected number >= 0"},
		{`{"timeout_ms": 1e300}`, 422, "body.timeout_ms: expected number <= "},
		{`{"timeout_ms": 1e400}`, 400, "unmarshal"},
		{`{"timeout_ms": "1m"}`, 422, "body.timeout_ms: expected number"},
		{`{"timeout_ms": null}`, 422, "the policy is empty"},
		{`null`, 422, "body: expected object"},
		{`{"timeout": 60}`, 422, "body.timeout: unexpected property"},
		{`[1]`, 422, "body: expected object"},
		{`{"timeout_ms": 1`, 400, "unexpected end of JSON input"},
		{"{\"\xff\": 1}", 422, "unexpected property"},
		{strings.Repeat(" ", 1<<20+1), 413, "request body is too large"},
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.api(httpapi.Config{}).Handler()
		f.open("a")
		for _, tt := range tests {
			wantProblem(t, send(h, "PUT", "/v1/devices/a/policy", tt.body, "Content-Type", "application/json"), fmt.Sprintf("%.40q", tt.body), tt.code, tt.detail)
		}
		if v, err := f.registry.Device("a"); err != nil || v.Seq != 1 {
			t.Errorf("the device has event %d, %v", v.Seq, err)
		}
	})
}

func TestMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.api(httpapi.Config{}).Handler()
		f.open("a")
		f.open("b")
		if w := send(h, "PUT", "/v1/devices/a/maintenance", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"maintenance":true`) {
			t.Errorf("PUT = %d %s", w.Code, w.Body)
		}
		for query, want := range map[string]string{"maintenance=true": "[a]", "maintenance=false": "[b]", "maintenance=": "[a b]"} {
			got, _ := pages(t, h, query)
			slices.Sort(got)
			if fmt.Sprint(got) != want {
				t.Errorf("%s: %v, want %s", query, got, want)
			}
		}
		if w := send(h, "DELETE", "/v1/devices/a/maintenance", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"maintenance":false`) {
			t.Errorf("DELETE = %d %s", w.Code, w.Body)
		}
	})
}

func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.api(httpapi.Config{}).Handler()
		f.open("a")
		f.open("a")
		if w := send(h, "DELETE", "/v1/devices/a", ""); w.Code != 204 || w.Body.Len() > 0 {
			t.Errorf("DELETE = %d %s", w.Code, w.Body)
		}
		synctest.Wait()
		wantProblem(t, send(h, "DELETE", "/v1/devices/a", ""), "again", 404, "no device with this id")
		wantProblem(t, get(h, "/v1/devices/a"), "get", 404, "no device with this id")
		page := getJSON[deviceEvents](t, h, "/v1/devices/a/events")
		if n := len(page.Events); n != 3 || page.Events[2].Type != "io.holter.device.forgotten" {
			t.Errorf("events of a device that is forgotten: %+v", page)
		}
		f.open("a")
		if page = getJSON[deviceEvents](t, h, "/v1/devices/a/events"); len(page.Events) != 4 || page.Next != 4 || page.Missed {
			t.Errorf("events of the device that is back: %+v", page)
		}
	})
}

type deviceEvents struct {
	Events []httpapi.Event
	Next   uint64
	Missed bool
}

func TestDeviceEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{Devices: map[string]liveness.Policy{"quiet": {}}}, 20)
		h := f.api(httpapi.Config{}).Handler()
		for range 15 {
			appendEvents(t, f.log, "x", 1)
		}
		events := make([]liveness.Event, 20)
		for i := range events {
			events[i] = liveness.Event{Type: liveness.DeviceFailed, Subject: [2]string{"a/1", "b"}[i%2], Seq: uint64(i/2 + 6), Time: time.Now()}
		}
		if err := f.log.Append(t.Context(), events); err != nil {
			t.Fatal(err)
		}
		for query, want := range map[string]string{
			"a%2F1/events":                 "[6 7 8 9 10 11 12 13 14 15] 15 true",
			"a%2F1/events?after=4":         "[6 7 8 9 10 11 12 13 14 15] 15 true",
			"a%2F1/events?after=5":         "[6 7 8 9 10 11 12 13 14 15] 15 false",
			"a%2F1/events?after=7&limit=3": "[8 9 10] 10 false",
			"quiet/events":                 "[] 0 false",
			"quiet/events?after=7":         "[] 7 false",
		} {
			page := getJSON[deviceEvents](t, h, "/v1/devices/"+query)
			seqs := []uint64{}
			for _, e := range page.Events {
				seqs = append(seqs, e.Data.Seq)
			}
			if got := fmt.Sprint(seqs, page.Next, page.Missed); got != want {
				t.Errorf("%s: %s, want %s", query, got, want)
			}
		}
	})
}

// flaky is what a log is when its database fails.
type flaky struct {
	httpapi.LogEvents

	fail bool
}

func (f *flaky) Read(ctx context.Context, buffer []liveness.Event, after uint64, limit int) ([]liveness.Event, error) {
	if f.fail {
		return nil, errors.New("the database does not answer")
	}
	return f.LogEvents.Read(ctx, buffer, after, limit)
}

func (f *flaky) Wait(ctx context.Context, buffer []liveness.Event, after uint64, limit int) ([]liveness.Event, error) {
	if f.fail {
		return nil, errors.New("the database does not answer")
	}
	return f.LogEvents.Wait(ctx, buffer, after, limit)
}

func (f *flaky) DeviceEvents(ctx context.Context, id string, after uint64, limit int) ([]liveness.Event, error) {
	if f.fail {
		return nil, errors.New("the database does not answer")
	}
	return f.LogEvents.DeviceEvents(ctx, id, after, limit)
}

func TestEventsUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		events := &flaky{LogEvents: httpapi.LogEvents{Log: f.log}, fail: true}
		api, err := httpapi.New(f.registry, events, httpapi.Config{NoBeats: true})
		if err != nil {
			t.Fatal(err)
		}
		f.open("a")
		for _, target := range []string{"/v1/events", "/v1/events?device=a", "/v1/devices/a/events"} {
			w := get(api.Handler(), target)
			wantProblem(t, w, target, 503, "events cannot be read from the database just now")
			if w.Header().Get("Retry-After") != "1" {
				t.Errorf("%s: no Retry-After", target)
			}
		}
		r := serve(t, api).follow(t, "?after=1", "")
		r.want("1", "", "")
		r.want("", "", "events cannot be read just now, come back later")
		if _, err := r.next(); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v, want EOF", err)
		}
		r.body.Close()
	})
}

func TestEventFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.api(httpapi.Config{}).Handler()
		err := f.log.Append(t.Context(), []liveness.Event{
			{Type: liveness.DeviceOnline, Subject: "a", Source: "line", Group: "g,1"},
			{Type: liveness.DeviceOnline, Subject: "b", Source: "http"},
			{Type: liveness.DeviceOffline, Subject: "a", Source: "line", Group: "g,1"},
			{Type: liveness.SourceDeaf, Subject: "line", Source: "line"},
			{Type: liveness.SourceHeard, Subject: "line", Source: "line"},
			{Type: liveness.GroupOutageStarted, Subject: "g,1", Group: "g,1"},
			{Type: liveness.DeviceOffline, Subject: "c", Source: "line", Group: "h"},
		})
		if err != nil {
			t.Fatal(err)
		}
		for query, want := range map[string]string{
			"":                                      "[1 2 3 4 5 6 7] 7",
			"device=a":                              "[1 3] 7",
			"device=a&device=b":                     "[1 2 3] 7",
			"device=":                               "[1 2 3 4 5 6 7] 7",
			"device=line":                           "[] 7",
			"type=device.offline":                   "[3 7] 7",
			"type=device.offline,source.deaf":       "[3 4 7] 7",
			"type=device.offline&type=source.deaf":  "[3 4 7] 7",
			"type=device.offline&limit=1":           "[3] 3",
			"type=device.offline&limit=1&after=3":   "[7] 7",
			"type=device.offline&device=a":          "[3] 7",
			"group=g,1":                             "[1 3 6] 7",
			"group=g,1&group=h":                     "[1 3 6 7] 7",
			"source=http":                           "[2] 7",
			"source=line&type=device.online":        "[1] 7",
			"source=none":                           "[] 7",
			"after=6&type=device.online":            "[] 7",
			"type=device.online&limit=2":            "[1 2] 2",
			"type=group.outage.started&limit=1":     "[6] 6",
			"type=device.forgotten,device.sleeping": "[] 7",
		} {
			page := getJSON[eventPage](t, h, "/v1/events?"+query)
			got := []uint64{}
			for _, e := range page.Events {
				got = append(got, e.Data.Offset)
			}
			if text := fmt.Sprint(got, page.Next); text != want {
				t.Errorf("?%s: %s, want %s", query, text, want)
			}
		}
	})
}

// TestStreamFilter follows one device among many: what passes by moves its place.
func TestStreamFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 1000)
		s := serve(t, f.api(httpapi.Config{}))
		r := s.follow(t, "?device=a&type=device.failed", "")
		r.want("0", "", "")
		appendEvents(t, f.log, "b", 10)
		r.want("10", "", "still here")
		r.want("", "", "still here")
		appendEvents(t, f.log, "a", 1)
		r.want("11", failed, "")
		began := time.Now()
		var writing sync.WaitGroup
		writing.Go(func() {
			for range 40 { // never quiet, and nothing to tell
				appendEvents(t, f.log, "b", 100)
				time.Sleep(time.Second)
			}
		})
		for i := range 2 {
			if m, err := r.next(); err != nil || m.comment != "still here" || m.id == "" {
				t.Errorf("message %d: %+v %v", i, m, err)
			}
		}
		if took := time.Since(began); took > 32*time.Second {
			t.Errorf("two comments took %v", took)
		}
		writing.Wait()
		r.body.Close()
		again := s.follow(t, "?device=a", "3000")
		again.want("3000", "", "")
		again.want("3011", "missed", "") // its place was told to nobody
		again.body.Close()
	})
}

// TestResumedLog has no events yet, and offsets that go on.
func TestResumedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.api(httpapi.Config{}).Handler()
		f.log.Resume(1000)
		st := getJSON[httpapi.Stats](t, h, "/v1/stats")
		if st.Oldest != 1001 || st.Latest != 1000 {
			t.Errorf("events from %d to %d, want 1001 to 1000", st.Oldest, st.Latest)
		}
		if page := getJSON[eventPage](t, h, "/v1/events?after=1000"); len(page.Events) != 0 || page.Next != 1000 {
			t.Errorf("page %+v", page)
		}
		wantProblem(t, get(h, "/v1/events?after=999"), "before", 410, "events after offset 999 are no longer kept; the oldest is 1001, read on with after=1000")
		wantProblem(t, get(h, "/v1/events?after=1001"), "ahead", 410, "offset 1001 is ahead of the log, which ends at 1000: it is of another database")
		s := serve(t, f.api(httpapi.Config{}))
		r := s.follow(t, "", "1000")
		r.want("1000", "", "")
		appendEvents(t, f.log, "a", 1)
		r.want("1001", failed, "")
		r.body.Close()
	})
}

func TestDeviceFilters(t *testing.T) {
	cfg := liveness.Config{
		Groups:  []liveness.GroupConfig{{Name: "g,1", Match: "g*"}, {Name: "h", Match: "h*"}},
		Devices: map[string]liveness.Policy{"never": {}, "h-never": {}},
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, cfg, 0)
		h := f.beating(httpapi.Config{}).Handler()
		f.pulse()
		began := time.Now()
		f.open("g1")
		f.open("x").Bye(f.source.Time(time.Now()))
		send(h, "POST", "/v1/beat/h1", "")
		f.listen(10 * time.Second)
		f.open("h2")
		f.listen(10 * time.Second)
		for query, want := range map[string]string{
			"":                              "[g1 h-never h1 h2 never x]",
			"group=g,1":                     "[g1]",
			"group=g,1&group=h":             "[g1 h-never h1 h2]",
			"group=h&state=online":          "[h1 h2]",
			"group=none":                    "[]",
			"source=http":                   "[h1]",
			"source=line&source=http":       "[g1 h1 h2 x]",
			"state=online&state=never_seen": "[g1 h-never h1 h2 never]",
			"connected=true":                "[g1 h2]",
			"connected=0":                   "[h-never h1 never x]",
			"seen_before=15s":               "[g1 h1 x]",
			"seen_before=15":                "[g1 h1 x]",
			"seen_after=15s":                "[h2]",
			"seen_before=1h":                "[]",
			"seen_after=1h":                 "[g1 h1 h2 x]",
			"seen_after=1h&seen_before=15s": "[g1 h1 x]",
			"seen_after=" + url.QueryEscape(began.Add(5*time.Second).Format(time.RFC3339Nano)): "[h2]",
			"seen_before=2000-01-01T00:00:00Z":                                                 "[]",
		} {
			got, _ := pages(t, h, query)
			slices.Sort(got)
			if text := fmt.Sprint(got); text != want {
				t.Errorf("?%s: %s, want %s", query, text, want)
			}
		}
		if a, b := get(h, "/v1/devices/h2").Body.String(), get(h, "/v1/devices/h2/explain").Body.String(); a != b {
			t.Errorf("explain: %s\nwant %s", b, a)
		}
	})
}

func TestGroups(t *testing.T) {
	cfg := liveness.Config{Groups: []liveness.GroupConfig{{Name: "g", Match: "g*"}, {Name: "empty", Match: "e*"}}, Devices: map[string]liveness.Policy{"g0": {}}}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, cfg, 0)
		h := f.api(httpapi.Config{}).Handler()
		type groups struct {
			Groups    []httpapi.Group
			Others    map[string]int
			CountedAt time.Time `json:"counted_at"`
		}
		f.open("g1")
		for i := range 1000 {
			f.open(fmt.Sprint("x", i))
		}
		now := time.Now().UTC()
		got := getJSON[groups](t, h, "/v1/groups")
		if s := got.Groups[0].States; s["online"] != 1 || s["never_seen"] != 1 || got.Groups[1].States["online"] != 0 || got.Others["online"] != 1000 || !got.CountedAt.Equal(now) {
			t.Errorf("counts %+v", got)
		}
		f.open("g2")
		if again := getJSON[groups](t, h, "/v1/groups"); again.Groups[0].States["online"] != 1 || again.Groups[0].Members != 2 {
			t.Errorf("counted again at once: %+v", again)
		}
		time.Sleep(time.Second)
		if again := getJSON[groups](t, h, "/v1/groups"); again.Groups[0].States["online"] != 2 {
			t.Errorf("not counted again: %+v", again)
		}
	})
}

// FuzzFilters asks with any query: the lists answer with a page, or name a parameter.
func FuzzFilters(f *testing.F) {
	for _, seed := range []string{
		"", "state=offline,late&group=g", "seen_before=10m&seen_after=2026-01-02T15:04:05Z", "type=device.offline&device=a", "limit=1&after=x", "connected=1&%zz",
	} {
		f.Add(seed)
	}
	log, err := eventlog.New(0)
	if err != nil {
		f.Fatal(err)
	}
	registry, err := liveness.New(log, liveness.Config{Devices: map[string]liveness.Policy{"a": {}}})
	if err != nil {
		f.Fatal(err)
	}
	api, err := httpapi.New(registry, httpapi.LogEvents{Log: log}, httpapi.Config{NoBeats: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, query string) {
		for _, path := range []string{"/v1/devices", "/v1/events", "/v1/events/stream", "/v1/devices/a/events"} {
			method := http.MethodGet
			if strings.HasSuffix(path, "stream") {
				method = http.MethodHead
			}
			w := httptest.NewRecorder()
			r := (&http.Request{Method: method, URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{}, Body: http.NoBody}).WithContext(t.Context())
			api.Handler().ServeHTTP(w, r)
			if code := w.Code; code != 200 && code != 422 && code != 410 {
				t.Errorf("%s?%s: %d %s", path, query, code, w.Body)
			}
		}
	})
}
