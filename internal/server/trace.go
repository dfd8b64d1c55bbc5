package server

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/metrics"
	"github.com/holter-iot/holter/internal/otlp"
	"github.com/holter-iot/holter/internal/version"
	"github.com/holter-iot/holter/liveness"
)

// tracer makes spans of events and of their deliveries. The ids of traces and spans follow from the event,
// so that every process which has to do with an event, also after a crash, makes parts of one trace.
type tracer struct {
	spans *otlp.Exporter
	fleet func() string // the number of the fleet, which its database has
	bound uint64        // events whose trace has a smaller number are traced
}

// buildTracer creates what sends traces, if they are to be sent.
func (s *server) buildTracer() error {
	c := s.config.Trace
	if c.OTLP == "" {
		return nil
	}
	header, err := readHeaders(c.HeadersFile)
	if err != nil {
		return BadConfig(fmt.Errorf("trace.headers_file: %w", err))
	}
	share := c.Sample
	if share == 0 {
		share = 1
	}
	s.tracer = &tracer{fleet: s.database.ID, bound: uint64(share * (1 << 63)), spans: otlp.New(otlp.Config{
		URL: strings.TrimSuffix(c.OTLP, "/") + "/v1/traces", Header: header, Scope: "holter", Version: version.String(), Logger: s.log,
		Resource: []otlp.Attribute{{Key: "service.name", Value: "holter"}, {Key: "service.version", Value: version.String()}, {Key: "service.instance.id", Value: s.config.Node}},
	})}
	return nil
}

// readHeaders reads a file with a header on each line. Empty lines, and those that begin with #, are left out.
func readHeaders(name string) (http.Header, error) {
	if name == "" {
		return nil, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	header := make(http.Header)
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok || key == "" || strings.ContainsAny(key, " \t") || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return nil, errors.New(name + ":" + strconv.Itoa(i+1) + ": this is no header; write NAME: VALUE") // not what it is: it may be a secret
		}
		header.Add(key, strings.TrimSpace(value))
	}
	return header, nil
}

// traceOf returns the number of an event's trace.
func (t *tracer) traceOf(ev *liveness.Event) (id [16]byte) {
	sum := sha256.Sum256([]byte(t.fleet() + "\x00" + ev.ID()))
	return [16]byte(sum[:16])
}

// spanOf returns the number of a span of a trace.
func spanOf(trace [16]byte, name string) (id [8]byte) {
	sum := sha256.Sum256(append(trace[:], name...))
	return [8]byte(sum[:8])
}

// verdict and the following name the spans of a trace, for their numbers. That of the verdict is the root.
const (
	verdictSpan = "verdict"
	decideSpan  = "decide"
	commitSpan  = "commit"
)

func attemptSpan(kind string, job uint64, number int) string {
	return fmt.Sprintf("%s %d %d", kind, job, number)
}

// sampled reports whether a trace is sent. The rule is that of TraceIdRatioBased of OpenTelemetry.
func (t *tracer) sampled(trace [16]byte) bool { return binary.BigEndian.Uint64(trace[8:])>>1 < t.bound }

// parent returns a traceparent (https://www.w3.org/TR/trace-context/).
func (t *tracer) parent(trace [16]byte, span [8]byte) string {
	flags := "-00"
	if t.sampled(trace) {
		flags = "-01"
	}
	return "00-" + hex.EncodeToString(trace[:]) + "-" + hex.EncodeToString(span[:]) + flags
}

// Event implements [delivery.Tracer].
func (t *tracer) Event(ev *liveness.Event) string {
	trace := t.traceOf(ev)
	return t.parent(trace, spanOf(trace, verdictSpan))
}

// Attempt implements [delivery.Tracer].
func (t *tracer) Attempt(ev *liveness.Event, job uint64, number int) string {
	trace := t.traceOf(ev)
	return t.parent(trace, spanOf(trace, attemptSpan("deliver", job, number)))
}

