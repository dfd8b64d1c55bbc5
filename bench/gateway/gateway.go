// Package gateway measures the gateway of Holter beside bare servers: heartbeats per second, memory and rate of connecting, and what a
// mass verdict does to the devices that live on.
//
// The servers, each a child process on a core of its own with GOMAXPROCS=1:
//
//	holter        the gateway with its registry, as holter serve makes them, without HTTP
//	gnet          an event loop that splits lines and answers PING, and gnet's own acceptor
//	gnet-enroll   the same, with connections accepted by package net and handed over, as the gateway does it
//	goroutines    package net, a goroutine and a small buffered reader for each connection
//	echo          an event loop of gnet that sends back what it reads; sink reads only
//
// The client is this process, on the other core: one epoll instance and no goroutine per connection. The servers take turns, round by
// round, and ratios are taken within a round. Linux only.
package gateway

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/loopback"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
)

// stepLife bounds how long a server may live, and with it each step of the measurements.
const stepLife = 3 * time.Minute

const serverHolter = "holter"

// lineServers speak the line protocol.
func lineServers() []string { return []string{serverHolter, "gnet", "gnet-enroll", "goroutines"} }

// bench runs the measurements and keeps their results.
type bench struct {
	*run.Run

	connections int // that beat
	idle        int // that say nothing: near to the usual limit of 20,000 files
	idleTLS     int // fewer, since each costs a handshake
	silent      int // devices that fall silent at once

	beats    map[string]map[string][]beats // by measurement, such as protocol-16, and row
	held     map[string][]held             // by server or transport
	verdicts []massVerdict
}

// Command returns the benchmark.
func Command() run.Command {
	b := &bench{
		connections: 10_000, idle: 18_000, idleTLS: 5000, silent: 18_000,
		beats: make(map[string]map[string][]beats), held: make(map[string][]held),
	}
	return run.Command{
		Name: "gateway", Help: "the gateway and its protocols beside bare gnet", Rounds: 5, Seconds: 5,
		Names: "MEASUREMENT/SERVER, such as beats-16/holter\n(beats-1, beats-16, idle, verdict; protocol-1 and protocol-16 with line, frame, jt808, teltonika, gt06,\n" +
			"dtu, line-udp; idle with line-udp, line-tls)",
		Flags: func(f *flag.FlagSet) { f.IntVar(&b.connections, "connections", b.connections, "connections that beat") },
		Quick: func() { b.connections, b.idle, b.idleTLS, b.silent = 200, 200, 50, 600 },
		Run: func(ctx context.Context, r *run.Run) error {
			b.Run = r
			if b.connections < 1 || b.connections > 18_000 {
				return fmt.Errorf("-connections is %d, want 1 to 18000", b.connections)
			}
			if err := cores.Pin(cores.Driver); err != nil {
				return err
			}
			if err := b.measure(ctx); err != nil {
				return err
			}
			return b.publish(ctx)
		},
		Child: serve,
	}
}

// measure makes all measurements that are wanted, with every server once in each round.
func (b *bench) measure(ctx context.Context) error {
	for round := range b.Rounds {
		err := run.Turns(round, lineServers(), func(server string) error { return b.measureBeats(ctx, "beats", dialects()[0], server, server) })
		if err != nil {
			return err
		}
		for _, d := range dialects() {
			servers := []string{serverHolter, d.bare()}
			err := run.Turns(round, servers, func(server string) error {
				row := d.name
				if server != serverHolter {
					row += bareRow
				}
				return b.measureBeats(ctx, "protocol", d, server, row)
			})
			if err != nil {
				return err
			}
		}
		if err := run.Turns(round, append(lineServers(), transports()...), func(of string) error { return b.measureIdle(ctx, of) }); err != nil {
			return err
		}
		if err := b.measureVerdict(ctx); err != nil {
			return fmt.Errorf("mass verdict: %w", err)
		}
	}
	return nil
}

// session is a server with a client that has no connections yet.
type session struct {
	dialect

	server  string
	process *measured.Process
	client  *loopback.Conns
}

// with calls f with a new server that speaks a dialect, and ends it.
func (b *bench) with(ctx context.Context, server string, d dialect, f func(context.Context, session) error) error {
	ctx, cancel := context.WithTimeout(ctx, stepLife)
	defer cancel()
	p, err := measured.Start(ctx, measured.Alone, b.Name(), server, d.name)
	if err != nil {
		return err
	}
	defer p.Stop()
	client, err := loopback.New(p.Addr)
	if err != nil {
		return err
	}
	defer client.Close()
	client.Packets = d.transport == overUDP
	return f(ctx, session{d, server, p, client})
}

// silentServer reports whether the client hears nothing from the server.
func (s session) silentServer() bool { return s.mute() || s.server == sink }

// echoes reports whether the server sends back what it reads, or counts it in bytes.
func (s session) echoes() bool { return slices.Contains([]string{echoTCP, echoUDP, sink}, s.server) }

// connect opens n connections, sends what say returns on each, and returns once all are answered, with the time that took.
func (s session) connect(ctx context.Context, n int, say func(i int) []byte) (time.Duration, error) {
	begin := time.Now()
	greeted, got := make([]bool, n), make([]int, n)
	for answered := 0; answered < n; {
		for s.client.Len() < n && s.client.Len()-answered < s.dialing() {
			if err := s.client.Dial(); err != nil {
				return 0, err
			}
		}
		_, err := s.client.Wait(ctx, 100*time.Millisecond, func(i int) error {
			if !greeted[i] {
				greeted[i] = true
				if s.silentServer() {
					answered++
				}
				return s.client.Write(i, say(i))
			}
			answer, err := s.client.Read(i)
			if err != nil || len(answer) == 0 || s.silentServer() {
				return err
			}
			if s.echoes() {
				if got[i] += len(answer); got[i] == len(say(i)) {
					answered++
				}
				return nil
			}
			heard, welcome, _, err := s.count(answer)
			if err == nil && (welcome || heard > 0) {
				answered++
			}
			return err
		})
		if err != nil {
			return 0, fmt.Errorf("%d of %d connected: %w", answered, n, err)
		}
	}
	return time.Since(begin), nil
}

// dialing is how many connections may be on their way at a time. Datagrams wait in a queue of some hundred kilobytes.
func (s session) dialing() int {
	if s.client.Packets {
		return 64
	}
	return 512
}

// greeting returns what device i sends first. A bare server knows no greeting but answers a heartbeat; datagrams of the gateway begin
// with a greeting.
func (s session) greeting(ttl time.Duration) func(i int) []byte {
	if s.server != serverHolter && !s.echoes() || s.transport == overUDP {
		return func(i int) []byte { return s.beats(i, 1) }
	}
	return func(i int) []byte { return s.device.AppendHello(nil, s.id(i), "", ttl) }
}
