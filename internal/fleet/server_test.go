//go:build linux

package fleet_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// lineServer is a small gateway, one goroutine for each connection, with a
// verdict of its own: a read deadline for silence, no grace for a close.
type lineServer struct {
	ln   net.Listener
	ttl  time.Duration
	deny func(id string) bool // nil: nobody
	wg   sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	conns  map[net.Conn]bool
	peers  map[string]*peer
	events []map[string]any
	closed bool
}

// peer is a device as the server knows it.
type peer struct {
	conn   net.Conn // the current one
	epoch  uint64
	seq    uint64
	online bool
	pings  uint64
	last   time.Time
	ends   []string // how each of its connections ended
}

// newLineServer listens on port 0 and serves until the test ends.
func newLineServer(t *testing.T, ttl time.Duration, deny func(string) bool) *lineServer {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &lineServer{ln: ln, ttl: ttl, deny: deny, conns: map[net.Conn]bool{}, peers: map[string]*peer{}}
	s.wg.Go(s.accept)
	t.Cleanup(s.stop)
	return s
}

func (s *lineServer) addr() string { return s.ln.Addr().String() }

func (s *lineServer) accept() {
	for {
		conn, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[conn] = true
		s.mu.Unlock()
		s.wg.Go(func() { s.serve(conn) })
	}
}

func (s *lineServer) stop() {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.ln.Close()
	s.wg.Wait()
}

func (s *lineServer) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 256)
	hello, err := in.ReadString('\n')
	fields := strings.Fields(hello)
	if err != nil || len(fields) < 2 || fields[0] != "HELLO" {
		return
	}
	id := fields[1]
	if s.deny != nil && s.deny(id) {
		writef(conn, "ERR not welcome\n")
		return
	}
	p := s.greet(id, conn)
	for {
		conn.SetReadDeadline(s.deadline(p, conn))
		line, err := in.ReadString('\n')
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.end(id, p, conn, "silence", "silent")
			continue
		}
		if err != nil {
			s.end(id, p, conn, "closed", ending(err))
			return
		}
		if line == "BYE\n" {
			s.end(id, p, conn, "bye", "bye")
			return
		}
		s.beat(id, p, conn)
		seq, ok := strings.CutPrefix(line, "PING")
		if !ok {
			continue
		}
		// A reset is told once: if the answer hears of it, the next read says EOF.
		if _, err := io.WriteString(conn, "PONG"+seq); err != nil {
			s.end(id, p, conn, "closed", ending(err))
			return
		}
	}
}

// ending names how a connection ended.
func ending(err error) string {
	if errors.Is(err, syscall.ECONNRESET) {
		return "reset"
	}
	return err.Error()
}

func (s *lineServer) greet(id string, conn net.Conn) *peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers[id]
	if p == nil {
		p = &peer{}
		s.peers[id] = p
	}
	if p.conn != nil {
		p.conn.Close()
	}
	p.conn, p.last = conn, time.Now()
	p.epoch++
	if !p.online {
		s.emit(id, p, "online", "")
	}
	writef(conn, "OK %d ttl=%v\n", p.epoch, s.ttl.Seconds())
	return p
}

// deadline is when silence is due on a connection; never if it is not current.
func (s *lineServer) deadline(p *peer, conn net.Conn) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.conn != conn || !p.online {
		return time.Time{}
	}
	return p.last.Add(s.ttl)
}

func (s *lineServer) beat(id string, p *peer, conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.pings++
	if p.conn != conn {
		return
	}
	p.last = time.Now()
	if !p.online {
		s.emit(id, p, "online", "")
	}
}

func (s *lineServer) end(id string, p *peer, conn net.Conn, reason, how string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	p.ends = append(p.ends, how)
	if p.conn != conn {
		return
	}
	if p.online {
		s.emit(id, p, "offline", reason)
	}
	if reason != "silence" {
		p.conn = nil
	}
}

// emit notes an event. The caller holds mu.
func (s *lineServer) emit(id string, p *peer, kind, reason string) {
	p.seq++
	p.online = kind == "online"
	now := time.Now()
	s.events = append(s.events, map[string]any{
		"id": id + ":" + strconv.FormatUint(p.seq, 10), "type": "io.holter.device." + kind, "subject": id,
		"time": now, "specversion": "1.0", "data": map[string]any{
			"seq": p.seq, "epoch": p.epoch, "reason": reason, "last_seen": p.last, "deadline": p.last.Add(s.ttl),
			"decided_at": now, "heard_silence_ms": now.Sub(p.last).Milliseconds(), "timeout_ms": s.ttl.Milliseconds(),
			"policy": "line ttl=",
		},
	})
}

// peer returns a copy of what the server knows of a device.
func (s *lineServer) peer(id string) peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.peers[id]; p != nil {
		return *p
	}
	return peer{}
}

// hang ends all connections: with RST if reset is set, else after a last line.
func (s *lineServer) hang(reset bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if reset {
			_ = c.(*net.TCPConn).SetLinger(0) // fails only if it is closed
		} else {
			writef(c, "ERR going down\n")
		}
		c.Close()
	}
	clear(s.conns)
}

// feed serves the events over HTTP, and returns the API's URL.
func (s *lineServer) feed(t *testing.T) string {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		after, _ := strconv.Atoi(r.FormValue("after"))
		limit, _ := strconv.Atoi(r.FormValue("limit"))
		s.mu.Lock()
		list := s.events[min(after, len(s.events)):]
		list = list[:min(limit, len(list))]
		s.mu.Unlock()
		page, err := json.Marshal(map[string]any{"events": list, "next": after + len(list)})
		if err != nil {
			t.Error(err)
		}
		writef(w, "%s", page)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// waitFor blocks until cond holds or ctx ends, which fails the test.
func waitFor(ctx context.Context, t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, ctx.Err())
		}
	}
}
