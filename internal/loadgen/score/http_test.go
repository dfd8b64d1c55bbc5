package score_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/score"
)

const offlineJSON = `{"specversion":"1.0","id":"d-0:7","source":"/holter/n1/line","type":"io.holter.device.offline",
"subject":"d-0","time":"2026-01-02T03:04:05.123456789Z","data":{"offset":9,"seq":7,"epoch":3,"reason":"silence","source":"line",
"last_seen":"2026-01-02T03:03:55.1Z","deadline":"2026-01-02T03:04:05.1Z","decided_at":"2026-01-02T03:04:05.123456789Z",
"heard_silence_ms":10000.5,"timeout_ms":10000,"policy":"default","node":"n1"}}`

// FuzzParse feeds what a stream may hold to the reader of events: it fails or not, and the score takes what comes of it.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		offlineJSON, `{"type":"io.holter.source.heard","subject":"line","time":"2026-01-02T03:04:05Z","data":{"seq":7,"deaf_ms":1e300}}`,
		`{"type":"io.holter.group.outage.started","subject":"d-0"}`, `{"oldest":3}`, `{"type":"io.holter.device.forgotten","subject":"d-0","data":{"seq":1}}`, `[]`,
	} {
		f.Add("io.holter.device.offline", []byte(seed))
	}
	f.Add("missed", []byte(`{"oldest":3}`))
	f.Fuzz(func(t *testing.T, event string, data []byte) {
		v, ok, err := score.Parse(event, data)
		if err != nil || !ok {
			return
		}
		s, err := score.New(fleet(1), 0)
		if err != nil {
			t.Fatal(err)
		}
		s.Verdict(v)
		s.Verdict(v)
		r := s.Finish(at(100))
		if r.Events != 0 && r.Events != 2 {
			t.Errorf("%d verdicts", r.Events)
		}
	})
}

func TestParse(t *testing.T) {
	v, ok, err := score.Parse("io.holter.device.offline", []byte(offlineJSON))
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	want := score.Verdict{
		ID: "d-0:7", Source: "line", Device: "d-0", Kind: score.Offline, Reason: "silence", Seq: 7, Epoch: 3, Offset: 9,
		Time: v.Time, Deadline: v.Deadline, LastSeen: v.LastSeen, HeardSilence: 10000500 * time.Microsecond, Timeout: 10 * time.Second,
	}
	if v != want || !v.Time.Equal(time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC)) || !v.Deadline.Equal(time.Date(2026, 1, 2, 3, 4, 5, 1e8, time.UTC)) {
		t.Errorf("Parse = %+v, want %+v", v, want)
	}
	for _, c := range []struct {
		event, data string
		kind        score.Kind
		device      string
		ok          bool
	}{
		{"", `{"type":"io.holter.device.online","subject":"a"}`, score.Online, "a", true},
		{"", `{"type":"io.holter.device.late","subject":"a"}`, score.Late, "a", true},
		{"", `{"type":"io.holter.device.sleeping","subject":"a"}`, score.Sleeping, "a", true},
		{"", `{"type":"io.holter.device.session_replaced","subject":"a"}`, score.Replaced, "a", true},
		{"", `{"type":"io.holter.device.forgotten","subject":"a"}`, score.Forgotten, "a", true},
		{"", `{"type":"io.holter.device.changed","subject":"a"}`, score.Other, "a", true},
		{"", `{"type":"io.holter.source.deaf","subject":"line"}`, score.SourceDeaf, "", true},
		{"", `{"type":"io.holter.source.heard","subject":"line"}`, score.SourceHeard, "", true},
		{"", `{"type":"io.holter.group.outage.started","subject":"a"}`, 0, "", false},
		{"missed", `{"oldest":16}`, score.Missed, "", true},
	} {
		v, ok, err := score.Parse(c.event, []byte(c.data))
		if err != nil || ok != c.ok || v.Kind != c.kind || v.Device != c.device {
			t.Errorf("Parse(%s) = %+v, %v, %v", c.data, v, ok, err)
		}
	}
	for _, bad := range []string{"", "{", `{"time":"yesterday"}`, `{"data":{"seq":-1}}`} {
		if _, _, err := score.Parse("", []byte(bad)); err == nil {
			t.Errorf("Parse(%q) did not fail", bad)
		}
	}
}

