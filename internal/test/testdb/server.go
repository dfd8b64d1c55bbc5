package testdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/test/testenv"
)

// patience is how long a server has to start, on a machine that does a lot else.
const patience = 60 * time.Second

// The user of the servers, and its password.
const (
	user     = "holter"
	password = "secret"
)

// kind is what differs between servers.
type kind interface {
	name() string
	programs() []string
	// install fills an empty directory, run as the unprivileged user by command.
	install(dir string, command func(name string, args ...string) *exec.Cmd) error
	// serve returns the command line of the server.
	serve(dir string, port int) (program string, args []string, err error)
	// signal is what ends the server at once, and in order as far as that goes.
	signal() string
	// ready makes sure that the server answers and knows the user.
	ready(ctx context.Context, dir string, port int) error
	// create makes a database and returns its URL.
	create(ctx context.Context, port int, database string) (string, error)
}

// Server is a server at work.
type Server struct {
	kind     kind
	dir      string
	port     int
	made     atomic.Int64 // databases
	template template
	shell    *exec.Cmd // nil while the server is stopped
	leash    io.WriteCloser
	pid      int
	exposed  bool
}

// leash is the shell script that runs a server: when its own input ends, it ends it and removes the
// directory; told to, it kills the server and keeps the directory. A server that ends in order
// waits for its children, which nobody else may do.
const leash = `log=$1; dir=$2; signal=$3; shift 3
"$@" </dev/null >>"$log" 2>&1 &
pid=$!
echo $pid
read -r word
children=$(cat /proc/$pid/task/$pid/children 2>/dev/null)
if [ "$word" = keep ]; then
	kill -9 $pid $children 2>/dev/null
else
	kill -CONT $pid $children 2>/dev/null
	kill -$signal $pid 2>/dev/null
fi
wait $pid 2>/dev/null
[ "$word" = keep ] || rm -rf "$dir"`

func newServer(k kind) (*Server, error) {
	dir, err := os.MkdirTemp("", "holter-"+k.name()+"-")
	if err != nil {
		return nil, err
	}
	s := &Server{kind: k, dir: dir}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("testdb: set %s up: %w", k.name(), err), os.RemoveAll(dir))
	}
	if err := s.start(); err != nil {
		s.Close()
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// nobody is the user and group that servers run as if we are root, as which PostgreSQL does not
// run.
const nobody = 65534

func (s *Server) prepare() error {
	if err := os.Chmod(s.dir, 0o755); err != nil { // the servers' user has to get through
		return err
	}
	for _, sub := range []string{"data", "run"} {
		if err := os.Mkdir(s.path(sub), 0o700); err != nil {
			return err
		}
	}
	if os.Geteuid() == 0 {
		for _, path := range []string{s.dir, s.path("data"), s.path("run")} {
			if err := os.Chown(path, nobody, nobody); err != nil {
				return err
			}
		}
	}
	return s.kind.install(s.dir, s.command)
}

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }

// command returns a command that is run as the unprivileged user.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	if path, err := testenv.Find(name); err == nil {
		name = path
	}
	cmd := exec.CommandContext(context.Background(), name, args...) // servers outlive whoever starts them
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "TMPDIR="+s.path("run"), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is not for them
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return cmd
}

