//go:build linux

package attack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/selfsigned"
	"github.com/holter-iot/holter/bench/internal/serve"
	"github.com/holter-iot/holter/internal/apiclient"
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
	*serve.Server
	target

	client *apiclient.Client
}

// start starts holter serve with room for so many connections.
func (b *bench) start(ctx context.Context, connections int) (*server, error) {
	program, err := b.Holter(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.Dir, "server-")
	if err != nil {
		return nil, err
	}
	ports, err := serve.FreePorts(ctx, 6)
	if err != nil {
		return nil, err
	}
	s := &server{
		target: target{Line: ports[0], TLS: ports[1], Certified: ports[2], UDP: ports[3], Proxied: ports[4], HTTP: ports[5]},
	}
	s.client = apiclient.New(s.api(), "", nil)
	cert, key, err := selfsigned.Write(dir)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "holter.yaml")
	if err := os.WriteFile(config, []byte(s.yaml(cert, key, connections)), 0o600); err != nil {
		return nil, err
	}
	s.Server, err = serve.Holter(ctx, serve.Options{
		Program: program, Log: filepath.Join(dir, "holter.log"),
		Args:    []string{"serve", "--config", config, "--data", filepath.Join(dir, "data"), "--mqtt", "off"},
		StartOn: func(start func() error) error { return cores.StartOn(cores.Measured, start) },
	})
	return s, err
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
log: {format: json}
`, s.Line, s.TLS, s.Certified, s.UDP, s.Proxied, s.HTTP, cert, key, token, closeGrace, connections, handshake)
}

// counters reads what the gateway counts, and adds up what has different labels.
func (s *server) counters(ctx context.Context) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.client.Timeout)
	defer cancel()
	req, err := s.client.Request(ctx, http.MethodGet, "/metrics", nil)
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
