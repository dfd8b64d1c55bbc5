package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

type eventPage struct {
	Events []httpapi.Event
	Next   uint64
}

// appendEvents puts events of a device into the log, by hand.
func appendEvents(t *testing.T, log *eventlog.Log, device string, n int) {
	t.Helper()
	events := make([]liveness.Event, n)
	for i := range events {
		events[i] = liveness.Event{Type: liveness.DeviceFailed, Subject: device, Seq: uint64(i + 1), Time: time.Now(), Source: "line"}
	}
	if err := log.Append(t.Context(), events); err != nil {
		t.Fatal(err)
	}
}

// TestEventsOfAFleet makes an event of each type, and checks them against CloudEvents and against what each type must carry.
func TestEventsOfAFleet(t *testing.T) {
	cfg := liveness.Config{
		Policy:   liveness.Policy{Timeout: 10 * time.Second, LateAfter: 5 * time.Second, CloseGrace: time.Second},
		Groups:   []liveness.GroupConfig{{Name: "hall 1", Match: "dev*", Outage: liveness.OutageConfig{Share: 0.5, MinDevices: 1}}},
		Flapping: liveness.FlappingConfig{Threshold: 2, Window: 30 * time.Second},
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, cfg, 0)
		h := f.api(httpapi.Config{Node: "node 1/ä"}).Handler()
		s := f.open("dev ü/1")
		if err := s.Fail(f.source.Time(time.Now()), `broken "valve"`); err != nil {
			t.Fatal(err)
		}
		f.listen(11 * time.Second) // late, offline, outage
		f.open("dev ü/1")
		f.open("dev ü/1") // replaced
		s = f.open("dev ü/1")
		if _, err := s.Sleep(f.source.Time(time.Now()), time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		f.listen(time.Minute)
		for _, kind := range []liveness.Kind{liveness.Start, liveness.Heartbeat} {
			if _, err := f.source.Apply("dev ü/1", liveness.Signal{Kind: kind, At: f.source.Time(time.Now())}); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(
			f.registry.SetPolicy("dev ü/1", liveness.Policy{Timeout: time.Hour}), f.registry.SetMaintenance("dev ü/1", true),
			f.registry.SetMaintenance("dev ü/1", false), f.registry.Forget("dev ü/1"),
		); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()

		page := getJSON[struct{ Events []json.RawMessage }](t, h, "/v1/events")
		seen := map[string]bool{}
		for _, raw := range page.Events {
			seen[checkCloudEvent(t, raw)] = true
		}
		for kind := liveness.DeviceOnline; kind <= liveness.GroupOutageEnded; kind++ {
			if !seen["io.holter."+kind.String()] {
				t.Errorf("there is no %v among the events", kind)
			}
		}
	})
}

// checkCloudEvent returns the type.
func checkCloudEvent(t *testing.T, raw []byte) string {
	t.Helper()
	var e cloudevents.Event
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if err := e.Validate(); err != nil {
		t.Errorf("%v: %s", err, raw)
	}
	var data map[string]any
	if err := e.DataAs(&data); err != nil {
		t.Fatal(err)
	}
	must := []string{"offset", "seq", "decided_at", "node"}
	source, id := "/holter/node%201%2F%C3%A4/line", fmt.Sprintf("dev ü/1:%v", data["seq"])
	switch e.Type() {
	case "io.holter.source.deaf", "io.holter.source.heard":
		must = append(must, "source", "deaf_ms")
		id = fmt.Sprintf("source/line:%v", data["seq"])
	case "io.holter.group.outage.started", "io.holter.group.outage.ended":
		must = append(must, "group", "members", "silent", "before")
		source, id = "/holter/node%201%2F%C3%A4", fmt.Sprintf("group/hall 1:%v", data["seq"])
	default:
		must = append(must, "epoch", "last_seen", "deadline", "heard_silence_ms", "timeout_ms", "policy", "source", "group")
	}
	switch e.Type() {
	case "io.holter.device.offline":
		must = append(must, "reason")
	case "io.holter.device.failed":
		must = append(must, "message")
	}
	for _, name := range must {
		if _, ok := data[name]; !ok {
			t.Errorf("%s is missing from %s", name, raw)
		}
	}
	if e.ID() != id || e.Source() != source || e.Time().Location() != time.UTC || e.DataContentType() != "application/json" {
		t.Errorf("id %q, source %q, want %q and %q: %s", e.ID(), e.Source(), id, source, raw)
	}
	return e.Type()
}

func TestEventIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.api(httpapi.Config{}).Handler()
		at := time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.FixedZone("", 3600))
		err := f.log.Append(t.Context(), []liveness.Event{{
			Type: liveness.DeviceOffline, Reason: liveness.Closed, Subject: "a", Seq: 7, Epoch: 3, Time: at, Source: "line", Policy: "default",
			LastSeen: at.Add(-time.Minute), Deadline: at.Add(time.Second), HeardSilence: 59*time.Second + 1, Timeout: 90 * time.Second,
			Flapping: true, Outage: true, Group: "g",
		}})
		if err != nil {
			t.Fatal(err)
		}
		const want = `{"events":[{"specversion":"1.0","id":"a:7","source":"/holter/node-1/line","type":"io.holter.device.offline",` +
			`"subject":"a","time":"2026-01-02T02:04:05.123456789Z","datacontenttype":"application/json","data":{"offset":1,"seq":7,` +
			`"epoch":3,"reason":"closed","last_seen":"2026-01-02T02:03:05.123456789Z","deadline":"2026-01-02T02:04:06.123456789Z",` +
			`"decided_at":"2026-01-02T02:04:05.123456789Z","heard_silence_ms":59000.000001,"timeout_ms":90000,"policy":"default",` +
			`"source":"line","group":"g","node":"node-1","flapping":true,"outage":true}}],"next":1}` + "\n"
		if got := get(h, "/v1/events").Body.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 20)
		h := f.api(httpapi.Config{}).Handler()
		if page := getJSON[eventPage](t, h, "/v1/events"); page.Events == nil || len(page.Events) != 0 || page.Next != 0 {
			t.Errorf("empty log: %+v, want an empty list and next 0", page)
		}
		appendEvents(t, f.log, "a", 20) // 1 to 20, of which 10 and less will be gone
		appendEvents(t, f.log, "b", 5)
		appendEvents(t, f.log, "a", 5)
		offsets := func(from, to uint64) (all []uint64) {
			for ; from <= to; from++ {
				all = append(all, from)
			}
			return all
		}
		tests := []struct {
			query string
			want  []uint64
			next  uint64
		}{
			{"", offsets(11, 30), 30},
			{"?after=0&limit=3", offsets(11, 13), 13},
			{"?after=10&limit=3", offsets(11, 13), 13},
			{"?after=13&limit=3", offsets(14, 16), 16},
			{"?after=29", offsets(30, 30), 30},
			{"?after=30", nil, 30},
			{"?device=b", offsets(21, 25), 30},
			{"?device=b&limit=2", offsets(21, 22), 22},
			{"?device=b&after=22&limit=1000", offsets(23, 25), 30},
			{"?device=b&after=25", nil, 30},
			{"?device=nobody", nil, 30},
			{"?device=line", nil, 30},
		}
		for _, tt := range tests {
			page := getJSON[eventPage](t, h, "/v1/events"+tt.query)
			var got []uint64
			for _, e := range page.Events {
				got = append(got, e.Data.Offset)
			}
			if !slices.Equal(got, tt.want) || page.Next != tt.next {
				t.Errorf("GET /v1/events%s = %v, next %d, want %v, next %d", tt.query, got, page.Next, tt.want, tt.next)
			}
		}
	})
}

func TestEventsMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 20)
		h := f.api(httpapi.Config{}).Handler()
		appendEvents(t, f.log, "a", 30)
		for query, detail := range map[string]string{
			"after=9":           "events after offset 9 are no longer kept; the oldest is 11, read on with after=10",
			"after=1&device=a":  "events after offset 1 are no longer kept; the oldest is 11, read on with after=10",
			"after=31":          "offset 31 is ahead of the log, which ends at 30: it is of another database, or this one was restored from before; the oldest is 11, read on with after=10",
			"after=31&limit=10": "offset 31 is ahead of the log, which ends at 30: it is of another database, or this one was restored from before; the oldest is 11, read on with after=10",
		} {
			w := get(h, "/v1/events?"+query)
			var problem struct {
				Status int
				Detail string
				Oldest uint64
			}
			if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil {
				t.Fatalf("%v: %s", err, w.Body)
			}
			if w.Code != http.StatusGone || problem.Status != w.Code || problem.Oldest != 11 || problem.Detail != detail {
				t.Errorf("%s: %d %+v, want 410, oldest 11, %s", query, w.Code, problem, detail)
			}
			if kind := w.Header().Get("Content-Type"); kind != "application/problem+json" {
				t.Errorf("%s: content type %s", query, kind)
			}
		}
	})
}
