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

// FleetConfig describes a fleet. In the texts, {device} stands for a device's id.
type FleetConfig struct {
	// Broker is a host and port, or a URL without a path.
	Broker string
	// User and Password for the broker, if it asks.
	User, Password string
	// Devices publish through Connections that they share; Default of Connections: 4.
	Devices, Connections int
	// Wills are devices with a connection and a last will each.
	Wills int
	// Interval between two beats of a device; default 1 s. Each device has a phase of its own.
	Interval time.Duration
	// Topic and Payload of a beat; default "fleet/{device}/beat" and "beat".
	Topic, Payload string
	// Name and WillName make ids of a number; default "device-%05d" and "will-%05d". They must not meet.
	Name, WillName string
	// WillTopic, WillPayload and BirthPayload: the topic of the last will, and of the birth message that follows each connect; the default is
	// "fleet/{device}/status" with "offline" and "online", retained unless Fleeting is set. An empty BirthPayload is not published.
	WillTopic, WillPayload, BirthPayload string
	Fleeting                             bool
	// KeepAlive is that of all connections, in whole seconds; default 30 s. Half of it after it was last sent, each sends a ping.
	KeepAlive time.Duration
	// Retry is the time between two attempts to connect, up to half of it more or less; default 200 ms.
	Retry time.Duration
	// Seed makes the phases, which depend on nothing else.
	Seed uint64
}

func (c FleetConfig) withDefaults() (FleetConfig, error) {
	if _, after, ok := strings.Cut(c.Broker, "://"); ok {
		c.Broker = after
	}
	c.Connections = cmp.Or(c.Connections, 4)
	c.Interval = cmp.Or(c.Interval, time.Second)
	c.Topic, c.Payload = cmp.Or(c.Topic, "fleet/{device}/beat"), cmp.Or(c.Payload, "beat")
	c.Name, c.WillName = cmp.Or(c.Name, "device-%05d"), cmp.Or(c.WillName, "will-%05d")
	if c.WillTopic == "" && c.WillPayload == "" && c.BirthPayload == "" {
		c.WillTopic, c.WillPayload, c.BirthPayload = "fleet/{device}/status", "offline", "online"
	}
	c.KeepAlive, c.Retry = cmp.Or(c.KeepAlive, 30*time.Second), cmp.Or(c.Retry, 200*time.Millisecond)
	if c.Broker == "" || c.Devices < 0 || c.Wills < 0 || c.Connections < 1 || c.Interval <= 0 || c.KeepAlive < time.Second || c.Retry <= 0 {
		return c, errors.New("testmqtt: a fleet needs a broker, devices, connections, an interval, a keep alive of a second or more and a retry")
	}
	return c, nil
}

// Device is what is known of a simulated device.
type Device struct {
	ID string
	// Begun and Last frame its last beat: that was handed to the socket of a connection between them. Zero if there was none. The broker
	// has read it only if it went on reading.
	Begun, Last time.Time
	// Beats were handed to sockets.
	Beats int64
	// Killed is when it was killed; zero if it is alive.
	Killed time.Time
	// Will says that it has a connection and a last will of its own.
	Will bool
}

// device is one of a link's devices.
type device struct {
	id     string
	packet []byte        // a beat
	phase  time.Duration // in [0, interval)
	will   bool
	begun  atomic.Int64 // Unix nanoseconds, 0: never
	last   atomic.Int64
	beats  atomic.Int64
	killed atomic.Int64
	link   *link
}

// Fleet is a load of simulated devices that beat for as long as Run runs. All methods may be called at any time from any goroutine.
type Fleet struct {
	cfg        FleetConfig
	devices    []*device
	byID       map[string]*device
	links      []*link
	dialing    chan struct{} // as many as may connect at once
	ready      chan struct{} // closed when all links were connected
	waiting    atomic.Int64  // links that were not connected yet
	reconnects atomic.Int64
}

