package gateway

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

// closer closes connections on the gateway's part. Each verdict on a connected device, takeover and idle timeout adds one to the queue,
// from which they are closed at a bounded rate. Those that never said who they are do not wait in it: they come as fast as connections are
// accepted, so behind a lower rate they would fill the gateway. They are closed the faster, the more there are: none waits for long.
type closer struct {
	perTick int

	mu        sync.Mutex // guards the queues
	queue     []ending
	strangers []ending // who have not said hello in time

	some chan struct{} // room for one; never closed; receives when there is something to close
}

// carrier is what carries a conversation, to be closed by the gateway.
type carrier interface {
	// where is the event loop that finish is to be called on; nil for none: then it is called by the closer, and must not block.
	where() *loop
	// finish says the last words and closes, unless that is done or no longer called for.
	finish(e ending)
}

// ending is a carrier that is to be closed.
type ending struct {
	carrier carrier
	why     string       // is said to it,
	err     *codec.Error // or this, if it has not said hello by now
	// spare leaves it alone if its device is not, or no longer, judged.
	spare bool
}

const closeTick = 10 * time.Millisecond

func (cl *closer) init(perSecond int) {
	cl.perTick = max(perSecond/int(time.Second/closeTick), 1)
	cl.some = make(chan struct{}, 1)
}

// add queues a connection, with a reason for it to be told. It does not block.
func (cl *closer) add(c carrier, why string) {
	cl.put(&cl.queue, ending{carrier: c, why: why, spare: why == whySilence})
}

// addError queues a connection that has not said hello in time, with what it is told. It does not block.
func (cl *closer) addError(c carrier, e *codec.Error) {
	cl.put(&cl.strangers, ending{carrier: c, err: e})
}

func (cl *closer) put(queue *[]ending, e ending) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	*queue = append(*queue, e)
	select {
	case cl.some <- struct{}{}:
	default:
	}
}

// strangersFor is how many ticks strangers wait, about, when there are many.
const strangersFor = 100

// take returns the next few.
func (cl *closer) take() []ending {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	taken := first(&cl.queue, cl.perTick)
	return append(taken, first(&cl.strangers, max(cl.perTick, len(cl.strangers)/strangersFor))...)
}

// first takes up to n off a queue.
func first(queue *[]ending, n int) []ending {
	n = min(n, len(*queue))
	taken := (*queue)[:n:n]
	if *queue = (*queue)[n:]; len(*queue) == 0 {
		*queue = nil
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
				err := l.soon(ctx, func() {
					for _, e := range endings {
						e.carrier.finish(e)
					}
				})
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
		l := e.carrier.where()
		m[l] = append(m[l], e)
	}
	return m
}

// formatted is a message that is put together only if it is logged.
type formatted struct {
	format string
	args   []any
}

func (f formatted) String() string { return fmt.Sprintf(f.format, f.args...) }
