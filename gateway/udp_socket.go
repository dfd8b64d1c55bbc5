package gateway

import (
	"errors"
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/gateway/codec"
)

const (
	// batchSize is how many datagrams a system call reads or writes.
	batchSize = 64
	// receiveBuffer is the size of a socket's buffer, in bytes. The kernel gives no more than
	// net.core.rmem_max to a process without CAP_NET_ADMIN, and counts twice of it (socket(7)).
	receiveBuffer = 4 << 20
	// leastTaken is the least that a datagram takes of that buffer, however short it is: less than
	// its sk_buff and skb_shared_info.
	leastTaken = 256
)

// endpoint is an address as the kernel writes it, and the control message that says at which of its
// own addresses the kernel received what came from there. Both are used again to answer.
type endpoint struct {
	name        unix.RawSockaddrInet6 // or a RawSockaddrInet4, which is shorter
	control     [5]uint64             // room for an IPV6_PKTINFO, which is the longest; aligned as it must be
	nameSize    uint32
	controlSize uint32
}

// address returns the address.
func (e *endpoint) address() netip.Addr {
	switch e.name.Family {
	case unix.AF_INET:
		return netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(&e.name)).Addr)
	case unix.AF_INET6:
		return netip.AddrFrom16(e.name.Addr).Unmap()
	}
	return netip.Addr{}
}

// anyInterface lets the kernel find the interface to answer through, as routes need not be
// symmetric. Link-local addresses mean nothing without an interface.
func (e *endpoint) anyInterface() {
	if int(e.controlSize) < unix.CmsgLen(0) {
		return
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(&e.control)), e.controlSize)
	h, data, _, err := unix.ParseOneSocketControlMessage(b)
	switch {
	case err != nil:
		e.controlSize = 0
	case h.Level == unix.SOL_IP && h.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
		clear(data[:4])
	case h.Level == unix.SOL_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
		if ip := netip.AddrFrom16([16]byte(data[:16])); !ip.IsLinkLocalUnicast() {
			clear(data[16:20])
		}
	}
}

// mmsghdr is that of recvmmsg(2).
type mmsghdr struct {
	header unix.Msghdr
	size   uint32
}

// batch has room for as many datagrams as are read at once, and for the answers to them.
type batch struct {
	in, out   [batchSize]mmsghdr
	iov, iovs [batchSize]unix.Iovec
	from      [batchSize]endpoint
	begin     [batchSize]int // of an answer, in the bytes of all of them
	buffer    []byte
	read      int // datagrams in it
	answers   int
}

func newBatch() *batch {
	b := &batch{buffer: make([]byte, batchSize*codec.MaxMessage)} // pages that no datagram was long enough for are never there
	for i := range batchSize {
		b.iov[i].Base = &b.buffer[i*codec.MaxMessage]
		b.iov[i].SetLen(codec.MaxMessage)
		h := &b.in[i].header
		h.Name, h.Control, h.Iov = (*byte)(unsafe.Pointer(&b.from[i].name)), (*byte)(unsafe.Pointer(&b.from[i].control)), &b.iov[i]
		h.SetIovlen(1)
		b.from[i].reset(h)
	}
	return b
}

// receive reads what is there. It does not wait: if nothing is, the error is EAGAIN.
func (b *batch) receive(fd uintptr) error {
	b.answers = 0
	n, err := mmsg(unix.SYS_RECVMMSG, fd, b.in[:])
	b.read = max(n, 0)
	for i := range b.read {
		h, e := &b.in[i].header, &b.from[i]
		e.nameSize, e.controlSize = h.Namelen, uint32(h.Controllen)
		e.reset(h)
	}
	return err
}

// reset makes room for the next datagram's address.
func (e *endpoint) reset(h *unix.Msghdr) {
	h.Namelen = uint32(unsafe.Sizeof(e.name))
	h.SetControllen(int(unsafe.Sizeof(e.control)))
}

