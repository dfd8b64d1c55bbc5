//go:build linux

// Package network puts processes of one machine on a network of their own, as if each of them were a machine. Each has a network
// namespace with one interface, and this program carries the packets between the interfaces: at once, later, or not at all.
// Nothing but a packet that does not arrive tells a process that it is cut off, as on a real network.
//
// The queue discipline of the kernel for this, netem, is missing in many kernels; TUN devices are not. They and the namespaces are
// gone as soon as this program and the processes are, however these end. It needs the right to make them (root). Linux only.
package network

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

const (
	// mostPackets is how many packets may be under way at once from one address to another, as with netem. What is more is lost.
	mostPackets = 1000
	// header is the length of a header of IPv4 without options.
	header = 20
	// largest is the size of the largest packet.
	largest = 64 << 10
)

// ErrFull is returned if there are no more addresses, or networks.
var ErrFull = errors.New("network: no address is left")

// Network carries packets. Its methods may be called concurrently.
type Network struct {
	prefix netip.Prefix
	work   sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	next  netip.Addr
	files []*os.File
	hosts map[netip.Addr]*os.File // the interface of each address
	ways  map[pair]*way           // that were ever hindered
}

// pair is where a packet is from, and where to.
type pair struct{ from, to netip.Addr }

// Condition is what happens to packets. Nothing does if it is zero.
type Condition struct {
	Cut    bool          // all are lost
	Delay  time.Duration // how long each is under way; they keep their order
	Jitter time.Duration // by how much this is longer or shorter at random; at most Delay
	Loss   float64       // the share that is lost, from 0 to 1
}

// way is the way from one address to another.
type way struct {
	condition Condition
	packets   chan packet // closed by Close
}

type packet struct {
	data []byte
	due  time.Time
	to   *os.File
}

// Host is a machine of the network.
type Host struct {
	Addr netip.Addr

	namespace *os.File
}

// New makes a network in which this program, with all of the machine that is in its namespace, has some addresses. Close it.
func New(addresses int) (*Network, error) {
	n := &Network{hosts: map[netip.Addr]*os.File{}, ways: map[pair]*way{}}
	var err error
	if n.prefix, err = free(); err != nil {
		return nil, err
	}
	n.next = n.prefix.Addr().Next()
	own := make([]netip.Addr, addresses)
	for i := range own {
		if own[i], err = n.address(); err != nil {
			return nil, err
		}
	}
	device, err := newInterface("holter%d", own...)
	if err != nil {
		return nil, err
	}
	n.join(device, own...)
	return n, nil
}

// free returns a network of the range for benchmarks (RFC 2544) that no interface is in.
func free() (netip.Prefix, error) {
	taken, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Prefix{}, err
	}
next:
	for i := range 256 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i), 0}), 24)
		for _, a := range taken {
			if other, err := netip.ParsePrefix(a.String()); err == nil && p.Overlaps(other) {
				continue next
			}
		}
		return p, nil
	}
	return netip.Prefix{}, ErrFull
}

// address returns the next address.
func (n *Network) address() (netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.next
	if n.next = a.Next(); !n.prefix.Contains(n.next) { // the last one is for broadcasts
		n.next = a
		return a, ErrFull
	}
	return a, nil
}

// Own returns one of the addresses of this program, counted from 0.
func (n *Network) Own(i int) netip.Addr {
	a := n.prefix.Addr().As4()
	a[3] += byte(1 + i)
	return netip.AddrFrom4(a)
}

// Add makes a machine, with a network namespace of its own.
func (n *Network) Add() (*Host, error) {
	a, err := n.address()
	if err != nil {
		return nil, err
	}
	namespace, device, err := newNamespace(a)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	n.files = append(n.files, namespace)
	n.mu.Unlock()
	n.join(device, a)
	return &Host{a, namespace}, nil
}

// Command returns the command that runs a program on the machine: the program and its arguments are to follow it.
func (h *Host) Command() []string {
	return []string{"nsenter", fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), h.namespace.Fd())}
}

// join begins to carry what comes out of an interface.
func (n *Network) join(device *os.File, addresses ...netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.files = append(n.files, device)
	for _, a := range addresses {
		n.hosts[a] = device
	}
	n.work.Go(func() { n.carry(device) })
}

// carry carries packets until the interface is closed.
func (n *Network) carry(device *os.File) {
	buf := make([]byte, largest)
	for {
		length, err := device.Read(buf)
		if err != nil {
			return
		}
		n.pass(buf[:length])
	}
}

// pass hands a packet on, if it is one of IPv4 to somebody who is there.
func (n *Network) pass(data []byte) {
	if len(data) < header || data[0]>>4 != 4 {
		return
	}
	key := pair{netip.AddrFrom4([4]byte(data[12:16])), netip.AddrFrom4([4]byte(data[16:20]))}
	n.mu.Lock()
	to, w := n.hosts[key.to], n.ways[key]
	if to != nil && w != nil {
		w.pass(data, to)
		to = nil
	}
	n.mu.Unlock()
	if to != nil {
		_, _ = to.Write(data) // a packet may be lost
	}
}

// pass lets a packet wait for its time, or loses it. Call it with mu of the network held.
func (w *way) pass(data []byte, to *os.File) {
	c := &w.condition
	if c.Cut || rand.Float64() < c.Loss {
		return
	}
	delay := c.Delay
	if c.Jitter > 0 {
		delay += rand.N(2*c.Jitter) - c.Jitter
	}
	select {
	case w.packets <- packet{append([]byte(nil), data...), time.Now().Add(delay), to}:
	default:
	}
}

// deliver hands over what has waited.
func (w *way) deliver() {
	for p := range w.packets {
		if wait := time.Until(p.due); wait > 0 {
			<-time.After(wait)
		}
		_, _ = p.to.Write(p.data) // a packet may be lost
	}
}

// Set sets what happens to packets from one address to another, from now on.
func (n *Network) Set(from, to netip.Addr, c Condition) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.ways[pair{from, to}]
	if w == nil {
		w = &way{packets: make(chan packet, mostPackets)}
		n.ways[pair{from, to}] = w
		n.work.Go(w.deliver)
	}
	w.condition = c
}

// Close ends the network.
func (n *Network) Close() error {
	n.mu.Lock()
	var errs []error
	for _, f := range n.files {
		errs = append(errs, f.Close())
	}
	n.files = nil
	for key, w := range n.ways {
		close(w.packets)
		delete(n.ways, key)
	}
	n.mu.Unlock()
	n.work.Wait()
	return errors.Join(errs...)
}
