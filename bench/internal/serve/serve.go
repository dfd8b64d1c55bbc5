//go:build linux

// Package serve runs servers that benchmarks measure: holter serve, holter ear and mosquitto.
package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
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

// Server is a server in a process of its own. Its methods may be called concurrently.
type Server struct {
	Options

	Devices string // HOST:PORT of the first device port that does not speak MQTT alone
	API     string // URL
	MQTT    string // HOST:PORT of the broker, or of the first port for MQTT

	cmd   *exec.Cmd
	end   context.CancelFunc // asks the process to end, and kills it after patience
	ended chan struct{}      // closed when the process has ended
	err   error              // how it ended
}

// Holter starts holter serve and waits until it is at work. Its arguments must make it log as JSON.
func Holter(ctx context.Context, o Options) (*Server, error) {
	s := &Server{Options: o}
	return s, s.start(ctx, func() error { return s.watching("holter is watching") })
}

// Ear starts holter ear and waits until it has a judge. Its arguments must make it log as JSON.
func Ear(ctx context.Context, o Options) (*Server, error) {
	s := &Server{Options: o}
	return s, s.start(ctx, func() error {
		if err := s.watching("holter ear is listening"); err != nil {
			return err
		}
		return s.ready(ctx)
	})
}

// ready asks whether devices may be led here.
func (s *Server) ready(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.API+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		return errors.Join(errors.New(resp.Status), err)
	}
	return nil
}

// Program starts a program and waits until something listens at an address.
func Program(ctx context.Context, o Options, address string) (*Server, error) {
	s := &Server{Options: o}
	return s, s.start(ctx, func() error {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return c.Close()
	})
}

// start starts the process and waits until ready finds no error. The process ends with Stop and not
// with ctx, so that clients can end first; the kernel kills it when this program is gone.
func (s *Server) start(ctx context.Context, ready func() error) error {
	log, err := os.Create(s.Log)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own descriptor
	living, end := context.WithCancel(context.WithoutCancel(ctx))
	s.cmd, s.end, s.ended = exec.CommandContext(living, s.Program, s.Args...), end, make(chan struct{})
	// A group of its own keeps an interrupt at the terminal from the server, which is to end after its clients.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	s.cmd.WaitDelay = patience
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if s.Procs > 0 {
		s.cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", s.Procs))
	}
	if s.StartOn != nil {
		err = s.StartOn(s.cmd.Start)
	} else {
		err = s.cmd.Start()
	}
	if err != nil {
		end()
		return err
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.ended)
	}()
	return s.await(ctx, ready)
}

// await waits until the server is ready.
func (s *Server) await(ctx context.Context, ready func() error) error {
	for late := time.After(patience); ; {
		err := ready()
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

// watching looks for the line of the log that says that it is at work, and notes the addresses in it.
func (s *Server) watching(said string) error {
	text, err := os.ReadFile(s.Log)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		var w struct{ Msg, HTTP, Devices, MQTT string }
		if json.Unmarshal([]byte(line), &w) == nil && w.Msg == said {
			s.Devices, s.MQTT, s.API = firstPort(w.Devices), firstPort(w.MQTT), "http://"+w.HTTP
			return nil
		}
	}
	return fmt.Errorf("its log does not say: %s", said)
}

// firstPort returns the HOST:PORT of the first of some ports, "" if there are none.
func firstPort(ports string) string {
	first, _, _ := strings.Cut(ports, ", ")
	return first[strings.LastIndexByte(first, '/')+1:]
}

// Stop asks the server to end, kills it after 30 s, and waits. It may be called more than once.
func (s *Server) Stop() {
	s.end()
	<-s.ended
}

// PID returns the id of the process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Err returns why the process ended, nil while it runs.
func (s *Server) Err() error {
	select {
	case <-s.ended:
		return fmt.Errorf("process %d ended: %w\n%s", s.PID(), s.err, s.tail())
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
