package httpapi_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/httpapi/auth"
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
