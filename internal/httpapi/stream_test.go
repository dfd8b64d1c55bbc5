package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/liveness"
)

// message is one of server-sent events; a comment has nothing else.
type message struct{ id, event, data, comment string }

// reader reads a stream.
type reader struct {
	t    *testing.T
	body io.ReadCloser
	text *bufio.Reader
}

// follow opens a stream. lastEventID may be empty.
func (s *served) follow(t *testing.T, query, lastEventID string) *reader {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://holter/v1/events/stream"+query, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	if lastEventID != "" {
		request.Header.Set("Last-Event-ID", lastEventID)
	}
	answer, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("stream%s = %s %s", query, answer.Status, answer.Header)
	}
	return &reader{t: t, body: answer.Body, text: bufio.NewReader(answer.Body)}
}

// next reads a message; its error is the stream's end.
func (r *reader) next() (message, error) {
	var m message
	for {
		line, err := r.text.ReadString('\n')
		if err != nil {
			return m, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			m.id = value
		case "event":
			m.event = value
		case "data":
			m.data = value
		case ":", "":
			if value == "" {
				return m, nil
			}
			m.comment = value
		case "retry":
		default:
			r.t.Errorf("line %q", line)
		}
	}
}

// want reads a message and compares its id, event and comment.
func (r *reader) want(id, event, comment string) message {
	r.t.Helper()
	m, err := r.next()
	if err != nil {
		r.t.Fatal(err)
	}
	if m.id != id || m.event != event || m.comment != comment {
		r.t.Fatalf("message %+v, want id %q, event %q, comment %q", m, id, event, comment)
	}
	return m
}

const failed = "io.holter.device.failed"

func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 20)
		s := serve(t, f.api(httpapi.Config{}))
		appendEvents(t, f.log, "a", 30) // 11 to 30 are kept

		fresh := s.follow(t, "", "")
		fresh.want("30", "", "") // the place, so that coming back misses nothing
		tests := []struct{ query, header, first string }{
			{"?after=0", "", "11"},
			{"?after=10", "", "11"},
			{"?after=28", "", "29"},
			{"?after=28", "29", "30"},
			{"?after=x", "29", "30"},
			{"", "12", "13"},
			{"?after=", "12", "13"},
		}
		for _, tt := range tests {
			r := s.follow(t, tt.query, tt.header)
			if _, err := r.next(); err != nil { // the place
				t.Fatal(err)
			}
			m := r.want(tt.first, failed, "")
			var e httpapi.Event
			if err := json.Unmarshal([]byte(m.data), &e); err != nil || strconv.FormatUint(e.Data.Offset, 10) != tt.first || e.Subject != "a" {
				t.Errorf("stream%s: %v: %s", tt.query, err, m.data)
			}
			r.body.Close()
		}
		appendEvents(t, f.log, "line\nbreak", 1)
		if m := fresh.want("31", failed, ""); !strings.Contains(m.data, `line\nbreak`) {
			t.Errorf("data %s", m.data)
		}
		fresh.body.Close()
	})
}

func TestStreamHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		s := serve(t, f.api(httpapi.Config{}))
		r := s.follow(t, "", "")
		r.want("0", "", "")
		began := time.Now()
		for range 10 { // far beyond all time limits of the server
			r.want("", "", "still here")
		}
		if took := time.Since(began); took != 150*time.Second {
			t.Errorf("10 heartbeats took %v, want 150s", took)
		}
		appendEvents(t, f.log, "a", 1)
		r.want("1", failed, "")
		r.body.Close()
	})
}

func TestStreamMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 5)
		s := serve(t, f.api(httpapi.Config{}))
		empty := s.follow(t, "", "") // begins when nothing has happened, and is late
		appendEvents(t, f.log, "a", 20)
		empty.want("0", "", "")
		if m := empty.want("15", "missed", ""); m.data != `{"oldest":16}` {
			t.Errorf("data %s", m.data)
		}
		empty.want("16", failed, "")
		empty.body.Close()

		for _, header := range []string{"3", "0", "99"} { // too old, from the beginning, of another log
			r := s.follow(t, "", header)
			r.want(header, "", "")
			if m := r.want("15", "missed", ""); m.data != `{"oldest":16}` {
				t.Errorf("data %s", m.data)
			}
			for offset := 16; offset <= 20; offset++ {
				r.want(strconv.Itoa(offset), failed, "")
			}
			r.want("", "", "still here")
			r.body.Close()
		}
	})
}

// TestStreamResumes reads a stream in many pieces while events come, and wants each once.
func TestStreamResumes(t *testing.T) {
	const writers, each = 4, 500
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		s := serve(t, f.api(httpapi.Config{}))
		var writing sync.WaitGroup
		defer writing.Wait()
		for w := range writers {
			writing.Go(func() {
				for range each / 5 {
					appendEvents(t, f.log, fmt.Sprint("device-", w), 5)
					time.Sleep(time.Millisecond)
				}
			})
		}
		last := "0"
		for want, piece := 1, 1; want <= writers*each; piece = piece*7%61 + 1 {
			r := s.follow(t, "", last)
			r.want(last, "", "")
			for range min(piece, writers*each-want+1) {
				r.want(strconv.Itoa(want), failed, "")
				last = strconv.Itoa(want)
				want++
			}
			r.body.Close()
		}
	})
}

