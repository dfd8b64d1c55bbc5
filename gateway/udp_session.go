package gateway

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/liveness"
)

// udpSession is the transport of a device that sends datagrams: its conversation goes on from one
// to the next, wherever they come from. It is in the table from the datagram that opened its
// session to its goodbye, the verdict on it, or its return on a connection.
//
// mu is taken before locks of the registry, and not together with one of the table.
type udpSession struct {
	id        string
	udp       *udp
	replaced  atomic.Bool   // its session has ended: the device has come back elsewhere, or its judge is lost
	dismissed atomic.Bool   // an operator has ended its session
	queued    atomic.Bool   // it may have to leave the table
	place     atomic.Uint64 // where the latest datagram came from, a place
	asks      atomic.Bool   // it can be asked for a sign of life, where its latest datagram came from
	flooded   atomic.Int64  // when it sent more than it may last, ns since the gateway's start; 0 for never
	rank      rank          // guarded by the shard of the table

	mu           sync.Mutex // guards the fields below
	conversation conversation
	reader       *reader         // that heard it last
	home         *endpoint       // where the latest datagram came from, which proved whose it is; nil if it did not
	said         liveness.Policy // what the device announced last
	remote       *remoteDevice   // nil unless another process judges the device
	gone         bool            // from the table,
	evicted      bool            // to make room for another
	intake       intake
	messages     *downlink // nil until somebody sends one
	moves        uint8     // how many times in a row it came from a new place, up to wandersAfter
}

// Replaced implements [liveness.Peer]. A device that comes back on a connection does not count as a
// duplicate.
func (v *udpSession) Replaced() {
	v.replaced.Store(true)
	v.udp.leaving.add(v)
}

// Dismissed implements [liveness.Peer].
func (v *udpSession) Dismissed() {
	v.dismissed.Store(true)
	v.udp.leaving.add(v)
}

// Judged implements [liveness.Peer].
func (v *udpSession) Judged() { v.udp.leaving.add(v) }

// Committed implements [liveness.Peer].
func (v *udpSession) Committed() {}

// open reports whether the device's session is that of its datagrams.
func (v *udpSession) open() bool {
	if far := v.conversation.far(); far != nil {
		return v.conversation.established && !far.Ended()
	}
	return v.conversation.established && !v.replaced.Load() && !v.dismissed.Load()
}

// provenLocked reports whether the latest datagram has proved which device sent it.
func (v *udpSession) provenLocked() bool { return v.home != nil }

// greetLocked is called before a message that may open the session.
func (v *udpSession) greetLocked() {
	v.conversation.established = false
	v.replaced.Store(false) // nobody else can set them while the session is not open
	v.dismissed.Store(false)
}

// renewLocked handles a hello on an open session, which in datagrams is how a heartbeat names its
// device. done is false if it begins a new epoch, so that the session is to be opened anew. end is
// true for a datagram of an earlier epoch, which was long on its way: nothing in it counts.
func (v *udpSession) renewLocked(x *exchange) (done, end bool) {
	m, o, t := &x.message, &x.outcome, &v.conversation
	epoch := t.epoch()
	switch {
	case m.Epoch > epoch:
		v.said = liveness.Policy{Timeout: m.Timeout, Interval: m.Interval}
		return false, false
	case m.Epoch != 0 && m.Epoch < epoch:
		t.broken, o.Err = true, unwelcome(liveness.ErrStaleEpoch)
		return true, true
	}
	said := liveness.Policy{Timeout: m.Timeout, Interval: m.Interval}
	if t.far() != nil {
		v.renewFarLocked(x, said)
		return true, false
	}
	if said != (liveness.Policy{}) && said != v.said {
		if _, err := t.session.UpdatePolicy(x.readAtListening, said); err != nil {
			o.Err = t.refusal(err)
			return true, false
		}
		v.said = said
	}
	holds := x.gateway.registry.Operator().PolicyOf(v.id)
	o.Epoch, o.Timeout, o.Interval = epoch, holds.Timeout, holds.Interval
	return true, false
}

// leaveLocked takes the device out of the table.
func (v *udpSession) leaveLocked() {
	v.goneLocked()
	v.udp.table.remove(v)
}

func (v *udpSession) goneLocked() {
	v.gone = true
	v.wanderLocked(0)
	if far := v.conversation.far(); far != nil { // the next datagram opens another
		far.Release(v.udp.gateway.elapsed())
	}
}

// evict ends what the gateway knows of a device that was taken out of the table, and logs the 1st,
// 2nd, 4th, 8th … time. Where it was heard is not known any more, so that what the kernel drops may
// be its heartbeats. Its session in the registry goes on; one at a judge elsewhere is released.
func (v *udpSession) evict(times uint64) {
	v.mu.Lock()
	v.goneLocked()
	v.evicted = true
	v.mu.Unlock()
	g := v.udp.gateway
	v.udp.evicted.Store(int64(time.Since(g.began)))
	if times&(times-1) == 0 {
		g.log.Warn("there are too many devices over UDP; the one that was silent for longest, of those without a token, made room",
			"device", v.id, "times", times, "help", "its heartbeats go on to count; give all devices tokens, or raise gateway.max_connections")
	}
}

