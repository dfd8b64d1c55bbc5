package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// commandSettings are the settings of an endpoint of kind command.
type commandSettings struct {
	common

	// Args are the arguments of the program. No shell looks at them.
	Args []string `json:"args,omitempty"`
	// Shell makes the target a line for /bin/sh.
	Shell bool `json:"shell,omitempty"`
	// Dir is the directory to run in. Default: that of this process.
	Dir string `json:"dir,omitempty"`
}

// command is a sink that runs a program, which gets the message as its input and says by its exit code whether it took it.
type command struct {
	argv []string
	dir  string
}

const maxArgs = 100

// commandKind makes a command of an endpoint's settings.
func commandKind(target string, settings json.RawMessage) (Sink, error) {
	var s commandSettings
	if err := decodeSettings(settings, &s); err != nil {
		return nil, err
	}
	if s.Batch > 1 {
		return nil, errors.New("settings: a command gets one message at a time, so batch must be 1")
	}
	if target == "" || len(target) > 4096 || strings.Contains(target, "\x00") {
		return nil, errors.New("target: want the path of a program, or a line for the shell with the setting shell")
	}
	if len(s.Args) > maxArgs || strings.Contains(strings.Join(s.Args, ""), "\x00") {
		return nil, fmt.Errorf("settings: want %d args at most, without NUL", maxArgs)
	}
	if s.Shell {
		return &command{argv: append([]string{"/bin/sh", "-c", target, "sh"}, s.Args...), dir: s.Dir}, nil
	}
	if _, err := exec.LookPath(target); err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	return &command{argv: append([]string{target}, s.Args...), dir: s.Dir}, nil
}

// Deliver runs the program for one message after the other, until one fails.
func (c *command) Deliver(ctx context.Context, messages []Message) []Result {
	results := make([]Result, len(messages))
	for i := range messages {
		if results[i] = c.run(ctx, &messages[i]); results[i].Err != nil {
			for k := i + 1; k < len(messages); k++ {
				results[k] = Result{Err: errors.New("one before it failed")}
			}
			break
		}
	}
	return results
}

// Close does nothing.
func (c *command) Close() error { return nil }

// run runs the program in a process group of its own, all of which is killed when ctx is done.
func (c *command) run(ctx context.Context, m *Message) Result {
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...) //nolint:gosec // the configuration allows it
	cmd.Dir = c.dir
	cmd.Stdin = bytes.NewReader(m.Data)
	var out beginning
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = append(os.Environ(), "HOLTER_MESSAGE_ID="+printableText(m.ID), "HOLTER_KEY="+printableText(m.Key))
	if m.Event != nil {
		cmd.Env = append(cmd.Env, "HOLTER_EVENT_TYPE="+m.Event.Type.String())
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
	cmd.WaitDelay = time.Second // a child that has left the group may keep the output open
	if err := cmd.Start(); err != nil {
		return Result{Err: err}
	}
	err := cmd.Wait()
	r := Result{Response: string(out.text), Status: max(cmd.ProcessState.ExitCode(), 0)}
	switch {
	case ctx.Err() != nil:
		r.Err = fmt.Errorf("it did not end in time and was killed: %w", ctx.Err())
	case err != nil:
		r.Err = err
	}
	return r
}

// printableText returns a text as it can stand in the environment.
func printableText(text string) string { return strings.ReplaceAll(text, "\x00", "") }

// beginning keeps the beginning of what is written to it.
type beginning struct{ text []byte }

// Write implements io.Writer. It takes all and keeps some.
func (b *beginning) Write(p []byte) (int, error) {
	b.text = append(b.text, p[:min(keptResponse-len(b.text), len(p))]...)
	return len(p), nil
}
