package notify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/delivery/notify"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/sink/sinktest"
	"github.com/holter-iot/holter/liveness"
)

// mock is a service.
type mock struct {
	*httptest.Server

	mu     sync.Mutex
	calls  []call
	answer func(n int, w http.ResponseWriter) // n counts from 1; nil: 202
}

func newMock(tb testing.TB, answer func(n int, w http.ResponseWriter)) *mock {
	tb.Helper()
	m := &mock{answer: answer}
	m.Server = httptest.NewServer(m)
	tb.Cleanup(m.Close)
	return m
}

func (m *mock) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m.mu.Lock()
	m.calls = append(m.calls, call{path: r.URL.Path, query: r.URL.RawQuery, authorization: r.Header.Get("Authorization"), body: body})
	n := len(m.calls)
	m.mu.Unlock()
	if m.answer != nil {
		m.answer(n, w)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// took returns the calls that came since it was called last.
func (m *mock) took() []call {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls := m.calls
	m.calls = nil
	return calls
}

// trial is a service, with what it takes to use it.
type trial struct {
	kind     string
	path     string // of the target
	settings string // its own
	rules    func(*call) error
}

func trials() []trial {
	return []trial{
		{"slack", "/services/T000/B000/SECRET-path", ``, slackRules},
		{"teams", "/workflows/abc/triggers/manual/paths/invoke?sig=SECRET-sig", ``, teamsRules},
		{"discord", "/api/webhooks/1/SECRET-path", ``, discordRules},
		{"telegram", "", `"token":"123:SECRET-token","chat":-100123`, telegramRules},
		{"ntfy", "/SECRET-topic", `"token":"SECRET-token"`, ntfyRules},
		{"pagerduty", "/v2/enqueue", `"routing_key":"SECRET-key"`, pagerdutyRules},
		{"opsgenie", "/v2/alerts", `"api_key":"SECRET-key"`, opsgenieRules},
	}
}

// open makes the sink of a trial, with more settings.
func (tr *trial) open(tb testing.TB, url, more string) sink.Sink {
	tb.Helper()
	settings := "{" + strings.Trim(tr.settings+","+more, ",") + "}"
	return sinktest.New(tb, notify.Kinds(sinktest.Guard(), "holter/test")[tr.kind], url+tr.path, settings)
}

// deliver delivers with some time to do so.
func deliver(tb testing.TB, s sink.Sink, messages ...sink.Message) []sink.Result {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 20*time.Second)
	defer cancel()
	return s.Deliver(ctx, messages)
}

// deliverAtLast delivers messages when the rate allows it.
func deliverAtLast(tb testing.TB, s sink.Sink, messages ...sink.Message) {
	tb.Helper()
	for {
		results := deliver(tb, s, messages...)
		if results[0].Again.IsZero() {
			if got := sinktest.Fates(results); got != strings.Repeat("d", len(messages)) {
				tb.Fatalf("%s, %v", got, results[0].Err)
			}
			return
		}
	}
}

// of returns the message of an event.
func of(e liveness.Event) sink.Message {
	return sink.Message{ID: e.ID(), Key: e.Subject, ContentType: "application/cloudevents+json", Event: &e}
}

// about returns the message of an event of a device.
func about(device string, seq uint64, t liveness.Type) sink.Message {
	at := time.Date(2026, 11, 22, 10, 0, int(seq), 0, time.UTC)
	e := liveness.Event{
		Type: t, Subject: device, Seq: seq, Time: at, Source: "line", Group: "pumps", Policy: "default", Node: "a",
		LastSeen: at.Add(-time.Minute), HeardSilence: time.Minute, Timeout: time.Minute,
	}
	switch t {
	case liveness.DeviceOffline:
		e.Reason = liveness.Silence
	case liveness.DeviceOnline:
		e.OfflineFor = time.Hour
	case liveness.DeviceFailed:
		e.Message = "too hot"
	default:
	}
	return of(e)
}

// hostileIDs are ids of devices that services could take for something else.
func hostileIDs() []string {
	return []string{
		"<!channel>", "<@U123>|x", "@everyone", "<@&1>", "*_~`x`", "[x](https://evil.example)", "a&b<c>d", "\\", "`", "||", "{{DATE(1)}}", "${x}", "'\"", "%2f/..", "💥" + strings.Repeat("é", 60),
		strings.Repeat("😀", 32), strings.Repeat("<", 128), strings.Repeat("&", 128), strings.Repeat("*", 128), "<https://evil.example|click>",
	}
}

// All types of events, hostile names, and many at once are requests that the service documents.
func TestSchemas(t *testing.T) {
	var all []sink.Message
	for typ := liveness.DeviceOnline; typ.OfDevice(); typ++ {
		all = append(all, about(fmt.Sprint("pump-", typ), 3, typ))
	}
	for typ := liveness.SourceDeaf; typ <= liveness.GroupOutageEnded; typ++ {
		all = append(all, of(liveness.Event{Type: typ, Subject: "pumps <!here>", Source: "line", Group: "pumps <!here>", Seq: 2, Members: 20, Silent: 12, Before: 1, Deaf: time.Minute}))
	}
	for i, id := range hostileIDs() {
		m := about(id, uint64(i+1), liveness.DeviceFailed)
		m.Event.Message, m.Event.Group = id+"\r\n@here <!channel> "+strings.Repeat("long ", 2000), strings.Repeat(id, 5)
		all = append(all, about(id, 7, liveness.DeviceOffline), about(id, 8, liveness.DeviceOnline), m)
	}
	all = append(all, sink.Message{ID: "job", Data: []byte(`{"text":"<!channel> look","title":"@everyone"}`)}, sink.Message{ID: "test", Data: []byte(`{"test":true,"text":"a test"}`)})
	for _, tr := range trials() {
		t.Run(tr.kind, func(t *testing.T) {
			m := newMock(t, nil)
			for _, batch := range []int{1, 20, 1000} {
				if batch > 1 && (tr.kind == "pagerduty" || tr.kind == "opsgenie") {
					continue
				}
				more := fmt.Sprintf(`"console":"https://h.example","rate":1000,"batch":%d`, batch)
				s := tr.open(t, m.URL, more)
				for i := 0; i < len(all); {
					n := min(batch, len(all)-i)
					deliverAtLast(t, s, all[i:i+n]...)
					for _, c := range m.took() {
						if err := tr.rules(&c); err != nil {
							t.Errorf("%s\nof %.3000s", err, c.body)
						}
					}
					i += n
				}
			}
		})
	}
}

