package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
)

// rest is how long connections are left alone before their memory is measured, if they were handed over: the workers that did it,
// which gnet keeps in a pool, end after 10 to 20 s without work.
const rest = 21 * time.Second

// held is what connections cost that say nothing.
type held struct {
	measured.Usage

	connections            int
	heap, stacks, resident float64 // bytes for each connection
	connected              time.Duration
}

// rate returns how many connections were made, greeted and answered per second.
func (r held) rate() float64 { return float64(r.connections) / r.connected.Seconds() }

// user returns the memory of the program, bytes for each connection.
func (r held) user() float64 { return r.heap + r.stacks }

// measureIdle measures the rate of connecting and the memory of connections that were greeted, of a server of the line protocol over TCP
// or of the gateway with another transport.
func (b *bench) measureIdle(ctx context.Context, of string) error {
	if !b.Wanted("idle", of) {
		return nil
	}
	server, name, n := of, "line", b.idle
	if slices.Contains(transports(), of) {
		server, name = serverHolter, of
	}
	d, err := newDialect(name)
	if err != nil {
		return err
	}
	if d.transport == overTLS {
		n = b.idleTLS
	}
	err = b.with(ctx, server, d, func(ctx context.Context, s session) error {
		r := held{connections: n}
		if err := r.measure(ctx, s, b.Quick); err != nil {
			return err
		}
		b.held[of] = append(b.held[of], r)
		b.Progress("%-11s %-14s %8.0f connections/s; heap %.0f, stacks %.0f, resident %.0f bytes each", "idle", of, r.rate(), r.heap, r.stacks, r.resident)
		return nil
	})
	if err != nil {
		return fmt.Errorf("idle, %s: %w", of, err)
	}
	return nil
}

// measure makes connections that have greeted, and measures the memory that they take.
func (r *held) measure(ctx context.Context, s session, quick bool) error {
	if err := s.process.FillEvents(); err != nil {
		return err
	}
	before, err := s.process.Collect()
	if err != nil {
		return err
	}
	m, err := measured.StartMeter(s.process.PID)
	if err != nil {
		return err
	}
	if s.transport == overTLS {
		conns := make([]*tls.Conn, r.connections)
		defer reset(conns)
		r.connected, err = s.connectTLS(ctx, conns)
	} else {
		r.connected, err = s.connect(ctx, r.connections, s.greeting(10*time.Minute))
	}
	if err != nil {
		return err
	}
	if r.Usage, err = m.Read(); err != nil {
		return err
	}
	if (s.server == serverHolter || s.server == "gnet-enroll") && !quick {
		if err := run.Wait(ctx, rest); err != nil {
			return err
		}
	}
	after, err := s.process.Collect()
	if err != nil {
		return err
	}
	each := func(after, before int) float64 { return float64(after-before) / float64(r.connections) }
	r.heap, r.stacks, r.resident = each(after.Heap, before.Heap), each(after.Stacks, before.Stacks), each(after.Resident, before.Resident)
	return nil
}

// connectTLS makes connections of TLS that have greeted, 64 at a time.
func (s session) connectTLS(ctx context.Context, conns []*tls.Conn) (time.Duration, error) {
	begin := time.Now()
	dialer := tls.Dialer{
		NetDialer: &net.Dialer{KeepAlive: -1},
		Config:    &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, // the server is ours
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(64)
	for i := range conns {
		group.Go(func() error {
			c, err := dialer.DialContext(ctx, "tcp", s.process.Addr.String())
			if err != nil {
				return fmt.Errorf("connection %d: %w", i, err)
			}
			conns[i] = c.(*tls.Conn)
			if _, err := c.Write(s.greeting(10 * time.Minute)(i)); err != nil {
				return err
			}
			answer := make([]byte, 256)
			n, err := c.Read(answer)
			if err == nil {
				_, welcome, _, countErr := s.count(answer[:n])
				if err = countErr; err == nil && !welcome {
					err = errors.New("no welcome")
				}
			}
			if err != nil {
				return fmt.Errorf("connection %d was answered %q: %w", i, answer[:n], err)
			}
			return nil
		})
	}
	err := group.Wait()
	return time.Since(begin), err
}

// reset closes connections with a reset, so that no port stays in use.
func reset(conns []*tls.Conn) {
	var closing sync.WaitGroup
	for _, c := range conns {
		if c == nil {
			continue
		}
		if tcp, ok := c.NetConn().(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
			closing.Go(func() { _ = tcp.Close() })
		}
	}
	closing.Wait()
}
