//go:build linux

package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

var (
	// ErrBusy is returned by Connect and Run while one of them is running.
	ErrBusy = errors.New("fleet: already running")
	// ErrClosed is returned by Connect, Run and Do after Close.
	ErrClosed = errors.New("fleet: closed")
	// ErrNotConnected is returned by Connect if a device got no OK.
	ErrNotConnected = errors.New("fleet: not all devices connected")
	// ErrOrder is returned by Do for a device or an action that does not exist.
	ErrOrder = errors.New("fleet: impossible order")
)

// Fleet plays devices. Make one with New; its methods may be called from any
// goroutine.
type Fleet struct {
	cfg    Config
	target unix.SockaddrInet4

	// turn is held by the one that may wait on ep: Connect, Run or Close. Its
	// capacity of 1 makes it a lock that can be tried. Never closed.
	turn   chan struct{}
	ready  []unix.EpollEvent // owned by the holder of turn
	buffer []byte            // for reading; owned by the holder of turn

	// mu is held for one turn of the loop at a time. All system calls under it
	// are on sockets that do not block; the wait on ep is not under it.
	mu     sync.Mutex // guards the fields below
	closed bool
	ep     int // the epoll instance
	devs   []dev
	conns  []*conn // by descriptor; nil where none is open
	gen    int32   // of the newest conn
	orders orders
	dials  dials
	rounds rounds
	waits  waits
	scrap  []byte // a line being written
	stats  Stats
}

// Stats counts what a Fleet did.
type Stats struct {
	// Heartbeats counts PINGs handed to the kernel, Answers PONGs read, Other
	// lines that mean nothing to a device.
	Heartbeats, Answers, Other uint64
	// Blocked counts heartbeats left out because the gateway did not read and
	// the socket was full.
	Blocked uint64
	// SkippedRounds counts heartbeats of every device left out because this
	// client was late by more than an interval.
	SkippedRounds int
	// RTT is the time from a PING's sending to its PONG's reading, Lateness
	// that from a PING's planned time to its sending; both in microseconds.
	RTT, Lateness *hdrhistogram.Histogram
}

// New returns a fleet that has not dialled yet. It must be closed after use. It
// fails if cfg is bad, with all reasons, or the process is out of descriptors.
func New(cfg Config) (*Fleet, error) {
	cfg, target, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	cfg.SourceIPs = slices.Clone(cfg.SourceIPs)
	f := &Fleet{
		cfg:    cfg,
		target: sockaddr(target),
		turn:   make(chan struct{}, 1),
		ready:  make([]unix.EpollEvent, 512),
		buffer: make([]byte, 64<<10),
		ep:     ep,
		devs:   make([]dev, cfg.Devices),
		dials:  dials{gap: time.Second / time.Duration(cfg.Rate)},
		rounds: rounds{interval: cfg.Interval, n: cfg.Devices},
		stats:  Stats{RTT: micros(), Lateness: micros()},
		waits:  waits{shortest: cfg.RetryMin, longest: cfg.RetryMax, chance: rand.New(rand.NewPCG(cfg.Seed, 1))},
	}
	for i := range f.devs {
		f.devs[i].Index, f.devs[i].ID = i, fmt.Sprintf(cfg.Prefix, i)
	}
	return f, nil
}

// micros returns a histogram of 1 µs to 10 min, exact to 3 digits.
func micros() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, 10*time.Minute.Microseconds(), 3)
}

// sockaddr turns an IPv4 address and port into what the kernel wants.
func sockaddr(a netip.AddrPort) unix.SockaddrInet4 {
	return unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
}

// Connect dials every device that has no connection, sends HELLO, and blocks
// until each has its OK or has failed, or ctx is done. Devices that have their
// OK send heartbeats meanwhile; call Run at once afterwards. The error is
// ErrNotConnected with the number of devices and the first cause, wrapped with
// that of ctx if it is done; Connect may be called again for the rest.
func (f *Fleet) Connect(ctx context.Context) error {
	if !f.take() {
		return ErrBusy
	}
	defer f.give()
	f.begin()
	f.mu.Lock()
	for i := range f.devs {
		if d := &f.devs[i]; d.cur == nil && d.next == nil && !d.queued && !d.retry.waiting {
			d.on = true
			f.dials.add(d, noStep)
		}
	}
	f.mu.Unlock()
	err := f.drive(ctx, f.dials.idle)
	if err != nil && ctx.Err() == nil {
		return err
	}
	return errors.Join(f.missing(), err)
}

// take tries to become the only one that may wait on ep; give ends that.
func (f *Fleet) take() bool {
	select {
	case f.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

func (f *Fleet) give() { <-f.turn }

// begin starts the plan of the heartbeats, once.
func (f *Fleet) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rounds.start.IsZero() {
		f.rounds.start = time.Now()
	}
}

// missing describes the devices without an open connection; nil if there are
// none.
func (f *Fleet) missing() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, first := 0, ""
	for i := range f.devs {
		d := &f.devs[i]
		if d.cur != nil {
			continue
		}
		if n++; first == "" {
			first = fmt.Sprintf("%s: %v %s", d.ID, d.State, d.End.Cause)
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d of %d without; first %s", ErrNotConnected, n, len(f.devs), first)
}

// Run sends the heartbeats of all living devices, reads their answers and
// carries out orders, until ctx is done; it then returns nil and leaves the
// connections open. A device's heartbeats keep their planned times, one in each
// interval; whole rounds missed between Connect and Run, or because the client
// was late, are left out.
func (f *Fleet) Run(ctx context.Context) error {
	if !f.take() {
		return ErrBusy
	}
	defer f.give()
	f.begin()
	err := f.drive(ctx, func() bool { return false })
	if err != nil && ctx.Err() != nil {
		return nil // that is how Run is meant to end
	}
	return err
}

// Do orders an action of the device with this index at an instant, or at once
// if that is zero or past. It returns immediately; the order is carried out by
// Run, or Connect, up to 10 ms late if it was given for less than that ahead,
// and found in the device's Steps afterwards. Orders for one instant are
// carried out as given. Do fails with ErrOrder or ErrClosed.
func (f *Fleet) Do(device int, action Action, at time.Time) error {
	if device < 0 || device >= len(f.devs) || action < Silent || action > Last {
		return fmt.Errorf("%w: %v of device %d", ErrOrder, action, device)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	f.orders.add(order{device: device, action: action, at: at})
	return nil
}

// Truth returns the truth about each device, in the order of their indices. It
// may be called at any time, also after Close; it costs a copy of everything
// and holds up the fleet meanwhile.
func (f *Fleet) Truth() []Device {
	f.mu.Lock()
	defer f.mu.Unlock()
	truth := make([]Device, len(f.devs))
	for i := range f.devs {
		d := &f.devs[i]
		truth[i] = d.clone()
		if d.cur != nil {
			truth[i].End.LastLine = string(d.cur.last)
		}
	}
	return truth
}

// Stats returns a copy of the counts so far.
func (f *Fleet) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stats
	s.RTT, s.Lateness = s.RTT.Clone(), s.Lateness.Clone()
	return s
}

// Close makes Connect and Run return ErrClosed, waits for it, and resets all
// connections. The truth stays as it was. It may be called more than once.
func (f *Fleet) Close() error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.turn <- struct{}{}
	defer f.give()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		if c != nil {
			f.reset(c)
		}
	}
	if f.ep < 0 {
		return nil
	}
	err := unix.Close(f.ep)
	f.ep = -1
	return os.NewSyscallError("close", err)
}
