package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"time"

	"github.com/holter-iot/holter/internal/cores"
)

const (
	// childLife bounds how long what is measured may live, and with it each step of the measurements.
	childLife = 3 * time.Minute
	// childEnd is how long it has to end.
	childEnd = 5 * time.Second
)

// child is what is measured, in a process of its own. It takes commands on its standard input, a line each, and answers each with a line of
// JSON; it ends with its input.
type child struct {
	greeting

	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// greeting is what a child says when it is ready.
type greeting struct {
	Addr netip.AddrPort // where it listens, if it does
	PID  int            // of the process that is measured
}

// startChild starts a child on a core. It ends when ctx does.
func startChild(ctx context.Context, self string, core int, args ...string) (*child, error) {
	cmd := exec.CommandContext(ctx, self, append([]string{childCommand}, args...)...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = childEnd
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	cmd.Cancel = in.Close
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cores.StartOn(core, driverCore, cmd.Start); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, in: in, out: bufio.NewReader(out)}
	if err := c.hear(&c.greeting); err != nil {
		c.stop()
		return nil, fmt.Errorf("%s did not start: %w", args[0], err)
	}
	return c, nil
}

// ask sends a command and decodes the answer, unless it is nil.
func (c *child) ask(command string, answer any) error {
	if _, err := io.WriteString(c.in, command+"\n"); err != nil {
		return fmt.Errorf("command %s: %w", command, err)
	}
	if err := c.hear(answer); err != nil {
		return fmt.Errorf("command %s: %w", command, err)
	}
	return nil
}

func (c *child) hear(answer any) error {
	text, err := c.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// stop lets the child end, and waits for that. It may be called more than once.
func (c *child) stop() {
	_ = c.in.Close()
	late := time.AfterFunc(childEnd, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	_ = c.cmd.Wait() // how it ended matters to nobody
}
