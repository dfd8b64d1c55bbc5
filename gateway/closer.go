package gateway

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/holter-iot/holter/gateway/line"
)

// closer closes connections on the gateway's part, at a bounded rate. Each verdict on a connected device,
// takeover and missed deadline adds one to the queue.
type closer struct {
	perTick int

	mu    sync.Mutex // guards queue
	queue []ending

	some chan struct{} // room for one; never closed; receives when there is something to close
}

// ending is a connection that is to be closed.
type ending struct {
	conn *conn
	last []byte // what is said to it
	// spare leaves it alone if its device is not, or no longer, judged.
	spare bool
}

const closeTick = 10 * time.Millisecond

func (cl *closer) init(perSecond int) {
	cl.perTick = max(perSecond/int(time.Second/closeTick), 1)
	cl.some = make(chan struct{}, 1)
}

// add queues a connection, with a reason for it to be told. It does not block.
func (cl *closer) add(c *conn, why string) {
	cl.put(ending{conn: c, last: line.AppendBye(nil, why), spare: why == whySilence})
}

func (cl *closer) addError(c *conn, e *line.Error) {
	cl.put(ending{conn: c, last: line.AppendError(nil, e)})
}

func (cl *closer) put(e ending) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.queue = append(cl.queue, e)
	select {
	case cl.some <- struct{}{}:
	default:
	}
}

// take returns the next few.
func (cl *closer) take() []ending {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	n := min(cl.perTick, len(cl.queue))
	taken := cl.queue[:n:n]
	cl.queue = cl.queue[n:]
	if len(cl.queue) == 0 {
		cl.queue = nil
	}
	return taken
}

// run closes until ctx is done. Pacing is done here, outside of the event loops: a task that puts itself off does not let I/O through.
func (cl *closer) run(ctx context.Context) error {
	tick := time.NewTicker(closeTick)
	defer tick.Stop()
	for {
		select {
		case <-cl.some:
		case <-ctx.Done():
			return nil
		}
		for taken := cl.take(); len(taken) > 0; taken = cl.take() {
			for l, endings := range byLoop(taken) {
				err := l.events.Execute(ctx, runnable(func() {
					for _, e := range endings {
						e.close()
					}
				}))
				if err != nil {
					return fmt.Errorf("gateway: close connections: %w", err)
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

func byLoop(endings []ending) map[*loop][]ending {
	m := make(map[*loop][]ending)
	for _, e := range endings {
		m[e.conn.loop] = append(m[e.conn.loop], e)
	}
	return m
}

// close runs on the connection's event loop.
func (e ending) close() {
	c := e.conn
	if c.gnet == nil || e.spare && !c.session.Judged() {
		return
	}
	c.loop.gateway.counts.closedByGateway.Add(1)
	if _, err := c.gnet.Write(e.last); err == nil && c.gnet != nil {
		_ = c.loop.events.Close(c.gnet)
	}
}

// runnable makes a func a gnet.Runnable.
type runnable func()

// Run implements gnet.Runnable.
func (f runnable) Run(context.Context) error {
	f()
	return nil
}

var _ gnet.Runnable = runnable(nil)

// formatted is a message that is put together only if it is logged.
type formatted struct {
	format string
	args   []any
}

func (f formatted) String() string { return fmt.Sprintf(f.format, f.args...) }
