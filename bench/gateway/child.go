package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"time"

	"github.com/holter-iot/holter/internal/cores"
)

// child is a server in a process of its own. It takes commands on its standard input, a line each, and answers each with a line of
// JSON; it ends with its input.
type child struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	addr netip.AddrPort
}

// startChild starts a server on its core. It is killed when ctx ends.
func startChild(ctx context.Context, self, server string, env []string) (*child, error) {
	cmd := exec.CommandContext(ctx, self, childCommand, server)
	cmd.Env = append(append(os.Environ(), "GOMAXPROCS=1", "GNET_LOGGING_LEVEL=2"), env...) // gnet would greet on the output
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cores.StartOn(serverCore, clientCore, cmd.Start); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, in: in, out: bufio.NewReader(out)}
	var hello struct{ Addr netip.AddrPort }
	if err := c.hear(&hello); err != nil {
		c.stop()
		return nil, fmt.Errorf("server %s did not start: %w", server, err)
	}
	c.addr = hello.Addr
	return c, nil
}

// ask sends a command and decodes the answer, unless it is nil.
func (c *child) ask(command string, answer any) error {
	if _, err := io.WriteString(c.in, command+"\n"); err != nil {
		return fmt.Errorf("server command %s: %w", command, err)
	}
	if err := c.hear(answer); err != nil {
		return fmt.Errorf("server command %s: %w", command, err)
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

// cpu returns the CPU time that the server has used.
func (c *child) cpu() (time.Duration, error) { return cores.CPUTime(c.cmd.Process.Pid) }

// stop kills the server and waits for its end. It may be called more than once.
func (c *child) stop() {
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return
	}
	_ = c.cmd.Wait() // killed, as it should be
}