// NewFleet returns a fleet that is not running yet.
func NewFleet(cfg FleetConfig) (*Fleet, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &Fleet{cfg: cfg, byID: make(map[string]*device), dialing: make(chan struct{}, 64), ready: make(chan struct{})}
	random := rand.New(rand.NewPCG(cfg.Seed, 1)) // the same each time is the point
	shared := make([]*link, min(cfg.Connections, cfg.Devices))
	for i := range shared {
		shared[i] = f.newLink(fmt.Sprintf("fleet-%d", i), nil)
	}
	for i := range cfg.Devices {
		f.add(fmt.Sprintf(cfg.Name, i), shared[i%len(shared)], random)
	}
	for i := range cfg.Wills {
		id := fmt.Sprintf(cfg.WillName, i)
		l := f.newLink(id, &will{topic: fill(cfg.WillTopic, id), payload: fill(cfg.WillPayload, id), retain: !cfg.Fleeting})
		if cfg.BirthPayload != "" {
			l.birth = appendPublish(nil, l.will.topic, fill(cfg.BirthPayload, id), !cfg.Fleeting)
		}
		f.add(id, l, random)
	}
	if len(f.byID) != len(f.devices) {
		return nil, fmt.Errorf("testmqtt: Name %q and WillName %q do not make %d different ids", cfg.Name, cfg.WillName, len(f.devices))
	}
	for _, l := range f.links {
		slices.SortFunc(l.devices, func(a, b *device) int { return cmp.Compare(a.phase, b.phase) })
	}
	f.waiting.Store(int64(len(f.links)))
	return f, nil
}

func fill(text, id string) string { return strings.ReplaceAll(text, "{device}", id) }

func (f *Fleet) newLink(id string, w *will) *link {
	l := &link{fleet: f, id: id, will: w, ended: make(chan struct{})}
	f.links = append(f.links, l)
	return l
}

func (f *Fleet) add(id string, l *link, random *rand.Rand) {
	d := &device{
		id: id, link: l, will: l.will != nil, phase: time.Duration(random.Int64N(int64(f.cfg.Interval))),
		packet: appendPublish(nil, fill(f.cfg.Topic, id), fill(f.cfg.Payload, id), false),
	}
	l.devices = append(l.devices, d)
	f.devices = append(f.devices, d)
	f.byID[id] = d
}

// Run connects all and lets them beat until ctx is done; then connections close without a word. It may be called once.
func (f *Fleet) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	start := time.Now()
	for _, l := range f.links {
		wg.Go(func() { l.run(ctx, start) })
	}
	wg.Wait()
	return ctx.Err()
}

// Ready is closed when each connection was there once.
func (f *Fleet) Ready() <-chan struct{} { return f.ready }

// Reconnects is how often a connection was there again.
func (f *Fleet) Reconnects() int64 { return f.reconnects.Load() }

// Devices are all of them in the order of their numbers, those with wills last. O(devices).
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
		ID: d.id, Begun: instant(d.begun.Load()), Last: instant(d.last.Load()), Beats: d.beats.Load(),
		Killed: instant(d.killed.Load()), Will: d.will,
	}
}

func instant(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}

// Kill ends a device for good and returns when that was: it stops beating, at most a beat that is on its way follows. The connection of one
// with a will is closed without a DISCONNECT. It reports whether the device was there and alive.
func (f *Fleet) Kill(id string) (time.Time, bool) { return f.kill(id, nil) }

// Leave is like Kill, but one with a will says goodbye: DISCONNECT, so that its broker does not publish the will.
func (f *Fleet) Leave(id string) (time.Time, bool) { return f.kill(id, disconnect) }

func (f *Fleet) kill(id string, last []byte) (time.Time, bool) {
	d, ok := f.byID[id]
	if !ok {
		return time.Time{}, false
	}
	now := time.Now()
	if !d.killed.CompareAndSwap(0, now.UnixNano()) {
		return time.Time{}, false
	}
	if d.will {
		d.link.end(last)
	}
	return now, true
}

// link is a connection and those who share it. Only its own goroutine writes to it, but for the last word of a device.
type link struct {
	fleet   *Fleet
	id      string
	will    *will  // nil for a shared one
	birth   []byte // a packet
	devices []*device
	ended   chan struct{} // closed by end
	mu      sync.Mutex    // guards the fields below
	conn    net.Conn      // nil while there is none
	over    bool
}

// end closes the connection for good.
func (l *link) end(last []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.over = true
	close(l.ended)
	if l.conn != nil {
		if last != nil {
			l.conn.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = l.conn.Write(last) // it is leaving
		}
		l.conn.Close()
	}
}

// adopt makes a connection the link's, unless that has ended.
func (l *link) adopt(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.conn = c
	return true
}
