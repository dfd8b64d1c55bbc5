//go:build linux

package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
)

const (
	stopPatience  = 30 * time.Second // with an end in order
	readyPatience = 60 * time.Second // with a start that nothing hinders
	pollEvery     = 10 * time.Millisecond
	// unnoticed is how long after its end a process is noticed to have ended, at most.
	unnoticed = 200 * time.Millisecond
	// starvedEvery is a fifth of the pause in this program's running that counts as starved.
	starvedEvery = 100 * time.Millisecond
	// restartAfter is how long a server that ended by itself stays away.
	restartAfter = 300 * time.Millisecond
)

// server runs the program as a child process, again and again, and records the history. One
// goroutine calls its methods.
type server struct {
	command func(ctx context.Context, args ...string) *exec.Cmd
	args    []string
	api     string // URL
	log     io.Writer
	client  *http.Client
	watch   sync.WaitGroup // goroutines that wait for a process to end, or to be ready

	process *process

	mu      sync.Mutex // guards the fields below
	history History
	wrong   []Violation
	starts  int
}

// process is a process of the server.
type process struct {
	cmd    *exec.Cmd
	number int
	ended  chan struct{} // closed when the process is gone, and err set
	ready  chan struct{} // closed when it is ready
	err    error
	asked  chan struct{} // closed before it is ended on purpose
}

// now returns the current instant of the history.
func (s *server) now() time.Duration { return time.Since(s.history.Origin) }

// start starts a process; the current break ends when it is ready.
func (s *server) start(ctx context.Context) error {
	s.starts++
	l := &process{
		cmd: s.command(ctx, s.args...), number: s.starts,
		ended: make(chan struct{}), ready: make(chan struct{}), asked: make(chan struct{}),
	}
	l.cmd.Stderr, l.cmd.Stdout = s.log, s.log
	if l.cmd.SysProcAttr == nil {
		l.cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// In a group of its own: the kernel continues the stopped processes of a group whose leader's
	// parent, a shell, ends (_exit(2)).
	l.cmd.SysProcAttr.Setpgid = true
	s.mu.Lock()
	at := len(s.history.Breaks) - 1
	s.history.Breaks[at].Ending = s.now()
	s.mu.Unlock()
	if err := l.cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	s.process = l
	s.watch.Go(func() { l.err = l.cmd.Wait(); close(l.ended) })
	s.watch.Go(func() { s.awaitReady(ctx, l, at) })
	return nil
}

// awaitReady polls a process until it is ready or ends.
func (s *server) awaitReady(ctx context.Context, l *process, at int) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.ended:
			return
		case <-l.asked:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s.isReady(ctx) {
			s.listens(at)
			close(l.ready)
			return
		}
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.api+"/readyz", nil)
	if err != nil {
		return false
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return errors.Join(err, answer.Body.Close()) == nil && answer.StatusCode == http.StatusOK
}

// begin notes a break that was asked for at an instant and has begun now. It ends an earlier one
// that still lasts.
func (s *server) begin(kind BreakKind, asked time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.history.Breaks); n > 0 {
		last := &s.history.Breaks[n-1]
		last.Over = min(last.Over, asked)
	}
	s.history.Breaks = append(s.history.Breaks, Break{Kind: kind, Asked: asked, Began: s.now(), Ending: never, Over: never})
}

// kill kills the process and waits for its end.
func (s *server) kill() {
	asked := s.now()
	if !s.ask(syscall.SIGKILL) {
		return
	}
	<-s.process.ended
	s.begin(Killed, asked)
}

// ask sends the signal that ends the process. It reports false if the process has ended by itself.
func (s *server) ask(signal os.Signal) bool {
	select {
	case <-s.process.ended:
		s.noteEnd()
		return false
	default:
	}
	close(s.process.asked)
	return s.process.cmd.Process.Signal(signal) == nil
}

// term ends the process in order, or by force if that takes too long.
func (s *server) term() {
	asked := s.now()
	if !s.ask(syscall.SIGTERM) {
		return
	}
	select {
	case <-s.process.ended:
		s.begin(Ended, asked)
		if s.process.err != nil && !s.troubled(asked) {
			s.wrongEnd("asked to end, process %d ended with %v", s.process.number, s.process.err)
		}
	case <-time.After(stopPatience):
		s.wrongEnd("asked to end, process %d did not within %v", s.process.number, stopPatience)
		_ = s.process.cmd.Process.Kill()
		<-s.process.ended
		s.begin(Killed, asked)
	}
}

// stop stops the process for a time.
func (s *server) stop(ctx context.Context, length time.Duration) error {
	running := s.process.cmd.Process
	asked := s.now()
	if err := running.Signal(syscall.SIGSTOP); errors.Is(err, os.ErrProcessDone) {
		return nil // the next wait finds that out
	}
	if err := s.awaitStopped(ctx, running.Pid); err != nil {
		return err
	}
	s.begin(Stopped, asked)
	err := run.Wait(ctx, length)
	s.mu.Lock()
	last := &s.history.Breaks[len(s.history.Breaks)-1]
	last.Ending = s.now()
	s.mu.Unlock()
	_ = running.Signal(syscall.SIGCONT) // fails only if it is gone
	s.mu.Lock()
	last.Over = s.now()
	s.mu.Unlock()
	return err
}

// awaitStopped waits until all threads stand still, or the process is gone.
func (s *server) awaitStopped(ctx context.Context, pid int) error {
	for !standsStill(pid) {
		if err := run.Wait(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// standsStill reports whether all threads of a process are stopped, or there is no such process.
func standsStill(pid int) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "task")
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return true
	}
	for _, task := range tasks {
		stat, err := os.ReadFile(filepath.Join(dir, task.Name(), "stat"))
		if err != nil {
			continue // the thread is gone
		}
		if state := stateOf(stat); state != 'T' && state != 't' && state != 'Z' && state != 'X' {
			return false
		}
	}
	return true
}

// stateOf returns the state in a stat file of /proc: a letter after the name, which may contain
// anything; X if there is none.
func stateOf(stat []byte) byte {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 1 || len(fields[0]) != 1 {
		return 'X'
	}
	return fields[0][0]
}

// wait waits while the server runs. If it ends by itself meanwhile, it is started again.
func (s *server) wait(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	return s.until(ctx, timer.C)
}

// until is wait with a channel.
func (s *server) until(ctx context.Context, done <-chan time.Time) error {
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-s.process.ended:
		}
		s.noteEnd()
		if err := run.Wait(ctx, restartAfter); err != nil {
			return err
		}
		if err := s.start(ctx); err != nil {
			return err
		}
	}
}

// awaitReadyProcess waits until the server is ready. If it ends by itself before, the next process
// is waited for.
func (s *server) awaitReadyProcess(ctx context.Context) error {
	for limit := time.Now().Add(readyPatience); ; {
		select {
		case <-s.process.ready:
			return nil
		default:
		}
		if time.Now().After(limit) {
			return fmt.Errorf("the server is not ready after %v; see its log", readyPatience)
		}
		if err := s.wait(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// noteEnd records a process that ended by itself. Nothing excuses that, not even a full disk.
func (s *server) noteEnd() {
	s.begin(Died, s.now()-unnoticed)
	s.wrongEnd("process %d ended by itself, with %v", s.process.number, s.process.err)
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
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, trouble := range s.history.Troubles {
		if t < trouble.To+2*time.Second {
			return true
		}
	}
	return false
}

// wrongEnd records a process that ended wrongly, violation any broken promise.
func (s *server) wrongEnd(format string, args ...any) { s.violation(WrongEnd, format, args...) }

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
