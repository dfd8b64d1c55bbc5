package gateway

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/internal/eventloop"
)

// loop is an event loop's share of the gateway. Its fields belong to the loop's goroutine, unless
// said otherwise.
type loop struct {
	gateway  *Gateway
	events   *eventloop.Loop
	index    int
	exchange exchange

	_ [64]byte
}

// newLoops makes the event loops. A marker that comes out of one is the listening time up to which
// it has read all that came in.
func (g *Gateway) newLoops() error {
	for i := range g.config.Loops {
		l := &loop{gateway: g, index: i, exchange: exchange{gateway: g, counts: &g.counts.loops[i]}}
		var err error
		if l.events, err = eventloop.New(func(mark int64) { g.source.Watermark(i, time.Duration(mark)) }); err != nil {
			for _, made := range g.loops {
				made.events.Close()
			}
			return err
		}
		g.loops = append(g.loops, l)
	}
	return nil
}

// runLoops runs the event loops until ctx is done, and ends all connections then.
func (g *Gateway) runLoops(ctx context.Context) error {
	defer close(g.ended)
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range g.loops {
		group.Go(func() error { return l.events.Run(ctx) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	return nil
}

// soon calls f on the event loop, or at once if l is nil. If the gateway ends, f is not called.
func (l *loop) soon(f func()) {
	if l == nil {
		f()
		return
	}
	_ = l.events.Execute(f)
}
