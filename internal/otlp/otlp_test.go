package otlp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/holter-iot/holter/internal/otlp"
)

// collector answers requests, and keeps what it took. answer is called with the number of the request.
type collector struct {
	answer func(n int, r *http.Request) (code int, header http.Header, body []byte, err error)

	mu    sync.Mutex // guards the fields below
	n     int
	took  []*tracev1.ResourceSpans
	spans int
	last  *http.Request
}

// RoundTrip implements http.RoundTripper.
func (c *collector) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.n++
	n := c.n
	c.mu.Unlock()
	code, header, answer, err := c.answer(n, r)
	if err != nil {
		return nil, err
	}
	var data tracev1.TracesData // an ExportTraceServiceRequest has the same form
	if err := (proto.UnmarshalOptions{DiscardUnknown: false}).Unmarshal(body, &data); err != nil {
		return nil, err
	}
	if len(data.ProtoReflect().GetUnknown()) > 0 {
		return nil, errors.New("the request has unknown fields")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = r
	if code/100 == 2 {
		c.took = append(c.took, data.ResourceSpans...)
		for _, of := range data.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				c.spans += len(scope.Spans)
			}
		}
	}
	return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(bytes.NewReader(answer)), Request: r}, nil
}

func ok(int, *http.Request) (int, http.Header, []byte, error) { return 200, nil, nil, nil }

// run runs an exporter in a bubble until do returns, and returns what became of the spans.
func run(t *testing.T, c *collector, do func(e *otlp.Exporter)) (st otlp.Stats, log string) {
	t.Helper()
	var text bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		e := otlp.New(otlp.Config{
			URL: "http://collector:4318/v1/traces", Header: http.Header{"Authorization": {"Bearer x"}}, Scope: "holter", Version: "v1",
			Resource: []otlp.Attribute{{Key: "service.name", Value: "holter"}}, Logger: slog.New(slog.NewTextHandler(&text, nil)),
		})
		e.Through(c)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := e.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		do(e)
		cancel()
		ended := time.Now()
		running.Wait()
		if d := time.Since(ended); d > time.Second {
			t.Errorf("the end took %v", d)
		}
		st = e.Stats()
	})
	return st, text.String()
}

// Each field of a span arrives, as the types of OpenTelemetry have it.
func TestSpan(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	c := &collector{answer: ok}
	run(t, c, func(e *otlp.Exporter) {
		e.Add(otlp.Span{
			Trace: [16]byte{1, 15: 2}, ID: [8]byte{3, 7: 4}, Parent: [8]byte{5}, Client: true, Name: "deliver \xff", Start: at, End: at.Add(time.Second),
			Attributes: []otlp.Attribute{{"s", ""}, {"b", true}, {"i", int64(-7)}, {"f", 1.5}}, Error: "no",
		})
		e.Add(otlp.Span{Trace: [16]byte{1}, ID: [8]byte{5}, Name: "root", Start: at, End: at})
		time.Sleep(2 * time.Second)
	})
	if len(c.took) != 1 || len(c.took[0].ScopeSpans) != 1 || len(c.took[0].ScopeSpans[0].Spans) != 2 {
		t.Fatalf("the collector took %v", c.took)
	}
	if h := c.last.Header; h.Get("Content-Type") != "application/x-protobuf" || h.Get("Authorization") != "Bearer x" || h.Get("User-Agent") != "holter/v1" {
		t.Errorf("headers %v", h)
	}
	text := func(s string) *commonv1.AnyValue {
		return &commonv1.AnyValue{Value: &commonv1.AnyValue_StringValue{StringValue: s}}
	}
	first := &tracev1.Span{
		TraceId: append(append([]byte{1}, make([]byte, 14)...), 2), SpanId: []byte{3, 0, 0, 0, 0, 0, 0, 4}, ParentSpanId: []byte{5, 0, 0, 0, 0, 0, 0, 0},
		Name: "deliver \uFFFD", Kind: tracev1.Span_SPAN_KIND_CLIENT, StartTimeUnixNano: uint64(at.UnixNano()), EndTimeUnixNano: uint64(at.UnixNano()) + 1e9,
		Attributes: []*commonv1.KeyValue{
			{Key: "s", Value: text("")},
			{Key: "b", Value: &commonv1.AnyValue{Value: &commonv1.AnyValue_BoolValue{BoolValue: true}}},
			{Key: "i", Value: &commonv1.AnyValue{Value: &commonv1.AnyValue_IntValue{IntValue: -7}}},
			{Key: "f", Value: &commonv1.AnyValue{Value: &commonv1.AnyValue_DoubleValue{DoubleValue: 1.5}}},
		},
		Status: &tracev1.Status{Message: "no", Code: tracev1.Status_STATUS_CODE_ERROR}, Flags: 1,
	}
	if got := c.took[0].ScopeSpans[0].Spans[0]; !proto.Equal(got, first) {
		t.Errorf("got %v, want %v", got, first)
	}
	if root := c.took[0].ScopeSpans[0].Spans[1]; root.ParentSpanId != nil || root.Status != nil || root.Kind != tracev1.Span_SPAN_KIND_INTERNAL {
		t.Errorf("root %v", root)
	}
	scope, resource := c.took[0].ScopeSpans[0].Scope, c.took[0].Resource
	if scope.Name != "holter" || scope.Version != "v1" || len(resource.Attributes) != 1 || !proto.Equal(resource.Attributes[0].Value, text("holter")) {
		t.Errorf("scope %v, resource %v", scope, resource)
	}
}

