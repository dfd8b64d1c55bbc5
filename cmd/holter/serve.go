package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/liveness"
)

// server is what holter serve is made of.
type server struct {
	config   config.Config
	log      *slog.Logger
	events   *liveness.Log
	registry *liveness.Registry
	gateway  *gateway.Gateway
	api      *httpapi.API
	http     net.Listener
}

// serve runs the whole of Holter until ctx is done.
func serve(ctx context.Context, cfg config.Config, stdout, stderr io.Writer) error {
	s := &server{config: cfg, log: newLogger(cfg.Log, stderr)}
	slog.SetDefault(s.log)
	if err := s.build(ctx); err != nil {
		return err
	}
	if isTerminal(stdout) {
		s.summary(stdout)
	}
	s.log.Info("holter is watching", "devices", addresses(s.gateway.Addrs()), "http", s.http.Addr().String())
	s.warn()
	err := s.run(ctx)
	s.log.Info("holter has stopped", "error", err)
	return err
}

// build makes the parts and binds the addresses; nothing runs yet.
func (s *server) build(ctx context.Context) (err error) {
	if s.events, err = liveness.NewLog(s.config.Events.Keep); err != nil {
		return err
	}
	if s.registry, err = liveness.New(s.events, fleetConfig(s.config)); err != nil {
		return err
	}
	var lc net.ListenConfig
	if s.http, err = lc.Listen(ctx, "tcp", s.config.HTTP); err != nil {
		return explainBind(err, "--http")
	}
	if s.gateway, err = gateway.New(ctx, s.registry, gatewayConfig(s.config, s.log)); err != nil {
		return errors.Join(explainBind(err, "--listen"), s.http.Close())
	}
	s.api, err = httpapi.New(s.registry, s.events, httpapi.Config{
		Version:    version(),
		Logger:     s.log,
		Collectors: []prometheus.Collector{newGatewayCollector(s.gateway)},
	})
	if err != nil {
		return errors.Join(err, s.http.Close())
	}
	return nil
}

// run runs the parts. The registry outlives the gateway, which outlives nobody: what the last connections do is still judged, and
// told to those who listen.
func (s *server) run(ctx context.Context) error {
	registryCtx, endRegistry := context.WithCancel(context.WithoutCancel(ctx))
	defer endRegistry()
	var group errgroup.Group
	group.Go(func() error { return s.registry.Run(registryCtx) })
	edges, ctx := errgroup.WithContext(ctx)
	edges.Go(func() error { return s.gateway.Run(ctx) })
	edges.Go(func() error { return s.api.Serve(ctx, s.http) })
	err := edges.Wait()
	endRegistry()
	return errors.Join(err, group.Wait())
}

// warn says what an operator should know about the way it was started.
func (s *server) warn() {
	if s.config.Open && !s.config.Token.IsSet() {
		s.log.Warn("open to everybody who can reach it: no token is set", "help", "set --token, or listen on 127.0.0.1 only")
	}
	if err := writable(s.config.Data); err != nil {
		s.log.Warn("the data directory cannot be written; devices and events are kept in memory only", "error", err,
			"help", "choose another one with --data, or mend its permissions")
	}
}

// writable makes the directory if need be, and tries to write in it.
func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// summary tells a person at a terminal what to do next.
func (s *server) summary(out io.Writer) {
	device := s.gateway.Addrs()[0].(*net.TCPAddr)
	host := device.IP.String()
	if device.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	_, _ = fmt.Fprintf(out, `
  Holter is watching.

    devices   %s
    API       http://%s/docs
    state     in memory: a restart begins with no devices

  Try it, in other terminals:

    printf 'HELLO sensor-1 ttl=10s\n' | nc %s %d
    curl -N http://%s/v1/events/stream?after=0
    %s explain sensor-1%s

`, addresses(s.gateway.Addrs()), s.http.Addr(), host, device.Port, s.http.Addr(), programName(), s.apiFlag())
}

// programName is how this program was called.
func programName() string {
	if strings.Contains(os.Args[0], "go-build") { // by go run, which leaves no program behind
		return "go run ./cmd/holter"
	}
	return os.Args[0]
}

// apiFlag is what a command needs to find the API.
func (s *server) apiFlag() string {
	if s.http.Addr().String() == config.DefaultHTTP {
		return ""
	}
	return " --api http://" + s.http.Addr().String()
}

func addresses(addrs []net.Addr) string {
	urls := make([]string, 0, len(addrs))
	for _, a := range addrs {
		urls = append(urls, config.ProtocolLine+"://"+a.String())
	}
	return strings.Join(urls, ", ")
}

// explainBind adds what to do to the error of an address that could not be bound.
func explainBind(err error, flag string) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: another program listens there; stop it, or choose another address with %s", err, flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w: this machine has no such address; choose another with %s", err, flag)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w: ports below 1024 need privileges; choose another with %s", err, flag)
	}
	return err
}

func fleetConfig(c config.Config) liveness.Config {
	out := liveness.Config{
		Policy:   liveness.Policy(c.Policy),
		Flapping: liveness.FlappingConfig(c.Flapping),
		Devices:  make(map[string]liveness.Policy, len(c.Devices)),
	}
	for id, p := range c.Devices {
		out.Devices[id] = liveness.Policy(p)
	}
	for _, g := range c.Groups {
		out.Groups = append(out.Groups, liveness.GroupConfig{
			Name: g.Name, Match: g.Match, Policy: liveness.Policy(g.Policy), Outage: liveness.OutageConfig(g.Outage),
		})
	}
	return out
}

func gatewayConfig(c config.Config, log *slog.Logger) gateway.Config {
	out := gateway.Config{
		ReusePort:        c.ReusePort,
		Token:            c.Token.Reveal(),
		MaxConnections:   c.Gateway.MaxConnections,
		MaxPerAddress:    c.Gateway.MaxConnectionsPerAddress,
		AcceptRate:       c.Gateway.AcceptRate,
		HandshakeTimeout: c.Gateway.HandshakeTimeout,
		IdleTimeout:      c.Gateway.IdleTimeout,
		MaxLine:          c.Gateway.MaxLine,
		MaxOutbound:      c.Gateway.MaxOutbound,
		CloseRate:        c.Gateway.CloseRate,
		KeepAlive:        c.Gateway.KeepAlive,
		UserTimeout:      c.Gateway.UserTimeout,
		MaxGap:           c.Source.MaxGap,
		Allowance:        c.Source.ReconnectAllowance,
		Logger:           log,
	}
	for _, l := range c.Listen {
		out.Listen = append(out.Listen, l.Address)
	}
	return out
}
