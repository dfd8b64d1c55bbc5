//go:build linux

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
	"time"

	"github.com/holter-iot/holter/internal/cores"
)

// Subcommand is the first argument of a process that Start has started.
const Subcommand = "serve-one"

// ending is how long a process has to end before it is killed.
const ending = 5 * time.Second

// Hello is what a process says when it is ready.
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

// Command says what to start, and where.
type Command struct {
	Args []string // after Subcommand; the first one is in messages
	Env  []string // beside the environment of this process and GOMAXPROCS=1
	Core int      // of the process
	Back int      // of this process, which starts it from there
}

// Start starts this program again and waits until it has said hello. The
// process ends when ctx does.
func Start(ctx context.Context, c Command) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{Subcommand}, c.Args...)...)
	cmd.Env = append(append(os.Environ(), "GOMAXPROCS=1"), c.Env...)
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
	if err := cores.StartOn(c.Core, c.Back, cmd.Start); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, in: in, out: bufio.NewReader(out)}
	if err := p.hear(&p.Hello); err != nil {
		p.Stop()
		return nil, fmt.Errorf("%s did not start: %w", c.Args[0], err)
	}
	return p, nil
}

// Ask sends a command and decodes the answer into what answer points to, unless
// it is nil.
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

// FillEvents lets the event log grow to the size that it then keeps.
func (p *Process) FillEvents() error { return p.Ask(fillEvents, nil) }

// Collect lets the process return to the system what it can, and weighs it.
func (p *Process) Collect() (Memory, error) {
	var m Memory
	if err := p.Ask(collectMemory, &m); err != nil {
		return m, err
	}
	var err error
	m.Resident, err = Resident(p.PID)
	return m, err
}

// ProfileCPU begins a CPU profile, which end ends and writes into a file.
// Without a name there is none.
func (p *Process) ProfileCPU(file string) (end func() error, err error) {
	if file == "" {
		return func() error { return nil }, nil
	}
	return func() error { return p.Ask(endCPUProfile, nil) }, p.Ask(beginCPUProfile+" "+file, nil)
}

// ProfileHeap writes a profile of the heap into a file.
func (p *Process) ProfileHeap(file string) error { return p.Ask(heapProfile+" "+file, nil) }

// Stop lets the process end, kills it after 5 s, and waits for its end. It may
// be called more than once.
func (p *Process) Stop() {
	_ = p.in.Close()
	late := time.AfterFunc(ending, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	_ = p.cmd.Wait() // how it ended matters to nobody
}
