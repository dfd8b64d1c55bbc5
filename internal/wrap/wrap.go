// Package wrap runs a command as if nothing stood between it and its caller: with its arguments, its
// environment, its standard input, its exit status and the signals that are meant for it. Its output is
// passed on, and the end of it is kept.
package wrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Exit statuses of commands that were not started, as shells have them.
const (
	NotExecutable = 126
	NotFound      = 127
)

// Command is a command to run.
type Command struct {
	Argv []string // program and arguments; a name without a slash is looked up in PATH
	// Stdout and Stderr receive the output as it comes. Where both are the same file, the output keeps
	// its order; otherwise nothing is known of the order of one to the other.
	Stdout, Stderr io.Writer
	// Keep is how many bytes of the end of the output are kept. With 0 the command gets Stdout and
	// Stderr themselves, which may be a terminal; otherwise it writes to pipes.
	Keep int
}

// Result is what came of a command.
type Result struct {
	Status   int           // exit status; 128 + n if signal n ended it; NotExecutable or NotFound
	Duration time.Duration // from its start to its end
	Output   string        // the end of its output
	Started  bool          // the command was started
	Err      error         // why it was not started, or what of its output was lost
}

// Run runs a command to its end, and passes signals on to it.
//
// Without a controlling terminal the command has a process group of its own, all of which gets the signals.
// With one it stays in the group of its caller, so that it can read from the terminal, and gets the
// signals that the terminal has not sent to the group already.
//
// Programs that the command has left running do not keep Run waiting: it waits a second for more
// output, and then closes the pipes.
func Run(c Command, signals <-chan os.Signal) Result {
	cmd := exec.CommandContext(context.Background(), c.Argv[0], c.Argv[1:]...)
	if errors.Is(cmd.Err, exec.ErrDot) { // PATH has the current directory in it, and shells run that
		cmd.Err = nil
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, c.Stdout, c.Stderr
	group := newGroup(cmd)
	kept := &tail{ring: make([]byte, c.Keep)}
	streams, err := capture(cmd, &c, kept)
	began := time.Now()
	if startErr := cmd.Start(); startErr != nil {
		closeAll(cmd, streams)
		return Result{Status: notStarted(startErr), Duration: time.Since(began), Err: startErr}
	}
	var passing sync.WaitGroup
	lost := make([]error, len(streams))
	for i, s := range streams {
		passing.Go(func() { lost[i] = s.pass() })
	}
	closeOurs(cmd, streams)
	group.wait(signals)
	r := Result{Status: statusOf(cmd.ProcessState), Duration: time.Since(began), Started: true}
	for _, s := range streams {
		s.end()
	}
	passing.Wait()
	r.Output, r.Err = kept.text(), errors.Join(err, lossOf(lost))
	return r
}

// capture gives a command pipes to write to. If there are none to be had, the command keeps what it has.
func capture(cmd *exec.Cmd, c *Command, kept *tail) ([]*stream, error) {
	if c.Keep == 0 {
		return nil, nil
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("its output cannot be kept: %w", err)
	}
	streams := []*stream{{from: from, to: c.Stdout, tail: kept}}
	if same(c.Stdout, c.Stderr) {
		cmd.Stdout, cmd.Stderr = to, to
		return streams, nil
	}
	from2, to2, err := os.Pipe()
	if err != nil {
		_, _ = from.Close(), to.Close()
		return nil, fmt.Errorf("its output cannot be kept: %w", err)
	}
	cmd.Stdout, cmd.Stderr = to, to2
	return append(streams, &stream{from: from2, to: c.Stderr, tail: kept}), nil
}

// same reports whether two writers are one file.
func same(a, b io.Writer) bool {
	f, ok := a.(*os.File)
	g, ok2 := b.(*os.File)
	if !ok || !ok2 {
		return false
	}
	is, err := f.Stat()
	has, err2 := g.Stat()
	return err == nil && err2 == nil && os.SameFile(is, has)
}

// closeOurs closes the ends of the pipes that only the command should have.
func closeOurs(cmd *exec.Cmd, streams []*stream) {
	if len(streams) > 0 {
		_ = cmd.Stdout.(*os.File).Close()
	}
	if len(streams) > 1 {
		_ = cmd.Stderr.(*os.File).Close()
	}
}

func closeAll(cmd *exec.Cmd, streams []*stream) {
	closeOurs(cmd, streams)
	for _, s := range streams {
		_ = s.from.Close()
	}
}

// lossOf returns what of the output was lost. A reader that has gone away is no loss, and the same
// reason is said once.
func lossOf(lost []error) error {
	var first error
	for _, err := range lost {
		if err != nil && first == nil && !unread(err) {
			first = err
		}
	}
	return first
}

// notStarted returns the exit status of shells for a command that could not be started.
func notStarted(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return NotFound
	}
	return NotExecutable
}