// Escaping holds whatever the name of a device is.
func FuzzEscaping(f *testing.F) {
	for _, id := range hostileIDs() {
		f.Add(id)
	}
	m := newMock(f, nil)
	sinks := make(map[string]sink.Sink)
	for _, tr := range trials() {
		sinks[tr.kind] = tr.open(f, m.URL, `"console":"https://h.example","rate":1000`)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if liveness.ValidateID(id) != nil {
			return
		}
		for _, tr := range trials() {
			deliverAtLast(t, sinks[tr.kind], about(id, 1, liveness.DeviceOffline))
			for _, c := range m.took() {
				if err := tr.rules(&c); err != nil {
					t.Errorf("%s: %s\nof %.3000s", tr.kind, err, c.body)
				}
			}
		}
	})
}

// incidentTrials are those of services that keep incidents.
func incidentTrials() []trial {
	return slices.DeleteFunc(trials(), func(tr trial) bool { return tr.kind != "pagerduty" && tr.kind != "opsgenie" })
}

// incidents delivers messages one by one and returns what each did: action and key.
func incidents(t *testing.T, tr *trial, messages ...sink.Message) []string {
	t.Helper()
	m := newMock(t, nil)
	s := tr.open(t, m.URL, `"rate":1000`)
	var did []string
	for i := range messages {
		deliverAtLast(t, s, messages[i])
		var parts []string
		for _, c := range m.took() {
			var b struct {
				Action  string `json:"event_action"`
				Key     string `json:"dedup_key"`
				Alias   string
				Payload struct{ Severity string }
				P       string `json:"priority"`
			}
			if err := json.Unmarshal(c.body, &b); err != nil {
				t.Fatal(err)
			}
			if closed, ok := strings.CutSuffix(c.path, "/close"); ok {
				b.Action, b.Alias = "resolve", strings.TrimPrefix(closed, "/v2/alerts/")
			} else if b.P != "" {
				b.Action = "trigger"
			}
			level := map[string]string{"P1": "critical", "P3": "warning", "P5": "info"}[b.P] + b.Payload.Severity
			if b.Action == "resolve" {
				level = ""
			}
			parts = append(parts, strings.TrimSpace(b.Action+" "+b.Key+b.Alias+" "+level))
		}
		did = append(did, strings.Join(parts, "; "))
	}
	return did
}

// What fires opens an incident, what resolves closes it by the same key, and nothing else does anything.
func TestIncidents(t *testing.T) {
	suppressed := about("d", 5, liveness.DeviceOffline)
	suppressed.Event.Outage = true
	back := about("d", 6, liveness.DeviceOnline)
	back.Event.Maintenance = true
	still := about("d", 7, liveness.DeviceMaintenanceStopped)
	still.Event.Reason = liveness.Silence
	outage := func(typ liveness.Type) sink.Message {
		return of(liveness.Event{Type: typ, Subject: "pumps", Group: "pumps", Seq: 1})
	}
	messages := []sink.Message{
		about("d", 1, liveness.DeviceLate), about("d", 2, liveness.DeviceOffline), about("d", 3, liveness.DeviceChanged), about("d", 4, liveness.DeviceOnline),
		suppressed, back, still, about("d", 8, liveness.DeviceForgotten), about("d", 9, liveness.DeviceFailed), about("d", 10, liveness.DeviceFlappingStarted),
		outage(liveness.GroupOutageStarted), outage(liveness.GroupOutageEnded), about("group/pumps", 1, liveness.DeviceOffline), about("ü/%", 1, liveness.DeviceOnline),
		{ID: "run:1", Key: "d", Data: []byte(`{"text":"page","device":"d","severity":"firing"}`)},
		{ID: "run:2", Key: "d", Data: []byte(`{"text":"only words"}`)},
		{ID: "t", Data: []byte(`{"test":true,"text":"x"}`)},
	}
	want := []string{
		"", "trigger d critical", "", "resolve d",
		"", "resolve d", "trigger d critical", "resolve d", "trigger d:9 warning", "",
		"trigger group/pumps critical", "resolve group/pumps", "trigger device/group/pumps critical", "resolve ü/%",
		"trigger d critical", "", "trigger holter test info; resolve holter test",
	}
	for _, tr := range incidentTrials() {
		t.Run(tr.kind, func(t *testing.T) {
			for i, got := range incidents(t, &tr, messages...) {
				if got != want[i] {
					t.Errorf("message %d: %q, want %q", i, got, want[i])
				}
			}
		})
	}
}

// A repetition, after a crash between sending and acking, is the same request.
func TestRepetition(t *testing.T) {
	for _, tr := range trials() {
		t.Run(tr.kind, func(t *testing.T) {
			m := newMock(t, nil)
			for range 2 { // processes
				deliver(t, tr.open(t, m.URL, ""), about("d", 1, liveness.DeviceOffline))
			}
			if calls := m.took(); len(calls) != 2 || string(calls[0].body) != string(calls[1].body) {
				t.Errorf("%q", calls)
			}
		})
	}
}
