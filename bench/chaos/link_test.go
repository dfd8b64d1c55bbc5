package chaos

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"
)

// echo listens, and answers each line with its name and the line.
func echo(t *testing.T, name string) (address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				for in := bufio.NewScanner(c); in.Scan(); {
					_, _ = fmt.Fprintf(c, "%s %s\n", name, in.Text())
				}
			}()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-heard })
	return l.Addr().String()
}

// caller is a client of a link.
type caller struct {
	net.Conn

	t     *testing.T
	lines chan string // what it hears; closed at the end
}

func call(t *testing.T, l *link) *caller {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.address())
	if err != nil {
		t.Fatal(err)
	}
	c := &caller{Conn: conn, t: t, lines: make(chan string)}
	go func() {
		defer close(c.lines)
		for in := bufio.NewScanner(conn); in.Scan(); {
			c.lines <- in.Text()
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		for range c.lines {
		}
	})
	return c
}

func (c *caller) say(line string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c, line); err != nil {
		c.t.Fatal(err)
	}
}

// hears checks what comes next; "" is the end.
func (c *caller) hears(want string) {
	c.t.Helper()
	select {
	case got := <-c.lines:
		if got != want {
			c.t.Errorf("heard %q, want %q", got, want)
		}
	case <-time.After(30 * time.Second):
		c.t.Fatalf("heard nothing, want %q", want)
	}
}

func (c *caller) hearsNothing(why string) {
	c.t.Helper()
	select {
	case got, ok := <-c.lines:
		c.t.Errorf("%s: heard %q (%v), want nothing", why, got, ok)
	case <-time.After(50 * time.Millisecond):
	}
}

func newTestLink(t *testing.T) *link {
	t.Helper()
	l, err := linkTo(t.Context(), loopback, echo(t, "a"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.close() })
	return l
}

// What is held up, either way, comes through when the link is whole again, in order; no connection is made meanwhile.
func TestLinkHolds(t *testing.T) {
	for name, state := range map[string]linkState{"hanging": hanging, "one way": hangingTo, "the other way": hangingFrom} {
		t.Run(name, func(t *testing.T) {
			l := newTestLink(t)
			c := call(t, l)
			c.say("1")
			c.hears("a 1")
			l.set(state)
			c.say("2")
			late := call(t, l)
			late.say("3")
			c.hearsNothing(name)
			late.hearsNothing(name)
			l.set(whole)
			c.hears("a 2")
			late.hears("a 3")
		})
	}
}

// A link that is cut one way lets the other way through.
func TestLinkOneWay(t *testing.T) {
	l := newTestLink(t)
	l.lead(echo(t, "b")) // for all connections from now on
	c := call(t, l)
	c.say("1")
	c.hears("b 1")
	l.set(hangingFrom)
	c.say("2") // is answered, and the answer is held up
	c.hearsNothing("from there")
	l.set(hangingTo) // lets the answer through
	c.hears("b 2")
	c.say("3")
	c.hearsNothing("to there")
	l.set(refused)
	c.hears("")
	if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.address()); err == nil { // it is reset now or a moment later
		defer func() { _ = conn.Close() }()
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("a link that refuses answers")
		}
	}
}

// A slow link delivers all, in order, each way after its delay at the earliest.
func TestLinkSlow(t *testing.T) {
	l := newTestLink(t)
	c := call(t, l)
	l.set(slow)
	begun := time.Now()
	for i := range 5 {
		c.say(strconv.Itoa(i))
	}
	for i := range 5 {
		c.hears(fmt.Sprintf("a %d", i))
	}
	if took := time.Since(begun); took < 2*slowLeast {
		t.Errorf("the answers came after %v, want %v or more", took, 2*slowLeast)
	}
}
