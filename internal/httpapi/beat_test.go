package httpapi_test

import (
	"context"
	"encoding/json"
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

// pulse lets the source of the heartbeats by HTTP listen.
func (f *fleet) pulse() {
	for _, s := range f.registry.Sources() {
		if s.Name() == "http" {
			s.Watermark(0, s.Pulse(time.Now()))
		}
	}
	synctest.Wait()
}

// heard lets time pass, and the source of the heartbeats by HTTP listen meanwhile.
func (f *fleet) heard(d time.Duration) {
	for end := time.Now().Add(d); ; time.Sleep(min(500*time.Millisecond, time.Until(end))) {
		f.pulse()
		if !time.Now().Before(end) {
			return
		}
	}
}

func (f *fleet) state(id string) string {
	f.t.Helper()
	v, err := f.registry.Device(id)
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.Trim(v.State.String()+" "+v.Reason.String(), " ")
}

func TestBeat(t *testing.T) {
	cfg := liveness.Config{
		MinTimeout: time.Second,
		Groups:     []liveness.GroupConfig{{Name: `a "site"`, Match: "site/*", Policy: liveness.Policy{Timeout: time.Minute}}},
	}
	const fleetWide = `{"timeout_ms":90000,"interval_ms":30000,"policy":"default"}`
	tests := []struct{ method, path, body, id, answer string }{
		{"POST", "a", "", "a", fleetWide},
		{"GET", "a", "", "a", fleetWide},
		{"GET", "b?ttl=10m", "", "b", `{"timeout_ms":600000,"interval_ms":200000,"policy":"announced"}`},
		{"POST", "b", "", "b", `{"timeout_ms":600000,"interval_ms":200000,"policy":"announced"}`}, // it stays
		{"POST", "c?ttl=1.5", "", "c", `{"timeout_ms":1500,"interval_ms":500,"policy":"announced"}`},
		{"POST", "c?ttl=1ns", "", "c", `{"timeout_ms":1000,"interval_ms":333.333333,"policy":"announced"}`}, // the least there is
		{"GET", "d?interval=1h", "", "d", `{"timeout_ms":10800000,"interval_ms":3600000,"policy":"announced"}`},
		{"GET", "e?interval=1h&ttl=90m&token=none", "", "e", `{"timeout_ms":5400000,"interval_ms":3600000,"policy":"announced"}`},
		{"POST", "f", `{"ttl": "10m"}`, "f", `{"timeout_ms":600000,"interval_ms":200000,"policy":"announced"}`},
		{"POST", "g", `{"ttl": 60, "interval": 0.5}`, "g", `{"timeout_ms":60000,"interval_ms":500,"policy":"announced"}`},
		{"POST", "h", ` {"ttl": null} `, "h", fleetWide},
		{"POST", "i", `{}`, "i", fleetWide},
		{"POST", "site%2F1", "", "site/1", `{"timeout_ms":60000,"interval_ms":20000,"policy":"group a \"site\""}`},
		{"POST", "site%2F1?ttl=1h", "", "site/1", `{"timeout_ms":60000,"interval_ms":20000,"policy":"group a \"site\""}`},
		{"POST", "%2F", "", "/", fleetWide},
		{"POST", "%2e%2E", "", "..", fleetWide},
		{"POST", "a%20b", "", "a b", fleetWide},
		{"POST", "a%252Fb", "", "a%2Fb", fleetWide},
		{"POST", "stra%C3%9Fe", "", "straße", fleetWide},
		{"POST", "bye", "", "bye", fleetWide},
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, cfg, 0)
		h := f.beating(httpapi.Config{}).Handler()
		f.pulse()
		for _, tt := range tests {
			w := send(h, tt.method, "/v1/beat/"+tt.path, tt.body)
			if w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != tt.answer || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%s %s %s = %d %s, want %s", tt.method, tt.path, tt.body, w.Code, w.Body, tt.answer)
				continue
			}
			if d := getJSON[httpapi.Device](t, h, "/v1/devices/"+strings.ReplaceAll(url.PathEscape(tt.id), ".", "%2E")); d.ID != tt.id || d.State != "online" || d.Source != "http" || d.Connected {
				t.Errorf("%s: %+v", tt.path, d)
			}
		}
	})
}

