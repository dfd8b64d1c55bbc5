package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
	"github.com/holter-iot/holter/mqttbridge/broker"
)

const (
	serverHolter    = "holter"
	serverMosquitto = "mosquitto"
	serverMochi     = "mochi"
)

var servers = [...]string{serverMosquitto, serverMochi, serverHolter} //nolint:gochecknoglobals // a constant list

const anyPort = "127.0.0.1:0"

func quietLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// serveHolter starts the registry and the embedded broker with the settings of holter serve.
func serveHolter(ctx context.Context, _ []string) (running, error) {
	events, registry, err := newRegistry(ctx)
	if err != nil {
		return running{}, err
	}
	b, err := broker.New(ctx, registry, broker.Config{Listen: anyPort, Logger: quietLogger()})
	if err != nil {
		return running{}, err
	}
	go measured.Keep(ctx, func() error { return b.Run(ctx) })
	return running{Subject: measured.Subject{Hello: measured.Hello{Addr: b.Addr().(*net.TCPAddr).AddrPort()}, Events: events}}, nil
}

func newRegistry(ctx context.Context) (*eventlog.Log, *liveness.Registry, error) {
	events, err := eventlog.New(0)
	if err != nil {
		return nil, nil, err
	}
	registry, err := liveness.New(events, liveness.Config{})
	if err != nil {
		return nil, nil, err
	}
	go measured.Keep(ctx, func() error { return registry.Run(ctx) })
	return events, registry, nil
}

// serveMochi starts mochi with its defaults.
func serveMochi(context.Context, []string) (running, error) {
	server := mochi.New(&mochi.Options{Logger: quietLogger()})
	listener := listeners.NewTCP(listeners.Config{ID: "tcp", Address: anyPort})
	if err := errors.Join(server.AddHook(new(everybody), nil), server.AddListener(listener)); err != nil {
		return running{}, err
	}
	if err := server.Serve(); err != nil {
		return running{}, err
	}
	addr, err := netip.ParseAddrPort(listener.Address())
	return running{Subject: measured.Subject{Hello: measured.Hello{Addr: addr}}}, err
}

// everybody is a hook that lets everybody in: without one, mochi lets in nobody.
type everybody struct{ mochi.HookBase }

// ID implements mochi.Hook.
func (*everybody) ID() string { return "everybody" }

// Provides implements mochi.Hook.
func (*everybody) Provides(b byte) bool {
	return b == mochi.OnConnectAuthenticate || b == mochi.OnACLCheck
}

// OnConnectAuthenticate implements mochi.Hook.
func (*everybody) OnConnectAuthenticate(*mochi.Client, packets.Packet) bool { return true }

// OnACLCheck implements mochi.Hook.
func (*everybody) OnACLCheck(*mochi.Client, string, bool) bool { return true }

// findMosquitto returns the program, and false if it is not installed.
func findMosquitto() (string, bool) {
	for _, name := range []string{"mosquitto", "/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return "", false
}

// mosquittoSettings lift the bound on messages that wait for a subscriber: what is measured is not to depend on what is dropped.
const mosquittoSettings = "listener %d 127.0.0.1\nallow_anonymous true\npersistence false\nmax_queued_messages 0\nlog_dest stderr\nlog_type error\n"

// serveMosquitto starts a mosquitto, which ends with this process.
func serveMosquitto(ctx context.Context, _ []string) (r running, err error) {
	program, ok := findMosquitto()
	if !ok {
		return r, errors.New("mosquitto is not installed")
	}
	if r.Addr, err = freePort(ctx); err != nil {
		return r, err
	}
	dir, err := os.MkdirTemp("", "holter-bench-")
	if err != nil {
		return r, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "mosquitto.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, mosquittoSettings, r.Addr.Port()), 0o600); err != nil {
		return r, err
	}
	cmd := exec.CommandContext(ctx, program, "-c", file)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return r, err
	}
	r.PID = cmd.Process.Pid
	r.stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed, as it should be
	}
	if err := waitFor(ctx, r.Addr); err != nil {
		r.stop()
		return r, err
	}
	return r, nil
}

// freePort returns an address at which nobody listens.
func freePort(ctx context.Context) (netip.AddrPort, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", anyPort)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return l.Addr().(*net.TCPAddr).AddrPort(), l.Close()
}

// waitFor waits until somebody listens at an address.
func waitFor(ctx context.Context, addr netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr.String())
		if err == nil {
			return conn.Close()
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}