// settle drops the device if it is still to leave: it may have sent something in between.
func (v *udpSession) settle(now time.Duration) {
	v.queued.Store(false)
	v.mu.Lock()
	defer v.mu.Unlock()
	if far := v.conversation.far(); far != nil {
		v.settleFarLocked(far)
		return
	}
	dismissed := v.dismissed.Load()
	if !dismissed && !v.replaced.Load() && !v.conversation.session.Judged() {
		return
	}
	if dismissed && v.home != nil {
		v.sendLocked(v.conversation.codec.Goodbye(nil, whyDismissed, nil))
	}
	v.conversation.session.Close(now, liveness.Closed) // changes nothing about a device that is offline, or elsewhere
	v.leaveLocked()
}

// errNoHome is an ErrNotConnected: it is returned for a device whose latest datagram has not proved
// where it is.
var errNoHome = errkind.Errorf(ErrNotConnected,
	"gateway: the device was heard in datagrams that prove nothing, for it needs no token: their address may be forged, so there is none to send to")

// sender returns how to reach the device: a reader with the socket to write to, and a copy of the
// address.
func (v *udpSession) sender() (*reader, endpoint, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.gone || !v.open():
		return nil, endpoint{}, ErrNotConnected
	case v.home == nil:
		return nil, endpoint{}, errNoHome
	}
	return v.reader, *v.home, nil
}

// write sends a datagram to the device's latest proven address. It does not wait, and may be called
// by any goroutine. Errors: the device was not heard with a token, or is gone; the socket is full.
func (v *udpSession) write(out []byte) error {
	r, home, err := v.sender()
	if err != nil {
		return err
	}
	if err := sendTo(r.raw, &home, out); err != nil {
		v.udp.counts.unsent.Add(1)
		return fmt.Errorf("gateway: send datagram: %w", err)
	}
	return nil
}

// sendLocked sends a datagram to the device's proven address, if the kernel takes it.
func (v *udpSession) sendLocked(out []byte) {
	if err := sendTo(v.reader.raw, v.home, out); err != nil {
		v.udp.counts.unsent.Add(1)
	}
}

// where implements transport.
func (v *udpSession) where() *loop { return nil }

// finish implements transport. A device that was judged for its silence is told nothing: who has
// its address now is not known.
func (v *udpSession) finish(e ending) {
	if e.spare {
		return
	}
	v.mu.Lock()
	var out []byte
	if v.conversation.codec != nil {
		out = v.conversation.codec.Goodbye(nil, e.why, e.err)
	}
	v.mu.Unlock()
	_ = v.write(out)
}

// send implements transport.
func (v *udpSession) send(m *outbound) error {
	v.mu.Lock()
	out, err := m.encode(nil, v, &v.conversation, v.reader.listener)
	v.mu.Unlock()
	if err != nil {
		return err
	}
	return v.write(out)
}

// writeProbe implements transport.
func (v *udpSession) writeProbe() bool {
	v.mu.Lock()
	out := v.conversation.question(v.udp.gateway, nil)
	v.mu.Unlock()
	return len(out) > 0 && v.write(out) == nil
}

// Probe implements [liveness.Peer]. Only a device that is known to be where its datagrams come from
// is asked.
func (v *udpSession) Probe() bool {
	if !v.asks.Load() {
		return false
	}
	v.udp.gateway.probes.add(v)
	return true
}

// unsent implements transport: a datagram is with the kernel, or nowhere.
func (v *udpSession) unsent() (n int, ok bool) { return 0, true }

// leaving is a queue of devices that may have to leave the table. Each is in it once at most.
type leaving struct {
	mu    sync.Mutex // guards queue
	queue []*udpSession

	some chan struct{} // room for one; never closed; receives when there are some
}

// add queues a device. It does not block.
func (l *leaving) add(v *udpSession) {
	if v.queued.Swap(true) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, v)
	select {
	case l.some <- struct{}{}:
	default:
	}
}

func (l *leaving) takeSessions() []*udpSession {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.queue
	l.queue = nil
	return taken
}

// run lets devices leave until ctx is done.
func (l *leaving) run(ctx context.Context, source *liveness.Source) error {
	for {
		select {
		case <-l.some:
		case <-ctx.Done():
			return nil
		}
		for _, v := range l.takeSessions() {
			v.settle(source.Time(time.Now()))
		}
	}
}

// goodbye tells the devices whose addresses are proven that the gateway ends, for a second at most,
// and no faster than it closes connections.
func (u *udp) goodbye() {
	tick := time.NewTicker(paceStep)
	defer tick.Stop()
	end, sent := time.Now().Add(time.Second), 0
	u.table.all(func(v *udpSession) bool {
		v.mu.Lock()
		speaks := v.home != nil && v.conversation.codec != nil
		v.mu.Unlock()
		if !speaks {
			return true
		}
		v.finish(ending{transport: v, why: whyShutdown})
		if sent++; sent%u.gateway.closings.perStep == 0 {
			<-tick.C
		}
		return time.Now().Before(end)
	})
}
