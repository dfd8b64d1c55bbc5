package gateway

import (
	"time"

	"github.com/holter-iot/holter/internal/net/eventloop"
	"github.com/holter-iot/holter/liveness"
)

// passStep is how often it is looked whether all is handled that [Gateway.Pass] waits for.
const passStep = 5 * time.Millisecond

// passEvery bounds the time between two pulses of a gateway whose devices are judged elsewhere.
const passEvery = 50 * time.Millisecond

// Pass implements [remote.Gateway].
func (g operator) Pass(done func()) {
	now := time.Now()
	sources := []*liveness.Source{g.source}
	if g.tlsServer != nil {
		sources = append(sources, g.tlsServer.source)
	}
	want := make([]time.Duration, len(sources))
	for i, s := range sources {
		want[i] = s.Time(now)
	}
	g.poll(done, func() bool {
		for i, s := range sources {
			if s.Now() < want[i] {
				return false
			}
		}
		return true
	})
}

// PassDatagrams implements [remote.Gateway].
func (g operator) PassDatagrams(done func(losses uint64)) {
	s := g.udp.source
	want, losses := s.Time(time.Now()), uint64(0)
	g.poll(func() { done(losses) }, func() bool {
		passed := s.Now() >= want // before losses is read: what was lost by then is among them
		losses = g.udp.losses.Load()
		return passed || losses%2 == 1
	})
}

// poll calls done, on a goroutine of its own, once something is so.
func (g *Gateway) poll(done func(), is func() bool) {
	go func() {
		tick := time.NewTicker(passStep)
		defer tick.Stop()
		for !is() {
			select {
			case <-tick.C:
			case <-g.ended:
				return
			}
		}
		done()
	}()
}

// LetGo implements [remote.Gateway].
func (g operator) LetGo(why string) {
	for _, l := range g.loops {
		l.soon(func() {
			l.events.Each(func(h eventloop.Handler) { h.(*conn).finish(ending{why: why}) })
		})
	}
	if g.tlsServer != nil {
		for _, c := range g.tlsServer.open() {
			go c.finish(ending{why: why})
		}
	}
	g.udp.table.all(func(v *udpSession) bool {
		v.Replaced()
		return true
	})
}
