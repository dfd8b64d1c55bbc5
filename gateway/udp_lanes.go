package gateway

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// partedFor is how long the lanes of a listener stay parted after the last drop. For as long
	// after a restart, devices may be alive that were not heard yet, so that their addresses are
	// not known.
	partedFor = 10 * time.Minute
	// partAgain is how long a new address waits at most to be let into the main lane.
	partAgain = 500 * time.Millisecond
	// floodEnds is for how long a device must not have sent more than it may to be let into the main
	// lane again.
	floodEnds = time.Second
	// wandersAfter is how many times in a row a device must come from a new address to count as one
	// that always does, for instance behind a NAT that forgets it between two heartbeats.
	wandersAfter = 2
)

// place is the origin of datagrams as lanes tell them apart: an IPv4 address, or a folded IPv6
// address, and a port. The zero place is none.
type place uint64

// placeOf returns the place of an address.
func placeOf(e *endpoint) place {
	port := binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(&e.name.Port))[:])
	if e.name.Family == unix.AF_INET {
		a := (*unix.RawSockaddrInet4)(unsafe.Pointer(&e.name)).Addr
		return newPlace(binary.BigEndian.Uint32(a[:]), port)
	}
	a := e.name.Addr[:]
	if ip := e.address(); ip.Is4() { // mapped into IPv6 at a socket of both
		return newPlace(binary.BigEndian.Uint32(a[12:]), port)
	}
	word := uint32(0)
	for i := 0; i < len(a); i += 4 {
		word = word*fold ^ binary.BigEndian.Uint32(a[i:])
	}
	return newPlace(word, port)
}

func newPlace(word uint32, port uint16) place { return place(word)<<16 | place(port) }

// lanes are the two sockets of a listener. What comes to its port goes to the main one, until that
// overflows. From then on only datagrams from places where devices were heard last go there, and
// all others go to the second: a flood from elsewhere fills that one, and drops nothing of the
// devices'. So does the flood of a device that sends more messages than it may, as long as it does.
// A filter in the kernel, which needs no privilege, parts them by a bitmap of the hashes of places.
//
// The fields belong to the clock's goroutine.
type lanes struct {
	main, aside *reader
	salt        salt
	parted      bool
	broken      bool      // they cannot be parted
	dropped     time.Time // when something was found to have been dropped last
	built       time.Time // the filter
}

// newLane returns the second socket of a listener, and fails where the kernel has no filters for
// that. The first keeps the port for itself: it was bound without SO_REUSEPORT, so another process
// that wants the port is refused unless it sets that option.
func newLane(ctx context.Context, first syscall.RawConn, address string) (*net.UDPConn, error) {
	share := func(c syscall.RawConn, on int) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, on) })
		return errors.Join(err, os.NewSyscallError("setsockopt", failed))
	}
	if err := share(first, 1); err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return share(c, 1) }}
	c, err := lc.ListenPacket(ctx, "udp", address)
	if err == nil {
		if err = attach(first, []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}); err == nil {
			return c.(*net.UDPConn), nil
		}
		_ = c.Close()
	}
	return nil, errors.Join(err, share(first, 0))
}

// attach gives the group of sockets that one belongs to a filter, which returns the index of the
// socket that gets a datagram.
func attach(c syscall.RawConn, filter []unix.SockFilter) error {
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]} // a filter has 4,096 instructions at most
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &program)
	})
	return errors.Join(err, os.NewSyscallError("setsockopt", failed))
}

// part lets only datagrams from known places into the main lane. With anew it tells places apart in
// another way: by chance, some of a flood's places are taken for known ones, and another way takes
// others.
func (l *lanes) part(now time.Time, known []place, anew bool) error {
	if anew {
		l.salt = salt{rand.Uint32() | 1, rand.Uint32() | 1, rand.Uint32() | 1}
	}
	var err error
	for _, size := range []int{maxMap, maxMap / 4, maxMap / 16} { // kernels before 6.8 have room for small filters only
		if err = attach(l.main.raw, l.salt.filter(known, size)); !errors.Is(err, unix.ENOMEM) {
			break
		}
	}
	if err == nil {
		l.parted, l.built = true, now
	}
	return err
}

