package gateway

import (
	"context"
	"crypto/tls"
	"slices"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/internal/net/eventloop"
)

// reviewEvery is how often it is asked whether tokens or certificates were revoked.
const reviewEvery = time.Second

// keepReviewing ends the connections of devices whose token or certificate was revoked, until ctx is
// done.
func (g *Gateway) keepReviewing(ctx context.Context) error {
	tick := time.NewTicker(reviewEvery)
	defer tick.Stop()
	generation, configs := g.generation(), g.tlsConfigs()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		nextGeneration, nextConfigs := g.generation(), g.tlsConfigs()
		if nextGeneration != generation || !slices.Equal(nextConfigs, configs) {
			g.review()
		}
		generation, configs = nextGeneration, nextConfigs
	}
}

// generation returns a number that changes when a device may not be admitted any more.
func (g *Gateway) generation() uint64 {
	n := g.config.Guard.Generation()
	for _, l := range g.listeners {
		for _, p := range l.Protocols {
			if r, ok := p.(codec.Reviewed); ok {
				n += r.Generation() // each only rises
			}
		}
	}
	return n
}

// tlsConfigs returns what the listeners serve new connections with now; nil for those without TLS.
func (g *Gateway) tlsConfigs() (all []*tls.Config) {
	for _, l := range g.listeners {
		all = append(all, l.tlsConfig())
	}
	return all
}

// tlsConfig returns what the listener serves new connections with now; nil without TLS.
func (l *listener) tlsConfig() *tls.Config {
	if l.TLS == nil || l.TLS.GetConfigForClient == nil {
		return l.TLS
	}
	c, err := l.TLS.GetConfigForClient(&tls.ClientHelloInfo{})
	if err != nil || c == nil {
		return l.TLS
	}
	return c
}

// review looks at all connections. Datagrams need none of it: each is admitted by itself.
func (g *Gateway) review() {
	for _, l := range g.loops {
		l.soon(func() {
			l.events.Each(func(h eventloop.Handler) { h.(*conn).review() })
		})
	}
	if g.tlsServer != nil {
		for _, c := range g.tlsServer.open() {
			c.review()
		}
	}
}

// denied reports whether the codec that has admitted the device does not any longer.
func (t *conversation) denied() bool {
	by, ok := t.codec.(codec.Authenticator)
	return ok && by.Revoked()
}

// review ends a connection whose device may not come in again as it has: at once, but in its turn if only
// the codec denies it, since an edit of its rules may concern a whole fleet.
func (c *connection) review() {
	c.link.lock()
	established := c.established && !c.link.isOver()
	revoked := established && (c.gateway.config.Guard.Revision(c.credential(c.id())) != c.revision || c.link.verify() != nil)
	denied := established && c.denied()
	var id string
	if established {
		id = c.id()
	}
	c.link.unlock()
	if !revoked && !denied {
		return
	}
	c.gateway.counts.revoked.Add(1)
	c.gateway.tell(refusal{id: id, address: c.address(), protocol: c.protocol(c.listener), reason: isRevoked})
	if revoked {
		c.finish(ending{transport: c, why: whyRevoked})
	} else {
		c.gateway.close(c, whyRevoked)
	}
}
