package loadgen_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/loadgen"
)

// memory is a network in memory, at which one server listens. In a bubble of synctest, nothing in it takes time but the way.
type memory struct {
	waiting chan net.Conn // unbuffered and never closed
	closed  chan struct{} // closed by Close
	close   func()
}

func newMemory() *memory {
	m := &memory{waiting: make(chan net.Conn), closed: make(chan struct{})}
	m.close = sync.OnceFunc(func() { close(m.closed) })
	return m
}

// Accept implements [net.Listener].
func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.waiting:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (m *memory) Close() error {
	m.close()
	return nil
}

// Addr implements [net.Listener].
func (m *memory) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// dial connects to the server.
func (m *memory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case m.waiting <- far{there}:
		return far{here}, nil
	case <-m.closed:
		return nil, syscall.ECONNREFUSED
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// far is one end of a connection.
type far struct{ net.Conn }

// Write implements [net.Conn].
func (f far) Write(b []byte) (int, error) {
	time.Sleep(100 * time.Microsecond) // the way
	return f.Conn.Write(b)
}

// simulated plays devices of the protocol line as a [drive.Drive] does, over a network in memory. It knows the acts of the plans of these
// tests only.
type simulated struct {
	drive.Config

	network *memory
	fates   *plan.Fates
	begun   chan struct{} // closed by Begin

	mu     sync.Mutex // guards the fields below, and the state of devices
	at     time.Time  // when the phases begin
	all    []*puppet
	stats  drive.Stats
	truths []plan.Truth
}

// state is what a device does.
type state uint8

const (
	pausing state = iota // until it tries again
	open
	away
)

// puppet is a device. Its goroutine owns it.
type puppet struct {
	*simulated

	n        int
	state    state
	due      time.Time // of the next heartbeat, of the next attempt, or of its return; zero: never
	last     time.Time // sign of life
	seen     bool
	conn     net.Conn
	lost     chan struct{} // closed when the connection has ended; nil without one
	absences []plan.Truth
}

// players returns what plays devices in a network.
func (m *memory) players(cfg drive.Config) (loadgen.Player, error) {
	s := &simulated{Config: cfg, network: m, fates: cfg.Plan.Fates(plan.Range{From: cfg.From, To: cfg.To}), begun: make(chan struct{})}
	s.stats.Errors = map[string]uint64{}
	for n := cfg.From; n < cfg.To; n++ {
		s.all = append(s.all, &puppet{simulated: s, n: n, due: cfg.Start.Add(cfg.Wait + time.Duration(float64(n-cfg.From)/cfg.Rate*float64(time.Second)))})
	}
	return s, nil
}

// Run implements [loadgen.Player].
func (s *simulated) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, d := range s.all {
		wg.Go(func() { d.run(ctx, &wg) })
	}
	wg.Wait()
	return ctx.Err()
}

// Begin implements [loadgen.Player].
func (s *simulated) Begin(at time.Time) {
	s.at = at
	close(s.begun)
}

// Stats implements [loadgen.Player].
func (s *simulated) Stats() drive.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.stats
	now.At, now.Devices = time.Now(), len(s.all)
	for _, d := range s.all {
		switch d.state {
		case open:
			now.Welcomed++
		case away:
			now.Away++
		case pausing:
		}
		if d.seen {
			now.Seen++
		}
	}
	return now
}

// Truths implements [loadgen.Player].
func (s *simulated) Truths() []plan.Truth {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.truths
	s.truths = nil
	return all
}

// run plays the device until ctx ends.
func (d *puppet) run(ctx context.Context, wg *sync.WaitGroup) {
	begun, steps := d.begun, d.fates.Of(d.n)
	for {
		next, isStep := d.due, false
		if begun == nil && len(steps) > 0 {
			if at := d.at.Add(steps[0].At); next.IsZero() || !at.After(next) {
				next, isStep = at, true
			}
		}
		var due <-chan time.Time
		if !next.IsZero() {
			due = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			d.hangUp()
			return
		case <-begun:
			begun = nil
		case <-d.lost:
			d.hangUp()
			if d.state == open {
				d.miss(time.Time{}, "closed by peer")
			}
		case <-due:
			switch {
			case isStep:
				d.act(ctx, wg, steps[0])
				steps = steps[1:]
			case d.conn != nil:
				d.beat()
			default:
				d.connect(ctx, wg)
			}
		}
	}
}

