package server

import (
	"context"
	"sync"
	"time"
)

const (
	// leaveWithin is how long a judge has to remove an ear that has no connection left.
	leaveWithin = 5 * time.Second
	// tellEvery is how often the log says how far a drain has come.
	tellEvery = 5 * time.Second
)

// awaitDrain waits until the ear is to end: parent is done, or the judge has asked for it. Then it
// drains the ear. It returns early when ctx is done.
func (e *ear) awaitDrain(parent, ctx context.Context) {
	select {
	case <-parent.Done():
	case <-e.asked:
		e.log.Info("the judge asks this ear to end")
	case <-ctx.Done():
		return
	}
	e.drain(ctx)
}

// drain has devices led to others, closes their connections a few at a time, and leaves the judge. It
// returns when that is done, when it takes too long, or when ctx is done: what is left then is closed
// at once, and the judge finds the ear gone.
func (e *ear) drain(ctx context.Context) {
	began, cfg := time.Now(), e.live.Load().Drain
	e.draining.Store(true)
	e.service.stopping()
	e.link.Draining()
	connections := func() int { return e.gateway.Stats().Connections }
	devices := connections() + e.gateway.Stats().Packets.Devices
	e.log.Info("draining: this ear ends in order", "connections", connections(), "delay", cfg.Delay, "limit", cfg.Limit)
	var telling sync.WaitGroup
	defer telling.Wait()
	over, done := context.WithCancel(ctx)
	defer done()
	telling.Go(func() { e.tellDrain(over, connections) })
	if devices > 0 {
		pause(ctx, cfg.Delay)
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Limit+leaveWithin)
	defer cancel()
	e.gateway.Drain(ctx, cfg.Limit)
	if err := e.link.Leave(ctx); err != nil {
		e.log.Warn("the judge does not know that this ear has ended in order, and finds it gone", "error", err, "connections", connections())
		return
	}
	e.log.Info("drained: all connections are closed, and the judge knows", "took", time.Since(began).Round(time.Millisecond))
}

// tellDrain logs how many connections are left, until ctx is done.
func (e *ear) tellDrain(ctx context.Context, connections func() int) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			e.log.Info("draining", "connections", connections())
		case <-ctx.Done():
			return
		}
	}
}
