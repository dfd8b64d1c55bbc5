// Package command runs programs that may hang, write without end, or start other programs.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Command is a program to run.
type Command struct {
	Argv []string // the program and its arguments; no shell expands them
	Dir  string   // working directory; empty: that of this process
	// Env is added to the environment of this process, as NAME=VALUE. Variables of this process that
	// begin with HOLTER_ are left out, since they hold secrets.
	Env   []string
	Input []byte
	Keep  int // how many bytes of its output are kept, from the beginning
}

// Result is the result of a program that was started.
type Result struct {
	Code   int    // exit code; 0 if a signal ended it
	Output string // the beginning of stdout and stderr
}

const maxArgs = 100

// Argv checks a program and its arguments, and returns [Command.Argv]. With shell, program is a command
// line for /bin/sh; otherwise a name without a slash is looked up in PATH.
func Argv(program string, args []string, shell bool) ([]string, error) {
	if program == "" || len(program) > 4096 || strings.Contains(program, "\x00") {
		return nil, errors.New("want the path of a program, or a line for the shell")
	}
	if len(args) > maxArgs || strings.Contains(strings.Join(args, ""), "\x00") {
		return nil, fmt.Errorf("want %d arguments at most, without NUL", maxArgs)
	}
	if shell {
		return append([]string{"/bin/sh", "-c", program, "sh"}, args...), nil
	}
	if _, err := exec.LookPath(program); err != nil {
		return nil, err
	}
	return append([]string{program}, args...), nil
}

// CheckDir returns an error for what cannot be the working directory of a program.
func CheckDir(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	if err != nil {
		return fmt.Errorf("dir: %w", err)
	}
	return nil
}

// inherited returns the environment of this process without its secrets.
func inherited() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "HOLTER_") })
}

// Run runs a program in a process group of its own, which is killed when ctx is done. It returns an
// error if the program could not be started, did not end in time, or ended with an exit code other than
// 0.
//
// Programs that it has started and left running go on. If they hold its output open, Run waits a second
// for more output. On Linux the program, but no program that it has started, is also killed when this
// process dies.
func Run(ctx context.Context, c Command) (Result, error) {
	if err := CheckDir(c.Dir); err != nil { // the system would report that the program does not exist
		return Result{}, err
	}
	// Pdeathsig kills the program when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir = c.Dir
	cmd.Stdin = bytes.NewReader(c.Input)
	out := beginning{most: c.Keep}
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = append(inherited(), c.Env...)
	cmd.SysProcAttr = attributes()
	cmd.Cancel = func() error { return kill(cmd.Process) }
	cmd.WaitDelay = time.Second // a program that it has started may hold the output open
	if err := cmd.Start(); err != nil {
		return Result{}, err
	}
	err := cmd.Wait()
	code := cmd.ProcessState.ExitCode()
	switch {
	case code == 0: // even if its output failed or ctx ended after that
		err = nil
	case code < 0 && ctx.Err() != nil:
		err = fmt.Errorf("it did not end in time and was killed: %w", ctx.Err())
	}
	return Result{Code: max(code, 0), Output: string(out.text)}, err
}

// Variable returns NAME=VALUE for the environment, which cannot have NUL.
func Variable(name, value string) string { return name + "=" + strings.ReplaceAll(value, "\x00", "") }

// beginning is a writer that keeps the beginning of what is written to it.
type beginning struct {
	text []byte
	most int
}

// Write implements [io.Writer]. It never fails.
func (b *beginning) Write(p []byte) (int, error) {
	b.text = append(b.text, p[:min(b.most-len(b.text), len(p))]...)
	return len(p), nil
}
