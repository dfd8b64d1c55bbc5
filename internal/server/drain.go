package server

import (
	"context"
	"sync"
	"time"

	"github.com/holter-iot/holter/internal/config"
)

const (
	// leaveWithin is how long a drain may take beyond its limit: how long a judge has to remove an ear that has
	// no connection left.
	leaveWithin = 5 * time.Second
	// tellEvery is how often the log says how far a drain has come.
	tellEvery = 5 * time.Second
)

// awaitDrain waits until the ear is to end: parent is done, or the judge has asked for it. Then it
// drains the ear. It returns early when ctx is done, and with an error if the ear cannot listen.
func (e *ear) awaitDrain(parent, ctx context.Context) error {
	select {
	case <-parent.Done():
	case <-e.asked:
		e.log.Info("the judge asks this ear to end")
	case err := <-e.deaf:
		return err
	case <-ctx.Done():
		return nil
	}
	e.drain(ctx)
	return nil
}

// drain has devices led to others, closes their connections a few at a time, and leaves the judge. It
// returns when that is done, when it takes too long, or when ctx is done: what is left then is closed
// at once, and the judge finds the ear gone.
func (e *ear) drain(ctx context.Context) {
	began, cfg := time.Now(), e.live.Load().Drain
	e.draining.Store(true)
	e.service.stopping()
	e.link.Draining()
	ctx, cancel := context.WithTimeout(ctx, cfg.Delay+cfg.Limit+leaveWithin)
	defer cancel()
	e.leadAway(ctx)
	if err := e.link.Leave(ctx); err != nil {
		e.log.Warn("the judge does not know that this ear has ended in order, and finds it gone", "error", err, "connections", e.connections())
		return
	}
	e.log.Info("drained: all connections are closed, and the judge knows", "took", time.Since(began).Round(time.Millisecond))
}

// awaitEnd waits until the server is to end: parent is done. Then it drains the server, if that is to be,
// and devices may have connected. It returns early when ctx is done.
func (s *server) awaitEnd(parent, ctx context.Context) {
	select {
	case <-parent.Done():
	case <-ctx.Done():
		return
	}
	cfg := s.live.Load().Drain
	if cfg == (config.Drain{}) || s.gateway == nil || s.waiting() != nil {
		return
	}
	began := time.Now()
	s.draining.Store(true)
	ctx, cancel := context.WithTimeout(ctx, cfg.Delay+cfg.Limit+leaveWithin)
	defer cancel()
	s.leadAway(ctx)
	s.log.Info("drained", "connections", s.connections(), "took", time.Since(began).Round(time.Millisecond))
}

// connections returns how many connections the gateway has.
func (f *front) connections() int { return f.gateway.Stats().Connections }

// leadAway waits until a load balancer has noticed that this process is not ready, if it has devices, and
// closes connections a few at a time. It returns when none is left, or ctx is done.
func (f *front) leadAway(ctx context.Context) {
	cfg := f.live.Load().Drain
	f.log.Info("draining: this process ends in order", "connections", f.connections(), "delay", cfg.Delay, "limit", cfg.Limit)
	var telling sync.WaitGroup
	defer telling.Wait()
	over, done := context.WithCancel(ctx)
	defer done()
	telling.Go(func() { f.tellDrain(over) })
	if f.connections()+f.gateway.Stats().Packets.Devices > 0 {
		pause(ctx, cfg.Delay)
	}
	f.gateway.Drain(ctx, cfg.Limit)
}

// tellDrain logs how many connections are left, until ctx is done.
func (f *front) tellDrain(ctx context.Context) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.log.Info("draining", "connections", f.connections())
		case <-ctx.Done():
			return
		}
	}
}
