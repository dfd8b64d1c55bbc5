package httpapi_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/httpapi/auth"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// station is an API at an address of this machine, in real time.
type station struct {
	sink     *shutter
	registry *liveness.Registry
	log      *eventlog.Log
	address  string
}

// newStation serves until the test ends.
func newStation(tb testing.TB, fleet liveness.Config, cfg httpapi.Config) *station {
	tb.Helper()
	s := &station{}
	var err error
	if s.log, err = eventlog.New(0); err != nil {
		tb.Fatal(err)
	}
	s.sink = &shutter{Log: s.log}
	fleet.MinTimeout = cmp.Or(fleet.MinTimeout, time.Millisecond) // tests are not to wait for long
	if s.registry, err = liveness.New(s.sink, fleet); err != nil {
		tb.Fatal(err)
	}
	api, err := httpapi.New(s.registry, httpapi.LogEvents{Log: s.log}, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s.address = listener.Addr().String()
	registryCtx, endRegistry := context.WithCancel(context.Background())
	ctx, stop := context.WithCancel(context.Background())
	var serving, running sync.WaitGroup
	running.Go(func() {
		if err := s.registry.Run(registryCtx); err != nil {
			tb.Error(err)
		}
	})
	serving.Go(func() {
		if err := api.Serve(ctx, listener); err != nil {
			tb.Error(err)
		}
	})
	tb.Cleanup(func() {
		stop()
		serving.Wait()
		endRegistry()
		running.Wait()
	})
	return s
}

// line is a connection that says HTTP as cheaply as it can.
type line struct {
	conn net.Conn
	in   *bufio.Reader
}

func (s *station) dial(tb testing.TB) *line {
	tb.Helper()
	var d net.Dialer
	conn, err := d.DialContext(tb.Context(), "tcp", s.address)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return &line{conn, bufio.NewReader(conn)}
}

// ask sends a request, and returns the answer's status and body.
func (l *line) ask(request []byte) (status int, body []byte, err error) {
	if _, err := l.conn.Write(request); err != nil {
		return 0, nil, err
	}
	length := 0
	for first := true; ; first = false {
		text, err := l.in.ReadSlice('\n')
		if err != nil {
			return 0, nil, err
		}
		text = bytes.TrimSpace(text)
		if first {
			status, _ = strconv.Atoi(string(text[9:12]))
			continue
		}
		if len(text) == 0 {
			break
		}
		if value, ok := bytes.CutPrefix(text, []byte("Content-Length: ")); ok {
			length, _ = strconv.Atoi(string(value))
		}
	}
	body = make([]byte, length)
	_, err = io.ReadFull(l.in, body)
	return status, body, err
}

// knock sends a request on several connections at a time, b.N in all, each on its own if apart is set.
func knock(b *testing.B, s *station, clients int, request func(client int) []byte) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	var asking sync.WaitGroup
	lines := make([]*line, clients)
	for i := range lines {
		lines[i] = s.dial(b)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i, l := range lines {
		text := request(i)
		asking.Go(func() {
			for left.Add(-1) >= 0 {
				if status, body, err := l.ask(text); status != 200 || err != nil {
					b.Errorf("status %d, %v: %s", status, err, body)
					return
				}
			}
		})
	}
	asking.Wait()
	b.StopTimer()
}

// BenchmarkBeat sends heartbeats one by one.
func BenchmarkBeat(b *testing.B) {
	for _, clients := range []int{1, 8, 64} {
		for _, with := range []string{"open", "token"} {
			b.Run(fmt.Sprintf("auth=%s/clients=%d", with, clients), func(b *testing.B) {
				cfg := httpapi.Config{}
				if with == "token" {
					cfg.Auth = &secrets{known: map[string]auth.Role{"s3cret": auth.RoleBeat}}
				}
				s := newStation(b, liveness.Config{}, cfg)
				knock(b, s, clients, func(client int) []byte {
					return fmt.Appendf(nil, "POST /v1/beat/device-%d HTTP/1.1\r\nHost: holter\r\nAuthorization: Bearer s3cret\r\nContent-Length: 0\r\n\r\n", client)
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "beats/s")
			})
		}
	}
}

// BenchmarkBeats sends heartbeats in batches of 1,000.
func BenchmarkBeats(b *testing.B) {
	const size = 1000
	for _, clients := range []int{1, 4} {
		for _, kind := range []string{"ids", "objects"} {
			b.Run(fmt.Sprintf("of=%s/clients=%d", kind, clients), func(b *testing.B) {
				s := newStation(b, liveness.Config{}, httpapi.Config{})
				knock(b, s, clients, func(client int) []byte {
					var items []string
					for i := range size {
						item := fmt.Sprintf(`"device-%d-%d"`, client, i)
						if kind == "objects" {
							item = fmt.Sprintf(`{"id": %s, "ttl": "10m"}`, item)
						}
						items = append(items, item)
					}
					body := "[" + strings.Join(items, ",") + "]"
					return fmt.Appendf(nil, "POST /v1/beats HTTP/1.1\r\nHost: holter\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				})
				b.ReportMetric(float64(b.N)*size/b.Elapsed().Seconds(), "beats/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// secrets knows tokens by heart.
type secrets struct {
	mu    sync.Mutex // guards the fields below
	known map[string]auth.Role
	fail  error
	asked int
	none  bool // no token is needed
	early bool // it is not known yet whether one is
}

func (s *secrets) Lookup(_ context.Context, secret string) (t auth.Token, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	role, ok := s.known[secret]
	return auth.Token{Role: role, Name: "the " + string(role)}, ok, s.fail
}

func (s *secrets) Required() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.early {
		return false, errors.New("not yet")
	}
	return !s.none, nil
}

// BenchmarkStreams measures the memory of a thousand streams: idle, and after a burst of events, all
// of which each of them has read.
func BenchmarkStreams(b *testing.B) {
	const streams, burst = 1000, 300
	for b.Loop() {
		s := newStation(b, liveness.Config{}, httpapi.Config{NoBeats: true, MaxStreams: streams})
		before := inUse()
		conns := make([]net.Conn, streams)
		buffer := make([]byte, 64<<10)
		for i := range conns {
			conns[i] = s.dial(b).conn
			if _, err := conns[i].Write([]byte("GET /v1/events/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")); err != nil {
				b.Fatal(err)
			}
			readUntil(b, conns[i], buffer, "id: 0\n")
		}
		idle := inUse() - before
		for range burst {
			if err := s.log.Append(b.Context(), []liveness.Event{{Type: liveness.DeviceOnline, Subject: "dev", Time: time.Now()}}); err != nil {
				b.Fatal(err)
			}
		}
		for _, c := range conns {
			readUntil(b, c, buffer, fmt.Sprintf("id: %d\n", burst))
		}
		b.ReportMetric(idle/streams, "B/stream")
		b.ReportMetric((inUse()-before)/streams, "B/stream-after-burst")
		for _, c := range conns {
			_ = c.Close()
		}
	}
}

// inUse returns the bytes of heap and stacks in use.
func inUse() float64 {
	runtime.GC()
	runtime.GC() // what pools keep is let go by the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse + m.StackInuse)
}

// readUntil reads what a connection has until a text comes.
func readUntil(b *testing.B, c net.Conn, buffer []byte, text string) {
	b.Helper()
	kept := 0 // of the end of what was read before, in case the text comes in parts
	for {
		n, err := c.Read(buffer[kept:])
		if err != nil {
			b.Fatal(err)
		}
		got := buffer[:kept+n]
		if bytes.Contains(got, []byte(text)) {
			return
		}
		kept = copy(buffer, got[max(0, len(got)-len(text)):])
	}
}