// While no token is needed, a GET cannot change what holds for a device that was heard.
func TestBeatSame(t *testing.T) {
	cfg := liveness.Config{
		Groups:  []liveness.GroupConfig{{Name: "site", Match: "site/*", Policy: liveness.Policy{Timeout: time.Minute}}},
		Devices: map[string]liveness.Policy{"fixed": {Timeout: time.Minute}, "fast": {Interval: time.Second}, "new": {}},
	}
	steps := []struct{ method, target, want string }{
		{"GET", "job?ttl=25h", ""}, // a device may begin as it likes
		{"GET", "job?ttl=25h", ""},
		{"GET", "job?ttl=8d", "ttl is 8d, and a GET without a token cannot change the 1d1h that holds for this device; announce it by POST"},
		{"GET", "job?interval=12h", "ttl is 1d12h"},
		{"GET", "job?ttl=1s", "cannot change the 1d1h that holds"},
		{"POST", "job?ttl=1h", ""},
		{"GET", "job?ttl=25h", "cannot change the 1h that holds"},
		{"POST", "job?ttl=8d", ""},
		{"GET", "job?ttl=8d", ""},
		{"GET", "job", ""},
		{"GET", "tracker?ttl=333d", "cannot change the 1m30s that holds"}, // which is connected
		{"GET", "fast?ttl=25h", ""},                                       // it was never heard
		{"GET", "fast?ttl=26h", "cannot change the 1d1h"},
		{"GET", "new?ttl=25h", ""},
		{"GET", "fixed", ""},
		{"GET", "fixed?ttl=333d", ""}, // a policy overrides it
		{"GET", "fixed?interval=1h", "interval is 1h, and a GET without a token cannot change the 20s"},
		{"GET", "site%2F1", ""},
		{"GET", "site%2F1?ttl=333d", ""},
	}
	for _, needed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, cfg, 0)
			s := newSecrets()
			s.none = !needed
			h := f.beating(httpapi.Config{Auth: s}).Handler()
			f.pulse()
			f.open("tracker")
			for _, tt := range steps {
				what := tt.method + " " + tt.target
				w := send(h, tt.method, "/v1/beat/"+tt.target, "", bearing("b")...)
				if tt.want != "" && !needed {
					wantProblem(t, w, what, http.StatusUnprocessableEntity, tt.want)
				} else if w.Code != http.StatusOK {
					t.Errorf("%s = %d %s", what, w.Code, w.Body)
				}
			}
			want := map[string]time.Duration{"job": 8 * 24 * time.Hour, "tracker": 90 * time.Second, "fast": 25 * time.Hour, "new": 25 * time.Hour}
			if needed {
				want["tracker"], want["fast"] = 333*24*time.Hour, 26*time.Hour
			}
			for id, timeout := range want {
				if v, err := f.registry.Device(id); err != nil || v.Policy.Timeout != timeout {
					t.Errorf("tokens needed: %v, %s: timeout %v, %v, want %v", needed, id, v.Policy.Timeout, err, timeout)
				}
			}
		})
	}
}

func TestBeatLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.beating(httpapi.Config{}).Handler()
		f.pulse()
		for range 5 {
			send(h, "POST", "/v1/beat/a?ttl=10s", "")
			f.heard(9 * time.Second)
			if state := f.state("a"); state != "online" {
				t.Fatalf("a is %s", state)
			}
		}
		f.heard(2 * time.Second)
		if state := f.state("a"); state != "offline silence" {
			t.Errorf("a is %s, want offline", state)
		}
		if w := send(h, "POST", "/v1/beat/a/sleep?for=1h", ""); w.Code != http.StatusOK || w.Body.String() != "{\"granted_ms\":3600000}\n" {
			t.Errorf("sleep = %d %s", w.Code, w.Body)
		}
		if state := f.state("a"); state != "sleeping" {
			t.Errorf("a is %s, want sleeping", state)
		}
		if w := send(h, "POST", "/v1/beat/a/fail", "the valve is stuck\n"); w.Code != http.StatusNoContent || w.Body.Len() > 0 {
			t.Errorf("fail = %d %s", w.Code, w.Body)
		}
		if w := send(h, "POST", "/v1/beat/a/fail", `{"message": "the \"valve\""}`, "Content-Type", "application/json; charset=utf-8"); w.Code != http.StatusNoContent {
			t.Errorf("fail = %d %s", w.Code, w.Body)
		}
		if state := f.state("a"); state != "online" {
			t.Errorf("a is %s, want online", state)
		}
		if w := send(h, "POST", "/v1/beat/a/bye", ""); w.Code != http.StatusNoContent {
			t.Errorf("bye = %d %s", w.Code, w.Body)
		}
		if state := f.state("a"); state != "offline bye" {
			t.Errorf("a is %s, want bye", state)
		}
		send(h, "POST", "/v1/beat/%2F/fail", "")
		if state := f.state("/"); state != "online" {
			t.Errorf("/ is %s, want online", state)
		}
		synctest.Wait()
		var messages []string
		for _, e := range getJSON[eventPage](t, h, "/v1/events?type=device.failed").Events {
			messages = append(messages, e.Subject+": "+e.Data.Message)
		}
		if want := []string{"a: the valve is stuck", `a: the "valve"`, "/: "}; !reflect.DeepEqual(messages, want) {
			t.Errorf("messages %q, want %q", messages, want)
		}
	})
}

