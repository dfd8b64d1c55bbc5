package eventloop_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/internal/net/eventloop"
	"github.com/holter-iot/holter/internal/test/testwait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a loop that runs, with what it has told.
type rig struct {
	t    *testing.T
	loop *eventloop.Loop
	stop func() // ends the loop, and waits for it
	ends []*end // changed while the loop is blocked, or has nothing to do
	then func() // is called when a marker was passed, if it is not nil; set before the marker

	mu    sync.Mutex // guards the fields below
	marks []int64
	read  []int  // how many bytes the loop had read when it passed them
	turns []*end // whose input was handled, in that order
}

// end is the loop's end of a connection. It uses whole lines, or all input if it wants no lines.
type end struct {
	eventloop.Conn

	rig     *rig
	lines   bool
	traffic func(input []byte) // is called with what is used, if it is not nil
	last    string             // is written in Closed

	mu      sync.Mutex // guards the fields below
	got     []byte
	closed  int
	emptied int
}

func (e *end) Traffic(input []byte) int {
	used := input
	if e.lines {
		used = input[:bytes.LastIndexByte(input, '\n')+1]
	}
	e.rig.mu.Lock()
	e.rig.turns = append(e.rig.turns, e)
	e.rig.mu.Unlock()
	e.mu.Lock()
	e.got = append(e.got, used...)
	e.mu.Unlock()
	if e.traffic != nil {
		e.traffic(used)
	}
	return len(used)
}

func (e *end) Drained() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.emptied++
}

func (e *end) Closed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed++
	if e.last != "" {
		e.Write([]byte(e.last))
	}
}

func (e *end) heard() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return string(e.got)
}

func (e *end) ended() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// newLoop makes the loops that are tested: [TestWithTable] tests others.
var newLoop = eventloop.New

func start(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t}
	var err error
	if r.loop, err = newLoop(func(mark int64) {
		read := 0
		for _, e := range r.ends {
			read += len(e.heard())
		}
		r.mu.Lock()
		r.marks, r.read = append(r.marks, mark), append(r.read, read)
		r.mu.Unlock()
		if r.then != nil {
			r.then()
		}
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.loop.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// add adds a connection to the loop, and returns its other end.
func (r *rig) add(e *end) net.Conn {
	r.t.Helper()
	return r.addSaying(e, "")
}

// addSaying adds a connection that has said something already.
func (r *rig) addSaying(e *end, text string) net.Conn {
	r.t.Helper()
	e.rig = r
	r.ends = append(r.ends, e)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	file := os.NewFile(uintptr(fds[1]), "peer")
	defer func() { _ = file.Close() }()
	peer, err := net.FileConn(file)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = peer.Close() })
	say(r.t, peer, text)
	if err := r.loop.Add(fds[0], e); err != nil {
		r.t.Fatal(err)
	}
	return peer
}

// do calls f on the loop, and waits for it.
func (r *rig) do(f func()) {
	r.t.Helper()
	done := make(chan struct{})
	if err := r.loop.Execute(func() { defer close(done); f() }); err != nil {
		r.t.Fatal(err)
	}
	<-done
}

// block keeps the loop from reading until it is released.
func (r *rig) block() (release func()) {
	entered, leave := make(chan struct{}), make(chan struct{})
	if err := r.loop.Execute(func() { close(entered); <-leave }); err != nil {
		r.t.Fatal(err)
	}
	<-entered
	return func() { close(leave) }
}

func (r *rig) passed() []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.marks)
}

func say(t *testing.T, c io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// Input that is not used comes again, with what follows.
func TestRest(t *testing.T) {
	r := start(t)
	e := &end{lines: true}
	c := r.add(e)
	for _, part := range []string{"a", "b\nc", "d", "\n", "e\nf\ng"} {
		say(t, c, part)
		testwait.Until(t, "it is read", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.turns) > 0 })
		r.mu.Lock()
		r.turns = nil
		r.mu.Unlock()
	}
	say(t, c, "\n")
	testwait.Until(t, "all lines", func() bool { return e.heard() == "ab\ncd\ne\nf\ng\n" })
}

