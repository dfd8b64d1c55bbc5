package gateway

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

// asker asks devices for a sign of life, at a bounded rate: when a site fails, all its devices are to be asked at once. It holds the
// questions of one second; when there are more, the oldest are left out, since their devices are judged next. That a question is left out
// changes no verdict.
type asker struct {
	perTick, most int
	counts        *counters

	mu    sync.Mutex // guards the queue, a ring
	queue []askable
	first int
	held  int

	some chan struct{} // room for one; never closed; receives when there is something to ask
}

// askable is a carrier whose device can be asked for a sign of life. Its Probe, of [liveness.Peer], puts it into the asker's queue, unless
// the codec is no [codec.Prober]; the asker calls ask.
type askable interface {
	carrier
	// ask writes the question, and returns false if it does not: the carrier is gone, or its other end does not read. It is called where
	// finish is called, and must not block.
	ask() bool
}

func (a *asker) init(perSecond int, counts *counters) {
	a.perTick = max(perSecond/int(time.Second/closeTick), 1)
	a.most, a.counts = perSecond, counts
	a.some = make(chan struct{}, 1)
}

// add queues a device. It does not block.
func (a *asker) add(c askable) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.queue == nil {
		a.queue, a.first = make([]askable, min(a.most, 64)), 0
	}
	switch {
	case a.held == a.most:
		a.popLocked()
		a.counts.probesLeftOut.Add(1)
	case a.held == len(a.queue):
		a.growLocked()
	}
	a.queue[(a.first+a.held)%len(a.queue)] = c
	a.held++
	select {
	case a.some <- struct{}{}:
	default:
	}
}

func (a *asker) popLocked() askable {
	c := a.queue[a.first]
	a.queue[a.first] = nil
	a.first, a.held = (a.first+1)%len(a.queue), a.held-1
	return c
}

func (a *asker) growLocked() {
	queue := make([]askable, min(2*len(a.queue), a.most))
	n := copy(queue, a.queue[a.first:])
	copy(queue[n:], a.queue[:a.first])
	a.queue, a.first = queue, 0
}

// take returns the next few, by event loop.
func (a *asker) take() map[*loop][]askable {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held == 0 {
		a.queue = nil
		return nil
	}
	m := make(map[*loop][]askable)
	for range min(a.perTick, a.held) {
		c := a.popLocked()
		m[c.where()] = append(m[c.where()], c)
	}
	return m
}

// run asks until ctx is done.
func (a *asker) run(ctx context.Context) error {
	tick := time.NewTicker(closeTick)
	defer tick.Stop()
	for {
		select {
		case <-a.some:
		case <-ctx.Done():
			return nil
		}
		for taken := a.take(); len(taken) > 0; taken = a.take() {
			for l, some := range taken {
				if err := l.soon(ctx, func() { a.ask(some) }); err != nil {
					return fmt.Errorf("gateway: ask devices: %w", err)
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// ask asks a few devices.
func (a *asker) ask(some []askable) {
	for _, c := range some {
		if c.ask() {
			a.counts.probes.Add(1)
		} else {
			a.counts.probesLeftOut.Add(1)
		}
	}
}

// question appends the question in the device's protocol; nothing if that has none. A codec that panics costs the question.
func (t *talk) question(g *Gateway, dst []byte) (out []byte) {
	p, ok := t.codec.(codec.Prober)
	if !ok {
		return dst
	}
	defer func() {
		if v := recover(); v != nil {
			g.counts.panics.Add(1)
			g.log.Error("a question made a codec panic; it is not asked", "device", t.session.ID(), "panic", v)
			out = nil
		}
	}()
	return p.Probe(dst)
}

// asks says whether the device's protocol has a question. The codec of a connection does not change once the session is open, and that was
// done with the lock held with which this is called.
func (t *talk) asks() bool {
	_, ok := t.codec.(codec.Prober)
	return ok
}

// Probe implements [liveness.Peer].
func (c *conn) Probe() bool {
	if !c.asks() {
		return false
	}
	c.loop.gateway.asker.add(c)
	return true
}

// ask implements askable.
func (c *conn) ask() bool {
	if c.gnet == nil || c.gnet.OutboundBuffered() > 0 || c.held() != nil {
		return false
	}
	out := c.question(c.loop.gateway, c.loop.desk.out[:0])
	return len(out) > 0 && c.write(out)
}

// Probe implements [liveness.Peer].
func (c *tlsConn) Probe() bool {
	if !c.asks() {
		return false
	}
	c.secure.gateway.asker.add(c)
	return true
}

// ask implements askable.
func (c *tlsConn) ask() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.tls == nil || c.socket.waiting() > 0 || c.held() != nil {
		return false
	}
	out := c.question(c.secure.gateway, nil)
	if len(out) == 0 {
		return false
	}
	_, err := c.tls.Write(out)
	return err == nil
}

// Probe implements [liveness.Peer]. Only a device that is known to be where its datagrams come from is asked.
func (v *visitor) Probe() bool {
	if !v.asks.Load() {
		return false
	}
	v.udp.gateway.asker.add(v)
	return true
}

// ask implements askable.
func (v *visitor) ask() bool {
	v.mu.Lock()
	out := v.talk.question(v.udp.gateway, nil)
	v.mu.Unlock()
	return len(out) > 0 && v.write(out) == nil
}

var _, _, _ askable = (*conn)(nil), (*tlsConn)(nil), (*visitor)(nil)
