//go:build linux

package chaos

import (
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
)

const (
	stopPatience  = 30 * time.Second // for an end in order
	readyPatience = 60 * time.Second // for a start when nothing hinders it
	pollEvery     = 10 * time.Millisecond
	// unnoticed is how long a life may have been over before that is noticed.
	unnoticed = 200 * time.Millisecond
	// starvedEvery is a fifth of what we must not have run for to be starved.
	starvedEvery = 100 * time.Millisecond
	// restartAfter is how long a server that ended by itself stays away.
	restartAfter = 300 * time.Millisecond
)

// server runs the program as a child process, one life after the other, and
// keeps the history. Its methods are called by one goroutine, but where said
// otherwise.
type server struct {
	command func(ctx context.Context, args ...string) *exec.Cmd
	args    []string
	api     string // URL
	log     io.Writer
	client  *http.Client
	watch   sync.WaitGroup // those who wait for a life's end or for its being ready

	life *life

	mu      sync.Mutex // guards the fields below
	history History
	wrong   []Violation
	lives   int
}

// life is one process.
type life struct {
	cmd    *exec.Cmd
	number int
	ended  chan struct{} // closed when the process is gone, and err set
	ready  chan struct{} // closed when it said that it is ready
	err    error
	asked  chan struct{} // closed before it is ended on purpose
}

// now is the instant of the history.
func (s *server) now() time.Duration { return time.Since(s.history.Origin) }

// start begins a life; the break that lasts ends when it is ready.
func (s *server) start(ctx context.Context) error {
	s.lives++
	l := &life{
		cmd: s.command(ctx, s.args...), number: s.lives,
		ended: make(chan struct{}), ready: make(chan struct{}), asked: make(chan struct{}),
	}
	l.cmd.Stderr, l.cmd.Stdout = s.log, s.log
	if l.cmd.SysProcAttr == nil {
		l.cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// In a group of its own: the kernel continues the stopped processes of a group whose leader's parent, a shell, ends (_exit(2)).
	l.cmd.SysProcAttr.Setpgid = true
	s.mu.Lock()
	at := len(s.history.Breaks) - 1
	s.history.Breaks[at].Ending = s.now()
	s.mu.Unlock()
	if err := l.cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	s.life = l
	s.watch.Go(func() { l.err = l.cmd.Wait(); close(l.ended) })
	s.watch.Go(func() { s.awaitReady(ctx, l, at) })
	return nil
}

// awaitReady asks a life whether it is ready until it says so or ends.
func (s *server) awaitReady(ctx context.Context, l *life, at int) {
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

// listens notes that the life after a break listens now, also if it was stopped
// before it did.
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

// begin notes a break that was asked for at an instant and has begun now. One
// that lasts is over.
func (s *server) begin(kind BreakKind, asked time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.history.Breaks); n > 0 {
		last := &s.history.Breaks[n-1]
		last.Over = min(last.Over, asked)
	}
	s.history.Breaks = append(s.history.Breaks, Break{Kind: kind, Asked: asked, Began: s.now(), Ending: never, Over: never})
}

// kill ends the life at once.
func (s *server) kill() {
	asked := s.now()
	if !s.ask(syscall.SIGKILL) {
		return
	}
	<-s.life.ended
	s.begin(Killed, asked)
}

// ask sends the signal that is to end the life, unless it has ended by itself.
func (s *server) ask(signal os.Signal) bool {
	select {
	case <-s.life.ended:
		s.mourn()
		return false
	default:
	}
	close(s.life.asked)
	return s.life.cmd.Process.Signal(signal) == nil
}

// term ends the life in order, and by force if it does not end.
func (s *server) term() {
	asked := s.now()
	if !s.ask(syscall.SIGTERM) {
		return
	}
	select {
	case <-s.life.ended:
		s.begin(Ended, asked)
		if s.life.err != nil && !s.troubled(asked) {
			s.blame("asked to end, life %d ended with %v", s.life.number, s.life.err)
		}
	case <-time.After(stopPatience):
		s.blame("asked to end, life %d did not within %v", s.life.number, stopPatience)
		_ = s.life.cmd.Process.Kill()
		<-s.life.ended
		s.begin(Killed, asked)
	}
}

// stop stops the process for a time.
func (s *server) stop(ctx context.Context, length time.Duration) error {
	process := s.life.cmd.Process
	asked := s.now()
	if err := process.Signal(syscall.SIGSTOP); errors.Is(err, os.ErrProcessDone) {
		return nil // the next wait finds that out
	}
	if err := s.awaitStopped(ctx, process.Pid); err != nil {
		return err
	}
	s.begin(Stopped, asked)
	err := pause(ctx, length)
	s.mu.Lock()
	last := &s.history.Breaks[len(s.history.Breaks)-1]
	last.Ending = s.now()
	s.mu.Unlock()
	_ = process.Signal(syscall.SIGCONT) // fails only if it is gone
	s.mu.Lock()
	last.Over = s.now()
	s.mu.Unlock()
	return err
}

// awaitStopped waits until all threads stand still, or the process is gone.
func (s *server) awaitStopped(ctx context.Context, pid int) error {
	for !standsStill(pid) {
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// standsStill reports whether all threads of a process are stopped, or there is
// no such process.
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

// wait lets the server live for a time. If it ends by itself meanwhile, it is
// started again.
func (s *server) wait(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	return s.until(ctx, timer.C)
}

// until is wait, for a channel.
func (s *server) until(ctx context.Context, done <-chan time.Time) error {
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-s.life.ended:
		}
		s.mourn()
		if err := pause(ctx, restartAfter); err != nil {
			return err
		}
		if err := s.start(ctx); err != nil {
			return err
		}
	}
}

// awaitReadyLife waits until a life is ready. If one ends before by itself, the
// next is waited for.
func (s *server) awaitReadyLife(ctx context.Context) error {
	for limit := time.Now().Add(readyPatience); ; {
		select {
		case <-s.life.ready:
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

// mourn handles a life that ended by itself, which nothing excuses: a full disk
// is no reason to give up.
func (s *server) mourn() {
	s.begin(Died, s.now()-unnoticed)
	s.blame("life %d ended by itself, with %v", s.life.number, s.life.err)
}

// trouble notes the beginning of a time in which nothing can be saved; the
// function that it returns notes the end.
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

// blame notes an end that should not have happened so, accuse anything.
func (s *server) blame(format string, args ...any) { s.accuse(WrongEnd, format, args...) }

func (s *server) accuse(kind ViolationKind, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, Violation{Kind: kind, Detail: fmt.Sprintf(format, args...) + " at " + clock(s.now())})
}

// starve notes the times in which we could not run, until ctx is done.
func (s *server) starve(ctx context.Context) {
	for last := s.now(); pause(ctx, starvedEvery) == nil; last = s.now() {
		if now := s.now(); now-last > 5*starvedEvery {
			s.mu.Lock()
			s.history.Troubles = append(s.history.Troubles, Trouble{Kind: Starved, From: last, To: now})
			s.mu.Unlock()
		}
	}
}

// pause waits for a time, or for the end of ctx, which is an error.
func pause(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