// backlog is more than a socket holds in one slice.
func backlog(slices int) string { return strings.Repeat("x", slices*eventloop.Slice) }

// A marker is passed once all is read that was there before it, however much that is, and though more comes.
func TestMarker(t *testing.T) {
	r := start(t)
	peers := []net.Conn{r.add(&end{}), r.add(&end{}), r.add(&end{})}
	for round := range 5 {
		release := r.block()
		for _, c := range peers {
			say(t, c, backlog(4))
		}
		r.loop.Mark(int64(round))
		r.loop.Mark(int64(round) + 100) // is not set: the one before is under way
		release()
		for _, c := range peers {
			say(t, c, backlog(2))
		}
		testwait.Until(t, "the marker", func() bool { return len(r.passed()) == round+1 })
		r.mu.Lock()
		mark, read := r.marks[round], r.read[round]
		r.mu.Unlock()
		if want := 3 * (round*6 + 4) * eventloop.Slice; mark != int64(round) || read < want {
			t.Errorf("marker %d was passed when %d bytes were read, want marker %d and at least %d", mark, read, round, want)
		}
	}
}

// A marker that follows another at once is passed after what came in between, although that is more
// than a loop takes from the kernel at a time.
func TestMarkerAfterMarker(t *testing.T) {
	r := start(t)
	const n = 600
	peers := make([]net.Conn, n)
	for i := range peers {
		peers[i] = r.add(&end{})
	}
	r.then = func() {
		r.then = nil
		said := make(chan struct{})
		go func() { // the loop's goroutine may have another table of descriptors
			defer close(said)
			for _, c := range peers {
				if _, err := io.WriteString(c, "x"); err != nil {
					t.Error(err)
				}
			}
		}()
		<-said
		r.loop.Mark(2)
	}
	r.loop.Mark(1)
	testwait.Until(t, "the markers", func() bool { return len(r.passed()) == 2 })
	if read := r.read[1]; read != n {
		t.Errorf("marker 2 was passed when %d of %d connections were read", read, n)
	}
}

// A marker waits neither for a connection that ends, nor for one that is paused.
func TestMarkerOfTheGone(t *testing.T) {
	r := start(t)
	closes, pauses := &end{}, &end{}
	closes.traffic = func([]byte) { closes.Close() }
	pauses.traffic = func([]byte) { pauses.Pause(time.Now().Add(time.Hour)) }
	release := r.block()
	say(t, r.add(closes), backlog(4))
	say(t, r.add(pauses), backlog(4))
	r.loop.Mark(1)
	release()
	testwait.Until(t, "the marker", func() bool { return len(r.passed()) == 1 })
	if n := len(closes.heard()); n != eventloop.Slice {
		t.Errorf("%d bytes of the one that was closed", n)
	}
	if n := len(pauses.heard()); n != eventloop.Slice {
		t.Errorf("%d bytes of the one that is paused", n)
	}
}

// None gets more than a slice in its turn.
func TestTurns(t *testing.T) {
	r := start(t)
	a, b := &end{}, &end{}
	release := r.block()
	say(t, r.add(a), backlog(5))
	say(t, r.add(b), backlog(5))
	release()
	testwait.Until(t, "all", func() bool { return len(a.heard())+len(b.heard()) == 10*eventloop.Slice })
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, e := range r.turns {
		if want := []*end{a, b}[i%2]; e != want {
			t.Fatalf("turn %d is not that of connection %d", i, i%2)
		}
	}
}

