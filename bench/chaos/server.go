package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/apiclient"
)

const (
	stopPatience  = 30 * time.Second // with an end in order
	readyPatience = 60 * time.Second // with a start that nothing hinders
	pollEvery     = 10 * time.Millisecond
	// starvedEvery is a fifth of the pause in this program's running that counts as starved.
	starvedEvery = 100 * time.Millisecond
	// quotaPeriod is the period of which a process has its share.
	quotaPeriod = 100 * time.Millisecond
)

// errEnded is returned by all that waits for a process if it ends by itself. Nothing excuses that,
// not even a full disk.
var errEnded = errors.New("the server ended by itself")

// server runs the program as a child process, again and again, and records the history. One
// goroutine calls its methods.
type server struct {
	*process

	program string
	args    []string
	api     *apiclient.Client
	log     *os.File       // of what it writes
	watch   sync.WaitGroup // goroutines that wait for a process to end, or to be ready

	mu      sync.Mutex // guards the fields below
	history History
	wrong   []Violation
	starts  int
}

// process is a process of the server.
type process struct {
	*os.Process

	number int           // counts the processes from 1
	ended  chan struct{} // closed when the process is gone, and err set
	ready  chan struct{} // closed when it is ready
	err    error
}

// now returns the current instant of the history.
func (s *server) now() time.Duration { return time.Since(s.history.Origin) }

// start starts a process; the current break ends when it is ready.
func (s *server) start(ctx context.Context) error {
	s.starts++
	p := &process{number: s.starts, ended: make(chan struct{}), ready: make(chan struct{})}
	cmd := exec.CommandContext(ctx, s.program, s.args...)
	cmd.Stderr, cmd.Stdout, cmd.Dir = s.log, s.log, filepath.Dir(s.log.Name())
	// In a group of its own: the kernel continues the stopped processes of a group whose leader's
	// parent, a shell, ends (_exit(2)).
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.mu.Lock()
	at := len(s.history.Breaks) - 1
	s.history.Breaks[at].Ending = s.now()
	s.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	p.Process, s.process = cmd.Process, p
	s.watch.Go(func() { p.err = cmd.Wait(); close(p.ended) })
	s.watch.Go(func() { s.poll(ctx, p, at) })
	return nil
}

// poll asks a process until it is ready or ends.
func (s *server) poll(ctx context.Context, p *process, at int) {
	for run.Wait(ctx, pollEvery) == nil && !p.over() {
		if s.isReady(ctx) && !p.over() { // and it was not the next process that answered
			s.listens(at)
			close(p.ready)
			return
		}
	}
}

// over reports whether the process has ended.
func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// listens notes that the process after a break listens now, even if it was stopped before that.
func (s *server) listens(at int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history.Breaks[at].Over = min(s.history.Breaks[at].Over, s.now())
	for i := range s.history.Breaks[at+1:] {
		b := &s.history.Breaks[at+1+i]
		b.Over = max(b.Over, s.now())
	}
}

// snapshot returns a copy of the history.
func (s *server) snapshot() History {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.history
	h.Breaks, h.Troubles = slices.Clone(h.Breaks), slices.Clone(h.Troubles)
	return h
}

func (s *server) isReady(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return s.api.Get(ctx, "/readyz", nil, nil) == nil
}

// begin notes a break that was asked for at an instant and has begun now. It ends an earlier one
// that still lasts.
func (s *server) begin(kind BreakKind, asked time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := &s.history.Breaks[len(s.history.Breaks)-1]
	last.Over = min(last.Over, asked)
	s.history.Breaks = append(s.history.Breaks, Break{Kind: kind, Asked: asked, Began: s.now(), Ending: never, Over: never})
}

// end ends the process with a signal, by force if that takes too long, and waits for its end.
func (s *server) end(signal os.Signal, kind BreakKind) error {
	asked := s.now()
	if s.over() || s.Signal(signal) != nil {
		return s.died()
	}
	select {
	case <-s.ended:
	case <-time.After(stopPatience):
		s.violation(WrongEnd, "asked to end, process %d did not within %v", s.number, stopPatience)
		_ = s.Kill()
		<-s.ended
		kind = Killed
	}
	s.begin(kind, asked)
	if kind == Ended && s.err != nil && !s.troubled(asked) {
		s.violation(WrongEnd, "asked to end, process %d ended with %v", s.number, s.err)
	}
	return nil
}

// stop stops the process for a time.
func (s *server) stop(ctx context.Context, length time.Duration) error {
	asked := s.now()
	if s.Signal(syscall.SIGSTOP) != nil {
		return nil //nolint:nilerr // it is gone; the next wait finds that out
	}
	awaitStopped(s.Pid)
	s.begin(Stopped, asked)
	err := run.Wait(ctx, length)
	s.mu.Lock()
	last := &s.history.Breaks[len(s.history.Breaks)-1]
	last.Ending = s.now()
	s.mu.Unlock()
	_ = s.Signal(syscall.SIGCONT) // fails only if it is gone
	s.mu.Lock()
	last.Over = s.now()
	s.mu.Unlock()
	return err
}

// awaitStopped waits until all threads of a child process stand still, or the process is gone.
func awaitStopped(pid int) {
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}

// share gives the process a share of a core for a time: it is stopped for the rest of each period.
func (s *server) share(ctx context.Context, percent int, length time.Duration) error {
	on := quotaPeriod * time.Duration(percent) / 100
	for until := s.now() + length; s.now() < until; {
		if err := s.wait(ctx, on); err != nil {
			return err
		}
		_ = s.Signal(syscall.SIGSTOP) // fails only if it is gone
		err := run.Wait(ctx, quotaPeriod-on)
		_ = s.Signal(syscall.SIGCONT)
		if err != nil {
			return err
		}
	}
	return nil
}

// wait waits while the server runs.
func (s *server) wait(ctx context.Context, length time.Duration) error {
	select {
	case <-time.After(length):
		return nil
	case <-s.ended:
		return s.died()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitReady waits until the process is ready.
func (s *server) awaitReady(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-s.ended:
		return s.died()
	case <-time.After(readyPatience):
		return fmt.Errorf("the server is not ready after %v", readyPatience)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// died waits for a process that is gone, or is about to be, and says so.
func (s *server) died() error {
	<-s.ended
	return errors.Join(fmt.Errorf("%w: process %d", errEnded, s.number), s.err)
}

// trouble notes the beginning of a time in which nothing can be saved; the function that it returns
// notes the end.
func (s *server) trouble(kind FaultKind) (over func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := len(s.history.Troubles)
	s.history.Troubles = append(s.history.Troubles, Trouble{Kind: kind, From: s.now(), To: never})
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.history.Troubles[at].To = s.now()
	}
}

// troubled reports whether a trouble lasts, or was over only a while before t.
func (s *server) troubled(t time.Duration) bool {
	h := s.snapshot()
	return slices.ContainsFunc(h.Troubles, func(trouble Trouble) bool { return t < trouble.To+2*time.Second })
}

// violation records a broken promise.
func (s *server) violation(kind ViolationKind, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, Violation{Kind: kind, Detail: fmt.Sprintf(format, args...) + " at " + clock(s.now())})
}

// starve records the times in which this program could not run, until ctx is done.
func (s *server) starve(ctx context.Context) {
	for last := s.now(); run.Wait(ctx, starvedEvery) == nil; last = s.now() {
		if now := s.now(); now-last > 5*starvedEvery {
			s.mu.Lock()
			s.history.Troubles = append(s.history.Troubles, Trouble{Kind: Starved, From: last, To: now})
			s.mu.Unlock()
		}
	}
}
