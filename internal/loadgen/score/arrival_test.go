package score

import (
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"
)

// What waited in the socket before it was read came then at the earliest; what was waited for came just now.
func TestArrivals(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := noting(new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	a := c.(*arrivals)
	began := time.Now()
	say := func(text string) {
		t.Helper()
		if _, err := io.WriteString(peer, text); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(want string) time.Time {
		t.Helper()
		b := make([]byte, len(want))
		if _, err := io.ReadFull(a, b); err != nil || string(b) != want {
			t.Fatalf("read %q, %v, want %q", b, err, want)
		}
		return time.Unix(0, a.since.Load())
	}
	looked := make(chan time.Time, 1)
	go func() { // it is waited for, and for longer than a look takes
		var last int64
		for looks := 0; looks < 3; {
			if now := a.since.Load(); now != last {
				last = now
				looks++
			}
			runtime.Gosched()
		}
		looked <- time.Unix(0, last)
		_, _ = io.WriteString(peer, "one")
	}()
	first := hear("one")
	if at := <-looked; first.Before(at) || first.After(time.Now()) {
		t.Errorf("it came at %v at the earliest, and there was nothing at %v", first, at)
	}
	say("twothree")
	for a.unread() < len("twothree") {
		runtime.Gosched()
	}
	waited := time.Now()
	if second := hear("two"); second.After(waited) || second.Before(began) {
		t.Errorf("what had come by %v came at %v at the earliest", waited, second)
	}
	if third := hear("three"); third.After(waited) || third.Before(first) {
		t.Errorf("the rest of it came at %v at the earliest", third)
	}
	_ = peer.Close()
	if n, err := a.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("Read = %d, %v at the end", n, err)
	}
}
