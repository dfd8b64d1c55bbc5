//go:build linux

// Package measured runs what a benchmark measures in a process of its own, and reads what it uses: CPU time, memory, profiles. The
// process is the benchmark's program again, called with the word Subcommand. It takes commands on its standard input, one a line,
// answers each with a line of JSON on its standard output, and ends with its input.
//
// Start and Process are the side of the benchmark, Subject is the other one.
package measured

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/cores"
)

// Subcommand is the first argument of a process that Start has started.
const Subcommand = "serve-one"

// ending is how long a process has to end before it is killed.
const ending = 5 * time.Second

// Hello is what a process sends when it is ready.
type Hello struct {
	Addr netip.AddrPort // where it listens, if it does
	PID  int            // of the process that is measured, which may be a child of it
}

// Process is a process with a Subject in it. It is for one goroutine.
type Process struct {
	Hello

	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Place is where a process runs.
type Place uint8

// The places.
const (
	Anywhere Place = iota // on all cores, like this process
	Alone                 // on the core of what is measured, with GOMAXPROCS=1
	Beside                // on the core of the driver, with GOMAXPROCS=1
	Behind                // on the core of the driver and at a low priority
)

// Start starts this program again and waits until it has sent its hello. The arguments are the benchmark's name and what its Child
// understands. The process ends when ctx does.
func Start(ctx context.Context, place Place, args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := append([]string{self, Subcommand}, args...)
	if place == Behind {
		command = append([]string{"nice", "-n", "10"}, command...)
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "GNET_LOGGING_LEVEL=2") // gnet would greet on the output
	if place == Alone || place == Beside {
		cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
	}
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = ending
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	cmd.Cancel = in.Close
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	switch place {
	case Anywhere:
		err = cmd.Start()
	case Alone:
		err = cores.StartOn(cores.Measured, cmd.Start)
	case Beside, Behind:
		err = cores.StartOn(cores.Driver, cmd.Start)
	}
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, in: in, out: bufio.NewReader(out)}
	if err := p.hear(&p.Hello); err != nil {
		p.Stop()
		return nil, fmt.Errorf("%s did not start: %w", strings.Join(args, " "), err)
	}
	return p, nil
}

// Call starts a process, sends it the command Work, and decodes the answer into what answer points to.
func Call(ctx context.Context, place Place, answer any, args ...string) error {
	p, err := Start(ctx, place, args...)
	if err != nil {
		return err
	}
	defer p.Stop()
	return p.Ask(Work, answer)
}

// Ask sends a command and decodes the answer into what answer points to, unless it is nil.
func (p *Process) Ask(command string, answer any) error {
	_, err := io.WriteString(p.in, command+"\n")
	if err == nil {
		err = p.hear(answer)
	}
	if err != nil {
		return fmt.Errorf("command %s: %w", command, err)
	}
	return nil
}

func (p *Process) hear(answer any) error {
	text, err := p.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// Collect makes the process return to the system what it can, and returns the memory that is left.
func (p *Process) Collect() (Memory, error) {
	var m Memory
	if err := p.Ask(collectMemory, &m); err != nil {
		return m, err
	}
	var err error
	m.Resident, err = Resident(p.PID)
	return m, err
}

// Stop asks the process to end, kills it after 5 s, and waits for its end. It may be called more than once.
func (p *Process) Stop() {
	_ = p.in.Close()
	late := time.AfterFunc(ending, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	_ = p.cmd.Wait() // how it ended does not matter
}
