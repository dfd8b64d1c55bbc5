//go:build linux

package attack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/selfsigned"
	"github.com/holter-iot/holter/bench/internal/serve"
)

const (
	token      = "the-right-token"
	closeGrace = 2 * time.Second
)

// server is a running holter serve.
type server struct {
	*serve.Server

	listeners map[string]string // addresses by name
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
	at, err := serve.FreePorts(ctx, 5)
	if err != nil {
		return nil, err
	}
	cert, key, err := selfsigned.Write(dir)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "holter.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, settings, at[0], at[1], at[2], at[3], at[4], cert, key, token, closeGrace, connections), 0o600); err != nil {
		return nil, err
	}
	s, err := serve.Holter(ctx, serve.Options{
		Program: program, Log: filepath.Join(dir, "holter.log"),
		Args:    []string{"serve", "--config", config, "--data", filepath.Join(dir, "data"), "--mqtt", "off"},
		StartOn: func(start func() error) error { return cores.StartOn(cores.Measured, start) },
	})
	return &server{s, map[string]string{"line": at[0], "tls": at[1], "certified": at[2], "udp": at[3], "proxied": at[4]}}, err
}

const settings = `listen:
  - line://%[1]s
  - {address: "tls+line://%[2]s", tls: {cert: %[6]s, key: %[7]s}}
  - {address: "tls+line://%[3]s", tls: {cert: %[6]s, key: %[7]s, client_ca: %[6]s}}
  - udp+line://%[4]s
  - {address: "line://%[5]s", proxies: [127.0.0.0/8]}
http: 127.0.0.1:0
token: %[8]s
policy: {close_grace: %[9]v}
gateway: {max_connections: %[10]d, handshake_timeout: 5s}
log: {format: json}
`

// counters reads what the gateway counts.
func (s *server) counters(ctx context.Context) (map[string]float64, error) {
	return s.Metrics(ctx, "holter_gateway_")
}