// join lets everything into the main lane again.
func (l *lanes) join() error {
	l.parted = false
	return attach(l.main.raw, []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}})
}

// keepLanes parts the lanes of listeners whose main lane has just overflowed, keeps the filters up
// to date, and joins the lanes in the end.
func (u *udp) keepLanes(now time.Time, flooded []*lanes) {
	var known []place
	for _, l := range u.lanes {
		anew := slices.Contains(flooded, l)
		var err error
		switch {
		case l.broken:
		case anew || l.parted && (u.places.Load() || u.excluded) && now.Sub(l.built) >= partAgain:
			if known == nil {
				u.places.Store(false)
				known, u.excluded = u.known(now.Sub(u.gateway.began))
			}
			if !l.parted {
				u.gateway.log.Warn("a flood of datagrams fills the socket; those from known addresses of devices get one of their own", "address", l.main.conn.LocalAddr().String())
			}
			err = l.part(now, known, anew)
		case l.parted && now.Sub(l.dropped) >= partedFor:
			u.gateway.log.Info("the flood of datagrams is over", "address", l.main.conn.LocalAddr().String())
			err = l.join()
		}
		if err != nil { // what is dropped makes the source deaf then
			l.parted, l.broken = false, true
			u.gateway.log.Warn("cannot separate datagrams by address", "error", err)
		}
	}
}

// known returns the places where the devices were heard last, without those of devices that sent
// more messages than they may in the last second: their floods are to fill the second lane.
// excluded reports whether there are such.
func (u *udp) known(since time.Duration) (known []place, excluded bool) {
	known = make([]place, 0, u.table.held.Load())
	u.table.all(func(v *udpSession) bool {
		at, flooded := place(v.place.Load()), v.flooded.Load()
		switch {
		case flooded != 0 && since-time.Duration(flooded) < floodEnds:
			excluded = true
		case at != 0:
			known = append(known, at)
		}
		return true
	})
	return known, excluded
}

// exposed reports whether a device that is alive may send from a place that is not known.
func (u *udp) exposed(now time.Time) bool {
	if at := u.evicted.Load(); at != 0 && now.Sub(u.gateway.began)-time.Duration(at) < partedFor {
		return true
	}
	return u.wanderers.Load() > 0 || now.Before(u.warm)
}

// allowedLocked returns how many messages the device may send now. If that is none, the datagram is
// dropped.
func (v *udpSession) allowedLocked(r *reader, since time.Duration) int {
	messages, bytes := v.intake.budget(r.listener, since)
	if messages == 0 || bytes == 0 {
		v.floods(r.address())
		if messages == 0 {
			if before := v.flooded.Swap(int64(since)); before == 0 || since-time.Duration(before) >= floodEnds {
				v.udp.places.Store(true)
			}
		}
		return 0
	}
	return messages
}

// floods counts that a device has sent more than it may, and logs the 1st, 2nd, 4th, 8th … time.
func (v *udpSession) floods(from netip.Addr) {
	u := v.udp
	if n := u.counts.limited.Add(1); n&(n-1) == 0 {
		u.gateway.log.Warn("a device sends more datagrams than it may; those above the limit are dropped",
			"device", v.id, "address", from, "times", n,
			"help", "look at what the device sends; the limits are max_messages and max_bytes of the listener")
	}
}

// cameLocked notes where a datagram of the device came from.
func (v *udpSession) cameLocked(at place) {
	before := place(v.place.Swap(uint64(at)))
	if before == at {
		v.wanderLocked(0)
		return
	}
	v.udp.places.Store(true)
	if before != 0 {
		v.wanderLocked(min(v.moves+1, wandersAfter))
	}
}

// wanderLocked sets how many times in a row the device came from a new place.
func (v *udpSession) wanderLocked(moves uint8) {
	switch {
	case v.moves < wandersAfter && moves == wandersAfter:
		v.udp.wanderers.Add(1)
	case v.moves == wandersAfter && moves < wandersAfter:
		v.udp.wanderers.Add(-1)
	}
	v.moves = moves
}
