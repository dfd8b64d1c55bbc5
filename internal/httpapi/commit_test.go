package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// commit lets the sink take what waits.
func (f *fleet) commit() {
	f.sink.shut.Store(false)
	time.Sleep(2 * time.Second) // until it is tried again
	synctest.Wait()
}

// Who is answered that something was done is answered once it is stored, or that it is not.
func TestAnswersAfterTheCommit(t *testing.T) {
	tests := []struct {
		method, path, body string
		device             string
	}{
		{"DELETE", "/v1/devices/a", "", "a"},
		{"PUT", "/v1/devices/a/policy", `{"timeout_ms": 60000}`, "a"},
		{"DELETE", "/v1/devices/own/policy", "", "own"},
		{"PUT", "/v1/devices/a/maintenance", "", "a"},
		{"DELETE", "/v1/devices/worked/maintenance", "", "worked"},
		{"POST", "/v1/beat/new", "", "new"},
		{"GET", "/v1/beat/new?ttl=1h", "", "new"},
		{"POST", "/v1/beat/asleep", "", "asleep"},
		{"POST", "/v1/beat/a?ttl=1h", "", "a"},
		{"POST", "/v1/beat/a/fail", "too hot", "a"},
		{"POST", "/v1/beat/a/bye", "", "a"},
		{"POST", "/v1/beat/a/sleep?for=1h", "", "a"},
		{"POST", "/v1/beats", `["a", "new"]`, "new"},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, liveness.Config{}, 0)
				h := f.beating(httpapi.Config{}).Handler()
				f.pulse()
				for _, path := range []string{"/v1/beats", "/v1/beat/asleep/sleep?for=1h"} {
					if w := send(h, "POST", path, `["a", "own", "worked"]`); w.Code != 200 {
						t.Fatalf("%s: %d %s", path, w.Code, w.Body)
					}
				}
				send(h, "PUT", "/v1/devices/own/policy", `{"timeout_ms": 60000}`)
				send(h, "PUT", "/v1/devices/worked/maintenance", "")
				_, before := f.log.Bounds()

				f.sink.shut.Store(true)
				asked := time.Now()
				w := send(h, tt.method, tt.path, tt.body)
				wantProblem(t, w, "shut", 503, "it is not stored yet")
				if tt.path != "/v1/beats" {
					wantProblem(t, w, "shut", 503, "may still take effect")
					wantProblem(t, w, "shut", 503, "may be repeated")
				}
				if took := time.Since(asked); took != 3*time.Second || w.Header().Get("Retry-After") != "1" {
					t.Errorf("it took %v, Retry-After %q", took, w.Header().Get("Retry-After"))
				}
				answered := make(chan *httptest.ResponseRecorder, 1)
				go func() { answered <- send(h, tt.method, tt.path, tt.body) }()
				synctest.Wait()
				if len(answered) > 0 {
					t.Error("repeated, it was answered before it was stored")
				}
				f.commit()
				w = <-answered
				gone := tt.method == "DELETE" && tt.path == "/v1/devices/a"
				if gone && w.Code != 404 || !gone && w.Code/100 != 2 {
					t.Errorf("repeated: %d %s", w.Code, w.Body)
				}
				_, after := f.log.Bounds()
				events, err := f.log.Read(nil, before, 10)
				if err != nil || after == before || !slices.ContainsFunc(events, func(e liveness.Event) bool { return e.Subject == tt.device }) {
					t.Errorf("no event of %s among %d, %v", tt.device, len(events), err)
				}
			})
		})
	}
}

// A heartbeat that changes nothing waits for nobody, and one of a device that is not stored yet does.
func TestPlainBeatsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.beating(httpapi.Config{}).Handler()
		f.pulse()
		send(h, "POST", "/v1/beats", `["a", {"id": "b", "ttl": "1h"}]`)
		f.sink.shut.Store(true)
		wantProblem(t, send(h, "POST", "/v1/beat/new", ""), "new", 503, "may still take effect")
		asked := time.Now()
		for _, path := range []string{"/v1/beat/a", "/v1/beat/b?ttl=1h", "/v1/beat/b"} {
			if w := send(h, "POST", path, ""); w.Code != 200 {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
		if w := send(h, "POST", "/v1/beats", `["a", "b"]`); w.Code != 200 || w.Body.String() != `{"accepted":2,"rejected":0,"errors":[]}`+"\n" {
			t.Errorf("batch: %d %s", w.Code, w.Body)
		}
		if took := time.Since(asked); took != 0 {
			t.Errorf("plain heartbeats took %v", took)
		}
		wantProblem(t, send(h, "POST", "/v1/beat/new", ""), "new, again", 503, "may still take effect")
		w := send(h, "POST", "/v1/beats", `["a", "new", ""]`)
		var batch struct {
			Detail             string
			Accepted, Rejected int
			Errors             []httpapi.BatchError
		}
		if err := json.Unmarshal(w.Body.Bytes(), &batch); err != nil || w.Code != 503 || w.Header().Get("Retry-After") != "1" || batch.Accepted != 1 || batch.Rejected != 2 ||
			batch.Errors[0].Index != 1 || batch.Errors[0].Status != 503 || batch.Errors[1].Index != 2 || batch.Errors[1].Status != 422 {
			t.Errorf("batch with one that is not stored: %d %v %s", w.Code, err, w.Body)
		}
		f.commit()
		if w := send(h, "POST", "/v1/beat/new", ""); w.Code != 200 {
			t.Errorf("when it is stored: %d %s", w.Code, w.Body)
		}
	})
}

