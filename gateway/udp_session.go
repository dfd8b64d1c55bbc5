package gateway

import (
	"context"
	"fmt"
	"hash/maphash"
	"strings"
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
	replaced  atomic.Bool   // the device has come back on another transport
	dismissed atomic.Bool   // an operator has ended its session
	queued    atomic.Bool   // it may have to leave the table
	place     atomic.Uint64 // where the latest datagram came from, a place
	asks      atomic.Bool   // it can be asked for a sign of life, where its latest datagram came from

	mu           sync.Mutex // guards the fields below
	conversation conversation
	reader       *reader         // that heard it last
	home         *endpoint       // where the latest datagram came from, which proved whose it is; nil if it did not
	said         liveness.Policy // what the device announced last
	gone         bool            // from the table
	moves        uint8           // how many times in a row it came from a new place, up to wandersAfter
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
	switch {
	case m.Epoch > t.session.Epoch():
		v.said = liveness.Policy{Timeout: m.Timeout, Interval: m.Interval}
		return false, false
	case m.Epoch != 0 && m.Epoch < t.session.Epoch():
		t.broken, o.Err = true, unwelcome(liveness.ErrStaleEpoch)
		return true, true
	}
	said := liveness.Policy{Timeout: m.Timeout, Interval: m.Interval}
	if said != (liveness.Policy{}) && said != v.said {
		if _, err := t.session.UpdatePolicy(x.now, said); err != nil {
			o.Err = t.refusal(err)
			return true, false
		}
		v.said = said
	}
	_, holds, _ := x.gateway.registry.Announced(v.id)
	o.Epoch, o.Timeout, o.Interval = t.session.Epoch(), holds.Timeout, holds.Interval
	return true, false
}

// leaveLocked takes the device out of the table.
func (v *udpSession) leaveLocked() {
	if !v.gone {
		v.gone = true
		v.wanderLocked(0)
		v.udp.table.remove(v)
	}
}

// settle drops the device if it is still to leave: it may have sent something in between.
func (v *udpSession) settle(now time.Duration) {
	v.queued.Store(false)
	v.mu.Lock()
	defer v.mu.Unlock()
	dismissed := v.dismissed.Load()
	if v.gone || !dismissed && !v.replaced.Load() && !v.conversation.session.Judged() {
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

// tableShards is the number of parts of the table, each with its own lock.
const tableShards = 64

// table holds the devices that send datagrams.
type table struct {
	seed   maphash.Seed
	most   int64
	held   atomic.Int64
	shards [tableShards]struct {
		mu      sync.Mutex // guards devices
		devices map[string]*udpSession

		_ [48]byte
	}
}

func (t *table) init(most int) {
	t.seed, t.most = maphash.MakeSeed(), int64(most)
	for i := range t.shards {
		t.shards[i].devices = make(map[string]*udpSession)
	}
}

// find returns the device with an id, or nil.
func (t *table) find(id string) *udpSession {
	sh := &t.shards[maphash.String(t.seed, id)%tableShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.devices[id]
}

// enter returns the device with an id, and makes it if there is room for it; else it returns nil.
// It copies the id.
func (t *table) enter(u *udp, id string) *udpSession {
	sh := &t.shards[maphash.String(t.seed, id)%tableShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if v := sh.devices[id]; v != nil {
		return v
	}
	if t.held.Add(1) > t.most {
		t.held.Add(-1)
		return nil
	}
	v := &udpSession{id: strings.Clone(id), udp: u}
	sh.devices[v.id] = v
	return v
}

// remove removes a device, which must be in the table.
func (t *table) remove(v *udpSession) {
	sh := &t.shards[maphash.String(t.seed, v.id)%tableShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.devices, v.id)
	t.held.Add(-1)
}

// all calls f with each device that is there from the beginning to the end, until f returns false.
func (t *table) all(f func(*udpSession) bool) {
	var some []*udpSession
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		some = some[:0]
		for _, v := range sh.devices {
			some = append(some, v)
		}
		sh.mu.Unlock()
		for _, v := range some {
			if !f(v) {
				return
			}
		}
	}
}

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

func (l *leaving) take() []*udpSession {
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
		for _, v := range l.take() {
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