// TestStreamSlowReader takes nothing from a stream: it is dropped, and nobody else notices.
func TestStreamSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		s := serve(t, f.api(httpapi.Config{}))
		conn, err := s.pipe.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /v1/events/stream HTTP/1.1\r\nHost: holter\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		slow := bufio.NewReader(conn)
		if _, err := http.ReadResponse(slow, nil); err != nil {
			t.Fatal(err)
		}
		other := s.follow(t, "", "")
		other.want("0", "", "")
		appendEvents(t, f.log, "a", 1000)
		for offset := 1; offset <= 1000; offset++ {
			other.want(strconv.Itoa(offset), failed, "")
		}
		other.want("", "", "still here")
		began := time.Now()
		if n, err := io.Copy(io.Discard, slow); err != nil || time.Since(began) != 0 {
			t.Errorf("read %d bytes more, %v, after %v, want the end at once", n, err, time.Since(began))
		}
		if _, text := s.get(t, "/metrics"); !strings.Contains(text, "holter_http_streams_dropped_total 1\n") ||
			!strings.Contains(text, "holter_http_streams 1\n") {
			t.Errorf("want a dropped stream and another:\n%s", text)
		}
		other.body.Close()
	})
}

// TestStreamsHaveAnEnd refuses streams beyond the limit, and serves what else is asked.
func TestStreamsHaveAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		s := serve(t, f.api(httpapi.Config{MaxConnections: 4}))
		var open []*reader
		for range 3 {
			open = append(open, s.follow(t, "", ""))
		}
		answer, text := s.get(t, "/v1/events/stream")
		if answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "there are 3 streams already") {
			t.Errorf("fourth stream: %s %s", answer.Status, text)
		}
		if answer.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		open[0].body.Close()
		synctest.Wait()
		s.follow(t, "", "").body.Close()
		for _, r := range open[1:] {
			r.body.Close()
		}
	})
}

// TestServeLimitsConnections holds all places, and wants the next connection to be served once one is free.
func TestServeLimitsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		s := serve(t, f.api(httpapi.Config{MaxConnections: 4}))
		for range 4 {
			conn, err := s.pipe.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
		}
		began := time.Now()
		s.get(t, "/healthz")
		if took := time.Since(began); took != 10*time.Second { // connections that ask nothing are closed then
			t.Errorf("served after %v, want 10s", took)
		}
	})
}

func TestServeStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		s := serve(t, f.api(httpapi.Config{}))
		r := s.follow(t, "", "")
		r.want("0", "", "")
		idle, err := s.pipe.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer idle.Close()
		began := time.Now()
		stopped := make(chan error)
		go func() { stopped <- s.stop() }()
		r.want("", "", "the server stops, come back later")
		if _, err := r.next(); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v, want EOF", err)
		}
		if err := <-stopped; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("stopping took %v", took)
		}
		if _, err := s.pipe.dial(); err == nil {
			t.Error("the listener is open")
		}
	})
}

func TestServeListenerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		p := newPipe()
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := f.api(httpapi.Config{}).Serve(ctx, p); err == nil || ctx.Err() != nil {
			t.Errorf("Serve = %v, want an error at once", err)
		}
	})
}

// A stream that is asked for during the start begins with the end of the start; an EventSource that
// is refused would not come back.
func TestStreamWaitsForTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		starts time.Duration // 0: it does not
		took   time.Duration
		want   string
	}{
		"soon":  {10 * time.Second, 10 * time.Second, "retry: 2000\nid: 0\n"},
		"late":  {29900 * time.Millisecond, 29900 * time.Millisecond, "retry: 2000\nid: 0\n"},
		"never": {0, 30 * time.Second, "retry: 5000\n: starting: a, b\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, liveness.Config{}, 0)
				began := time.Now()
				s := serve(t, f.api(httpapi.Config{MaxStreams: 1, Starting: func() error {
					if c.starts == 0 || time.Since(began) < c.starts {
						return errors.New("a, b")
					}
					return nil
				}}))
				first := make(chan string, 1)
				go func() {
					answer, err := s.client.Get("http://holter/v1/events/stream") //nolint:noctx // Serve ends it
					if err != nil {
						first <- err.Error()
						return
					}
					defer answer.Body.Close()
					text := make([]byte, len(c.want))
					_, _ = io.ReadFull(answer.Body, text)
					first <- answer.Status + " " + string(text)
				}()
				time.Sleep(time.Second)
				if answer, text := s.get(t, "/v1/events/stream"); answer.StatusCode != 503 || !strings.Contains(text, "come back later") {
					t.Errorf("one too many = %s %s", answer.Status, text)
				}
				got := <-first
				if took := time.Since(began); got != "200 OK "+c.want || took < c.took || took > c.took+startPoll {
					t.Errorf("after %v: %q, want %q after %v", took, got, c.want, c.took)
				}
			})
		})
	}
}

const startPoll = 100 * time.Millisecond
