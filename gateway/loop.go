package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/panjf2000/gnet/v2"
)

// loop is an event loop's share of the gateway. Its fields belong to the loop's goroutine, unless
// said otherwise.
type loop struct {
	gateway  *Gateway
	events   gnet.EventLoop // set before connections are let in, then read by all
	index    int
	exchange exchange

	_ [64]byte
}

// stopLoops ends the event loops, and with them the connections. Tasks that were handed to a loop
// may be lost.
func (g *Gateway) stopLoops(engine *gnet.Client) error {
	defer close(g.ended)
	g.ending.Lock()
	g.over = true
	g.ending.Unlock()
	if err := engine.Stop(); err != nil {
		return fmt.Errorf("gateway: stop event loops: %w", err)
	}
	return nil
}

// errEnded is returned for tasks that come when the gateway has ended.
var errEnded = errors.New("the gateway has ended")

// execute calls f on the event loop, without waiting for it. If it returns an error, or the loop
// ends first, f is never called. A loop of gnet must not be handed anything while it ends: gnet
// would write to a descriptor that may have been reused by then.
func (l *loop) execute(ctx context.Context, f func()) error {
	l.gateway.ending.RLock()
	defer l.gateway.ending.RUnlock()
	if l.gateway.over {
		return errEnded
	}
	return l.events.Execute(ctx, runnable(f))
}

// soon calls f on the event loop, or at once if l is nil. If the gateway ends, f is not called, and
// that is no error.
func (l *loop) soon(ctx context.Context, f func()) error {
	if l == nil {
		f()
		return nil
	}
	if err := l.execute(ctx, f); !errors.Is(err, errEnded) {
		return err
	}
	return nil
}

// runnable makes a func a gnet.Runnable.
type runnable func()

// Run implements gnet.Runnable.
func (f runnable) Run(context.Context) error {
	f()
	return nil
}

var _ gnet.Runnable = runnable(nil)