func (d *puppet) hangUp() {
	if d.conn != nil {
		_ = d.conn.Close()
	}
	d.conn, d.lost = nil, nil
}

// hello greets on a new connection, and returns when it did and when it was welcomed.
func (d *puppet) hello(ctx context.Context, wg *sync.WaitGroup) (conn net.Conn, lost chan struct{}, greeted, heard time.Time) {
	conn, err := d.network.dial(ctx, "", "")
	if err != nil {
		return nil, nil, greeted, heard
	}
	greeted = time.Now()
	lines := bufio.NewScanner(conn)
	if _, err := fmt.Fprintf(conn, "HELLO %s ttl=%d\n", d.Plan.DeviceID(d.n), int(d.Plan.Timeout.Seconds())); err != nil || !lines.Scan() {
		_ = conn.Close()
		return nil, nil, greeted, heard
	}
	heard, lost = time.Now(), make(chan struct{})
	wg.Go(func() {
		defer close(lost)
		for lines.Scan() {
			d.mu.Lock()
			d.stats.Answered++
			d.mu.Unlock()
		}
		_ = conn.Close()
	})
	return conn, lost, greeted, heard
}

func (d *puppet) connect(ctx context.Context, wg *sync.WaitGroup) {
	conn, lost, greeted, heard := d.hello(ctx, wg)
	if conn == nil {
		d.miss(greeted, "closed by peer")
		return
	}
	d.conn, d.lost = conn, lost
	d.mu.Lock()
	d.stats.Connects++
	d.stats.Welcomes++
	d.seen = true
	d.mu.Unlock()
	d.back(greeted, heard)
}

// back notes a sign of life after an absence, or the first one.
func (d *puppet) back(at, heard time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.absences {
		t.Back, t.Heard = at, heard
		d.truths = append(d.truths, t)
	}
	d.state, d.last, d.absences = open, at, nil
	interval, phase := d.Plan.Interval, d.Plan.Interval*time.Duration(d.n)/time.Duration(d.Plan.Devices)
	d.due = d.Start.Add(phase + (time.Since(d.Start) - phase).Truncate(interval) + interval)
}

// miss notes that it lost its connection or got none.
func (d *puppet) miss(greeted time.Time, cause string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := plan.Truth{Device: d.n, At: time.Now(), Last: d.last, Connected: d.state == open, Greeted: greeted, Cause: cause}
	d.absences, d.truths = append(d.absences, t), append(d.truths, t)
	d.stats.Lost++
	d.state, d.due = pausing, time.Now().Add(d.Plan.Backoff)
}

func (d *puppet) beat() {
	at := time.Now()
	if _, err := io.WriteString(d.conn, "PING 1\n"); err != nil {
		d.due = time.Time{} // the end of the connection is noticed
		return
	}
	d.mu.Lock()
	d.stats.Sent++
	d.mu.Unlock()
	d.back(at, time.Time{})
}

// act does a step.
func (d *puppet) act(ctx context.Context, wg *sync.WaitGroup, s plan.Step) {
	t := plan.Truth{Device: d.n, Kind: s.Kind, At: time.Now(), Last: d.last, Connected: d.state == open}
	switch s.Kind {
	case plan.Duplicate:
		conn, lost, greeted, heard := d.hello(ctx, wg)
		if conn == nil || d.state != open {
			panic("a duplicate does not get in")
		}
		d.hangUp()
		d.conn, d.lost = conn, lost
		t.At, t.Back = greeted, greeted
		d.mu.Lock()
		d.stats.Welcomes++
		d.truths = append(d.truths, t)
		d.mu.Unlock()
		d.back(greeted, heard)
		return
	case plan.Bye:
		if d.conn != nil {
			_, _ = io.WriteString(d.conn, "BYE\n")
		}
		d.conn, d.lost = nil, nil // the gateway closes it
	case plan.Crash:
		d.conn, d.lost = nil, nil // it stays open
	case plan.Close, plan.Reset:
		d.hangUp()
	case plan.Silent:
	default:
		panic(fmt.Sprintf("%v is not simulated", s.Kind))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.absences, d.truths = append(d.absences, t), append(d.truths, t)
	d.state, d.due = away, time.Time{}
	if s.Back > s.At {
		d.due = d.at.Add(s.Back)
	}
}