// Tasks are called in their order, and a crowd of them keeps no connection waiting.
func TestTasks(t *testing.T) {
	r := start(t)
	e := &end{}
	peer := r.add(e)
	release := r.block()
	const n = 1000
	var done, before []int // by the loop's goroutine
	e.traffic = func([]byte) { before = slices.Clone(done) }
	for i := range n {
		if err := r.loop.Execute(func() { done = append(done, i) }); err != nil {
			t.Fatal(err)
		}
	}
	say(t, peer, "x")
	release()
	r.do(func() {
		if len(done) != n || !slices.IsSorted(done) {
			t.Errorf("%d tasks were called, in order: %v; want %d in the order in which they came", len(done), slices.IsSorted(done), n)
		}
		if e.heard() != "x" || len(before) > n/10 {
			t.Errorf("a connection was heard (%q) after %d of %d tasks, want it to have its turn among the first", e.heard(), len(before), n)
		}
	})
}

// Input that is there is handled before a task that came before it.
func TestInputFirst(t *testing.T) {
	r := start(t)
	e := &end{}
	peer := r.add(e)
	release := r.block()
	heard := make(chan string, 1)
	if err := r.loop.Execute(func() { heard <- e.heard() }); err != nil {
		t.Fatal(err)
	}
	say(t, peer, "x")
	release()
	if got := <-heard; got != "x" {
		t.Errorf("the task was called when %q was heard, want it after the input", got)
	}
}

// A connection that rests is not read until it goes on, and no marker waits for it.
func TestResting(t *testing.T) {
	r := start(t)
	e := &end{}
	e.traffic = func(used []byte) {
		if string(used) == "a" {
			e.Rest()
			e.Rest() // does nothing
		}
	}
	c := r.add(e)
	say(t, c, "a")
	testwait.Until(t, "the first", func() bool { return e.heard() == "a" })
	say(t, c, "b")
	r.loop.Mark(1)
	testwait.Until(t, "the marker", func() bool { return len(r.passed()) == 1 })
	if got := e.heard(); got != "a" {
		t.Errorf("%q was heard of one that rests", got)
	}
	r.do(e.Again)
	testwait.Until(t, "the second", func() bool { return e.heard() == "ab" })
	r.do(func() {
		e.Close()
		e.Rest()
	})
}

// A connection that is paused is not read until its time has come, and then all of it is.
func TestPause(t *testing.T) {
	r := start(t)
	e := &end{}
	var until time.Time
	e.traffic = func([]byte) {
		if until.IsZero() {
			until = time.Now().Add(200 * time.Millisecond)
			e.Pause(until)
			e.Pause(until.Add(time.Hour)) // does nothing
		} else if now := time.Now(); now.Before(until) {
			t.Errorf("it was read %v too early", until.Sub(now))
		}
	}
	c := r.add(e)
	say(t, c, "a")
	testwait.Until(t, "the first", func() bool { return e.heard() == "a" })
	say(t, c, "b")
	testwait.Until(t, "the second", func() bool { return e.heard() == "ab" })
	say(t, c, "c")
	testwait.Until(t, "the third", func() bool { return e.heard() == "abc" })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "its end", func() bool { return e.ended() == 1 })
}

// What the kernel does not take is kept, and written in order once the other end reads; then Drained
// is called.
func TestOutput(t *testing.T) {
	r := start(t)
	e := &end{}
	c := r.add(e)
	var want strings.Builder
	r.do(func() {
		for i := range 40 {
			part := strings.Repeat(string(rune('a'+i%26)), 50_000)
			want.WriteString(part)
			if !e.Write([]byte(part)) {
				t.Error("it has ended")
			}
		}
		if e.Buffered() == 0 {
			t.Error("the kernel has taken all of it: the test proves nothing")
		}
	})
	got := make([]byte, want.Len())
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want.String() {
		t.Errorf("%d bytes of %d came, or others; %v", len(got), want.Len(), err)
	}
	say(t, c, "and it is still read")
	testwait.Until(t, "input", func() bool { return e.heard() == "and it is still read" })
	r.do(func() {
		if e.Buffered() != 0 {
			t.Errorf("%d bytes are left", e.Buffered())
		}
		if e.emptied != 1 {
			t.Errorf("Drained was called %d times, want once", e.emptied)
		}
	})
}