// Delivered implements [delivery.Tracer].
func (t *tracer) Delivered(a delivery.Attempt) {
	if t.spans.Full(2) {
		return
	}
	trace := t.traceOf(a.Event)
	if !t.sampled(trace) {
		return
	}
	root := spanOf(trace, verdictSpan)
	about := []otlp.Attribute{
		{Key: "holter.job", Value: strconv.FormatUint(a.Job, 10)},
		{Key: "holter.attempt", Value: int64(a.Number)},
		{Key: "holter.queue", Value: a.Queue},
		{Key: "holter.endpoint", Value: a.Endpoint},
		{Key: "holter.outcome", Value: outcome(a.Outcome)},
	}
	if a.Status != 0 {
		about = append(about, otlp.Attribute{Key: "http.response.status_code", Value: int64(a.Status)})
	}
	if a.Number == 1 {
		t.spans.Add(otlp.Span{
			Trace: trace, ID: spanOf(trace, attemptSpan("wait", a.Job, a.Number)), Parent: root, Name: "wait in queue",
			Start: a.Event.Time, End: latest(a.Event.Time, a.Taken), Attributes: about[:3],
		})
	}
	t.spans.Add(otlp.Span{
		Trace: trace, ID: spanOf(trace, attemptSpan("deliver", a.Job, a.Number)), Parent: root, Client: true, Name: "deliver",
		Start: a.Began, End: a.Ended, Attributes: about, Error: a.Error,
	})
}

func outcome(o jobs.Outcome) string {
	switch o {
	case jobs.Done:
		return "delivered"
	case jobs.Dead:
		return "dead"
	default:
		return "retried"
	}
}

// committed makes the spans of events that were stored between two instants.
func (t *tracer) committed(events []liveness.Event, began, ended time.Time) {
	for i := range events {
		if t.spans.Full(3 * (len(events) - i)) {
			return
		}
		ev := &events[i]
		trace := t.traceOf(ev)
		if !t.sampled(trace) {
			continue
		}
		root := spanOf(trace, verdictSpan)
		due := ev.Time
		if !ev.Deadline.IsZero() && ev.Type == liveness.DeviceOffline && ev.Reason == liveness.Silence {
			due = earliest(ev.Deadline, ev.Time)
		}
		t.spans.Add(otlp.Span{Trace: trace, ID: root, Name: ev.Type.String(), Start: due, End: ended, Attributes: aboutEvent(ev)})
		t.spans.Add(otlp.Span{Trace: trace, ID: spanOf(trace, decideSpan), Parent: root, Name: "decide", Start: due, End: ev.Time})
		t.spans.Add(otlp.Span{
			Trace: trace, ID: spanOf(trace, commitSpan), Parent: root, Name: "commit", Start: began, End: ended,
			Attributes: []otlp.Attribute{{Key: "holter.batch", Value: int64(len(events))}},
		})
	}
}

// aboutEvent returns what the root span says.
func aboutEvent(ev *liveness.Event) []otlp.Attribute {
	all := []otlp.Attribute{
		{Key: "holter.event", Value: ev.ID()}, {Key: "holter.subject", Value: ev.Subject}, {Key: "holter.offset", Value: strconv.FormatUint(ev.Offset, 10)},
	}
	for _, a := range []otlp.Attribute{
		{Key: "holter.reason", Value: ev.Reason.String()},
		{Key: "holter.source", Value: ev.Source},
		{Key: "holter.group", Value: ev.Group},
		{Key: "holter.policy", Value: ev.Policy},
		{Key: "holter.node", Value: ev.Node},
	} {
		if a.Value != "" {
			all = append(all, a)
		}
	}
	if ev.Term != 0 {
		all = append(all, otlp.Attribute{Key: "holter.term", Value: ev.Term})
	}
	if ev.HeardSilence != 0 {
		all = append(all, otlp.Attribute{Key: "holter.heard_silence_seconds", Value: ev.HeardSilence.Seconds()})
	}
	if ev.Timeout != 0 && ev.Timeout < liveness.Never {
		all = append(all, otlp.Attribute{Key: "holter.timeout_seconds", Value: ev.Timeout.Seconds()})
	}
	return all
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// tracedSink stores events, and traces them.
type tracedSink struct {
	liveness.Sink

	tracer *tracer
}

// Append implements [liveness.Sink].
func (s tracedSink) Append(ctx context.Context, events []liveness.Event) error {
	began := time.Now()
	err := s.Sink.Append(ctx, events)
	if err == nil {
		s.tracer.committed(events, began, time.Now())
	}
	return err
}

// sink returns where the registry's events go.
func (s *server) sink() liveness.Sink {
	if s.tracer == nil {
		return s.store
	}
	return tracedSink{s.store, s.tracer}
}

func (s *server) traceMetrics(m metrics.Sample) {
	m = m.Sub("trace_")
	st := s.tracer.spans.Stats()
	m.Count("sent_total", "Spans that the collector of traces took.", st.Sent)
	m.Count("dropped_total", "Spans that were dropped, because too many waited or the collector did not take them.", st.Dropped)
	m.Add("queued", "Spans that wait for the collector of traces.", float64(st.Queued))
}
