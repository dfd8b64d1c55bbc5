package ear

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// idlePulse is the time between pulses while no deadline is near, nearPulse the least there is.
	idlePulse = 200 * time.Millisecond
	nearPulse = 10 * time.Millisecond
	// settle is how much longer than the probe a heartbeat may take from the socket to its handler.
	settle = 50 * time.Millisecond
	// lookAgain is when to ask again whether who waited is in and what was unread is read, and enterWithin and readWithin how long that is
	// waited for.
	lookAgain   = 2 * time.Millisecond
	enterWithin = 30 * time.Second
	readWithin  = 5 * time.Second
	// costly is how many times longer than asking the kernel takes the next pulse is away.
	costly = 8
)

// Source is what an ear tells how far it is. A *liveness.Source of one part is one; its methods mean the same there.
type Source interface {
	Pulse(now time.Time) time.Duration
	Watermark(part int, listened time.Duration)
	Next() (time.Duration, bool)
	Sooner() <-chan struct{}
}

// Ear keeps the listening clock of a source. Make one with [New].
type Ear struct {
	source  Source
	sockets *Sockets
	deaf    func() bool
	flights *flights
	running atomic.Bool
}

// New returns an ear of a source that hears through sockets. While deaf returns true, through no fault of the devices, nothing is
// listened to; it is called by Run's goroutine and must return at once. nil: never deaf.
func New(source Source, sockets *Sockets, deaf func() bool) *Ear {
	if deaf == nil {
		deaf = func() bool { return false }
	}
	return &Ear{source: source, sockets: sockets, deaf: deaf, flights: newFlights()}
}

// Enter says that something which may hold a heartbeat is being handled: the clock does not pass it before [Ear.Leave] is called with
// what Enter returned. It takes no lock.
func (e *Ear) Enter() uint32 { return e.flights.enter() }

// Leave says that it is handled.
func (e *Ear) Leave(turn uint32) { e.flights.leave(turn) }

// Run keeps the clock until ctx is done, and returns nil then. While another Run does so, it returns nil at once. It fails at once if
// the process has no descriptors left.
func (e *Ear) Run(ctx context.Context) error {
	if !e.running.CompareAndSwap(false, true) {
		return nil
	}
	defer e.running.Store(false)
	if err := e.run(ctx); err != nil {
		return fmt.Errorf("listening clock: %w", err)
	}
	return nil
}

func (e *Ear) run(ctx context.Context) error {
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	e.sockets.begin()
	defer e.sockets.end()
	p := probe{ear: e, in: in, back: make(chan struct{}, 1)}
	var reading sync.WaitGroup
	reading.Go(func() { p.read(out) })
	err = p.run(ctx)
	err = errors.Join(err, in.Close(), out.Close())
	reading.Wait()
	return err
}

// probe finds out what has been handled.
type probe struct {
	ear  *Ear
	in   io.Writer
	back chan struct{} // room for one; never closed; receives when the byte has come out

	last     time.Time     // the latest pulse
	listened time.Duration // what it returned
	stage    stage
	began    time.Time     // when the stage did
	named    time.Duration // what has passed when the probe is through
	asked    []uint64      // of each listener, what it is asked for to know that all are in that waited
	unread   []unread
	cost     time.Duration // what it took to find them
	again    time.Duration // what it took to look again
	turn     uint32
}

// stage is how far a probe has come.
type stage int

const (
	idle      stage = iota
	accepting       // connections that wait are to be accepted
	reading         // what they hold is to be read
	first           // the byte is in the pipe
	second          // it is there again
	landing         // what was being handled when it came out is to end
)

// read reads the bytes until the pipe is closed.
func (p *probe) read(out io.Reader) {
	for b := make([]byte, 1); ; {
		if _, err := out.Read(b); err != nil {
			return
		}
		p.back <- struct{}{}
	}
}

func (p *probe) run(ctx context.Context) error {
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for {
		var err error
		select {
		case <-alarm.C:
		case <-p.back:
			err = p.came()
		case <-p.ear.flights.landed:
		case <-p.ear.source.Sooner():
		case <-ctx.Done():
			return nil
		}
		now := time.Now()
		if now.Sub(p.last) >= p.pause() {
			p.pulse(now)
		}
		if err = errors.Join(err, p.advance(now)); err != nil {
			return err
		}
		wait := time.Until(p.last.Add(p.pause()))
		if p.stage == accepting || p.stage == reading {
			wait = min(wait, max(lookAgain, costly*p.again))
		}
		alarm.Reset(wait)
	}
}

// pulse tells the source that it listens, and begins a probe unless one is under way.
func (p *probe) pulse(now time.Time) {
	p.last = now
	if p.ear.deaf() {
		return
	}
	p.listened = p.ear.source.Pulse(now)
	if p.stage == idle {
		p.stage, p.began, p.named = accepting, now, p.listened-settle
		p.asked = p.ear.sockets.asked(p.asked)
	}
}

// advance takes the probe as far as it can go now.
func (p *probe) advance(now time.Time) error {
	stood := now.Sub(p.began)
	if p.stage == accepting && (stood >= enterWithin || p.ear.sockets.entered(p.asked)) {
		p.stage, p.began, p.unread = reading, now, p.ear.sockets.unread(p.unread[:0])
		p.cost, stood = time.Since(now), 0
	} else if p.stage == reading {
		p.unread = p.ear.sockets.still(p.unread)
		p.again = time.Since(now)
	}
	if p.stage == reading && (stood >= readWithin || len(p.unread) == 0) {
		p.stage = first
		return p.send()
	}
	if p.stage == landing && p.ear.flights.empty(p.turn) {
		p.stage = idle
		p.ear.source.Watermark(0, p.named)
	}
	return nil
}

func (p *probe) send() error {
	_, err := p.in.Write([]byte{0})
	return err
}

// came is called when the byte has come out.
func (p *probe) came() error {
	if p.stage == first {
		p.stage = second
		return p.send()
	}
	p.stage = landing
	p.turn = p.ear.flights.next()
	return nil
}

// pause returns how long after the latest pulse the next is due.
func (p *probe) pause() time.Duration {
	least := min(max(nearPulse, costly*p.cost), idlePulse)
	if next, ok := p.ear.source.Next(); ok {
		return max(min(idlePulse, next+settle-p.listened), least)
	}
	return idlePulse
}
