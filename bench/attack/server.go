//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/selfsigned"
	"github.com/holter-iot/holter/internal/cores"
)

// The cores. On a machine with one core everything shares it.
const (
	serverCore = 0
	othersCore = 1
)

const (
	token      = "the-right-token"
	closeGrace = 2 * time.Second
	handshake  = 5 * time.Second // for a hello
)

// target is where a server listens.
type target struct {
	Line, TLS, Certified, UDP, Proxied, HTTP string
}

func (t *target) api() string { return "http://" + t.HTTP }

// server is a running holter serve.
type server struct {
	target

	cmd    *exec.Cmd
	ended  chan struct{} // closed when it has ended
	client *http.Client
	log    string
}

// freePorts returns ports of 127.0.0.1 that were free.
func freePorts(ctx context.Context, n int) ([]string, error) {
	var all []string
	for range n {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // in the end, so that none is given twice
		all = append(all, l.Addr().String())
	}
	return all, nil
}

// startServer starts the program and waits until it answers.
func startServer(ctx context.Context, program, dir string, connections int) (*server, error) {
	ports, err := freePorts(ctx, 6)
	if err != nil {
		return nil, err
	}
	s := &server{
		target: target{Line: ports[0], TLS: ports[1], Certified: ports[2], UDP: ports[3], Proxied: ports[4], HTTP: ports[5]},
		ended:  make(chan struct{}), client: &http.Client{Timeout: 10 * time.Second}, log: filepath.Join(dir, "holter.log"),
	}
	cert, key, err := selfsigned.Write(dir)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "holter.yaml")
	if err := os.WriteFile(config, []byte(s.yaml(cert, key, connections)), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the server has its own descriptor
	s.cmd = exec.CommandContext(ctx, program, "serve", "--config", config, "--data", filepath.Join(dir, "data"), "--mqtt", "off")
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(os.Interrupt) }
	s.cmd.WaitDelay = 10 * time.Second
	if err := cores.StartOn(serverCore, othersCore, s.cmd.Start); err != nil {
		return nil, err
	}
	go func() {
		_ = s.cmd.Wait() // how it ended is in its log
		close(s.ended)
	}()
	for range 300 {
		if _, err := s.counters(ctx); err == nil {
			return s, nil
		}
		if !s.alive() {
			break
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			break
		}
	}
	text, _ := os.ReadFile(s.log)
	s.stop()
	return nil, fmt.Errorf("holter serve does not answer:\n%s", text)
}

func (s *server) yaml(cert, key string, connections int) string {
	return fmt.Sprintf(`listen:
  - line://%s
  - {address: "tls+line://%s", tls: {cert: %[7]s, key: %[8]s}}
  - {address: "tls+line://%[3]s", tls: {cert: %[7]s, key: %[8]s, client_ca: %[7]s}}
  - udp+line://%[4]s
  - {address: "line://%[5]s", proxies: [127.0.0.0/8]}
http: %[6]s
token: %[9]s
policy: {close_grace: %[10]v}
gateway: {max_connections: %[11]d, handshake_timeout: %[12]v}
log: {level: warn}
`, s.Line, s.TLS, s.Certified, s.UDP, s.Proxied, s.HTTP, cert, key, token, closeGrace, connections, handshake)
}

func (s *server) alive() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// stop ends it in order, and waits.
func (s *server) stop() {
	_ = s.cmd.Process.Signal(os.Interrupt)
	select {
	case <-s.ended:
	case <-time.After(15 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
}

// counters reads what the gateway counts; those of different labels are added up.
func (s *server) counters(ctx context.Context) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.api()+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	all := make(map[string]float64)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, ok := strings.CutPrefix(lines.Text(), "holter_gateway_")
		if !ok {
			continue
		}
		fields := strings.Fields(name)
		value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			return nil, err
		}
		name, _, _ = strings.Cut(fields[0], "{")
		all[strings.TrimSuffix(name, "_total")] += value
	}
	return all, lines.Err()
}
