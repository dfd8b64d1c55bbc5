package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience is how long a server may take to start, and to end.
const patience = 30 * time.Second

// server is a holter serve in a process of its own.
type server struct {
	program string
	data    string // directory
	log     string // file
	devices string // HOST:PORT
	api     string // URL
	mqtt    string // HOST:PORT, or "off"
	share   int    // of the cores

	mu     sync.Mutex // guards what a restart changes:
	cmd    *exec.Cmd
	cancel context.CancelFunc // asks it to end, and kills it after patience
	ended  chan struct{}      // closed when the process has ended
	err    error              // why
}

// command prepares a child. It is not of our process group, so that an interrupt at the terminal reaches us alone and we can end all in
// their order; and the kernel kills it if we are gone.
func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	return cmd
}

// servers are all of one scenario.
type servers []*server

// startServers starts n of them below a directory, one after the other.
func startServers(ctx context.Context, program, dir, logs string, n int) (servers, error) {
	var started servers
	for i := range n {
		s, err := startServer(ctx, program, filepath.Join(dir, fmt.Sprintf("data-%02d", i)), filepath.Join(logs, fmt.Sprintf("server-%02d.log", i)), "off", n)
		if err != nil {
			started.stop()
			return nil, fmt.Errorf("server %d of %d: %w", i+1, n, err)
		}
		started = append(started, s)
	}
	return started, nil
}

// startServer starts one of all servers, with a broker at mqtt or "off".
func startServer(ctx context.Context, program, data, log, mqtt string, all int) (*server, error) {
	s := &server{log: log, devices: anyPort, api: "http://" + anyPort, mqtt: mqtt, program: program, data: data, share: max(1, runtime.NumCPU()/all)}
	return s, s.start(ctx)
}

const anyPort = "127.0.0.1:0"

// start starts the process, at the addresses that it had if it was started before.
func (s *server) start(ctx context.Context) error {
	// It ends after the generator, so not with ctx but when it is told.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cmd := command(ctx, s.program, "serve", "--listen", s.devices, "--http", strings.TrimPrefix(s.api, "http://"), "--mqtt", s.mqtt,
		"--data", s.data, "--log-format", "json")
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", s.share))
	file, err := os.OpenFile(s.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		cancel()
		return err
	}
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return errors.Join(err, file.Close())
	}
	ended := make(chan struct{})
	s.mu.Lock()
	s.cmd, s.cancel, s.ended = cmd, cancel, ended
	s.mu.Unlock()
	ready := make(chan watching, 1) // one server says it once
	go func() {
		defer close(ended)
		defer close(ready)
		copyLog(file, out, ready)
		err := errors.Join(cmd.Wait(), file.Close())
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
	}()
	select {
	case w, ok := <-ready:
		if ok {
			s.devices, s.api = strings.TrimPrefix(w.Devices, "line://"), "http://"+w.HTTP
			if w.MQTT != "" {
				s.mqtt = w.MQTT
			}
			return nil
		}
		err = errors.New("it ended")
	case <-time.After(patience):
		err = fmt.Errorf("it did not start within %v", patience)
	}
	s.stop()
	return fmt.Errorf("%w\n%s", err, tail(s.log))
}

// restart ends the server in order and starts it again, with the same data and at the same addresses.
func (s *server) restart(ctx context.Context) error {
	s.stop()
	return s.start(ctx)
}

// roll restarts a share of the servers, one after the other, at each signal that comes before ctx ends: all of them in so many turns.
func (all servers) roll(ctx context.Context, signals <-chan os.Signal, turns int) error {
	for turn := 0; ; turn++ {
		select {
		case <-signals:
		case <-ctx.Done():
			return nil
		}
		for i := turn % turns; i < len(all); i += turns {
			if err := all[i].restart(ctx); err != nil {
				return fmt.Errorf("restart server %d: %w", i+1, err)
			}
		}
	}
}

// watching is the line of a server's log that says that it is at work.
type watching struct {
	Message string `json:"msg"`
	HTTP    string `json:"http"`
	Devices string `json:"devices"`
	MQTT    string `json:"mqtt"`
}

// copyLog copies a log, and finds that line in it.
func copyLog(file io.Writer, log io.Reader, ready chan<- watching) {
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		_, _ = file.Write(line)
		var w watching
		if json.Unmarshal(line, &w) == nil && w.Message == "holter is watching" {
			ready <- w
		}
		if err != nil {
			return
		}
	}
}

// stop asks the server to end and waits until it has. It may be called more than once.
func (s *server) stop() {
	s.mu.Lock()
	cancel, ended := s.cancel, s.ended
	s.mu.Unlock()
	cancel()
	<-ended
}

// process is the id of the latest process.
func (s *server) process() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Pid
}

// died says why the server ended before it was told to; nil if it has not.
func (s *server) died() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.ended:
		return fmt.Errorf("process %d ended: %w\n%s", s.cmd.Process.Pid, s.err, tail(s.log))
	default:
		return nil
	}
}

// stop ends all servers.
func (all servers) stop() {
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(s.stop)
	}
	wg.Wait()
}

func (all servers) died() error {
	var errs []error
	for i, s := range all {
		if err := s.died(); err != nil {
			errs = append(errs, fmt.Errorf("server %d: %w", i+1, err))
		}
	}
	return errors.Join(errs...)
}

// tail returns the end of a file, for an error.
func tail(name string) string {
	const most = 2000
	text, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}
