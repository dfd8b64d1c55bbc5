//go:build linux

package gnet

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// held is the line protocol, but for input that holds its event loop up.
type held struct {
	line.Protocol

	holds, goesOn chan struct{}
}

func (h held) Codec() codec.Codec { return holding{h.Protocol.Codec(), h} }

type holding struct {
	codec.Codec

	held held
}

func (h holding) Next(input []byte, m *codec.Message) (int, error) {
	if bytes.HasPrefix(input, []byte("HOLD")) {
		close(h.held.holds)
		<-h.held.goesOn
	}
	return h.Codec.Next(input, m)
}

// start runs a server, and returns its address and events.
func start(t *testing.T, p codec.Protocol) (address string, events *eventlog.Log) {
	t.Helper()
	events, err := eventlog.New(0)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := liveness.New(events, liveness.Config{})
	if err != nil {
		t.Fatal(err)
	}
	source, err := registry.AddSource(liveness.SourceConfig{Name: "gnet"})
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Protocol: p, Source: source, Failed: func(err error) { t.Errorf("the clock: %v", err) }}
	booted, ended := booting{s, make(chan struct{})}, make(chan error, 2)
	ctx, stop := context.WithCancel(context.Background())
	go func() { ended <- registry.Run(ctx) }()
	go func() {
		ended <- gnet.Run(booted, "tcp://127.0.0.1:0", gnet.WithReusePort(true), gnet.WithNumEventLoop(1), gnet.WithTicker(true), gnet.WithLogLevel(logging.ErrorLevel))
	}()
	<-booted.done
	t.Cleanup(func() {
		stopping, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.engine.Stop(stopping); err != nil {
			t.Error(err)
		}
		stop() // the registry outlives those who tell it of devices
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	fd, err := s.engine.Dup()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", at.(*unix.SockaddrInet4).Port), events
}

// booting tells when the server has booted.
type booting struct {
	*Server

	done chan struct{}
}

func (b booting) OnBoot(e gnet.Engine) gnet.Action {
	defer close(b.done)
	return b.Server.OnBoot(e)
}

// client is a device.
type client struct {
	net.Conn

	answers *bufio.Scanner
}

func dial(t *testing.T, address, hello, want string) client {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	d := client{c, bufio.NewScanner(c)}
	d.say(t, hello)
	if d.answers.Scan(); d.answers.Text() != want {
		t.Fatalf("%s is answered by %q, want %q", hello, d.answers.Text(), want)
	}
	return d
}

func (c client) say(t *testing.T, text string) {
	t.Helper()
	if _, err := fmt.Fprintln(c, text); err != nil {
		t.Error(err)
	}
}

// verdict waits for the next device that is offline.
func verdict(t *testing.T, log *eventlog.Log, offset *uint64) string {
	t.Helper()
	for {
		seen, err := log.Wait(t.Context(), nil, *offset, 1)
		if err != nil {
			t.Fatal(err)
		}
		*offset = seen[0].Offset
		if e := seen[0]; e.Type == liveness.DeviceOffline {
			return fmt.Sprint(e.Subject, ": ", e.Reason)
		}
	}
}

func TestServer(t *testing.T) {
	address, events := start(t, line.Protocol{})
	leaves := dial(t, address, "HELLO valve-1", "OK 1 ttl=90")
	dial(t, address, "HELLO pump-1 ttl=1", "OK 1 ttl=1")
	if _, err := fmt.Fprint(leaves, "PI"); err != nil {
		t.Fatal(err)
	}
	dial(t, address, "PING 1", "ERR hello-first say hello first") // by now the piece was read
	leaves.say(t, "NG 7")
	if leaves.answers.Scan(); leaves.answers.Text() != "PONG 7" {
		t.Errorf("a heartbeat is answered by %q", leaves.answers.Text())
	}
	leaves.say(t, "BYE")
	dial(t, address, "HELLO "+strings.Repeat("x", 200), "ERR bad-hello liveness: invalid device id: it has 200 bytes, at most 128 are allowed")
	offset := uint64(0)
	for _, want := range []string{"valve-1: bye", "pump-1: silence"} {
		if got := verdict(t, events, &offset); got != want {
			t.Errorf("verdict %q, want %q", got, want)
		}
	}
}

// A loop that is held up hears nothing: no device is judged for that, not one that has just dialled either.
// Then one that was silent is.
func TestHeldUp(t *testing.T) {
	p := held{holds: make(chan struct{}), goesOn: make(chan struct{})}
	address, events := start(t, p)
	alive := dial(t, address, "HELLO pump-1 ttl=1", "OK 1 ttl=1")
	dial(t, address, "HELLO pump-2 ttl=1", "OK 1 ttl=1")
	holds := dial(t, address, "HELLO valve-1", "OK 1 ttl=90")
	holds.say(t, "HOLD")
	<-p.holds
	beats := time.NewTicker(100 * time.Millisecond)
	defer beats.Stop()
	for range 25 {
		<-beats.C
		alive.say(t, "PING 1")
	}
	if seen, err := events.Read(nil, 0, 10); err != nil || len(seen) != 3 {
		t.Errorf("events of a server that is held up: %+v, %v", seen, err)
	}
	close(p.goesOn)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for ctx.Err() == nil {
			<-beats.C
			alive.say(t, "PING 2")
		}
	}()
	offset := uint64(0)
	if got := verdict(t, events, &offset); got != "pump-2: silence" {
		t.Errorf("the first verdict is %q, want that on the silent one", got)
	}
}
