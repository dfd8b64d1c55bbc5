package gateway

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/liveness"
)

// transport carries the conversation with a device, as whose [liveness.Peer] the registry knows it:
// a connection of an event loop, one over TLS, or datagrams. The methods of this interface are
// called on the event loop of where; if there is none, by any goroutine, concurrently, and do not
// block.
type transport interface {
	liveness.Peer
	located

	// finish sends the goodbye and closes. It does nothing if the transport is closed already, or
	// if the ending does not apply any longer.
	finish(e ending)
	// writeProbe asks the device for a sign of life. It returns false if it does not: the transport
	// is closed, or its other end does not read.
	writeProbe() bool
	// send writes an outgoing message of [Gateway.Send] to a device whose session is open.
	send(m *outbound) error
	// unsent returns how many bytes were taken by send and are not with the kernel yet; ok is false
	// if the connection has ended.
	unsent() (n int, ok bool)
}

var _, _ transport = (*connection)(nil), (*udpSession)(nil)

// ending is why a transport is to be closed.
type ending struct {
	transport

	why string       // is said to the device,
	err *codec.Error // or this, if it has not said hello by now
	// spare leaves the transport alone if its device is not, or no longer, judged.
	spare bool
	// evicts spares it if its device has said anything meanwhile.
	evicts bool
	// releases releases the session of a connection.
	releases bool
	// replaced is the device's id if another connection has replaced this one.
	replaced string
}

const (
	whyReplaced  = "replaced: the device came back on another connection"
	whyDismissed = "admin: an operator ended the session"
	// whySilence is said to a device that was judged. It stays connected if it speaks up before its
	// turn to be closed comes.
	whySilence  = "silence"
	whyRevoked  = "revoked: the device's token or certificate is no longer good"
	whyIdle     = "idle"
	whyFlood    = "flood: the device sends more than it may; come back, and send less"
	whyShutdown = "shutdown"
	whyMoved    = "moved: this server is about to end; connect again"
)

// close queues a transport to be closed, with a reason for the device. Each verdict on a connected
// device, takeover and idle timeout closes one.
func (g *Gateway) close(t transport, why string) {
	g.closings.add(ending{transport: t, why: why, spare: why == whySilence})
}

// replaced queues a connection to be closed that another one of its device has replaced. If the other
// end has not closed it, two devices may use one id.
func (g *Gateway) replaced(c *connection, id string) {
	g.closings.add(ending{transport: c, why: whyReplaced, replaced: id})
}

// lateShares is how many steps connections that did not say hello wait about, when there are many.
const lateShares = 100

// closeLate queues a transport to be closed whose device did not say hello in time. Such do not
// wait for those of close: they come as fast as connections are accepted, so behind a lower rate
// they would fill the gateway.
func (g *Gateway) closeLate(t transport) {
	g.counts.handshakeTimeouts.Add(1)
	g.lateHellos.add(ending{transport: t, err: noHello(g.limits.Load().handshakeTimeout)})
}

func noHello(timeout time.Duration) *codec.Error {
	return &codec.Error{Code: codec.Timeout, Text: fmt.Sprintf("the device sent no hello within %v", timeout)}
}

// closeRate is how many connections are closed per second after a verdict, a takeover or IdleTimeout, so that a mass
// verdict does not disturb the living. It is a tenth of the rate at which connections are accepted by default, and
// closes a million connections within 10 minutes.
const closeRate = 2_000

// initQueues prepares the queues of what is done at a bounded rate. That a probe is left out
// changes no verdict: those of one second are held, and when there are more, the devices of the
// oldest are judged next.
func (g *Gateway) initQueues() {
	finish := func(e ending) { e.finish(e) }
	g.closings.init(closeRate, finish)
	g.lateHellos.init(closeRate, finish)
	g.lateHellos.shares = lateShares
	g.probes.init(g.config.ProbeRate, func(t transport) {
		if t.writeProbe() {
			g.counts.probes.Add(1)
		} else {
			g.counts.probesLeftOut.Add(1)
		}
	})
	g.probes.most = g.config.ProbeRate
	g.probes.drop = func(transport) { g.counts.probesLeftOut.Add(1) }
}

// question returns the question of the device's protocol, appended to dst; nothing if it has none.
// A codec that panics costs the question.
func (t *conversation) question(g *Gateway, dst []byte) (out []byte) {
	p, ok := t.codec.(codec.Prober)
	if !ok {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			g.counts.panics.Add(1)
			g.log.Error("a probe made a codec panic; it is not sent", "device", t.id(), "panic", v, "stack", string(debug.Stack()))
			out = nil
		}
	}()
	return p.Probe(dst)
}

// canProbe reports whether the device's protocol has a question. The codec of a connection does not
// change once the session is open, and that was done with the lock held with which this is called.
func (t *conversation) canProbe() bool {
	_, ok := t.codec.(codec.Prober)
	return ok
}
