package eventloop_test

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/internal/net/eventloop"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// withTable is New with a table of its own, which has room for connections.
func withTable(room int) func(passed func(mark int64)) (*eventloop.Loop, error) {
	return func(passed func(mark int64)) (*eventloop.Loop, error) { return eventloop.NewWithTable(passed, room) }
}

func useTables(t *testing.T, room int) {
	t.Helper()
	if err := eventloop.CanHaveTables(); err != nil {
		t.Skip(err)
	}
	newLoop = withTable(room)
	t.Cleanup(func() { newLoop = eventloop.New })
}

// A loop with a table of its own does what others do.
func TestWithTable(t *testing.T) {
	useTables(t, 1000)
	for name, test := range map[string]func(*testing.T){
		"rest": TestRest, "marker": TestMarker, "marker after marker": TestMarkerAfterMarker, "marker of the gone": TestMarkerOfTheGone,
		"turns": TestTurns, "tasks": TestTasks, "pause": TestPause, "output": TestOutput, "close": TestClose, "reset": TestReset, "end": TestEnd,
	} {
		t.Run(name, test)
	}
}

// files returns what the descriptors of a thread are.
func files(t *testing.T, thread string) (all []string) {
	t.Helper()
	dir := "/proc/self/task/" + thread + "/fd/"
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		what, _ := os.Readlink(dir + e.Name())
		all = append(all, what)
	}
	return all
}

func count(all []string, prefix string) (n int) {
	for _, f := range all {
		if strings.HasPrefix(f, prefix) {
			n++
		}
	}
	return n
}

// The connections of loops with tables of their own are in these alone, and nothing else is.
func TestTables(t *testing.T) {
	useTables(t, 1000)
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	const loops, each = 3, 50
	before := files(t, strconv.Itoa(unix.Getpid()))
	for range loops {
		r := start(t)
		var peers []net.Conn
		for range each {
			peers = append(peers, r.add(&end{last: "bye"}))
		}
		var thread int
		r.do(func() { thread = unix.Gettid() })
		own := files(t, strconv.Itoa(thread))
		if thread == unix.Getpid() || count(own, "socket:") != each+1 || len(own) > each+40 {
			t.Errorf("the table of thread %d has %d sockets among its %d descriptors: %q", thread, count(own, "socket:"), len(own), own[:min(len(own), 40)])
		}
		r.stop()
		for _, c := range peers {
			if got, err := io.ReadAll(c); err != nil || string(got) != "bye" {
				t.Errorf("the other end reads %q, %v", got, err)
			}
			_ = c.Close()
		}
	}
	runtime.KeepAlive(file)
	if after := files(t, strconv.Itoa(unix.Getpid())); len(after) > len(before) {
		t.Errorf("the process had %d descriptors, and has %d: %q", len(before), len(after), after)
	}
}

// What a connection has said before a marker is set is read before it is passed, although the
// connection itself has just been added.
func TestMarkerOfNewcomers(t *testing.T) {
	for name, tables := range map[string]bool{"shared table": false, "own table": true} {
		t.Run(name, func(t *testing.T) {
			if tables {
				useTables(t, 1000)
			}
			r := start(t)
			for round := range 50 {
				release := r.block()
				for range 4 {
					defer func(c net.Conn) { _ = c.Close() }(r.addSaying(&end{}, "hello"))
				}
				r.loop.Mark(int64(round))
				release()
				testwait.Until(t, "the marker", func() bool { return len(r.passed()) == round+1 })
				r.mu.Lock()
				read := r.read[round]
				r.mu.Unlock()
				if want := 4 * len("hello") * (round + 1); read != want {
					t.Fatalf("marker %d was passed when %d bytes were read, want %d", round, read, want)
				}
			}
		})
	}
}

// A loop takes no more connections than it has room for, and others once some have ended.
func TestFull(t *testing.T) {
	useTables(t, 3)
	r := start(t)
	var first net.Conn
	for i := range 3 {
		if c := r.add(&end{}); i == 0 {
			first = c
		}
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fds[1]) }()
	late := &end{rig: r}
	if err := r.loop.Add(fds[0], late); !errors.Is(err, eventloop.ErrFull) || r.loop.HasRoom() {
		t.Errorf("Add = %v, want ErrFull; room: %t", err, r.loop.HasRoom())
	}
	_ = first.Close()
	testwait.Until(t, "room", r.loop.HasRoom)
	if err := r.loop.Add(fds[0], late); err != nil {
		t.Errorf("Add = %v", err)
	}
}

// A connection that finds no descriptor free in the table ends; the others do not.
func TestTableIsFull(t *testing.T) {
	useTables(t, 1<<20)
	r := start(t)
	e := &end{}
	c := r.add(e)
	r.do(func() {}) // it is there
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	release := r.block()
	late := &end{}
	c2 := r.add(late)
	low := limit
	low.Cur = 3
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	release()
	testwait.Until(t, "the end of the one that came late", func() bool { return late.ended() == 1 })
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if _, err := c2.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("its other end reads %v", err)
	}
	say(t, c, "still here")
	testwait.Until(t, "the other one", func() bool { return e.heard() == "still here" })
}

// A loop that ends while connections are passed to it ends those, too.
func TestEndAmidArrivals(t *testing.T) {
	useTables(t, 1<<20)
	for range 20 {
		r := start(t)
		refused := make(chan int)
		var all []*end
		go func() {
			n := 0
			for range 500 {
				fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
				if err != nil {
					t.Error(err)
					break
				}
				e := &end{rig: r}
				if err := r.loop.Add(fds[0], e); err == nil {
					all = append(all, e)
				} else if n++; !errors.Is(err, eventloop.ErrClosed) {
					t.Errorf("Add = %v", err)
				} else {
					_ = unix.Close(fds[0])
				}
				_ = unix.Close(fds[1])
			}
			refused <- n
		}()
		r.do(func() {})
		r.stop()
		n := <-refused
		for _, e := range all {
			testwait.Until(t, "the end of each", func() bool { return e.ended() == 1 })
		}
		if len(all)+n != 500 {
			t.Errorf("%d were added, and %d refused", len(all), n)
		}
	}
}
