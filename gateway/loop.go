package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/panjf2000/gnet/v2"
)

// loop is an event loop's share of the gateway. Its fields are used by the loop's goroutine only, but
// where said otherwise.
type loop struct {
	gateway  *Gateway
	events   gnet.EventLoop // set before connections are let in, then read by all
	index    int
	exchange exchange

	_ [64]byte
}

// stopLoops ends the event loops, and with them the connections. What was handed to a loop may be lost.
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

// errEnded is returned for what is not done because the gateway ends.
var errEnded = errors.New("the gateway has ended")

// execute calls f on the event loop, soon; or never, if it returns an error or the loop ends before. It does not wait. A loop of gnet must
// not be handed anything while it ends: gnet would write to a descriptor that may be another's by then.
func (l *loop) execute(ctx context.Context, f func()) error {
	l.gateway.ending.RLock()
	defer l.gateway.ending.RUnlock()
	if l.gateway.over {
		return errEnded
	}
	return l.events.Execute(ctx, runnable(f))
}

// soon calls f on the event loop, or at once if there is none. That the gateway ends is no error: f is not called then.
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
