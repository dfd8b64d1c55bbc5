//go:build linux

// Package serve runs servers that benchmarks measure: holter serve and mosquitto.
package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience is how long a server may take to start, and to end.
const patience = 30 * time.Second

// AnyPort is an address of which the system chooses the port.
const AnyPort = "127.0.0.1:0"

// Options says how to run a server.
type Options struct {
	Program string
	Args    []string
	Log     string                   // file for what the server writes
	Procs   int                      // GOMAXPROCS; 0: all cores
	StartOn func(func() error) error // starts the process on a core; nil: anywhere
}

// Server is a server in a process of its own. All methods but Start may be called concurrently.
type Server struct {
	Options

	Devices string // HOST:PORT of the first device port
	API     string // URL
	MQTT    string // HOST:PORT of the broker

	ready  func(context.Context) error
	logged int64 // bytes in the log before the latest process

	mu     sync.Mutex // guards what a restart changes:
	cmd    *exec.Cmd
	cancel context.CancelFunc // asks the process to end, and kills it after patience
	ended  chan struct{}      // closed when the process has ended
	err    error              // how it ended
}

// Holter starts holter serve and waits until it is at work. Its arguments must make it log as JSON.
func Holter(ctx context.Context, o Options) (*Server, error) {
	s := &Server{Options: o}
	s.ready = s.watching
	return s, s.Start(ctx)
}

// Program starts a program and waits until something listens at an address.
func Program(ctx context.Context, o Options, address string) (*Server, error) {
	s := &Server{Options: o, ready: func(ctx context.Context) error { return listens(ctx, address) }}
	return s, s.Start(ctx)
}

// Start starts the process and waits until it is ready. It may be called again after Stop. The process ends with Stop and not with ctx,
// so that clients can end first; the kernel kills it when this program is gone.
func (s *Server) Start(ctx context.Context) error {
	living, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cmd := exec.CommandContext(living, s.Program, s.Args...)
	// A group of its own keeps an interrupt at the terminal from the server, which is to end after its clients.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	if s.Procs > 0 {
		cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", s.Procs))
	}
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		cancel()
		return err
	}
	if info, err := log.Stat(); err == nil {
		s.logged = info.Size()
	}
	defer func() { _ = log.Close() }() // the process has its own descriptor
	cmd.Stdout, cmd.Stderr = log, log
	start := s.StartOn
	if start == nil {
		start = func(start func() error) error { return start() }
	}
	if err := start(cmd.Start); err != nil {
		cancel()
		return err
	}
	ended := make(chan struct{})
	s.mu.Lock()
	s.cmd, s.cancel, s.ended = cmd, cancel, ended
	s.mu.Unlock()
	go func() {
		err := cmd.Wait()
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
		close(ended)
	}()
	return s.await(ctx)
}

// await waits until the server is ready.
func (s *Server) await(ctx context.Context) error {
	for late := time.After(patience); ; {
		err := s.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
			continue
		case <-s.ended:
			err = errors.New("it ended")
		case <-late:
			err = fmt.Errorf("it is not ready after %v: %w", patience, err)
		case <-ctx.Done():
			err = ctx.Err()
		}
		s.Stop()
		return fmt.Errorf("%s: %w\n%s", s.Program, err, s.tail())
	}
}

// watching looks for the line of the log that says that holter serve is at work, and notes the addresses in it.
func (s *Server) watching(context.Context) error {
	text, err := os.ReadFile(s.Log)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text[min(int(s.logged), len(text)):])) {
		var w struct{ Msg, HTTP, Devices, MQTT string }
		if json.Unmarshal([]byte(line), &w) == nil && w.Msg == "holter is watching" {
			first, _, _ := strings.Cut(w.Devices, ", ")
			s.Devices, s.API, s.MQTT = strings.TrimPrefix(first, "line://"), "http://"+w.HTTP, w.MQTT
			return nil
		}
	}
	return errors.New("its log does not say that it is watching")
}

// Stop asks the server to end, kills it after 30 s, and waits. It may be called more than once.
func (s *Server) Stop() {
	s.mu.Lock()
	cancel, ended := s.cancel, s.ended
	s.mu.Unlock()
	cancel()
	<-ended
}

// PID returns the id of the latest process.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Pid
}

// Err returns why the process ended, nil while it runs.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.ended:
		return fmt.Errorf("process %d ended: %w\n%s", s.cmd.Process.Pid, s.err, s.tail())
	default:
		return nil
	}
}

// tail returns the end of the log, for an error.
func (s *Server) tail() string {
	const most = 2000
	text, err := os.ReadFile(s.Log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// FreePorts returns addresses of 127.0.0.1 at which nothing listened.
func FreePorts(ctx context.Context, n int) ([]string, error) {
	var all []string
	for range n {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", AnyPort)
		if err != nil {
			return nil, err
		}
		defer l.Close() // in the end, so that none is returned twice
		all = append(all, l.Addr().String())
	}
	return all, nil
}

// listens returns an error unless something listens at an address.
func listens(ctx context.Context, address string) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return c.Close()
}
