package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

// eventLog serves events as the API does, one a second.
type eventLog struct {
	oldest, latest uint64
	start          time.Time // of the event with offset 0
	asked          int       // pages
}

func newEventLog(oldest, latest uint64) *eventLog {
	return &eventLog{oldest: oldest, latest: latest, start: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}
}

// event returns the event of an offset: of ten devices in turn, and every 5,000th offline.
func (l *eventLog) event(offset uint64) httpapi.Event {
	e := httpapi.Event{
		SpecVersion: "1.0", Type: "io.holter.device.online", Subject: fmt.Sprint("d-", offset%10),
		Time: l.start.Add(time.Duration(offset) * time.Second), Data: httpapi.EventData{Offset: offset, Seq: offset/10 + 1, Source: "line"},
	}
	if offset%5000 == 0 {
		e.Type, e.Data.Reason = "io.holter.device.offline", "bye"
	}
	return e
}

func (l *eventLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	after, _ := strconv.ParseUint(query.Get("after"), 10, 64)
	limit, _ := strconv.Atoi(query.Get("limit"))
	switch {
	case r.URL.Path == "/v1/stats":
		_ = json.NewEncoder(w).Encode(httpapi.Stats{Oldest: l.oldest, Latest: l.latest, AsOf: l.start.Add(time.Duration(l.latest) * time.Second)})
		return
	case r.URL.Path != "/v1/events":
		problem(404, "there is nothing at this path")(w, r)
		return
	case after > 0 && after+1 < l.oldest:
		problem(410, fmt.Sprint("events after offset ", after, " are no longer kept; the oldest is ", l.oldest))(w, r)
		return
	}
	l.asked++
	body := struct {
		Events []httpapi.Event `json:"events"`
		Next   uint64          `json:"next"`
	}{[]httpapi.Event{}, after}
	types, devices := query["type"], query["device"]
	for at, n := max(after+1, l.oldest), 0; at <= l.latest && n < 10_000 && len(body.Events) < limit; at, n = at+1, n+1 {
		e := l.event(at)
		body.Next = at
		if (len(types) == 0 || slices.Contains(types, strings.TrimPrefix(e.Type, eventPrefix))) && (len(devices) == 0 || slices.Contains(devices, e.Subject)) {
			body.Events = append(body.Events, e)
		}
	}
	_ = json.NewEncoder(w).Encode(body)
}

func TestEvents(t *testing.T) {
	tests := []struct {
		name           string
		oldest, latest uint64
		args           []string
		want           string // first offset, last offset, and how many
		asked          int    // pages, at most
	}{
		{"none yet", 1, 0, nil, "0 0 0", 0},
		{"none since a restart", 101, 100, nil, "0 0 0", 0},
		{"the latest", 1, 5000, nil, "4981 5000 20", 1},
		{"fewer than that", 1, 7, nil, "1 7 7", 1},
		{"as many as wanted", 1, 5000, []string{"--limit=2500"}, "2501 5000 2500", 3},
		{"after", 1, 5000, []string{"--after=4990"}, "4991 5000 10", 1},
		{"after, with a limit", 1, 5000, []string{"--after=100", "--limit=3"}, "101 103 3", 1},
		{"all", 301, 5000, []string{"--after=0"}, "301 5000 4700", 5},
		{"after the latest", 1, 5000, []string{"--after=5000"}, "0 0 0", 0},
		{"since a while", 1, 100_000, []string{"--since=1h"}, "96400 100000 3601", 20},
		{"since a time", 1, 100_000, []string{"--since=2026-01-03T00:00:00Z", "--limit=5"}, "86400 86404 5", 15},
		{"since a day", 1, 100_000, []string{"--since=2026-01-03", "--limit=5"}, "86400 86404 5", 15},
		{"since before all", 90_001, 100_000, []string{"--since=720h", "--limit=2"}, "90001 90002 2", 15},
		{"a rare type", 1, 100_000, []string{"--type=device.offline", "--limit=3"}, "90000 100000 3", 10},
		{"a type by its full name", 1, 100_000, []string{"--type=io.holter.device.offline", "--limit=1"}, "100000 100000 1", 10},
		{"fewer of a type than wanted", 1, 22_000, []string{"--type=device.offline"}, "5000 20000 4", 10},
		{"a device", 1, 100_000, []string{"--device=d-3", "--limit=2"}, "99983 99993 2", 2},
		{"a device and its type", 1, 22_000, []string{"--device=d-0", "--type=device.offline", "--after=0"}, "5000 20000 4", 10},
		{"nothing of a type", 1, 22_000, []string{"--type=device.failed"}, "0 0 0", 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log := newEventLog(tt.oldest, tt.latest)
			got := typeLine(t.Context(), t, append([]string{"events", "--json", "--api", serveTest(t, log)}, tt.args...)...)
			first, last, n := uint64(0), uint64(0), 0
			for line := range strings.Lines(got.stdout) {
				var e httpapi.Event
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatal(err)
				}
				if n == 0 {
					first = e.Data.Offset
				} else if e.Data.Offset <= last {
					t.Errorf("offset %d comes after %d", e.Data.Offset, last)
				}
				last = e.Data.Offset
				n++
			}
			if found := fmt.Sprint(first, last, n); found != tt.want || got.code != 0 || got.stderr != "" {
				t.Errorf("got %s (code %d, %s), want %s", found, got.code, got.stderr, tt.want)
			}
			if log.asked > tt.asked {
				t.Errorf("asked for %d pages, want at most %d", log.asked, tt.asked)
			}
		})
	}
}

