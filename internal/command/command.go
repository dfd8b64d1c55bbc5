// Package command runs programs that are not trusted to end, to be quiet, or to stay alone.
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
	"syscall"
	"time"
)

// Command is a program to run.
type Command struct {
	Argv  []string // the program, and its arguments; no shell looks at them
	Dir   string   // to run in; empty: that of this process
	Env   []string // NAME=VALUE, beside what it inherits of the environment of this process: all but HOLTER_…, which holds secrets
	Input []byte
	Keep  int // bytes of what it writes that are kept: the first
}

// Result is what came of it.
type Result struct {
	Code   int    // exit code, 0 if it was ended by a signal
	Output string // the beginning of what it wrote, to stdout and stderr
}

const maxArgs = 100

// Argv checks a program and its arguments, and returns what to run: for a line for the shell, /bin/sh with it. A program without a slash is
// looked for in PATH.
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

// CheckDir says what is wrong with a directory to run in, if anything.
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

// inherited is what programs get of the environment of this process.
func inherited() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "HOLTER_") })
}

// Run runs the program in a process group of its own, all of which is killed when ctx is done. The error says that it could not be started,
// did not end in time, or ended with another exit code than 0. What it leaves running when it ends goes on, and changes nothing of that; if
// that holds its output open, Run waits a second for more. On Linux the program, but nothing that it has started, is also killed when this
// process dies.
func Run(ctx context.Context, c Command) (Result, error) {
	if err := CheckDir(c.Dir); err != nil { // the system would say that the program is not there
		return Result{}, err
	}
	// The system kills the program when the thread is gone that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...) // who may say what to run is for the caller to know
	cmd.Dir = c.Dir
	cmd.Stdin = bytes.NewReader(c.Input)
	out := beginning{most: c.Keep}
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = append(inherited(), c.Env...)
	cmd.SysProcAttr = attributes()
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
	cmd.WaitDelay = time.Second // a child that goes on, or has left the group, may keep the output open
	if err := cmd.Start(); err != nil {
		return Result{}, err
	}
	err := cmd.Wait()
	code := cmd.ProcessState.ExitCode()
	switch {
	case code == 0: // whatever became of its output and of ctx after that
		err = nil
	case code < 0 && ctx.Err() != nil:
		err = fmt.Errorf("it did not end in time and was killed: %w", ctx.Err())
	}
	return Result{Code: max(code, 0), Output: string(out.text)}, err
}

// Variable returns NAME=VALUE as it can stand in the environment.
func Variable(name, value string) string { return name + "=" + strings.ReplaceAll(value, "\x00", "") }

// beginning keeps the beginning of what is written to it.
type beginning struct {
	text []byte
	most int
}

// Write implements io.Writer. It takes all and keeps some.
func (b *beginning) Write(p []byte) (int, error) {
	b.text = append(b.text, p[:min(b.most-len(b.text), len(p))]...)
	return len(p), nil
}