// datagram returns the i-th that was read.
func (b *batch) datagram(i int) []byte {
	at := i * codec.MaxMessage
	return b.buffer[at : at+int(b.in[i].size) : at+int(b.in[i].size)]
}

// answer notes that the bytes from begin on, up to those of the next answer, are for the sender of
// the i-th datagram.
func (b *batch) answer(i, begin int) {
	e := &b.from[i]
	e.anyInterface()
	b.begin[b.answers] = begin
	b.out[b.answers].header = e.header(&b.iovs[b.answers])
	b.answers++
}

// header addresses a message to the endpoint.
func (e *endpoint) header(iov *unix.Iovec) unix.Msghdr {
	h := unix.Msghdr{Name: (*byte)(unsafe.Pointer(&e.name)), Namelen: e.nameSize, Iov: iov}
	h.SetIovlen(1)
	if e.controlSize > 0 {
		h.Control = (*byte)(unsafe.Pointer(&e.control))
		h.SetControllen(int(e.controlSize))
	}
	return h
}

// send writes the answers, and returns how many could not be written.
func (b *batch) send(fd uintptr, out []byte) (lost int) {
	end := len(out)
	for i := b.answers - 1; i >= 0; i-- {
		b.iovs[i].Base = &out[b.begin[i]]
		b.iovs[i].SetLen(end - b.begin[i])
		end = b.begin[i]
	}
	return sendAll(fd, b.out[:b.answers])
}

// sendAll writes messages without waiting, and returns how many could not be written.
func sendAll(fd uintptr, messages []mmsghdr) (lost int) {
	for len(messages) > 0 {
		n, err := mmsg(unix.SYS_SENDMMSG, fd, messages)
		switch {
		case err == nil:
			messages = messages[n:]
		case errors.Is(err, unix.EAGAIN):
			return lost + len(messages)
		default: // the first cannot be sent, for instance because there is no route
			messages, lost = messages[1:], lost+1
		}
	}
	return lost
}

// sendTo writes one datagram, if it can without waiting.
func sendTo(raw syscall.RawConn, to *endpoint, out []byte) error {
	if len(out) == 0 {
		return nil
	}
	iov := unix.Iovec{Base: &out[0]}
	iov.SetLen(len(out))
	message := []mmsghdr{{header: to.header(&iov)}}
	var sent error
	err := raw.Write(func(fd uintptr) bool {
		_, sent = mmsg(unix.SYS_SENDMMSG, fd, message)
		return true
	})
	return errors.Join(err, os.NewSyscallError("sendmmsg", sent))
}

// mmsg calls recvmmsg(2) or sendmmsg(2), without waiting, and again if a signal came in between.
func mmsg(call, fd uintptr, messages []mmsghdr) (int, error) {
	for {
		n, _, errno := unix.Syscall6(call, fd, uintptr(unsafe.Pointer(&messages[0])), uintptr(len(messages)), unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// prepare sets a socket up, and returns how many datagrams it may hold at most.
func prepare(raw syscall.RawConn, wildcard bool) (holds int, err error) {
	e := raw.Control(func(fd uintptr) {
		if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
		}
		var size, family int
		if size, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF); err != nil {
			return
		}
		holds = size/leastTaken + 1 // the last may begin where there is next to no room
		if _, err = dropped(fd); err != nil || !wildcard {
			return
		}
		if family, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil {
			return
		}
		if family == unix.AF_INET {
			err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_PKTINFO, 1)
		} else {
			err = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, 1)
		}
	})
	return holds, errors.Join(e, os.NewSyscallError("prepare UDP socket", err))
}

// dropped returns how many datagrams the kernel has dropped that were for a socket (SO_MEMINFO,
// Linux 4.12 or later).
func dropped(fd uintptr) (uint32, error) {
	var info [9]uint32 // SK_MEMINFO_VARS of linux/sock_diag.h; the last is SK_MEMINFO_DROPS
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	switch {
	case errno != 0:
		return 0, errno
	case uintptr(size) < unsafe.Sizeof(info):
		return 0, unix.ENOPROTOOPT
	}
	return info[8], nil
}