// However a connection ends, Closed is called once, what it writes arrives, and its slot is used again.
func TestClose(t *testing.T) {
	r := start(t)
	ways := map[string]func(e *end, c net.Conn){
		"the other end closes": func(_ *end, c net.Conn) { _ = c.(*net.UnixConn).CloseWrite() },
		"in traffic": func(e *end, c net.Conn) {
			r.do(func() { e.traffic = func([]byte) { e.Close(); e.Close() } })
			say(t, c, "x")
		},
		"in a task": func(e *end, _ net.Conn) { r.do(func() { e.Close(); e.Close() }) },
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				e := &end{last: "bye"}
				c := r.add(e)
				way(e, c)
				if got, err := io.ReadAll(c); err != nil || string(got) != "bye" {
					t.Errorf("the other end reads %q, %v", got, err)
				}
				r.do(func() {
					if e.IsOpen() || e.FD() != -1 || e.Write([]byte("x")) || e.ended() != 1 {
						t.Errorf("open %t, descriptor %d, ended %d times", e.IsOpen(), e.FD(), e.ended())
					}
					e.Reset()
					e.Pause(time.Now())
				})
			}
		})
	}
}

// addTCP adds a connection of TCP to the loop, and returns its other end.
func (r *rig) addTCP(e *end) *net.TCPConn {
	r.t.Helper()
	e.rig = r
	l, err := (&net.ListenConfig{}).Listen(r.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	defer l.Close()
	c, err := (&net.Dialer{}).DialContext(r.t.Context(), "tcp", l.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	served, err := l.Accept()
	if err != nil {
		r.t.Fatal(err)
	}
	defer served.Close()
	file, err := served.(*net.TCPConn).File()
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = unix.SetNonblock(fd, true)
	if err := r.loop.Add(fd, e); err != nil {
		r.t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// A connection that is reset sends nothing more.
func TestReset(t *testing.T) {
	r := start(t)
	e := &end{}
	c := r.addTCP(e)
	r.do(e.Reset)
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the other end reads %v", err)
	}
	if e.ended() != 1 {
		t.Errorf("Closed was called %d times", e.ended())
	}
}

// What TCP calls urgent is input in its place: kept apart, it would be told of without end.
func TestUrgent(t *testing.T) {
	r := start(t)
	e := &end{}
	c := r.addTCP(e)
	say(t, c, "a")
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { err = unix.Send(int(fd), []byte("b"), unix.MSG_OOB) }); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	say(t, c, "c")
	testwait.Until(t, "all of it", func() bool { return e.heard() == "abc" })
}

// When a loop ends, its connections do, and nothing is taken any more.
func TestEnd(t *testing.T) {
	r := start(t)
	e := &end{last: "bye"}
	c := r.add(e)
	r.stop()
	if got, err := io.ReadAll(c); err != nil || string(got) != "bye" || e.ended() != 1 {
		t.Errorf("the other end reads %q, %v; ended %d times", got, err, e.ended())
	}
	if err := r.loop.Execute(func() { t.Error("it was called") }); !errors.Is(err, eventloop.ErrClosed) {
		t.Errorf("Execute = %v", err)
	}
	if err := r.loop.Add(0, &end{}); !errors.Is(err, eventloop.ErrClosed) {
		t.Errorf("Add = %v", err)
	}
	r.loop.Mark(1)
	unrun, err := eventloop.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	unrun.Close()
	unrun.Close()
}

// What cannot be watched is refused, and stays the caller's.
func TestBadDescriptor(t *testing.T) {
	r := start(t)
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if err := r.loop.Add(int(file.Fd()), &end{rig: r}); !errors.Is(err, unix.EPERM) {
		t.Errorf("Add = %v", err)
	}
	e := &end{}
	say(t, r.add(e), "the next one is served")
	testwait.Until(t, "it", func() bool { return e.heard() != "" })
}