// While many wait, others wait less, so that connections are left.
func TestCrowdWaitsLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.beating(httpapi.Config{MaxConnections: 8}).Handler()
		f.pulse()
		f.sink.shut.Store(true)
		var asking sync.WaitGroup
		for i := range 4 {
			asking.Go(func() {
				wantProblem(t, send(h, "POST", fmt.Sprint("/v1/beat/", i), ""), "one of the first", 503, "not stored")
			})
			synctest.Wait()
		}
		asked := time.Now()
		wantProblem(t, send(h, "POST", "/v1/beat/another", ""), "another", 503, "not stored")
		if took := time.Since(asked); took != 500*time.Millisecond {
			t.Errorf("it waited for %v", took)
		}
		asking.Wait()
		if took := time.Since(asked); took != 3*time.Second {
			t.Errorf("the first waited for %v", took)
		}
		f.commit()
	})
}

// A heartbeat that waits to be stored was heard: the listening clock goes on.
func TestClockDoesNotWaitForTheCommit(t *testing.T) {
	t.Parallel()
	s := newStation(t, liveness.Config{}, httpapi.Config{})
	testwait.Until(t, "the clock", func() bool { return s.view().Listened > 0 })
	s.sink.shut.Store(true)
	answered := make(chan int, 1)
	go func() {
		status, _, _ := s.dial(t).ask([]byte(beatOfA))
		answered <- status
	}()
	testwait.Until(t, "the device", func() bool { return s.registry.Operator().Known("a") })
	before := s.view()
	most := before.Listened + before.Behind
	testwait.Until(t, "the clock", func() bool { return s.view().Listened > most+500*time.Millisecond })
	select {
	case status := <-answered:
		t.Errorf("answered before it was stored: %d", status)
	default:
	}
	s.sink.shut.Store(false)
	if status := <-answered; status != http.StatusOK {
		t.Errorf("answered %d", status)
	}
}

// What is decided and not stored yet is shown as pending, with what it is going to be.
func TestPendingIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.api(httpapi.Config{}).Handler()
		f.open("a")
		f.open("b").Bye(f.source.Time(time.Now()))
		synctest.Wait()
		f.sink.shut.Store(true)
		f.open("new")
		f.listen(91 * time.Second)
		for id, want := range map[string]string{"a": "pending offline silence", "b": "offline  bye", "new": "pending offline silence"} {
			d := getJSON[httpapi.Device](t, h, "/v1/devices/"+id)
			if got := d.State + " " + d.Decided + " " + d.Reason; got != want {
				t.Errorf("%s is %q, want %q", id, got, want)
			}
		}
		if ids, _ := pages(t, h, "state=pending&limit=1"); len(ids) != 2 {
			t.Errorf("pending are %v", ids)
		}
		if ids, _ := pages(t, h, "state=offline"); fmt.Sprint(ids) != "[b]" {
			t.Errorf("offline are %v", ids)
		}
		if st := getJSON[httpapi.Stats](t, h, "/v1/stats"); st.States["pending"] != 2 || st.States["offline"] != 1 || st.States["online"] != 0 {
			t.Errorf("stats %v", st.States)
		}
		if text := get(h, "/metrics").Body.String(); !strings.Contains(text, `holter_devices{state="pending"} 2`) {
			t.Error("the metrics do not count the pending")
		}
		f.commit()
		if d := getJSON[httpapi.Device](t, h, "/v1/devices/a"); d.State != "offline" || d.Decided != "" {
			t.Errorf("stored, it is %s %s", d.State, d.Decided)
		}
	})
}

// Unknown is a state like others: in lists, page by page, and in all counts.
func TestUnknownIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{Groups: []liveness.GroupConfig{{Name: "g", Match: "d*"}}}, 0)
		h := f.api(httpapi.Config{}).Handler()
		for i := range 25 {
			f.open(fmt.Sprint("d", i))
		}
		f.open("gone").Bye(f.source.Time(time.Now()))
		f.listen(time.Second)
		f.source.Deafen(time.Now())
		synctest.Wait()
		if ids, n := pages(t, h, "state=unknown&limit=10"); len(ids) != 25 || n < 3 {
			t.Errorf("%d are unknown, on %d pages", len(ids), n)
		}
		if ids, _ := pages(t, h, "state=online"); len(ids) != 0 {
			t.Errorf("online are %v", ids)
		}
		if st := getJSON[httpapi.Stats](t, h, "/v1/stats"); st.States["unknown"] != 25 || st.States["online"] != 0 || st.States["offline"] != 1 {
			t.Errorf("stats %v", st.States)
		}
		groups := getJSON[struct{ Groups []httpapi.Group }](t, h, "/v1/groups").Groups
		if groups[0].States["unknown"] != 25 || groups[0].States["online"] != 0 {
			t.Errorf("groups %+v", groups)
		}
		text := get(h, "/metrics").Body.String()
		for _, want := range []string{`holter_devices{state="unknown"} 25`, `holter_devices{state="online"} 0`, `holter_source_deaf{source="line"} 1`} {
			if !strings.Contains(text, want) {
				t.Errorf("%s is missing from the metrics", want)
			}
		}
		sources := getJSON[struct{ Sources []httpapi.Source }](t, h, "/v1/sources").Sources
		if sources[0].DeafSince == nil || sources[0].Absent || sources[0].Retired || sources[0].Missed != 0 {
			t.Errorf("source %+v", sources[0])
		}
	})
}

func TestDisconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{Devices: map[string]liveness.Policy{"never": {}}}, 0)
		h := f.api(httpapi.Config{}).Handler()
		session := f.open("a/1")
		f.open("/")
		for _, path := range []string{"/v1/devices/a%2F1/disconnect", "/v1/devices/%2F/disconnect"} {
			if w := send(h, "POST", path, ""); w.Code != 204 || w.Body.Len() > 0 {
				t.Errorf("%s = %d %s", path, w.Code, w.Body)
			}
		}
		if session.Beat(f.source.Time(time.Now())) {
			t.Error("the session goes on")
		}
		if d := getJSON[httpapi.Device](t, h, "/v1/devices/a%2F1"); d.Connected || d.Closing != "admin" || d.State != "online" {
			t.Errorf("device %+v", d)
		}
		wantProblem(t, send(h, "POST", "/v1/devices/a%2F1/disconnect", ""), "again", 409, `no session here that could be ended; it was heard last at "line", 0s ago`)
		wantProblem(t, send(h, "POST", "/v1/devices/never/disconnect", ""), "never", 409, "no session here")
		wantProblem(t, send(h, "POST", "/v1/devices/b/disconnect", ""), "unknown", 404, "no device with this id")
		f.listen(20 * time.Second)
		if d := getJSON[httpapi.Device](t, h, "/v1/devices/a%2F1"); d.State != "offline" || d.Reason != "admin" {
			t.Errorf("device %+v", d)
		}
	})
}

func TestRetireSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		var written []error
		h := f.api(httpapi.Config{Checkpoint: func(context.Context) error {
			err := errors.New("no room")
			if len(written) > 0 {
				err = nil
			}
			written = append(written, err)
			return err
		}}).Handler()
		old := keep.SourceRecord{Name: "bridge/old", Listened: time.Hour, At: time.Now().Add(-time.Minute)}
		if err := f.registry.Keeper().RestoreSource(old); err != nil {
			t.Fatal(err)
		}
		rec := keep.Record{Num: 7, ID: "a", State: liveness.Online, Source: old.Name, Last: time.Hour - 10*time.Second, Since: time.Now().Add(-time.Hour), Seq: 1, Epoch: 1}
		if err := f.registry.Keeper().Restore(rec); err != nil {
			t.Fatal(err)
		}
		source := func() httpapi.Source {
			return getJSON[struct{ Sources []httpapi.Source }](t, h, "/v1/sources").Sources[1]
		}
		f.listen(30 * time.Second)
		if s := source(); !s.Absent || s.Retired || s.Missed < 20_000 || s.Missed > 31_000 {
			t.Errorf("absent source: %+v", s)
		}
		if got := f.state("a"); got != "unknown" {
			t.Errorf("before: %s", got)
		}
		wantProblem(t, send(h, "POST", "/v1/sources/line/retire", ""), "in use", 409, "remove it from the configuration")
		wantProblem(t, send(h, "POST", "/v1/sources/none/retire", ""), "unknown", 404, `no source "none"`)
		wantProblem(t, send(h, "POST", "/v1/sources/bridge%2Fold/retire", ""), "no checkpoint", 503, "may still take effect")
		if w := send(h, "POST", "/v1/sources/bridge%2Fold/retire", ""); w.Code != 204 || len(written) != 2 {
			t.Errorf("retire = %d %s, %d checkpoints", w.Code, w.Body, len(written))
		}
		f.listen(30 * time.Second)
		if s := source(); !s.Absent || !s.Retired {
			t.Errorf("retired source: %+v", s)
		}
		if text := get(h, "/metrics").Body.String(); !strings.Contains(text, `holter_source_retired{source="bridge/old"} 1`) {
			t.Error("the metrics do not know that it is retired")
		}
		f.listen(200 * time.Second)
		if got := f.state("a"); got != "offline silence" {
			t.Errorf("after: %s", got)
		}
		f.sink.shut.Store(true)
		f.open("new")
		wantProblem(t, send(h, "POST", "/v1/sources/bridge%2Fold/retire", ""), "shut", 503, "may still take effect")
		f.commit()
	})
}
