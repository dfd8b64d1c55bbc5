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
	"sync/atomic"
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
	// quotaPeriod is the period of which a process has its share.
	quotaPeriod = 100 * time.Millisecond
)

// errEnded is returned by all that waits for a process if it ends by itself. Nothing excuses that,
// not even a full disk.
var errEnded = errors.New("the server ended by itself")

// server runs the program as a child process, again and again, and records what that does to the
// fleet. One goroutine calls its methods.
type server struct {
	program

	line   string  // address of the line protocol
	judges *judges // of the fleet; nil if it has this server alone
	link   *link   // to the database; nil if it is connected directly
	ears   string  // where it waits for ears; "" if there are none
}

// program is what is run as a child process, one after the other.
type program struct {
	*record
	*process

	name   string
	within []string // the command, with arguments, that runs the program; empty if nothing does
	path   string   // of the program
	args   []string // its arguments
	web    string   // address of its API
	api    *apiclient.Client
	log    *os.File       // of what it writes
	watch  sync.WaitGroup // goroutines that wait for a process to end, or to be ready
}

// process is a process of the server.
type process struct {
	*os.Process

	number int           // counts the processes from 1
	asked  atomic.Bool   // to end
	ended  chan struct{} // closed when the process is gone, and err set
	ready  chan struct{} // closed when it is ready or, one of several, stands by
	err    error
}

// launch starts a process.
func (p *program) launch(ctx context.Context, number int) error {
	next := &process{number: number, ended: make(chan struct{}), ready: make(chan struct{})}
	command := slices.Concat(p.within, []string{p.path}, p.args)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr, cmd.Stdout, cmd.Dir = p.log, p.log, filepath.Dir(p.log.Name())
	// In a group of its own: the kernel continues the stopped processes of a group whose leader's
	// parent, a shell, ends (_exit(2)).
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	next.Process, p.process = cmd.Process, next
	p.watch.Go(func() {
		next.err = cmd.Wait()
		close(next.ended)
		if !next.asked.Load() {
			p.failed(next.died())
		}
	})
	return nil
}

// start starts a process. Without others, the current break ends when it is ready.
func (s *server) start(ctx context.Context) error {
	s.mu.Lock()
	s.starts++
	number, at := s.starts, len(s.history.Breaks)-1
	if s.judges == nil {
		s.history.Breaks[at].Ending = s.now()
	}
	s.mu.Unlock()
	if err := s.launch(ctx, number); err != nil {
		return err
	}
	p := s.process
	s.watch.Go(func() {
		if s.judges != nil {
			s.judges.watch(ctx, s, p)
		} else {
			s.poll(ctx, p, at)
		}
	})
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

func (p *program) isReady(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return p.api.Get(ctx, "/readyz", nil, nil) == nil
}

// end ends the process with a signal, by force if that takes too long, and waits for its end.
func (s *server) end(signal os.Signal, kind BreakKind) error {
	asked := s.now()
	if s.asked.Store(true); s.over() || s.Signal(signal) != nil {
		return s.died()
	}
	judged := s.judges.lose(s.process, kind, asked)
	if !s.awaitEnd() {
		kind = Killed
	}
	switch {
	case s.judges == nil:
		s.begin(kind, asked)
	case judged != nil:
		judged(kind)
	}
	if kind == Ended && s.err != nil && !s.troubled(asked) {
		s.violation(WrongEnd, "asked to end, process %d ended with %v", s.number, s.err)
	}
	return nil
}

// awaitEnd waits until the process, which was asked to, has ended. It reports false if that needed
// force.
func (p *program) awaitEnd() bool {
	select {
	case <-p.ended:
		return true
	case <-time.After(stopPatience):
		p.violation(WrongEnd, "asked to end, process %d of %s did not within %v", p.number, p.name, stopPatience)
		_ = p.Kill()
		<-p.ended
		return false
	}
}

// stop stops the process for a time.
func (s *server) stop(ctx context.Context, length time.Duration) error {
	asked := s.now()
	if s.Signal(syscall.SIGSTOP) != nil {
		return nil //nolint:nilerr // it is gone; the next wait finds that out
	}
	awaitStopped(s.Pid)
	if s.judges != nil {
		judged := s.judges.lose(s.process, Stopped, asked)
		err := run.Wait(ctx, length)
		if judged != nil {
			judged(Stopped)
		}
		_ = s.Signal(syscall.SIGCONT)
		s.judges.woke(s.name)
		return err
	}
	s.begin(Stopped, asked)
	err := run.Wait(ctx, length)
	s.change(func(last *Break) { last.Ending = s.now() })
	_ = s.Signal(syscall.SIGCONT) // fails only if it is gone
	s.change(func(last *Break) { last.Over = s.now() })
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

// awaitReady waits until the process is ready.
func (s *server) awaitReady(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-s.ended:
		return s.process.died()
	case <-time.After(readyPatience):
		return fmt.Errorf("the server is not ready after %v", readyPatience)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// died waits for a process that is gone, or is about to be, and says so.
func (p *process) died() error {
	<-p.ended
	return errors.Join(fmt.Errorf("%w: process %d", errEnded, p.number), p.err)
}

// close ends the process and what belongs to it.
func (s *server) close() (err error) {
	err = s.program.close()
	if s.link != nil {
		err = errors.Join(err, s.link.close())
	}
	return err
}

func (p *program) close() error {
	if p.process != nil {
		p.asked.Store(true)
		_ = p.Kill() // it may have ended
	}
	p.watch.Wait()
	if p.api != nil {
		p.api.Close()
	}
	if p.log != nil {
		return p.log.Close()
	}
	return nil
}
