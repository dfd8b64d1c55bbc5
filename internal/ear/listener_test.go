package ear_test

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/holter-iot/holter/internal/ear"
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
func counted(t *testing.T, s *ear.Sockets, l net.Listener) (accept func() error) {
	t.Helper()
	c, err := ear.Count(l)
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
func limited(t *testing.T, s *ear.Sockets, l net.Listener) (accept func() error) {
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

// TestOnTheWay: the clock does not pass a connection that has left the kernel's queue and is not in anybody's hands yet.
func TestOnTheWay(t *testing.T) {
	for name, begin := range map[string]func(*testing.T, *ear.Sockets, net.Listener) func() error{"counted": counted, "limited": limited} {
		t.Run(name, func(t *testing.T) {
			sockets := ear.NewSockets()
			l := slowly(t)
			accept := begin(t, sockets, l)
			s, _ := run(t, sockets, nil)
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
	l, err := ear.Count(failing{listen(t).(*net.TCPListener)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	dial(t, l)
	until(t, "the connection", func() bool { return l.Asked() == 1 })
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
	l, err := ear.Count(listen(t))
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
