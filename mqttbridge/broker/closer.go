package broker

import (
	"context"
	"sync"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

const closeTick = 10 * time.Millisecond

// closer closes connections on the broker's part, at a bounded rate. Each verdict on a connected device, and each takeover, adds one.
type closer struct {
	perTick int

	mu    sync.Mutex // guards queue
	queue []ending

	some chan struct{} // room for one; never closed; receives when there is something to close
}

// ending is a connection that is to be closed.
type ending struct {
	conn *conn
	code packets.Code
}

func (cl *closer) init(perSecond int) {
	cl.perTick = max(perSecond/int(time.Second/closeTick), 1)
	cl.some = make(chan struct{}, 1)
}

// add queues a connection. It does not block.
func (cl *closer) add(c *conn, code packets.Code) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.queue = append(cl.queue, ending{c, code})
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

// run closes until ctx is done.
func (cl *closer) run(ctx context.Context) {
	tick := time.NewTicker(closeTick)
	defer tick.Stop()
	for {
		select {
		case <-cl.some:
		case <-ctx.Done():
			return
		}
		for taken := cl.take(); len(taken) > 0; taken = cl.take() {
			for _, e := range taken {
				e.conn.end(e.code)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

// end ends the connection; a client of MQTT 5 that was greeted is told why (MQTT 5, 3.14). A device that was judged and heard since is left
// alone.
func (c *conn) end(code packets.Code) {
	if code == packets.ErrKeepAliveTimeout {
		if !c.session.Judged() {
			return
		}
		c.broker.counts.closed.Add(1)
	}
	if c.client.Properties.ProtocolVersion >= 5 && c.greeted.Load() {
		_ = c.client.WritePacket(packets.Packet{
			FixedHeader: packets.FixedHeader{Type: packets.Disconnect}, ReasonCode: code.Code,
			Properties: packets.Properties{ReasonString: code.Reason},
		})
	}
	// Not client.Stop: if that comes between two packets, the implementation takes it for a goodbye, and drops the will.
	_ = c.client.Net.Conn.Close()
}