// Whatever the collector does, Add returns at once, memory is bounded, and what is not sent is counted.
func TestTrouble(t *testing.T) {
	const many = otlp.Room + 5000
	status := func(code int, header ...string) func(int, *http.Request) (int, http.Header, []byte, error) {
		return func(int, *http.Request) (int, http.Header, []byte, error) {
			h := make(http.Header)
			for i := 0; i < len(header); i += 2 {
				h.Set(header[i], header[i+1])
			}
			return code, h, []byte("go away"), nil
		}
	}
	for _, c := range []struct {
		name     string
		answer   func(int, *http.Request) (int, http.Header, []byte, error)
		add      int
		wait     time.Duration
		sent     int
		requests [2]int // least and most
		log      string
	}{
		{"it works", ok, 3000, 10 * time.Second, 3000, [2]int{6, 7}, ""},
		{"down", func(int, *http.Request) (int, http.Header, []byte, error) {
			return 0, nil, nil, errors.New("connection refused")
		}, many, 10 * time.Minute, 0, [2]int{50, 250}, "connection refused"},
		{"down, then up", func(n int, _ *http.Request) (int, http.Header, []byte, error) {
			if n < 4 {
				return 0, nil, nil, errors.New("connection refused")
			}
			return 200, nil, nil, nil
		}, 600, time.Minute, 600, [2]int{5, 5}, "traces are sent again"},
		{"it never answers", func(_ int, r *http.Request) (int, http.Header, []byte, error) {
			<-r.Context().Done()
			return 0, nil, nil, r.Context().Err()
		}, many, 10 * time.Minute, 0, [2]int{20, 150}, "deadline exceeded"},
		{"slow", func(int, *http.Request) (int, http.Header, []byte, error) {
			time.Sleep(5 * time.Second)
			return 200, nil, nil, nil
		}, 2000, time.Minute, 2000, [2]int{4, 5}, ""},
		{"too many requests, and then none", func(n int, _ *http.Request) (int, http.Header, []byte, error) {
			if n == 1 {
				return 429, http.Header{"Retry-After": {"20"}}, nil, nil
			}
			return 200, nil, nil, nil
		}, 10, 15 * time.Second, 0, [2]int{1, 1}, "answers 429"},
		{"too many requests, waited for", func(n int, _ *http.Request) (int, http.Header, []byte, error) {
			if n == 1 {
				return 429, http.Header{"Retry-After": {"20"}}, nil, nil
			}
			return 200, nil, nil, nil
		}, 10, time.Minute, 10, [2]int{2, 2}, "answers 429"},
		{"a longer pause than a batch is worth", status(503, "Retry-After", "3600"), 10, time.Minute, 0, [2]int{1, 1}, "answers 503"},
		{"not found", status(404), 10, time.Minute, 0, [2]int{1, 1}, "go away"},
		{"a redirect", status(302, "Location", "http://elsewhere/"), 10, time.Minute, 0, [2]int{1, 1}, "answers 302"},
		{"some are rejected", func(int, *http.Request) (int, http.Header, []byte, error) {
			return 200, nil, []byte{0x0a, 0x02, 0x08, 0x04}, nil
		}, 10, time.Minute, 6, [2]int{1, 1}, ""},
		{"an answer that is no protobuf", func(int, *http.Request) (int, http.Header, []byte, error) {
			return 200, nil, []byte("<html>"), nil
		}, 10, time.Minute, 10, [2]int{1, 1}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			far := &collector{answer: c.answer}
			var waiting int
			st, log := run(t, far, func(e *otlp.Exporter) {
				before := time.Now()
				for range c.add {
					e.Add(otlp.Span{Trace: [16]byte{1}, ID: [8]byte{2}, Name: "x", Start: before, End: before})
				}
				if time.Since(before) != 0 { // by the clock of the bubble, which stands while anybody runs
					t.Error("Add waits")
				}
				waiting = e.Stats().Queued
				time.Sleep(c.wait)
			})
			if waiting > otlp.Room {
				t.Errorf("%d spans wait", waiting)
			}
			if st.Sent != uint64(c.sent) || st.Sent+st.Dropped != uint64(c.add) {
				t.Errorf("%+v of %d spans, want %d sent and the others dropped", st, c.add, c.sent)
			}
			if far.n < c.requests[0] || far.n > c.requests[1] {
				t.Errorf("%d requests, want %v", far.n, c.requests)
			}
			if !strings.Contains(log, c.log) || strings.Count(log, "\n") > 2 {
				t.Errorf("the log is\n%s, want %q and little else", log, c.log)
			}
		})
	}
}

// The last spans are sent at the end, which takes a second at most.
func TestEnd(t *testing.T) {
	c := &collector{answer: ok}
	st, _ := run(t, c, func(e *otlp.Exporter) {
		for range 700 {
			e.Add(otlp.Span{Name: "x"})
		}
	})
	if st.Sent != 700 || st.Dropped != 0 {
		t.Errorf("%+v", st)
	}
	far := &collector{answer: func(_ int, r *http.Request) (int, http.Header, []byte, error) {
		<-r.Context().Done()
		return 0, nil, nil, r.Context().Err()
	}}
	st, _ = run(t, far, func(e *otlp.Exporter) {
		for range 700 {
			e.Add(otlp.Span{Name: "x"})
		}
	})
	if st.Sent != 0 || st.Dropped != 700 {
		t.Errorf("%+v", st)
	}
}
