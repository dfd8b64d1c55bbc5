package gateway

import (
	"context"
	"fmt"
	"hash/maphash"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/liveness"
)

// udp is the part of the gateway that serves datagrams.
//
// It is a source of its own, whose clock moves as each reader either finds its socket empty, or has
// read as many datagrams as the socket can hold: then all that had come before is handled. What the
// kernel drops because a socket is full may be heartbeats, so the source is deaf then, unless no
// device that is alive can have sent it, see lanes.
//
// The address that a datagram comes from can be forged. So each datagram must name its device and
// show its token, if it has one; wrong tokens are not held against the address; without a valid
// token no answer is longer than the datagram, and nothing is sent but answers.
type udp struct {
	gateway *Gateway
	source  *liveness.Source // nil without readers
	readers []*reader
	lanes   []*lanes // of those listeners that have two
	table   table
	leaving leaving
	errors  budget
	counts  udpCounters
	quiet   time.Time // when a socket was found to have dropped something last that may have been a heartbeat; for the clock alone
	sums    udpErrors // as the clock has seen them
	aside   uint64    // what was dropped since that cannot have been a heartbeat; for the clock alone
	warm    time.Time // until then devices may be alive that were not heard since a restart

	repeat   time.Duration // firstRepeat, but in tests
	losses   atomic.Uint64 // how often datagrams have begun to be lost, or ceased to be: odd while they are
	answers  answers       // of a judge elsewhere
	pulses   atomic.Uint64 // of the clock
	excluded bool          // places of devices that flood are not among the known ones; for the clock alone

	evicted   atomic.Int64 // when a device was evicted from the table last, ns since the gateway's start; 0 for never
	places    atomic.Bool  // a device was heard from a new place, or begins to flood
	wanderers atomic.Int64 // devices that are heard from ever new places
}

// udpCounters are what Stats reports of datagrams.
type udpCounters struct {
	datagrams, garbage, withheld, unsent, dropped, limited, failed atomic.Uint64
	repeated, acknowledged, unacknowledged                         atomic.Uint64
	held                                                           atomic.Int64 // packets
}

// listen binds the sockets of a listener. If the port is shared anyway there are several, among
// which the kernel spreads the devices by their addresses; else there are two lanes.
func (u *udp) listen(ctx context.Context, lc *net.ListenConfig, at Listener) (net.Addr, error) {
	d := &listener{Listener: at}
	var protocols []codec.Packets
	for _, p := range at.Protocols {
		speaks, ok := p.(codec.Packets)
		if !ok {
			return nil, fmt.Errorf("the %s protocol does not come in datagrams (UDP)", p.Name())
		}
		protocols = append(protocols, speaks)
	}
	sockets := 1
	if u.gateway.config.ReusePort {
		sockets = u.gateway.config.Loops
	}
	address := at.Address
	add := func(c net.PacketConn) (*reader, error) {
		r := &reader{udp: u, listener: d, protocols: protocols, conn: c.(*net.UDPConn), part: len(u.readers)}
		u.readers = append(u.readers, r)
		address = c.LocalAddr().String()
		if err := r.prepare(); err != nil {
			return nil, fmt.Errorf("%s: %w", address, err)
		}
		return r, nil
	}
	var r *reader
	for range sockets {
		c, err := lc.ListenPacket(ctx, "udp", address)
		if err != nil {
			return nil, err
		}
		if r, err = add(c); err != nil {
			return nil, err
		}
	}
	if u.gateway.config.ReusePort { // its sockets, and those of other processes, are one group already
		return r.conn.LocalAddr(), nil
	}
	second, err := newLane(ctx, r.raw, address)
	if err != nil {
		u.gateway.log.Warn("no second socket for this address: a flood of datagrams will delay all verdicts on its devices", "address", address, "error", err)
		return r.conn.LocalAddr(), nil
	}
	aside, err := add(second)
	if err != nil {
		return nil, err
	}
	l := &lanes{main: r, aside: aside}
	r.lanes, aside.lanes = l, l
	u.lanes = append(u.lanes, l)
	return r.conn.LocalAddr(), nil
}

func (r *reader) prepare() (err error) {
	if r.raw, err = r.conn.SyscallConn(); err != nil {
		return err
	}
	bound, _ := netip.ParseAddrPort(r.conn.LocalAddr().String())
	r.holds, err = prepare(r.raw, !bound.IsValid() || bound.Addr().IsUnspecified())
	return err
}

