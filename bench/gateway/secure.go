package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// secureConnections is how many connections of TLS beat, at most: each has a goroutine of the client, and one write on its way.
const secureConnections = 1000

// handshaking is how many handshakes are on their way at a time.
const handshaking = 64

// secureClients are connections of TLS that have said hello.
type secureClients struct {
	dialect  dialect
	conns    []*tls.Conn
	answered atomic.Int64 // writes
}

// connectSecure makes n of them.
func connectSecure(ctx context.Context, addr netip.AddrPort, d dialect, n int) (*secureClients, error) {
	s := &secureClients{dialect: d, conns: make([]*tls.Conn, n)}
	dialer := tls.Dialer{
		NetDialer: &net.Dialer{KeepAlive: -1},
		Config:    &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, // the server is ours
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(handshaking)
	for i := range n {
		group.Go(func() error {
			c, err := dialer.DialContext(ctx, "tcp", addr.String())
			if err != nil {
				return fmt.Errorf("connection %d: %w", i, err)
			}
			s.conns[i] = c.(*tls.Conn)
			return s.greet(i)
		})
	}
	if err := group.Wait(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *secureClients) greet(i int) error {
	c := s.conns[i]
	if _, err := c.Write(s.dialect.hello(i)); err != nil {
		return err
	}
	answer := make([]byte, 256)
	n, err := c.Read(answer)
	if err != nil {
		return fmt.Errorf("connection %d: %w", i, err)
	}
	if _, welcome, _, err := s.dialect.count(answer[:n]); err != nil || !welcome {
		return errors.Join(fmt.Errorf("connection %d was answered %q", i, answer[:n]), err)
	}
	return nil
}

// run lets each connection send, wait for the answers and send again, for a while.
func (s *secureClients) run(ctx context.Context, batch int, length time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var group errgroup.Group
	for i := range s.conns {
		group.Go(func() error {
			message, in := s.dialect.beats(i, batch), make([]byte, 4096)
			for ctx.Err() == nil {
				if err := s.turn(i, batch, message, in); err != nil {
					return fmt.Errorf("connection %d: %w", i, err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// turn sends one write and waits until it is answered.
func (s *secureClients) turn(i, batch int, message, in []byte) error {
	if _, err := s.conns[i].Write(message); err != nil {
		return err
	}
	for got, held := 0, 0; got < batch; {
		n, err := s.conns[i].Read(in[held:])
		if err != nil {
			return err
		}
		heard, _, rest, err := s.dialect.count(in[:held+n])
		if err != nil {
			return err
		}
		held = copy(in, rest)
		got += heard
	}
	s.answered.Add(1)
	return nil
}

// close ends all connections at once.
func (s *secureClients) close() {
	var closing sync.WaitGroup
	for _, c := range s.conns {
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

// secureIdle is how many connections of TLS are held: fewer than others, since each costs a handshake.
const secureIdle = 5000

// measureCarrier measures what connections of TLS and sessions over UDP cost that say nothing.
func (b *bench) measureCarrier(ctx context.Context, name string) error {
	if !b.wanted("idle", name) {
		return nil
	}
	d, err := newDialect(name)
	if err != nil {
		return err
	}
	return b.with(ctx, holterOf+name, nil, func(ctx context.Context, s session) error {
		c, n := newChat(s, d, holterOf+name), idleConnections
		if d.carrier == overTLS {
			n = secureIdle
		}
		defer c.close()
		r, err := holdIdle(ctx, s, n, settling, func() (took time.Duration, err error) {
			begin := time.Now()
			if d.carrier == overTLS {
				c.secure, err = connectSecure(ctx, s.child.Addr, d, n)
			} else {
				err = c.connect(ctx, n)
			}
			return time.Since(begin), err
		})
		if err != nil {
			return err
		}
		b.idle.add(name, r)
		b.progress("%-8s %-11s %8.0f connections/s; heap %.0f, stacks %.0f, resident %.0f bytes each", "idle", name, r.rate(), r.heap,
			r.stacks, r.resident)
		return nil
	})
}
