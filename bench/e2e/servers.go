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
	cmd     *exec.Cmd
	cancel  context.CancelFunc // asks it to end, and kills it after patience
	log     string             // file
	devices string             // HOST:PORT
	api     string             // URL
	mqtt    string             // HOST:PORT, if it has a broker

	ended chan struct{} // closed when the process has ended
	err   error         // why; to be read after ended
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
	// It ends after the generator, so not with ctx but when it is told.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &server{cancel: cancel, log: log, ended: make(chan struct{})}
	s.cmd = command(ctx, program, "serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--mqtt", mqtt, "--data", data, "--log-format", "json")
	s.cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", max(1, runtime.NumCPU()/all)))
	file, err := os.Create(log)
	if err != nil {
		cancel()
		return nil, err
	}
	out, err := s.cmd.StderrPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, errors.Join(err, file.Close())
	}
	ready := make(chan watching, 1) // one server says it once
	go func() {
		defer close(s.ended)
		defer close(ready)
		copyLog(file, out, ready)
		s.err = errors.Join(s.cmd.Wait(), file.Close())
	}()
	select {
	case w, ok := <-ready:
		if ok {
			s.devices, s.api = strings.TrimPrefix(w.Devices, "line://"), "http://"+w.HTTP
			s.mqtt = w.MQTT
			return s, nil
		}
		err = errors.New("it ended")
	case <-time.After(patience):
		err = fmt.Errorf("it did not start within %v", patience)
	}
	s.stop()
	return nil, fmt.Errorf("%w\n%s", err, tail(log))
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
	s.cancel()
	<-s.ended
}

// died says why the server ended before it was told to; nil if it has not.
func (s *server) died() error {
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
