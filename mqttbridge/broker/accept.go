package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

const (
	// uncounted is how many connections there may be beyond MaxClients: they are told why they are refused.
	uncounted = 64
	// keepAlive is when the kernel begins to probe an idle connection, spread by half of it, as a last resort against peers that are gone
	// and whose device may be silent for ever. Silence is judged by the policy.
	keepAlive = 20 * time.Minute
)

// accept lets connections in until the listener is closed.
func (b *Broker) accept(ctx context.Context) error {
	admit := func(c net.Conn) {
		if c == nil { // it was turned away
			b.counts.reject(Full)
		} else {
			b.admit(c.(*net.TCPConn))
		}
		b.listener.Settle()
	}
	failed := func(err error) {
		b.counts.acceptErrors.Add(1)
		if n := b.counts.warned.Add(1); n&(n-1) == 0 { // the 1st, 2nd, 4th, 8th … time
			b.log.Warn("cannot accept an MQTT client; others are not affected", "error", err, "times", n,
				"help", "raise the limit on open files (ulimit -n) or lower the number of clients")
		}
	}
	if err := b.listener.Serve(ctx, admit, failed); err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	return nil
}

// admit begins to serve a connection, or turns it away.
func (b *Broker) admit(tcp *net.TCPConn) {
	b.counts.accepted.Add(1)
	b.mu.Lock()
	full := len(b.conns) >= b.config.MaxClients+uncounted
	b.mu.Unlock()
	if full {
		b.counts.reject(Full)
		_ = tcp.Close()
		return
	}
	idle := keepAlive/2 + rand.N(keepAlive)
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: idle, Interval: idle / 5, Count: 5})
	c, err := newConn(b, tcp)
	if err != nil { // it is closed already
		_ = tcp.Close()
		return
	}
	b.mu.Lock()
	b.conns[c] = struct{}{}
	b.mu.Unlock()
	b.serving.Go(func() { b.serve(c) })
}
