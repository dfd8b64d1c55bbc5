package testmqtt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// FleetConfig describes a fleet. A device with the number n has the id "device-%05d", one with a last
// will "will-%05d". Beats go to "fleet/ID/beat". The last will "offline" and the birth message "online",
// which follows each connect, go to "fleet/ID/status" and are retained.
type FleetConfig struct {
	// Broker is a host and port, or a URL without a path.
	Broker string
	// Devices is the number of devices that share a few connections.
	Devices int
	// Wills is the number of devices with their own connection and last will.
	Wills int
	// Interval is the time between two beats of a device. Each device has its own phase.
	Interval time.Duration
	// Dial connects to the broker. Default: by the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	connections = 4                      // shared by the devices without a last will
	keepAlive   = 30 * time.Second       // of all connections; half of it after the last ping, another one is sent
	retry       = 200 * time.Millisecond // between two attempts to connect, with jitter of up to half of it
)

// Device is a snapshot of a simulated device.
type Device struct {
	ID string
	// Begun and Last are the instants between which its last beat was handed to a socket. They are zero
	// before the first beat. The broker has read the beat only if it went on reading.
	Begun, Last time.Time
	// Beats is the number of beats handed to sockets.
	Beats int64
	// Killed is when it was killed; zero if it is alive.
	Killed time.Time
}

// device is one of a link's devices.
type device struct {
	id     string
	packet []byte        // a beat
	phase  time.Duration // within [0, Interval)
	begun  atomic.Int64  // Unix nanoseconds, 0: never
	last   atomic.Int64
	beats  atomic.Int64
	killed atomic.Int64
	link   *link
}

// Fleet simulates devices that send beats while Run runs. All methods may be called concurrently.
type Fleet struct {
	cfg        FleetConfig
	devices    []*device
	byID       map[string]*device
	links      []*link
	dialing    chan struct{} // semaphore for connection attempts
	reconnects atomic.Int64
}

// NewFleet returns a fleet that is not running yet.
func NewFleet(cfg FleetConfig) (*Fleet, error) {
	if _, after, ok := strings.Cut(cfg.Broker, "://"); ok {
		cfg.Broker = after
	}
	if cfg.Broker == "" || cfg.Devices < 0 || cfg.Wills < 0 || cfg.Interval <= 0 {
		return nil, errors.New("testmqtt: a fleet needs a broker, numbers of devices that are not negative, and an interval")
	}
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	f := &Fleet{cfg: cfg, byID: make(map[string]*device), dialing: make(chan struct{}, 64)}
	random := rand.New(rand.NewPCG(0, 1)) // the same phases each time
	shared := make([]*link, min(connections, cfg.Devices))
	for i := range shared {
		shared[i] = f.newLink(fmt.Sprintf("fleet-%d", i), "")
	}
	for i := range cfg.Devices {
		f.add(fmt.Sprintf("device-%05d", i), shared[i%len(shared)], random)
	}
	for i := range cfg.Wills {
		id := fmt.Sprintf("will-%05d", i)
		f.add(id, f.newLink(id, "fleet/"+id+"/status"), random)
	}
	for _, l := range f.links {
		slices.SortFunc(l.devices, func(a, b *device) int { return cmp.Compare(a.phase, b.phase) })
	}
	return f, nil
}

func (f *Fleet) newLink(id, status string) *link {
	l := &link{fleet: f, id: id, status: status, ended: make(chan struct{})}
	f.links = append(f.links, l)
	return l
}

func (f *Fleet) add(id string, l *link, random *rand.Rand) {
	d := &device{
		id: id, link: l, phase: time.Duration(random.Int64N(int64(f.cfg.Interval))), packet: appendPublish(nil, "fleet/"+id+"/beat", "beat", false),
	}
	l.devices = append(l.devices, d)
	f.devices = append(f.devices, d)
	f.byID[id] = d
}

// Run connects all devices and lets them beat until ctx is done. Then it closes the connections
// without a DISCONNECT. Call it once.
func (f *Fleet) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	start := time.Now()
	for _, l := range f.links {
		wg.Go(func() { l.run(ctx, start) })
	}
	wg.Wait()
	return ctx.Err()
}

// Reconnects returns the number of connections made again.
func (f *Fleet) Reconnects() int64 { return f.reconnects.Load() }

// Devices returns all devices in the order of their numbers, those with last wills at the end.
// O(devices).
func (f *Fleet) Devices() []Device {
	list := make([]Device, len(f.devices))
	for i, d := range f.devices {
		list[i] = d.view()
	}
	return list
}

// Device returns a device, and whether there is one with that id.
func (f *Fleet) Device(id string) (Device, bool) {
	d, ok := f.byID[id]
	if !ok {
		return Device{}, false
	}
	return d.view(), true
}

func (d *device) view() Device {
	return Device{
		ID: d.id, Begun: instant(d.begun.Load()), Last: instant(d.last.Load()), Beats: d.beats.Load(), Killed: instant(d.killed.Load()),
	}
}

func instant(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}

// Kill ends a device and returns when that was. It stops beating; at most one beat that is on its way
// follows. The connection of one with a last will is closed without a DISCONNECT. It reports whether the
// device exists and was alive.
func (f *Fleet) Kill(id string) (time.Time, bool) {
	d, ok := f.byID[id]
	if !ok {
		return time.Time{}, false
	}
	now := time.Now()
	if !d.killed.CompareAndSwap(0, now.UnixNano()) {
		return time.Time{}, false
	}
	if d.link.status != "" {
		d.link.end()
	}
	return now, true
}

// link is a connection with its devices. Only its own goroutine writes to it.
type link struct {
	fleet   *Fleet
	id      string
	status  string // topic of the last will; empty for a shared connection
	devices []*device
	ended   chan struct{} // closed by end

	mu   sync.Mutex // guards the fields below
	conn net.Conn   // nil while there is none
	over bool
}

// end closes the connection for good.
func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.over = true
	close(l.ended)
	if l.conn != nil {
		l.conn.Close()
	}
}

// adopt makes a connection the link's, unless the link has ended.
func (l *link) adopt(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.conn = c
	return true
}
