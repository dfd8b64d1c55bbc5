package sockets_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holter-iot/holter/internal/net/sockets"
	"github.com/holter-iot/holter/internal/test/testwait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source is one whose pulses all count.
type source struct {
	began time.Time

	mu     sync.Mutex // guards the fields below
	pulsed time.Duration
	clock  time.Duration
}

func (s *source) Pulse(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulsed = now.Sub(s.began)
	return s.pulsed
}

func (s *source) Watermark(_ int, listened time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = max(s.clock, listened)
}

func (s *source) Next() (time.Duration, bool) { return 0, true }

func (s *source) Sooner() <-chan struct{} { return nil }

func (s *source) read() (pulsed, clock time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pulsed, s.clock
}

// run keeps the clock of a source until the test ends.
func run(t *testing.T, set *sockets.Set, deaf func() bool) (*source, *sockets.Clock) {
	t.Helper()
	s := &source{began: time.Now()}
	e := sockets.NewClock(s, set, deaf)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return s, e
}

// goesOn waits until the clock has passed what was pulsed by now.
func (s *source) goesOn(t *testing.T) {
	t.Helper()
	pulsed, _ := s.read()
	testwait.Until(t, "the clock", func() bool { _, clock := s.read(); return clock > pulsed })
}

// stands wants the clock not to pass what was pulsed by now, while pulses go on.
func (s *source) stands(t *testing.T) {
	t.Helper()
	before, _ := s.read()
	testwait.Until(t, "pulses", func() bool { pulsed, _ := s.read(); return pulsed > before+300*time.Millisecond })
	if _, clock := s.read(); clock > before {
		t.Errorf("the clock passed %v, and is at %v", before, clock)
	}
}

// pair returns a connection that is accepted, and the listener's address.
func pair(t *testing.T, l net.Listener) (accepted, dialed net.Conn) {
	t.Helper()
	dialed, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialed.Close() })
	if accepted, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	return accepted, dialed
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestEntered(t *testing.T) {
	s, e := run(t, sockets.NewSet(), nil)
	s.goesOn(t)
	turn := e.Enter()
	s.stands(t)
	e.Leave(turn)
	s.goesOn(t)
	if err := e.Run(t.Context()); err != nil { // a second one
		t.Error(err)
	}
}

func TestUnread(t *testing.T) {
	set := sockets.NewSet()
	s, _ := run(t, set, nil)
	accepted, dialed := pair(t, listen(t))
	conn := set.Track(accepted)
	defer func() { _ = conn.Close() }()
	s.goesOn(t)
	if _, err := dialed.Write([]byte("beat")); err != nil {
		t.Fatal(err)
	}
	s.stands(t)
	if n, err := conn.Read(make([]byte, 10)); n != 4 || err != nil {
		t.Fatalf("Read = %d, %v", n, err)
	}
	s.goesOn(t)
	if _, err := dialed.Write([]byte("more")); err != nil {
		t.Fatal(err)
	}
	s.stands(t)
	conn.Hush()
	s.goesOn(t)
}

func TestUnaccepted(t *testing.T) {
	set := sockets.NewSet()
	l, err := set.Limit(listen(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := run(t, set, nil)
	first, _ := pair(t, l)
	s.goesOn(t)
	var accepting sync.WaitGroup
	dialed, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer dialed.Close()
	s.stands(t) // it waits in the backlog
	accepting.Go(func() {
		second, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		second.Close()
	})
	s.stands(t) // it waits for a place
	first.Close()
	first.Close() // once more frees nothing
	accepting.Wait()
	s.goesOn(t)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("a closed listener accepts")
	}
}

func TestDeaf(t *testing.T) {
	asked := make(chan struct{}, 1000)
	s, _ := run(t, sockets.NewSet(), func() bool {
		asked <- struct{}{}
		return len(asked) < 3
	})
	s.goesOn(t)
	if len(asked) < 3 {
		t.Error("it listened while it was deaf")
	}
}