// What the API says of listening clocks is told again and again, with the time that it says, or that at which it was asked.
func TestFollowWatchesClocks(t *testing.T) {
	t.Parallel()
	stamp := time.Now().Add(time.Minute).UTC()
	srv := httptest.NewServer(&api{t: t, scripts: []func(http.ResponseWriter, *http.Request){stays("id: 4\n\n")}, sources: []string{
		`{"sources":[]}`, "", fmt.Sprintf(`{"sources":[{"name":"line","behind_ms":1500.5}],"as_of":%q}`, stamp.Format(time.RFC3339Nano)),
		`{"sources":[{"name":"line","behind_ms":3},{"name":"udp"}]}`,
	}})
	defer srv.Close()
	h, err := score.NewHTTP(score.HTTPConfig{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var mu sync.Mutex
	var got []score.Verdict
	if err := h.Follow(ctx, func(v score.Verdict) {
		mu.Lock()
		defer mu.Unlock()
		if v.Kind != score.Behind {
			return
		}
		if got = append(got, v); len(got) == 3 {
			cancel()
		}
	}); err != nil {
		t.Fatal(err)
	}
	if len(got) < 3 {
		t.Fatalf("told %+v", got)
	}
	if v := got[0]; v.Source != "line" || v.Lag != 1500500*time.Microsecond || !v.Time.Equal(stamp) {
		t.Errorf("told %+v", v)
	}
	if v := got[1]; v.Source != "line" || v.Lag != 3*time.Millisecond || time.Since(v.Time) > time.Minute || v.Time.After(v.Seen) {
		t.Errorf("told %+v", v)
	}
	if v := got[2]; v.Source != "udp" || v.Lag != 0 {
		t.Errorf("told %+v", v)
	}
}

// api plays Holter: each connection gets the next script.
type api struct {
	t       *testing.T
	scripts []func(w http.ResponseWriter, r *http.Request)
	sources []string // what it answers when it is asked for them, one after the other; "": 503

	mu    sync.Mutex // guards the fields below
	asked []string   // Last-Event-ID, query, token
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/stats" { // it tells no time
		http.NotFound(w, r)
		return
	}
	a.mu.Lock()
	if r.URL.Path == "/v1/sources" {
		defer a.mu.Unlock()
		answer := `{"sources":[]}`
		if len(a.sources) > 0 {
			answer, a.sources = a.sources[0], a.sources[1:]
		}
		if answer == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(answer))
		return
	}
	n := len(a.asked)
	a.asked = append(a.asked, fmt.Sprintf("%s|%s|%s", r.Header.Get("Last-Event-ID"), r.URL.RequestURI(), r.Header.Get("Authorization")))
	a.mu.Unlock()
	if n < len(a.scripts) {
		a.scripts[n](w, r)
		return
	}
	<-r.Context().Done()
}

func (a *api) requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.asked...)
}

func says(parts ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, p := range parts {
			if _, err := w.Write([]byte(p)); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}
}

// stays says something and waits until the reader is gone.
func stays(parts ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		says(parts...)(w, r)
		<-r.Context().Done()
	}
}

func event(offset int, kind, device string) string {
	return fmt.Sprintf("id: %d\nevent: io.holter.%s\ndata: {\"type\":\"io.holter.%s\",\"subject\":%q,\"data\":{\"offset\":%d,\"seq\":1}}\n\n", offset, kind, kind, device, offset)
}

