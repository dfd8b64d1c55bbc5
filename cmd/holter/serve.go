package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/store"
)

// server is what holter serve is made of.
type server struct {
	config   config.Config
	log      *slog.Logger
	store    *store.Store
	registry *liveness.Registry
	gateway  *gateway.Gateway
	api      *httpapi.API
	auth     *tokenAuth
	http     net.Listener
	starting atomic.Pointer[string] // what is waited for; nil once the server is at work
}

// serve runs the whole of Holter until ctx is done.
func serve(ctx context.Context, cfg config.Config, stdout, stderr io.Writer) error {
	s := &server{config: cfg, log: newLogger(cfg.Log, stderr)}
	slog.SetDefault(s.log)
	if err := s.build(ctx); err != nil {
		return err
	}
	err := s.run(ctx, func() {
		if isTerminal(stdout) {
			s.summary(stdout)
		}
	})
	s.log.Info("holter has stopped", "error", err)
	return err
}

// build makes the parts and binds the addresses; nothing runs yet.
func (s *server) build(ctx context.Context) (err error) {
	s.wait("the database is being opened")
	if s.store, err = store.New(storeConfig(s.config)); err != nil {
		return err
	}
	if s.registry, err = liveness.New(s.store, fleetConfig(s.config)); err != nil {
		return err
	}
	certificates, err := s.certificates()
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	if s.http, err = lc.Listen(ctx, "tcp", s.config.HTTP); err != nil {
		return explainBind(err, "--http")
	}
	if s.gateway, err = gateway.New(ctx, s.registry, gatewayConfig(s.config, s.log)); err != nil {
		return errors.Join(explainBind(err, "--listen"), s.http.Close())
	}
	s.auth = newTokenAuth(s.store, s.config)
	s.api, err = httpapi.New(s.registry, s.store, httpapi.Config{ //nolint:contextcheck // a source ends with the registry's Run
		Version:    version(),
		Logger:     s.log,
		TLS:        certificates,
		Auth:       s.auth,
		Starting:   s.waiting,
		Ready:      s.ready,
		Collectors: []prometheus.Collector{newGatewayCollector(s.gateway), newStoreCollector(s.store)},
	})
	if err != nil {
		return errors.Join(err, s.http.Close())
	}
	return nil
}

// certificates reads those of the API, if it has any.
func (s *server) certificates() (*tls.Config, error) {
	files := s.config.TLS
	if files.Cert == "" {
		return nil, nil
	}
	c, err := httpapi.NewCertificates(files.Cert, files.Key, s.log)
	if err != nil {
		return nil, err
	}
	return c.TLS(), nil
}

// run runs the parts until ctx is done or one of them fails. The API is there first, to say what is waited for; devices are let in when
// what was known of them is known again. At the end the registry outlives the edges, and the store all: what the last connections do is
// still judged, kept, and told to those who listen.
func (s *server) run(ctx context.Context, ready func()) error {
	ctx, endEdges := context.WithCancel(ctx)
	defer endEdges()
	edges, ctx := errgroup.WithContext(ctx)
	edges.Go(func() error { return s.api.Serve(ctx, s.http) })
	s.log.Info("holter is starting", "http", s.http.Addr().String(), "database", s.store.Place())
	if err := s.restore(ctx); err != nil {
		if ctx.Err() != nil {
			err = nil // an orderly end, or what ended the API
		}
		endEdges()
		return errors.Join(err, edges.Wait(), s.store.Close())
	}
	servicesCtx, endServices := context.WithCancel(context.WithoutCancel(ctx))
	defer endServices()
	var services errgroup.Group
	services.Go(func() error { return s.registry.Run(servicesCtx) })
	edges.Go(func() error { return s.store.Run(ctx, s.registry) })
	edges.Go(func() error { return s.auth.run(ctx) })
	edges.Go(func() error { return s.gateway.Run(ctx) })
	s.auth.look(ctx)
	s.starting.Store(nil)
	s.log.Info("holter is watching", "devices", addresses(s.gateway.Addrs()), "http", s.http.Addr().String())
	s.warn()
	ready()
	err := edges.Wait()
	s.lastCheckpoint(ctx)
	endServices()
	return errors.Join(err, services.Wait(), s.store.Close())
}

// warn says what an operator should know about the way it was started.
func (s *server) warn() {
	if s.config.Open {
		s.log.Warn("open to everybody who can reach it", "help", "leave --open out; set --token for devices, and make tokens for the API with holter token create")
	}
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
    state     %s

  Try it, in other terminals:

    printf 'HELLO sensor-1 ttl=10s\n' | nc %s %d
    curl -N http://%s/v1/events/stream?after=0
    %s explain sensor-1%s

`, addresses(s.gateway.Addrs()), s.http.Addr(), s.store.Place(), host, device.Port, s.http.Addr(), programName(), s.apiFlag())
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

func storeConfig(c config.Config) store.Config {
	url := c.Database.Reveal()
	if url == "" {
		url = "sqlite:" + filepath.Join(c.Data, "holter.db")
	}
	return store.Config{URL: url, Dir: c.Data, Checkpoint: c.Checkpoint, Keep: c.Events.Keep, MaxAge: c.Events.MaxAge, Cache: c.Events.Cache}
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
