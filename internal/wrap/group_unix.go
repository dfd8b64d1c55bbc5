//go:build unix

package wrap

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signals returns a channel of the signals that are meant for the command, and what ends it. Signals
// that were ignored when this process started stay so, and the command ignores them as well: nohup
// works. From then on this process does not end when nobody reads its output.
func Signals() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 16) // more at once are repetitions
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2} {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return c, func() { signal.Stop(c) }
}

// group is a command with what it has started.
type group struct {
	cmd *exec.Cmd
	own bool // it has a process group of its own
}

// newGroup gives a command that is not started yet a process group of its own, unless it can have
// a terminal.
func newGroup(cmd *exec.Cmd) *group {
	tty, err := os.Open("/dev/tty")
	if err == nil {
		_ = tty.Close()
		return &group{cmd: cmd}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return &group{cmd, true}
}

// wait passes signals on until the command has ended.
func (g *group) wait(signals <-chan os.Signal) {
	done := make(chan struct{})
	go func() {
		_ = g.cmd.Wait() // the state tells more
		close(done)
	}()
	for {
		select {
		case s := <-signals:
			g.send(s)
		case <-done:
			return
		}
	}
}

// send passes a signal on.
func (g *group) send(s os.Signal) {
	switch {
	case g.own:
		_ = syscall.Kill(-g.cmd.Process.Pid, s.(syscall.Signal)) // it may have ended
	case (s == syscall.SIGINT || s == syscall.SIGQUIT) && inForeground(): // the terminal has sent it to the group
	default:
		_ = g.cmd.Process.Signal(s)
	}
}

// inForeground reports whether the group of this process is the one that its terminal sends signals to.
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer func() { _ = tty.Close() }()
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}

func statusOf(state *os.ProcessState) int {
	if state == nil { // not even the system knows
		return 1
	}
	if s, ok := state.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal())
	}
	return state.ExitCode()
}

// unread reports whether a write failed because nobody reads any more.
func unread(err error) bool { return errors.Is(err, syscall.EPIPE) }
