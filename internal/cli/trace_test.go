package cli

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/holter-iot/holter/internal/server"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// collector keeps the spans that it gets, by their ids.
type collector struct {
	*httptest.Server

	mu            sync.Mutex // guards the fields below
	spans         map[string]*tracev1.Span
	authorization string
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{spans: make(map[string]*tracev1.Span)}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracev1.TracesData // an ExportTraceServiceRequest has the same form
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &data) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.authorization = r.Header.Get("Authorization")
		for _, of := range data.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				for _, s := range scope.Spans {
					c.spans[hex.EncodeToString(s.SpanId)] = s
				}
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// of returns the spans of a trace, as PARENT NAME by their ids.
func (c *collector) of(trace string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := make(map[string]string)
	for id, s := range c.spans {
		if hex.EncodeToString(s.TraceId) == trace {
			found[id] = hex.EncodeToString(s.ParentSpanId) + " " + s.Name
		}
	}
	return found
}

// hook is a receiver of webhooks that fails until it is mended.
type hook struct {
	*httptest.Server

	mu      sync.Mutex // guards the fields below
	mended  bool
	headers []string // traceparent of each request
	bodies  []string // and that of its event
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var event struct{ Traceparent string }
		err := json.NewDecoder(r.Body).Decode(&event)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.headers, h.bodies = append(h.headers, r.Header.Get("traceparent")), append(h.bodies, event.Traceparent)
		if err != nil || !h.mended {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

// seen returns the traceparent of each request.
func (h *hook) seen() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.headers)
}

// The spans of a verdict join, although the process is killed between two attempts to deliver it, and the
// receiver can continue the trace.
func TestTrace(t *testing.T) {
	t.Parallel()
	c, h, data := newCollector(t), newHook(t), t.TempDir()
	headers := tempFile(t, "# for the collector\nAuthorization: Bearer hunter2\n")
	config := tempFile(t, fmt.Sprintf("policy: {timeout: 1s, interval: 300ms}\ntrace: {otlp: %q, headers_file: %q}\n", c.URL, headers))
	p := startServe(t, server.PrivateEnv+"=127.0.0.0/8", "--config", config, "--data", data)
	p.do("PUT", "/v1/endpoints/ops", fmt.Sprintf(`{"kind":"webhook","target":%q}`, h.URL))
	p.do("PUT", "/v1/routes/offline", `{"endpoint":"ops","types":["device.offline"]}`)
	p.do("POST", "/v1/beat/pump", "")
	var first []string // version, trace, span and flags of the first attempt
	testwait.Until(t, "the span of a failed attempt", func() bool {
		seen := h.seen()
		if len(seen) == 0 {
			return false
		}
		first = strings.Split(seen[0], "-")
		return len(first) == 4 && c.of(first[1])[first[2]] != ""
	}, p.logged)
	if err := p.stop(os.Kill); err == nil {
		t.Error("the process ended well")
	}
	before := len(h.seen())
	h.mu.Lock()
	h.mended = true
	h.mu.Unlock()

	p = startServe(t, server.PrivateEnv+"=127.0.0.0/8", "--config", config, "--data", data)
	testwait.Until(t, "the span of another attempt", func() bool {
		seen := h.seen()
		if len(seen) <= before {
			return false
		}
		last := strings.Split(seen[before], "-")
		return c.of(last[1])[last[2]] != ""
	}, p.logged)
	h.mu.Lock()
	defer h.mu.Unlock()
	root := strings.Split(h.bodies[0], "-")
	got := c.of(root[1])
	want := map[string]string{root[2]: " device.offline"}
	for i, header := range h.headers {
		parts := strings.Split(header, "-")
		if h.bodies[i] != h.bodies[0] || parts[0] != "00" || parts[1] != root[1] || parts[3] != "01" || want[parts[2]] != "" {
			t.Errorf("attempt %d has the traceparent %s, and its event %s", i, header, h.bodies[i])
		}
		want[parts[2]] = root[2] + " deliver"
	}
	for id, span := range got {
		if name := strings.TrimPrefix(span, root[2]+" "); name == "decide" || name == "commit" || name == "wait in queue" {
			want[id] = span
		}
	}
	if len(want) != 4+len(h.headers) || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the trace is\n%v, want decide, commit, wait in queue and\n%v", got, want)
	}
	if c.authorization != "Bearer hunter2" || strings.Contains(p.logged(), "hunter2") {
		t.Errorf("Authorization: %q; log:\n%s", c.authorization, p.logged())
	}
	text := ""
	testwait.Until(t, "what was sent is counted", func() bool { // once the collector's answer is here
		_, text = p.get("/metrics")
		return strings.Contains(text, "\nholter_trace_sent_total ") && !strings.Contains(text, "\nholter_trace_sent_total 0\n")
	}, p.logged)
	if !strings.Contains(text, "\nholter_trace_dropped_total 0\n") {
		t.Errorf("spans were dropped, or the metric is missing:\n%s", text)
	}
}

// A server whose collector is gone, or whose headers cannot be read, says so.
func TestTraceMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, config, want string }{
		{"no URL", "trace: {otlp: collector}", "is not the URL of a collector"},
		{"a password", "trace: {otlp: 'http://a:hunter2@collector'}", "put an Authorization header into trace.headers_file"},
		{"nowhere", "trace: {sample: 0.1}", "traces are sent nowhere"},
		{"nothing", "trace: {otlp: 'http://collector', sample: 0}", "allowed is more than 0"},
		{"no file", "trace: {otlp: 'http://collector', headers_file: /not/there}", "trace.headers_file: open /not/there: no such file"},
		{"no header", "trace: {otlp: 'http://collector', headers_file: " + tempFile(t, "\nhunter2\n") + "}", ":2: this is no header"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := typeLine(t.Context(), t, "serve", "--listen", "127.0.0.1:0", "--mqtt", "off", "--http", "127.0.0.1:0", "--data", t.TempDir(), "--config", tempFile(t, c.config+"\n"))
			if got.code == 0 || !strings.Contains(got.stderr, c.want) {
				t.Errorf("%+v\nwant %s", got, c.want)
			}
			if strings.Contains(c.want, "no header") && strings.Contains(got.stderr, "hunter2") {
				t.Errorf("a secret is shown:\n%s", got.stderr)
			}
		})
	}
}
