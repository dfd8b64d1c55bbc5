package wrap

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"

	"golang.org/x/sys/windows"
)

// Signals returns a channel of the signals that are meant for the command, and what ends it. Here the
// console sends them to the command itself, so they only must not end this process.
func Signals() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 16)
	signal.Notify(c, os.Interrupt)
	return c, func() { signal.Stop(c) }
}

// group is a command.
type group struct{ cmd *exec.Cmd }

func newGroup(cmd *exec.Cmd) *group { return &group{cmd} }

// wait waits until the command has ended.
func (g *group) wait(signals <-chan os.Signal) {
	done := make(chan struct{})
	go func() {
		_ = g.cmd.Wait() // the state tells more
		close(done)
	}()
	for {
		select {
		case <-signals:
		case <-done:
			return
		}
	}
}

func statusOf(state *os.ProcessState) int {
	if state == nil { // not even the system knows
		return 1
	}
	return state.ExitCode()
}

// unread reports whether a write failed because nobody reads any more.
func unread(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA) || errors.Is(err, windows.ERROR_PIPE_NOT_CONNECTED)
}