func TestBeatProblems(t *testing.T) {
	long := strings.Repeat("x", 129)
	tests := []struct {
		method, target, body string
		code                 int
		detail               string
	}{
		{"POST", "/v1/beat/", "", 404, "there is nothing at this path"},
		{"POST", "/v1/beat", "", 404, "there is nothing at this path"},
		{"POST", "/v1/beat/a/", "", 404, "write / in its id as %2F"},
		{"POST", "/v1/beat/a/b", "", 404, "write / in its id as %2F"},
		{"POST", "/v1/beat/a/fail/x", "", 404, "write / in its id as %2F"},
		{"HEAD", "/v1/beat/a", "", 405, "takes GET, POST"},
		{"GET", "/v1/beat/a/fail", "", 405, "takes POST"},
		{"GET", "/v1/beats", "", 405, "takes POST"},
		{"POST", "/v1/beat/" + long, "", 422, "it has 129 bytes, at most 128 are allowed"},
		{"POST", "/v1/beat/%FF", "", 422, "byte 0 is not UTF-8"},
		{"POST", "/v1/beat/a%00", "", 422, "control character"},
		{"POST", "/v1/beat/a?ttl=x", "", 422, `query.ttl: "x" is not a duration above 0`},
		{"POST", "/v1/beat/a?ttl=0", "", 422, "query.ttl"},
		{"POST", "/v1/beat/a?ttl=-10m", "", 422, "query.ttl"},
		{"POST", "/v1/beat/a?ttl=NaN", "", 422, "query.ttl"},
		{"POST", "/v1/beat/a?ttl=1e-30", "", 422, "query.ttl"},
		{"POST", "/v1/beat/a?ttl=367d", "", 422, "query.ttl"},
		{"POST", "/v1/beat/a?interval=" + long, "", 422, "query.interval"},
		{"POST", "/v1/beat/a?tll=10m", "", 422, "query.tll: there is no such parameter; there is ttl, interval, expect, zone, grace, token"},
		{"POST", "/v1/beat/a?ttl=%zz", "", 422, "query: invalid URL escape"},
		{"POST", "/v1/beat/a?ttl=1;interval=2", "", 422, "query: "},
		{"POST", "/v1/beat/a", "hello", 422, `body: invalid character 'h'`},
		{"POST", "/v1/beat/a", `{"ttl": true}`, 422, "body: a duration is a text"},
		{"POST", "/v1/beat/a", `{"ttl": -1}`, 422, "body: -1 is not a number of seconds"},
		{"POST", "/v1/beat/a", `{"ttl": 1e400}`, 422, "body: "},
		{"POST", "/v1/beat/a", `{"ttl": "10m"`, 422, "body: the JSON ends too early"},
		{"POST", "/v1/beat/a", `{"ttl": "10m"} x`, 422, "body: there is something after the JSON value"},
		{"POST", "/v1/beat/a", `{"epoch": 1}`, 422, `body: unknown field "epoch"`},
		{"POST", "/v1/beat/a", `["a"]`, 422, "body: it must not be an array"},
		{"POST", "/v1/beat/a", "{\"ttl\": \"\xff\"}", 422, "body: it is not UTF-8"},
		{"POST", "/v1/beat/a", strings.Repeat(" ", 1<<20+1), 413, "the body has more than 1048576 bytes"},
		{"POST", "/v1/beat/a/bye", "", 404, "no device with this id"},
		{"POST", "/v1/beat/a/bye?now=1", "", 422, "query.now: there is no such parameter; there is none"},
		{"POST", "/v1/beat/a/sleep", "", 422, "query.for"},
		{"POST", "/v1/beat/a/sleep?for=-1h", "", 422, "query.for"},
		{"POST", "/v1/beat/a/sleep?until=1h", "", 422, "query.until"},
		{"POST", "/v1/beat/a/fail?x=1", "", 422, "query.x"},
		{"POST", "/v1/beats", "", 422, "body: the JSON ends too early; send "},
		{"POST", "/v1/beats", "null", 422, "body: it is not an array"},
		{"POST", "/v1/beats", `["a"`, 422, "body: the JSON ends too early"},
		{"POST", "/v1/beats", `["a",`, 422, "body: the JSON ends too early"},
		{"POST", "/v1/beats", `["a" "b"]`, 422, "body: expected comma after array element"},
		{"POST", "/v1/beats", `["a"] ["b"]`, 422, "body: there is something after the array"},
		{"POST", "/v1/beats", "[\"a\", \"\xff\"]", 422, "body: it is not UTF-8"},
		{"POST", "/v1/beats", strings.Repeat("[", 100_000), 422, "body: "},
		{"POST", "/v1/beats", "[" + strings.Repeat(`"x",`, 10_000) + `"x"]`, 422, "body: it has more than 10000 heartbeats"},
		{"POST", "/v1/beats", `["` + strings.Repeat("x", 2<<20) + `"]`, 413, "the body has more than 2097152 bytes"},
		{"POST", "/v1/beats?ttl=10m", `["a"]`, 422, "query.ttl"},
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.beating(httpapi.Config{}).Handler()
		f.pulse()
		for _, tt := range tests {
			what := fmt.Sprintf("%s %s %.60q", tt.method, tt.target, tt.body)
			wantProblem(t, send(h, tt.method, tt.target, tt.body), what, tt.code, tt.detail)
		}
		if st := f.registry.Stats(); st.Devices != 0 {
			t.Errorf("there are %d devices, want none", st.Devices)
		}
	})
}

