package gateway

import (
	"context"
	"time"

	"github.com/holter-iot/holter/internal/net/eventloop"
)

const (
	// drainStep is how often connections are closed while a gateway drains.
	drainStep = 50 * time.Millisecond
	// drainShare is the least share of all connections that is closed in a second, one of so many, and
	// drainLeast is the least number: as many as others take in without notice.
	drainShare, drainLeast = 50, 20
)

// Drain accepts no more connections, and closes those there are, a few at a time, so that their
// devices do not connect elsewhere all at once: in a second 2 % of them, or 20 if that is more, or
// as many as it takes to end within limit. Sessions are released, see [liveness.Session.Release]. A
// device is told that it is moved, if its protocol has a word for that. Devices over UDP are heard
// as ever. Drain returns once no connection is left, or when ctx is done. Call it once, while Run is
// running.
func (g *Gateway) Drain(ctx context.Context, limit time.Duration) {
	g.closeListeners()
	tick := time.NewTicker(drainStep)
	defer tick.Stop()
	began, all, closed := time.Now(), g.openConnections(ctx), 0
	for g.connections.Load() > 0 {
		if closed == len(all) { // others were being accepted
			all, closed = g.openConnections(ctx), 0
		}
		due := max(drainDue(len(all), time.Since(began), limit), closed)
		onLoops(all[closed:due], func(c *connection) { c.finish(ending{why: whyMoved, releases: true}) })
		closed = due
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// drainDue returns how many of all connections are to be closed once some time has passed.
func drainDue(all int, passed, limit time.Duration) int {
	if passed >= limit {
		return all
	}
	perSecond := max(float64(all)/drainShare, drainLeast, float64(all)/limit.Seconds())
	return min(int(perSecond*passed.Seconds()), all)
}

// openConnections returns the connections that are open; some, or none, if ctx is done.
func (g *Gateway) openConnections(ctx context.Context) (all []*connection) {
	found := make(chan []*connection, len(g.loops))
	for _, l := range g.loops {
		l.soon(func() {
			var own []*connection
			l.events.Each(func(h eventloop.Handler) { own = append(own, &h.(*conn).connection) })
			found <- own
		})
	}
	for range g.loops {
		select {
		case own := <-found:
			all = append(all, own...)
		case <-g.ended:
			return all
		case <-ctx.Done():
			return all
		}
	}
	if g.tlsServer != nil {
		for _, c := range g.tlsServer.open() {
			all = append(all, &c.connection)
		}
	}
	return all
}

// release ends the session because the gateway closes the connection for its own sake.
func (c *connection) release() {
	switch {
	case c.far() != nil:
		c.far().Release(c.gateway.elapsed())
	case c.established:
		c.session.Release(c.listener.source.Time(time.Now()))
	}
}
