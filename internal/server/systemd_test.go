package server

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// manager is the end of a service manager: it collects what it is told.
type manager struct {
	mu   sync.Mutex // guards said
	said []string   // lines
}

// manage makes this process a service, at a socket; one that begins with @ is abstract.
func manage(t *testing.T, socket string) *manager {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	m := new(manager)
	var reading sync.WaitGroup
	reading.Go(func() {
		for b := make([]byte, 4096); ; {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.said = append(m.said, strings.Split(string(b[:n]), "\n")...)
			m.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = c.Close()
		reading.Wait()
	})
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "2000000")
	return m
}

// lines returns the lines that begin with a text.
func (m *manager) lines(begin string) (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, line := range m.said {
		if strings.HasPrefix(line, begin) {
			all = append(all, line)
		}
	}
	return all
}

func (m *manager) await(t *testing.T, begin string) {
	t.Helper()
	testwait.Until(t, "the manager is told "+begin, func() bool { return len(m.lines(begin)) > 0 })
}

// A server says that it is ready once devices may connect, what it does, that it hears, and that it ends.
func TestServiceOfServe(t *testing.T) {
	for name, socket := range map[string]string{
		"a socket of the file system": filepath.Join(t.TempDir(), "notify"),
		"an abstract one":             fmt.Sprintf("@holter-test-%d", time.Now().UnixNano()),
	} {
		t.Run(name, func(t *testing.T) {
			m := manage(t, socket)
			s := serveWith(t, testdb.SQLite(t), "")
			m.await(t, "READY=1")
			if status, _, body := s.ask("GET", "/readyz"); status != 200 {
				t.Errorf("the manager was told that the server is ready, and it is not: %d %s", status, body)
			}
			m.await(t, "STATUS=judging 0 devices")
			m.await(t, "WATCHDOG=1")
			if err := s.stop(); err != nil {
				t.Fatal(err)
			}
			for _, once := range []string{"READY=1", "STOPPING=1"} {
				m.await(t, once)
				if got := m.lines(once); len(got) != 1 {
					t.Errorf("%s was said %d times", once, len(got))
				}
			}
			if starts := m.lines("STATUS=starting: "); len(starts) == 0 {
				t.Error("the manager does not know what the start waited for")
			}
		})
	}
}

// A standby is ready, too, and says why it stands by.
func TestServiceOfStandby(t *testing.T) {
	file := testdb.SQLite(t)
	first := serveWith(t, file, "")
	testwait.Until(t, "the first judges", first.judges)
	m := manage(t, filepath.Join(t.TempDir(), "notify"))
	second := serveFile(t, "k", fmt.Sprintf("listen: ['127.0.0.1:0']\ndatabase: %q\n", file), io.Discard)
	m.await(t, "STATUS=standing by: ")
	m.await(t, "READY=1")
	m.await(t, "WATCHDOG=1")
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the second judges", second.judges)
	m.await(t, "STATUS=judging ")
	if err := second.stop(); err != nil {
		t.Fatal(err)
	}
	m.await(t, "STOPPING=1")
	if got := m.lines("READY=1"); len(got) != 1 {
		t.Errorf("READY=1 was said %d times", len(got))
	}
}

// An ear is ready without a judge: another start would not help.
func TestServiceOfEar(t *testing.T) {
	m := manage(t, filepath.Join(t.TempDir(), "notify"))
	e := hear(t, "one", "judges: ['unix:"+filepath.Join(t.TempDir(), "none")+"']")
	m.await(t, "READY=1")
	m.await(t, "STATUS=holding 0 connections; not ready: no judge")
	m.await(t, "WATCHDOG=1")
	if err := e.stop(); err != nil {
		t.Fatal(err)
	}
	m.await(t, "STOPPING=1")
}

// What the manager knows last is how the process does, also if that changes right after a change of its activity, to
// what it was before that.
func TestServiceStatusIsNew(t *testing.T) {
	m := manage(t, filepath.Join(t.TempDir(), "notify"))
	var s service
	defer s.begin(t.Context())()
	judging := func(first string) activity {
		texts := append([]string{first}, "judging 5 devices")
		var looks atomic.Int64
		return activity{status: func() string { return texts[min(looks.Add(1), 2)-1] }}
	}
	last := func(status string) {
		t.Helper()
		testwait.Until(t, "the manager is told "+status, func() bool {
			lines := m.lines("STATUS=")
			return len(lines) > 0 && lines[len(lines)-1] == "STATUS="+status
		})
	}
	s.is(judging("judging 4 devices"))
	last("judging 5 devices")
	s.is(activity{status: func() string { return "starting" }})
	s.is(judging("judging 5 devices; not ready"))
	last("judging 5 devices")
}

// blockedLog is a writer that does not come back once it is shut.
type blockedLog struct {
	mu   sync.Mutex // guards gate
	gate chan struct{}
}

func (l *blockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	gate := l.gate
	l.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return len(b), nil
}

// shut lets nothing be written until open is called.
func (l *blockedLog) shut() (open func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gate = make(chan struct{})
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		close(l.gate)
		l.gate = nil
	})
}

// A server whose event loop does not come back is not said to hear, until it does.
func TestServiceOfStuckServer(t *testing.T) {
	testenv.Check(t)
	m, log, devices := manage(t, filepath.Join(t.TempDir(), "notify")), new(blockedLog), testenv.FreeAddress(t)
	serveFile(t, "j", fmt.Sprintf("listen: ['%s']\ndatabase: %q\ntoken: s3cret\n", devices, testdb.SQLite(t)), log)
	m.await(t, "STATUS=judging ")
	m.await(t, "WATCHDOG=1")
	open := log.shut()
	defer open()
	if _, err := io.WriteString(connect(t, devices).conn, "HELLO pump wrong\n"); err != nil { // which is logged on the event loop
		t.Fatal(err)
	}
	var fed int
	testwait.Until(t, "the watchdog is fed no more", func() bool {
		before := len(m.lines("WATCHDOG=1"))
		pause(t.Context(), 3*time.Second)
		fed = len(m.lines("WATCHDOG=1"))
		return fed == before
	})
	open()
	testwait.Until(t, "the watchdog is fed again", func() bool { return len(m.lines("WATCHDOG=1")) > fed })
}

// Whatever a status holds it is one line.
func TestStatusLine(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a line", "judging 3 devices", "STATUS=judging 3 devices"},
		{"two lines", "cannot\nWATCHDOG=1", "STATUS=cannot WATCHDOG=1"},
		{"nothing", "", "STATUS="},
		{"a long text", strings.Repeat("ä", 200), "STATUS=" + strings.Repeat("ä", 150) + "…"},
		{"one that is cut inside a letter", "x" + strings.Repeat("ä", 200), "STATUS=x" + strings.Repeat("ä", 149) + "…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := statusLine(c.text); got != c.want {
				t.Errorf("statusLine = %q, want %q", got, c.want)
			}
		})
	}
}

func TestReloading(t *testing.T) {
	m := manage(t, filepath.Join(t.TempDir(), "notify"))
	done := managerReloads()
	m.await(t, "RELOADING=1")
	m.await(t, "MONOTONIC_USEC=")
	if got := m.lines("READY=1"); got != nil {
		t.Errorf("%q before the end", got)
	}
	done()
	m.await(t, "READY=1")
}