func TestBeats(t *testing.T) {
	const body = ` ["a", {"id": "b", "ttl": "10m"}, "", {"id": "c"}, {"ttl": "10m"}, 7, {"id": "d", "ttl": "soon"}, "e\u002f\u00e9", "f\ud800", {"id": "g", "x": 1}, null, ["h"],
		"i\u0000", "a", {"id": "j", "interval": 60}] `
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.beating(httpapi.Config{}).Handler()
		f.pulse()
		w := send(h, "POST", "/v1/beats", body)
		var answer httpapi.BatchAnswer
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %v: %s", w.Code, err, w.Body)
		}
		want := map[int]string{
			2: "it is empty", 4: "it is empty", 5: "it must not be a number; a heartbeat is an id, or", 6: `"soon" is not a duration`,
			8: "an escape that is no character", 9: `unknown field "x"`, 10: "it is empty", 11: "it must not be an array", 12: "control character",
		}
		if answer.Accepted != 6 || answer.Rejected != len(want) || len(answer.Errors) != len(want) {
			t.Errorf("answer %+v", answer)
		}
		for _, e := range answer.Errors {
			if e.Status != 422 || want[e.Index] == "" || !strings.Contains(e.Detail, want[e.Index]) {
				t.Errorf("error %+v, want %q", e, want[e.Index])
			}
		}
		for id, timeout := range map[string]time.Duration{"a": 90 * time.Second, "b": 10 * time.Minute, "c": 90 * time.Second, "e/é": 90 * time.Second, "j": 3 * time.Minute} {
			if v, err := f.registry.Device(id); err != nil || v.State != liveness.Online || v.Policy.Timeout != timeout {
				t.Errorf("device %q: %v %v %v", id, err, v.State, v.Policy.Timeout)
			}
		}
		if st := f.registry.Stats(); st.Devices != 5 {
			t.Errorf("there are %d devices, want 5", st.Devices)
		}
		if w := send(h, "POST", "/v1/beats", "[]"); w.Body.String() != `{"accepted":0,"rejected":0,"errors":[]}`+"\n" {
			t.Errorf("empty batch: %d %s", w.Code, w.Body)
		}
		text := get(h, "/metrics").Body.String()
		for _, line := range []string{"holter_http_beats_total 6\n", "holter_http_beats_refused_total 9\n"} {
			if !strings.Contains(text, line) {
				t.Errorf("%s is missing from the metrics", line)
			}
		}
	})
}

// stuck is a sink that takes nothing until it is told to.
type stuck struct{ free chan struct{} }