// Who asks for what is rare is told where the search ended.
func TestEventsLookBack(t *testing.T) {
	log := newEventLog(1, 3_000_000)
	got := typeLine(t.Context(), t, "events", "--type=device.failed", "--api", serveTest(t, log))
	if got.code != 0 || got.stdout != "no events\n" || !strings.Contains(got.stderr, "--after 0 or --since looks through more") {
		t.Errorf("got %+v", got)
	}
}

func TestEventsErrors(t *testing.T) {
	tests := []struct {
		name string
		log  http.Handler
		args []string
		want string
	}{
		{"gone", newEventLog(101, 200), []string{"--after=5"}, "410 Gone: events after offset 5 are no longer kept; the oldest is 101"},
		{"ahead", newEventLog(101, 200), []string{"--after=500"}, "offset 500 is ahead of the latest event, 200; is it of another server?"},
		{"other JSON", answer(200, "application/json", `{}`), nil, "not an answer of holter's API"},
		{"no events", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/events" {
				_, _ = w.Write([]byte(`{"events":[{"type":"x"}]}`))
				return
			}
			newEventLog(1, 5).ServeHTTP(w, r)
		}), nil, "not an answer of holter's API"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := typeLine(t.Context(), t, append([]string{"events", "--api", serveTest(t, tt.log)}, tt.args...)...)
			if got.code != exitFailed || !strings.Contains(got.stderr, tt.want) {
				t.Errorf("got %+v, want %q", got, tt.want)
			}
		})
	}
}

func TestEventTable(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	all := []httpapi.Event{
		{Type: "device.online", Subject: "site-7/pump-3", Data: httpapi.EventData{Source: "line"}},
		{Type: "device.late", Subject: "site-7/pump-3", Data: httpapi.EventData{Source: "line", Silence: new(45000.4), Timeout: new(90000.0), Policy: "group pumps"}},
		{Type: "device.offline", Subject: "plant-north/building-42/line-17/temperature-sensor-left", Data: httpapi.EventData{
			Source: "http", Reason: "silence", Silence: new(90001.0), Timeout: new(90000.0), Policy: "default", Maintenance: true, Flapping: true,
		}},
		{Type: "device.offline", Subject: "meter", Data: httpapi.EventData{Source: "line", Reason: "closed", Outage: true, Group: "pumps"}},
		{Type: "device.failed", Subject: "meter", Data: httpapi.EventData{Source: "line", Message: "battery\x1b[31m low"}},
		{Type: "device.maintenance.started", Subject: "meter", Data: httpapi.EventData{Source: "line", Maintenance: true}},
		{Type: "source.heard", Subject: "line", Data: httpapi.EventData{Source: "line", Deaf: new(3170.0)}},
		{Type: "group.outage.started", Subject: "pumps", Data: httpapi.EventData{Group: "pumps", Members: new(1200), Silent: new(800)}},
		{Type: "device.of_the_future", Subject: "meter", Data: httpapi.EventData{}},
	}
	tests := []struct {
		width int
		want  string
	}{
		{0, `
OFFSET  TIME (UTC)           EVENT                       SUBJECT                                                  DETAILS
     8  2026-01-02 03:04:05  device.online               site-7/pump-3                                            at line
     9  2026-01-02 03:04:05  device.late                 site-7/pump-3                                            silent 45s of 1m30s (group pumps), at line
    10  2026-01-02 03:04:05  device.offline              plant-north/building-42/line-17/temperature-sensor-left  silent 1m30s of 1m30s (default), in maintenance, flapping, at http
    11  2026-01-02 03:04:05  device.offline              meter                                                    closed, in an outage of pumps, at line
    12  2026-01-02 03:04:05  device.failed               meter                                                    battery\x1b[31m low, at line
    13  2026-01-02 03:04:05  device.maintenance.started  meter                                                    at line
    14  2026-01-02 03:04:05  source.heard                line                                                     deaf for 3.17s
    15  2026-01-02 03:04:05  group.outage.started        pumps                                                    800 of 1,200 silent
    16  2026-01-02 03:04:05  device.of_the_future        meter
`},
		{120, `
OFFSET  TIME (UTC)           EVENT                       SUBJECT                         DETAILS
     8  2026-01-02 03:04:05  device.online               site-7/pump-3                   at line
     9  2026-01-02 03:04:05  device.late                 site-7/pump-3                   silent 45s of 1m30s (group pum…
    10  2026-01-02 03:04:05  device.offline              plant-north/bui…re-sensor-left  silent 1m30s of 1m30s (default…
    11  2026-01-02 03:04:05  device.offline              meter                           closed, in an outage of pumps,…
    12  2026-01-02 03:04:05  device.failed               meter                           battery\x1b[31m low, at line
    13  2026-01-02 03:04:05  device.maintenance.started  meter                           at line
    14  2026-01-02 03:04:05  source.heard                line                            deaf for 3.17s
    15  2026-01-02 03:04:05  group.outage.started        pumps                           800 of 1,200 silent
    16  2026-01-02 03:04:05  device.of_the_future        meter
`},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint("width ", tt.width), func(t *testing.T) {
			var out strings.Builder
			list := newEventList(&out, false)
			list.table = terminal.NewTable(terminal.Screen{Width: tt.width}, eventColumns()...)
			for i, e := range all {
				e.Type, e.Time, e.Data.Offset = eventPrefix+e.Type, at, uint64(8+i)
				if err := list.add(&event{Event: e}); err != nil {
					t.Fatal(err)
				}
			}
			if err := list.flush(); err != nil {
				t.Fatal(err)
			}
			if want := strings.TrimPrefix(tt.want, "\n"); out.String() != want {
				t.Errorf("the table is\n%swant\n%s", out.String(), want)
			}
		})
	}
}