// start makes the source, if datagrams are listened to.
func (u *udp) start() (err error) {
	if len(u.readers) == 0 {
		return nil
	}
	c := &u.gateway.config
	u.table.init(c.MaxConnections)
	u.errors.seed = maphash.MakeSeed()
	u.leaving.some = make(chan struct{}, 1)
	u.answers.some = make(chan struct{}, 1)
	u.repeat = firstRepeat
	note := "devices over UDP; its clock follows the reading of the sockets, and it is deaf when one overflows that devices use"
	u.source, err = u.gateway.addSource(ofPackets, note, len(u.readers))
	if err != nil {
		return err
	}
	u.gateway.counts.loops = make([]loopCounters, u.gateway.loopCount+len(u.readers)+1)
	u.answers.exchange = exchange{gateway: u.gateway, counts: &u.gateway.counts.loops[u.gateway.loopCount+len(u.readers)]}
	for i, r := range u.readers {
		r.listener.source = u.source
		r.batch = newBatch()
		r.exchange = exchange{gateway: u.gateway, listener: r.listener, counts: &u.gateway.counts.loops[u.gateway.loopCount+i], sender: r}
	}
	return nil
}

func (u *udp) close() {
	for _, r := range u.readers {
		_ = r.conn.Close()
	}
}

// run serves until ctx is done.
func (u *udp) run(ctx context.Context) error {
	defer u.close()
	if len(u.readers) == 0 {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	u.sums = sumsOfUDP()
	now := time.Now()
	if u.source.Time(now) > 0 { // it goes on after a restart
		u.warm = now.Add(partedFor)
	}
	u.source.Pulse(now) // the listening begins
	for _, r := range u.readers {
		group.Go(func() error { return r.run(ctx) })
	}
	group.Go(func() error { return u.leaving.run(ctx, u.source) })
	group.Go(func() error { return u.answers.run(ctx) })
	group.Go(func() error { return u.keepClock(ctx) })
	group.Go(func() error {
		<-ctx.Done()
		for _, r := range u.readers {
			r.wake()
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	u.goodbye()
	return nil
}

const (
	// maxErrors is how many errors a second are sent to an address, or to the first half of one of
	// IPv6, that has not proved anything.
	maxErrors = 10
	// budgetCells is how many addresses are told apart, more or less: those that fall into one cell
	// share it.
	budgetCells = 4096
)

// budget bounds answers by address. It takes the same memory whatever comes: each cell counts in
// its lowest byte, and holds the second of that count above it.
type budget struct {
	seed  maphash.Seed
	cells [budgetCells]atomic.Uint64
}

// allow reports whether an address may have one more answer at the moment.
func (b *budget) allow(from netip.Addr, now time.Time) bool {
	key := from.As16()
	if from.Is6() && !from.Is4In6() {
		clear(key[8:])
	}
	cell := &b.cells[maphash.Bytes(b.seed, key[:])%budgetCells]
	second := uint64(now.Unix()) << 8
	for {
		old := cell.Load()
		next := second | 1
		if old&^0xff == second {
			if next = old + 1; old&0xff >= maxErrors {
				return false
			}
		}
		if cell.CompareAndSwap(old, next) {
			return true
		}
	}
}

// PacketStats is a snapshot of the datagrams. All but Devices count up from the gateway's start.
type PacketStats struct {
	Devices                      int    // that speak in datagrams, and are bounded by Config.MaxConnections
	Evicted                      uint64 // devices whose latest datagram proved nothing, and that made room for others
	Received                     uint64 // datagrams
	Garbage                      uint64 // datagrams that named no device
	Withheld                     uint64 // answers that were not given: to somebody who proved nothing, they were longer than the datagram, or too many errors
	Unsent                       uint64 // datagrams that the kernel did not take
	Limited                      uint64 // datagrams that were dropped, in whole or in part, because their device sent more than Listener.MaxMessages or MaxBytes
	Repeated                     uint64 // messages that were sent again, because the device had not acknowledged them,
	Acknowledged, Unacknowledged uint64 // and messages that it acknowledged in the end, or did not
	Dropped                      uint64 // datagrams that the kernel dropped because a socket was full; if they may have been heartbeats, the source was deaf
}

func (u *udp) stats() PacketStats {
	return PacketStats{
		Devices:  int(u.table.held.Load()),
		Received: u.counts.datagrams.Load(), Garbage: u.counts.garbage.Load(), Withheld: u.counts.withheld.Load(),
		Evicted: u.table.evicted.Load(), Limited: u.counts.limited.Load(),
		Repeated: u.counts.repeated.Load(), Acknowledged: u.counts.acknowledged.Load(), Unacknowledged: u.counts.unacknowledged.Load(),
		Unsent: u.counts.unsent.Load(), Dropped: u.counts.dropped.Load(),
	}
}