// follow follows until as many verdicts as wanted have come, and says them as words.
func follow(t *testing.T, cfg score.HTTPConfig, want int) ([]string, error) {
	t.Helper()
	h, err := score.NewHTTP(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var mu sync.Mutex
	var words []string
	err = h.Follow(ctx, func(v score.Verdict) {
		mu.Lock()
		defer mu.Unlock()
		if v.Seen.IsZero() || v.URL == "" {
			t.Errorf("%+v does not say when and where it was read", v)
		}
		words = append(words, fmt.Sprintf("%s %s%d", kindWord(v.Kind), v.Device, v.Offset))
		if len(words) == want {
			cancel()
		}
	})
	return words, err
}

func kindWord(k score.Kind) string {
	return map[score.Kind]string{
		score.Online: "online", score.Offline: "offline", score.Following: "following", score.Broken: "broken", score.Missed: "missed",
		score.SourceDeaf: "deaf", score.SourceHeard: "heard", score.Skipped: "skipped", score.Rewound: "rewound", score.Clock: "clock",
	}[k]
}

// What was deaf before the stream began is asked for, until there is an answer.
func TestFollowDeafBefore(t *testing.T) {
	stream := stays("retry: 2000\nid: 4\n\n", event(5, "device.online", "a"))
	for name, c := range map[string]struct {
		oldest  bool
		sources []string
		want    []string
	}{
		"deaf": {
			false,
			[]string{`{"sources":[{"name":"udp"},{"name":"line","deaf_since":"2026-01-02T03:04:05Z"}]}`},
			[]string{"following 4", "deaf 0", "online a5"},
		},
		"no answer at first": {
			false,
			[]string{"", `{"sources":[{"name":"line","deaf_since":"2026-01-02T03:04:05Z"}]}`},
			[]string{"following 4", "broken 0", "following 4", "deaf 0", "online a5"},
		},
		"the log tells": {true, []string{`{"sources":[{"name":"line","deaf_since":"2026-01-02T03:04:05Z"}]}`}, []string{"following 0", "online a5"}},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(&api{t: t, scripts: []func(http.ResponseWriter, *http.Request){stream, stream}, sources: c.sources})
			defer srv.Close()
			got, err := follow(t, score.HTTPConfig{URL: srv.URL, Oldest: c.oldest, Retry: time.Millisecond}, len(c.want))
			if err != nil || strings.Join(got, ", ") != strings.Join(c.want, ", ") {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestFollow(t *testing.T) {
	hello := "retry: 2000\nid: 4\n\n"
	for _, c := range []struct {
		name    string
		oldest  bool
		scripts []func(http.ResponseWriter, *http.Request)
		want    []string
		asked   []string
	}{
		{
			"from now on", false,
			[]func(http.ResponseWriter, *http.Request){stays(hello, event(5, "device.online", "a"), ": still here\n\n", event(6, "device.offline", "a"))},
			[]string{"following 4", "online a5", "offline a6"},
			[]string{"|/v1/events/stream|Bearer secret"},
		},
		{
			"from the oldest", true,
			[]func(http.ResponseWriter, *http.Request){stays("retry: 2000\n\n", event(1, "device.online", "a"))},
			[]string{"following 0", "online a1"},
			[]string{"|/v1/events/stream?after=0|Bearer secret"},
		},
		{
			"a break is mended", false,
			[]func(http.ResponseWriter, *http.Request){
				says(hello, event(5, "device.online", "a"), ": still here\nid: 9\n\n", "id: 10\ndata: cut"),
				func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "too many", http.StatusServiceUnavailable) },
				stays("id: 9\n\n", event(10, "device.offline", "a")),
			},
			[]string{"following 4", "online a5", "skipped 6", "broken 0", "following 9", "offline a10"},
			[]string{"|/v1/events/stream|Bearer secret", "9|/v1/events/stream|Bearer secret", "9|/v1/events/stream|Bearer secret"},
		},
		{
			"places are missing", false,
			[]func(http.ResponseWriter, *http.Request){stays(hello, event(7, "device.online", "a"), "id: 9\n\n", event(10, "device.offline", "a"))},
			[]string{"following 4", "skipped 5", "online a7", "skipped 8", "offline a10"},
			[]string{"|/v1/events/stream|Bearer secret"},
		},
		{
			"places come again", false,
			[]func(http.ResponseWriter, *http.Request){stays(hello, event(5, "device.online", "a"), event(5, "device.online", "a"), "id: 3\n\n", event(4, "device.offline", "b"))},
			[]string{"following 4", "online a5", "rewound 5", "online a5", "rewound 3", "offline b4"},
			[]string{"|/v1/events/stream|Bearer secret"},
		},
		{
			"missed", false,
			[]func(http.ResponseWriter, *http.Request){stays(hello, "id: 15\nevent: missed\ndata: {\"oldest\":16}\n\n", event(16, "device.online", "a"))},
			[]string{"following 4", "missed 16", "online a16"},
			[]string{"|/v1/events/stream|Bearer secret"},
		},
		{
			"silence is a break", false,
			[]func(http.ResponseWriter, *http.Request){stays(hello), stays(hello, event(5, "device.online", "a"))},
			[]string{"following 4", "broken 0", "following 4", "online a5"},
			[]string{"|/v1/events/stream|Bearer secret", "4|/v1/events/stream|Bearer secret"},
		},
		{
			"what is no event is a break", false,
			[]func(http.ResponseWriter, *http.Request){says(hello, "id: 5\ndata: {\n\n"), stays("id: 5\n\n")},
			[]string{"following 4", "broken 0", "following 5"},
			[]string{"|/v1/events/stream|Bearer secret", "5|/v1/events/stream|Bearer secret"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &api{t: t, scripts: c.scripts}
			srv := httptest.NewServer(a)
			defer srv.Close()
			got, err := follow(t, score.HTTPConfig{URL: srv.URL + "/", Token: "secret", Retry: time.Millisecond, Quiet: 200 * time.Millisecond, Oldest: c.oldest}, len(c.want))
			if err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("followed %q, %v; want %q", got, err, c.want)
			}
			if asked := a.requests(); fmt.Sprint(asked) != fmt.Sprint(c.asked) {
				t.Errorf("asked %q, want %q", asked, c.asked)
			}
		})
	}
}

func TestFollowFails(t *testing.T) {
	answer := func(code int, kind string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
		}
	}
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"wrong token", answer(http.StatusUnauthorized, "application/problem+json"), "give a token"},
		{"not Holter", answer(http.StatusNotFound, "text/html"), "is this Holter's HTTP API?"},
		{"a page", answer(http.StatusOK, "text/html"), `"text/html" and not with a stream of events`},
		{"full", answer(http.StatusServiceUnavailable, "text/plain"), "503"},
		{"token revoked", func() http.HandlerFunc {
			a := &api{scripts: []func(http.ResponseWriter, *http.Request){says("id: 1\n\n"), answer(http.StatusForbidden, "text/plain")}}
			return a.ServeHTTP
		}(), "give a token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := httptest.NewServer(c.handler)
			defer srv.Close()
			_, err := follow(t, score.HTTPConfig{URL: srv.URL, Retry: time.Millisecond}, 100)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), srv.URL) {
				t.Errorf("Follow = %v, want %q in it", err, c.want)
			}
		})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // of a test
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := follow(t, score.HTTPConfig{URL: "http://" + l.Addr().String()}, 1); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("Follow of nobody = %v", err)
	}
}

func TestNewHTTP(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"", "there is no URL"},
		{"127.0.0.1:8080", "write it as in http://"},
		{"tcp://127.0.0.1:8080", "is no address of an HTTP API"},
		{"http://", "is no address of an HTTP API"},
	} {
		if _, err := score.NewHTTP(score.HTTPConfig{URL: c.url}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewHTTP(%q) = %v, want %q", c.url, err, c.want)
		}
	}
}
