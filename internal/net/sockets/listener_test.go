package sockets_test

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/net/sockets"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// slowListener stops between taking a connection from the kernel and returning it.
type slowListener struct {
	*net.TCPListener

	taken chan struct{} // receives when there is one; never closed
	goOn  chan struct{} // lets it return one; never closed
}

func (l *slowListener) Accept() (net.Conn, error) {
	c, err := l.TCPListener.Accept()
	if err == nil {
		l.taken <- struct{}{}
		<-l.goOn
	}
	return c, err
}

func slowly(t *testing.T) *slowListener {
	t.Helper()
	return &slowListener{listen(t).(*net.TCPListener), make(chan struct{}), make(chan struct{})}
}

func dial(t *testing.T, l net.Listener) {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
}

// counted returns what accepts a connection of a listener that is told of to the sockets.
func counted(t *testing.T, s *sockets.Set, l net.Listener) (accept func() error) {
	t.Helper()
	c, err := sockets.Count(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s.Listen(c)
	return func() error {
		conn, err := c.Accept()
		if err == nil {
			s.Track(conn)
			c.Settle()
		}
		return err
	}
}

// limited is counted with a limit.
func limited(t *testing.T, s *sockets.Set, l net.Listener) (accept func() error) {
	t.Helper()
	c, err := s.Limit(l, 10)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return func() error {
		_, err := c.Accept()
		return err
	}
}

// TestOnTheWay: the clock does not pass a connection that has left the kernel's queue and is not in
// anybody's hands yet.
func TestOnTheWay(t *testing.T) {
	for name, begin := range map[string]func(*testing.T, *sockets.Set, net.Listener) func() error{"counted": counted, "limited": limited} {
		t.Run(name, func(t *testing.T) {
			set := sockets.NewSet()
			l := slowly(t)
			accept := begin(t, set, l)
			s, _ := run(t, set, nil)
			var accepting sync.WaitGroup
			defer accepting.Wait()
			accepting.Go(func() {
				if err := accept(); err != nil {
					t.Error(err)
				}
			})
			s.goesOn(t) // that one waits for a connection holds nothing up
			dial(t, l)
			<-l.taken
			s.stands(t)
			l.goOn <- struct{}{}
			s.goesOn(t)
		})
	}
}

// TestNotAccepted: an accept that fails counts for nothing.
func TestNotAccepted(t *testing.T) {
	l, err := sockets.Count(failing{listen(t).(*net.TCPListener)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	dial(t, l)
	testwait.Until(t, "the connection", func() bool { return l.Asked() == 1 })
	if _, err := l.Accept(); err == nil {
		t.Fatal("it was accepted")
	}
	if n := l.Asked(); n != 1 {
		t.Errorf("Asked = %d, want 1, for it waits still", n)
	}
	if l.Entered(1) {
		t.Error("it has entered")
	}
}

// failing accepts nothing.
type failing struct{ *net.TCPListener }

func (failing) Accept() (net.Conn, error) { return nil, io.ErrUnexpectedEOF }

// TestListenerCloses: who waits to accept learns that the listener is closed.
func TestListenerCloses(t *testing.T) {
	l, err := sockets.Count(listen(t))
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	go func() {
		_, err := l.Accept()
		failed <- err
	}()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-failed; err == nil {
		t.Error("a closed listener accepts")
	}
	if !l.Entered(l.Asked()) {
		t.Error("somebody waits at a closed listener")
	}
}

// shared is a listener at a socket at which somebody else accepts as well, and is faster once.
type shared struct {
	*net.TCPListener

	other net.Listener // nil once it has been faster
}

func (l *shared) Accept() (net.Conn, error) {
	if l.other != nil {
		c, err := l.other.Accept()
		if err != nil {
			return nil, err
		}
		_ = c.Close()
		l.other = nil
	}
	return l.TCPListener.Accept()
}

// TestTakenBySomebodyElse: a connection that was announced, and that another process has taken,
// holds nothing up, and the next is accepted.
func TestTakenBySomebodyElse(t *testing.T) {
	tcp := listen(t).(*net.TCPListener)
	file, err := tcp.File()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	other, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	set := sockets.NewSet()
	accept := counted(t, set, &shared{tcp, other})
	s, _ := run(t, set, nil)
	var accepting sync.WaitGroup
	defer accepting.Wait()
	accepting.Go(func() {
		if err := accept(); err != nil {
			t.Error(err)
		}
	})
	began := time.Now()
	dial(t, tcp)
	for range 3 {
		s.goesOn(t)
	}
	if took := time.Since(began); took > 20*time.Second { // after 30 s nobody is waited for
		t.Errorf("the clock went on after %v only", took)
	}
	dial(t, tcp)
}

// exhausted is a listener of a process without descriptors, but for a spare one.
type exhausted struct {
	*net.TCPListener

	calls int
}

func (l *exhausted) Accept() (net.Conn, error) {
	if l.calls++; l.calls%2 == 1 {
		return nil, syscall.EMFILE
	}
	return l.TCPListener.Accept()
}

// TestTurnedAway: connections that are turned away because descriptors have run out are settled, so
// that a clock does not wait for them, however fast more of them come.
func TestTurnedAway(t *testing.T) {
	tcp := listen(t).(*net.TCPListener)
	l, err := sockets.Count(&exhausted{TCPListener: tcp})
	if err != nil {
		t.Fatal(err)
	}
	const storm = 20
	for range storm {
		dial(t, tcp)
	}
	testwait.Until(t, "the connections", func() bool { return l.Asked() == storm })
	asked := l.Asked() // only those; more wait all the time
	turnedAway, ended, failures := make(chan struct{}, 2*storm), make(chan error, 1), 0
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		admit := func(c net.Conn) {
			if c != nil {
				t.Error("a connection was admitted without a descriptor")
			}
			l.Settle()
			turnedAway <- struct{}{}
		}
		ended <- l.Serve(ctx, admit, func(error) { failures++ })
	}()
	for range storm {
		dial(t, tcp)
		select {
		case <-turnedAway:
		case err := <-ended:
			t.Fatalf("the listener has ended for want of descriptors: %v", err)
		}
	}
	if !l.Entered(asked) {
		t.Error("those who were turned away are still waited for")
	}
	stop()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if failures < storm {
		t.Errorf("%d failures were told, want %d at least", failures, storm)
	}
}

// A paused listener refuses, and accepts again after the pause, at its address; what waited in it is gone. A
// clock does not wait for that.
func TestPause(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can")
	}
	l, err := sockets.Count(listen(t))
	if err != nil {
		t.Fatal(err)
	}
	admitted := make(chan struct{})
	var serving sync.WaitGroup
	serve := func() {
		serving.Go(func() {
			err := l.Serve(t.Context(), func(c net.Conn) {
				_ = c.Close()
				l.Settle()
				admitted <- struct{}{}
			}, func(err error) { t.Errorf("failed: %v", err) })
			if err != nil {
				t.Error(err)
			}
		})
	}
	defer serving.Wait()
	defer l.Close() //nolint:errcheck // it only listens
	dial(t, l)
	testwait.Until(t, "one waits", func() bool { return l.Asked() == 1 })
	for _, serves := range []bool{false, true} {
		if err := errors.Join(l.Pause(), l.Pause()); err != nil {
			t.Fatal(err)
		}
		if !serves && !l.Entered(l.Asked()) {
			t.Error("a clock waits for what cannot come")
		}
		// The pause wakes Serve, which counts one for as long as it takes to learn that there is none.
		testwait.Until(t, "a clock waits for nothing", func() bool { return l.Entered(l.Asked()) })
		if c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial during a pause: %v, %v", c, err)
		}
		if err := errors.Join(l.Resume(), l.Resume()); err != nil {
			t.Fatal(err)
		}
		if !serves {
			serve()
		}
		dial(t, l)
		<-admitted
	}
	if err := l.Pause(); err != nil { // and closing ends it
		t.Fatal(err)
	}
}