func (s *stuck) Append(ctx context.Context, _ []liveness.Event) error {
	select {
	case <-s.free:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestBeatsBusy fills the outbox: what would cause an event is refused, and can be sent again.
func TestBeatsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &stuck{free: make(chan struct{})}
		registry, err := liveness.New(sink, liveness.Config{Outbox: 5, MaxDevices: 12})
		if err != nil {
			t.Fatal(err)
		}
		log, err := eventlog.New(0)
		if err != nil {
			t.Fatal(err)
		}
		api, err := httpapi.New(registry, httpapi.LogEvents{Log: log}, httpapi.Config{Node: "n"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = registry.Run(ctx) })
		defer running.Wait()
		defer stop()
		h := api.Handler()
		w := send(h, "POST", "/v1/beats", `["0","1","2","3","4","5","6","7","8","9","10","11"]`)
		var problem struct {
			Detail             string
			Accepted, Rejected int
			Errors             []httpapi.BatchError
		}
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
			t.Fatalf("%d %v %s", w.Code, err, w.Body)
		}
		last := problem.Errors[len(problem.Errors)-1]
		if problem.Accepted != 0 || problem.Rejected != 12 || len(problem.Errors) != 12 || last.ID != "11" || last.Status != 503 || !strings.Contains(last.Detail, "too many events") {
			t.Errorf("problem %+v", problem)
		}
		for _, target := range []string{"/v1/beat/new", "/v1/beat/0/fail", "/v1/beat/new/sleep?for=1h"} {
			w := send(h, "POST", target, "")
			wantProblem(t, w, target, 503, "try again in a second")
			if w.Header().Get("Retry-After") != "1" {
				t.Errorf("%s: no Retry-After", target)
			}
		}
		for _, request := range [][2]string{{"DELETE", "/v1/devices/0"}, {"PUT", "/v1/devices/0/maintenance"}, {"DELETE", "/v1/devices/0/policy"}} {
			w := send(h, request[0], request[1], "")
			wantProblem(t, w, request[1], 503, "try again in a second")
			if w.Header().Get("Retry-After") != "1" {
				t.Errorf("%s: no Retry-After", request[1])
			}
		}
		wantProblem(t, send(h, "POST", "/v1/beat/0", ""), "a heartbeat of a device that is not stored", 503, "it is not stored yet")
		close(sink.free)
		synctest.Wait()
		if w := send(h, "POST", "/v1/beats", `["10","11"]`); w.Code != http.StatusOK {
			t.Errorf("again: %d %s", w.Code, w.Body)
		}
		wantProblem(t, send(h, "POST", "/v1/beat/12", ""), "a 13th", 507, "no room for another device")
		if w := send(h, "POST", "/v1/beats", `["1","12"]`); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"status":507`) {
			t.Errorf("a 13th in a batch: %d %s", w.Code, w.Body)
		}
	})
}

// TestForgetWhileBeating lets many beat, forget, list and read the same few devices at once.
func TestForgetWhileBeating(t *testing.T) {
	const rounds = 300
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.beating(httpapi.Config{}).Handler()
		f.pulse()
		var working sync.WaitGroup
		work := func(allowed []int, do func(i int) int) {
			working.Go(func() {
				for i := range rounds {
					if code := do(i); !slices.Contains(allowed, code) {
						t.Errorf("status %d, want one of %v", code, allowed)
					}
				}
			})
		}
		id := func(i int) string { return fmt.Sprint("device-", i%3) }
		work([]int{200}, func(i int) int { return send(h, "POST", "/v1/beat/"+id(i), "").Code })
		work([]int{200}, func(i int) int { return send(h, "POST", "/v1/beat/"+id(i)+"?ttl=10m", "").Code })
		work([]int{200}, func(int) int { return send(h, "POST", "/v1/beats", `["device-0","device-1","device-2"]`).Code })
		work([]int{204}, func(i int) int { return send(h, "POST", "/v1/beat/"+id(i)+"/fail", "x").Code })
		work([]int{204, 404}, func(i int) int { return send(h, "POST", "/v1/beat/"+id(i)+"/bye", "").Code })
		work([]int{204, 404}, func(i int) int { return send(h, "DELETE", "/v1/devices/"+id(i), "").Code })
		work([]int{204, 404}, func(i int) int { return send(h, "DELETE", "/v1/devices/"+id(i+1), "").Code })
		work([]int{200, 404}, func(i int) int { return send(h, "PUT", "/v1/devices/"+id(i)+"/policy", `{"timeout_ms":60000}`).Code })
		work([]int{200, 404}, func(i int) int { return send(h, "PUT", "/v1/devices/"+id(i)+"/maintenance", "").Code })
		work([]int{200, 404}, func(i int) int { return get(h, "/v1/devices/"+id(i)).Code })
		work([]int{200, 404}, func(i int) int { return get(h, "/v1/devices/"+id(i)+"/events").Code })
		work([]int{200}, func(int) int { return get(h, "/v1/devices?state=online").Code })
		work([]int{200}, func(int) int { return get(h, "/v1/groups").Code })
		working.Wait()
		synctest.Wait()
		checkSeqs(t, f.log)
	})
}

// checkSeqs wants each device's events to be numbered without gaps, also after it was forgotten.
func checkSeqs(t *testing.T, log *eventlog.Log) {
	t.Helper()
	events, err := log.Read(nil, 0, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]uint64{}
	for _, e := range events {
		if e.Seq != last[e.Subject]+1 {
			t.Fatalf("event %d of %s comes after %d", e.Seq, e.Subject, last[e.Subject])
		}
		last[e.Subject] = e.Seq
	}
}

// target is an API for fuzzing, whose devices are forgotten after each round.
type target struct {
	registry *liveness.Registry
	handler  http.Handler
}

func newTarget(f *testing.F) *target {
	f.Helper()
	log, err := eventlog.New(100)
	if err != nil {
		f.Fatal(err)
	}
	registry, err := liveness.New(log, liveness.Config{})
	if err != nil {
		f.Fatal(err)
	}
	api, err := httpapi.New(registry, httpapi.LogEvents{Log: log}, httpapi.Config{Node: "n"})
	if err != nil {
		f.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := registry.Run(ctx); err != nil {
			f.Error(err)
		}
	})
	f.Cleanup(func() {
		stop()
		running.Wait()
	})
	return &target{registry, api.Handler()}
}

// forget removes all devices, and returns how many there were.
func (g *target) forget(t *testing.T) int {
	t.Helper()
	views, _ := g.registry.List(nil, 0, 100_000)
	for i := range views {
		if err := g.registry.Forget(views[i].ID); err != nil {
			t.Errorf("forget %q: %v", views[i].ID, err)
		}
	}
	return len(views)
}

// FuzzBatch sends any body: what is accepted is a device, and what is not has an error.
func FuzzBatch(f *testing.F) {
	for _, seed := range []string{
		"", "[]", `["a"]`, `["a",{"id":"b","ttl":"10m"}]`, `[{"id":"b","ttl":1e3,"interval":"x"}]`, `["\ud800","\u0000",""]`, `[[[[`, `[null,1,true,{}]`,
		"[\"\xff\"]", `["a"]]`, `{"id":"a"}`,
	} {
		f.Add([]byte(seed))
	}
	g := newTarget(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		w := send(g.handler, "POST", "/v1/beats", string(body))
		made := g.forget(t)
		var answer httpapi.BatchAnswer
		if w.Code == http.StatusUnprocessableEntity && made == 0 {
			return
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%q: %v: %d %s, %d devices", body, err, w.Code, w.Body, made)
		}
		var items []any
		if err := json.Unmarshal(body, &items); err != nil || answer.Accepted+answer.Rejected != len(items) || answer.Rejected != len(answer.Errors) {
			t.Errorf("%q was taken as %+v: %v", body, answer, err)
		}
		if made > answer.Accepted || answer.Accepted > 0 && made == 0 {
			t.Errorf("%q: %d devices of %d heartbeats", body, made, answer.Accepted)
		}
	})
}

// FuzzBeat sends any path, query and body: nothing fails but by a mistake of the client, and then there is no device.
func FuzzBeat(f *testing.F) {
	f.Add("a", "ttl=10m", "")
	f.Add("a%2Fb/fail", "", "hello")
	f.Add("%2F/sleep", "for=1h", "")
	f.Add("a/bye", "", "")
	f.Add("x", "ttl=%zz;&interval=1e9", `{"ttl":"1h"}`)
	g := newTarget(f)
	f.Fuzz(func(t *testing.T, path, query, body string) {
		at, err := url.ParseRequestURI("/v1/beat/" + path)
		if err != nil {
			t.Skipf("no HTTP client can ask for this path: %v", err)
		}
		at.RawQuery = query
		r := (&http.Request{Method: "POST", URL: at, Header: http.Header{}, Body: http.NoBody}).WithContext(t.Context())
		if body != "" {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		}
		w := httptest.NewRecorder()
		g.handler.ServeHTTP(w, r)
		made := g.forget(t)
		if w.Code >= 500 || made != 0 && w.Code >= 300 || made == 0 && w.Code == http.StatusOK {
			t.Errorf("%s %q: status %d %s, %d devices", at, body, w.Code, w.Body, made)
		}
	})
}