// start starts the server on its port, or a free one if it has none yet, and waits for it.
func (s *Server) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := s.startOnce(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if !s.exposed {
			s.port = 0 // somebody was faster
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

// errEnded is for a server that ended while it was waited for.
var errEnded = errors.New("it ended")

func (s *Server) startOnce(ctx context.Context) error {
	if s.port == 0 {
		port, err := testenv.FreePort(ctx)
		if err != nil {
			return err
		}
		s.port = port
	}
	program, args, err := s.kind.serve(s.dir, s.port)
	if err != nil {
		return err
	}
	path, err := testenv.Find(program)
	if err != nil {
		return err
	}
	s.shell = s.command("/bin/sh", append([]string{"-c", leash, "sh", s.path("log"), s.dir, s.kind.signal(), path}, args...)...) //nolint:contextcheck // it lives on
	if s.leash, err = s.shell.StdinPipe(); err != nil {
		return err
	}
	out, err := s.shell.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.shell.Start(); err != nil {
		return err
	}
	if _, err := fmt.Fscan(out, &s.pid); err != nil {
		return err
	}
	for {
		err = s.kind.ready(ctx, s.dir, s.port)
		if err == nil {
			s.exposed = true
			return nil
		}
		if !s.running() {
			err = errEnded
		}
		if errors.Is(err, errEnded) || pause(ctx, 50*time.Millisecond) != nil {
			s.stop("keep")
			return fmt.Errorf("testdb: start %s: %w; its log ends:\n%s", s.kind.name(), err, s.logEnd())
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// running reports whether the server is at work, and not a zombie.
func (s *Server) running() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
	if err != nil {
		return syscall.Kill(s.pid, 0) == nil && !errors.Is(err, os.ErrNotExist)
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

func (s *Server) logEnd() string {
	b, err := os.ReadFile(s.path("log"))
	if err != nil {
		return err.Error()
	}
	return string(b[max(len(b)-2000, 0):])
}

// stop kills the server. Told to keep its directory, it can be started again.
func (s *Server) stop(word string) {
	if s.shell == nil {
		return
	}
	_, _ = io.WriteString(s.leash, word+"\n") // the shell waits for it, or for the end
	_ = s.leash.Close()
	_ = s.shell.Wait() // its status is that of whatever came last
	s.shell = nil
}

// New starts a server of a kind, "postgres" or "mariadb", that has each commit on the disk. It is
// for programs; tests call NewPostgres or NewMariaDB.
func New(name string) (*Server, error) {
	for _, k := range []kind{postgres{durable: true}, mariadb{durable: true}} {
		if k.name() == name {
			return newServer(k)
		}
	}
	return nil, fmt.Errorf("testdb: there is no server %q", name)
}

// Close kills the server and removes its directory.
func (s *Server) Close() {
	s.stop("")
	_ = os.RemoveAll(s.dir) // the shell has done it already, unless the server was stopped
}

// Kill kills the server, as a crash would. What was not committed is lost.
func (s *Server) Kill() { s.stop("keep") }

// Restart starts a server that was killed, on the same port.
func (s *Server) Restart() error { return s.start() }

// Start is Restart for tests.
func (s *Server) Start(tb testing.TB) {
	tb.Helper()
	must(tb, s.Restart())
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Pause stops all processes of the server where they are: connections stay open, and nothing
// answers.
func (s *Server) Pause(tb testing.TB) {
	tb.Helper()
	must(tb, s.Signal(syscall.SIGSTOP))
}

// Continue ends a Pause.
func (s *Server) Continue(tb testing.TB) {
	tb.Helper()
	must(tb, s.Signal(syscall.SIGCONT))
}

// Signal sends a signal to all processes of the server. After SIGSTOP it returns once all of them
// stand still.
func (s *Server) Signal(sig syscall.Signal) error {
	if err := signal(s.pid, sig); err != nil {
		return err
	}
	// A server that is stopped starts no more processes, so these are all.
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", s.pid))
	if err != nil {
		return err
	}
	for field := range strings.FieldsSeq(string(children)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return err
		}
		if err := signal(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// signal sends a signal to a process. After SIGSTOP it waits until all threads stand still: on a busy
// machine, a thread may go on for a while.
func signal(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(pid, sig); err != nil || sig != syscall.SIGSTOP {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		stopped, err := isStopped(pid)
		if err != nil || stopped {
			return err
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return fmt.Errorf("testdb: process %d does not stop: %w", pid, err)
		}
	}
}

// isStopped reports whether no thread of a process runs.
func isStopped(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, path := range threads {
		stat, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return false, err
		}
		name := strings.LastIndex(string(stat), ") ")
		if state := string(stat[name+2]); !strings.Contains("TtZX", state) {
			return false, nil
		}
	}
	return true, err
}

// NewDatabase makes an empty database and returns its URL, which has a password.
func (s *Server) NewDatabase() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	url, err := s.newDatabase(ctx)
	if err != nil {
		return "", fmt.Errorf("testdb: create a database: %w\n%s", err, s.logEnd())
	}
	return url, nil
}

func (s *Server) newDatabase(ctx context.Context) (string, error) {
	return s.kind.create(ctx, s.port, s.newName())
}

// newName returns a name for a database. Other processes share the server.
func (s *Server) newName() string { return fmt.Sprintf("test%d_%d", os.Getpid(), s.made.Add(1)) }

// Database is NewDatabase for tests.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	url, err := s.NewDatabase()
	must(tb, err)
	return url
}

// URLWithPassword returns a database's URL with another password.
func URLWithPassword(url, other string) string {
	return strings.Replace(url, ":"+password+"@", ":"+other+"@", 1)
}
