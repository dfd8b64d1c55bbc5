package sockets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/liveness/watermark"
)

// LookAgain is when to ask again whether what is waited for at sockets has come about.
const LookAgain = 2 * time.Millisecond

const (
	// nearPulse is the least time between two pulses.
	nearPulse = 10 * time.Millisecond
	// slack is how much longer than the probe byte a heartbeat may take from the socket to Enter.
	slack = 50 * time.Millisecond
	// readWithin is how long it is waited for that what was unread is read.
	readWithin = 5 * time.Second
	// costly is how many times longer than asking the kernel takes the next pulse is away.
	costly = 8
)

// Source is what a clock moves. A *liveness.Source of one part is one; its methods mean the same
// there.
type Source interface {
	watermark.Source

	Pulse(now time.Time) time.Duration
	Watermark(part int, listened time.Duration)
}

// Clock keeps the listening clock of a source. Make one with [NewClock].
type Clock struct {
	source   Source
	sockets  *Set
	deaf     func() bool
	handling *inFlight
	running  atomic.Bool
	passes   atomic.Uint64
}

// NewClock returns the clock of a source that hears through sockets. While deaf returns true,
// through no fault of the devices, nothing is listened to; it is called by Run's goroutine and must
// return at once. nil: never deaf.
func NewClock(source Source, sockets *Set, deaf func() bool) *Clock {
	if deaf == nil {
		deaf = func() bool { return false }
	}
	return &Clock{source: source, sockets: sockets, deaf: deaf, handling: newInFlight()}
}

// Enter begins to handle something that may hold a heartbeat: the clock does not pass it before
// [Clock.Leave] is called with what Enter returned. It takes no lock.
func (c *Clock) Enter() uint32 { return c.handling.enter() }

// Leave ends what Enter began.
func (c *Clock) Leave(turn uint32) { c.handling.leave(turn) }

// Passes counts how often it was found that all is handled that had come, or that the source is deaf. It grows
// several times a second while [Clock.Run] works, also while the listening clock stands still because the
// events of the registry are not stored. A flood of connections may keep it waiting for half a minute.
func (c *Clock) Passes() uint64 { return c.passes.Load() }

// Run keeps the clock until ctx is done, and returns nil then. While another Run does so, it
// returns nil at once. It fails at once if the process has no descriptors left.
func (c *Clock) Run(ctx context.Context) error {
	if !c.running.CompareAndSwap(false, true) {
		return nil
	}
	defer c.running.Store(false)
	if err := c.run(ctx); err != nil {
		return fmt.Errorf("listening clock: %w", err)
	}
	return nil
}

func (c *Clock) run(ctx context.Context) error {
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	c.sockets.begin()
	defer c.sockets.end()
	p := pass{clock: c, in: in}
	p.loop = watermark.Loop{
		Source: c.source, Pulse: p.pulse, Advance: p.advance, Wake: c.handling.landed, Least: nearPulse, Lag: slack,
	}
	var reading sync.WaitGroup
	reading.Go(func() { p.read(out) })
	err = p.loop.Run(ctx)
	err = errors.Join(err, in.Close(), out.Close())
	reading.Wait()
	return err
}

// pass finds out, again and again, what has been handled.
type pass struct {
	clock *Clock
	loop  watermark.Loop
	in    io.Writer
	back  atomic.Bool // the byte has come out

	barrier  Barrier
	stage    stage
	began    time.Time     // when the stage did
	listened time.Duration // what the latest pulse returned
	named    time.Duration // what has passed when the stages are through
	unread   []unread
	again    time.Duration // what it took to look for what is still unread
	turn     uint32
}

// stage is how far a pass has come.
type stage int

const (
	admitting stage = iota // connections that waited are to be admitted
	reading                // what they hold is to be read
	first                  // the byte is in the pipe
	second                 // it is there again
	landing                // what was being handled when it came out is to end
)

// read reads the bytes until the pipe is closed.
func (p *pass) read(out io.Reader) {
	for b := make([]byte, 1); ; {
		if _, err := out.Read(b); err != nil {
			return
		}
		p.back.Store(true)
		p.clock.handling.wake()
	}
}

// pulse tells the source that it listens, and notes the connections that wait to be accepted.
func (p *pass) pulse(now time.Time) (time.Duration, error) {
	if p.clock.deaf() {
		p.clock.passes.Add(1)
		return p.listened, nil
	}
	p.listened = p.clock.source.Pulse(now)
	p.barrier.Note(now, p.listened, p.clock.sockets.all())
	return p.listened, nil
}

// advance takes the pass as far as it can go now.
func (p *pass) advance(now time.Time) (again time.Duration, err error) {
	switch sockets := p.clock.sockets; p.stage {
	case admitting:
		in, ok := p.barrier.Passed(now)
		if !ok {
			break
		}
		p.stage, p.began, p.named = reading, now, in-slack
		p.unread = sockets.unread(p.unread[:0])
		p.loop.Least = min(max(nearPulse, costly*time.Since(now)), watermark.Idle)
	case reading:
		p.unread = sockets.still(p.unread)
		p.again = time.Since(now)
	case first, second:
		if !p.back.Swap(false) {
			break
		}
		if p.stage++; p.stage == second {
			return 0, p.send()
		}
		p.turn = p.clock.handling.next()
	case landing:
	}
	switch {
	case p.stage == reading && (len(p.unread) == 0 || now.Sub(p.began) >= readWithin):
		p.stage = first
		return 0, p.send()
	case p.stage == landing && p.clock.handling.empty(p.turn):
		p.stage = admitting
		p.clock.source.Watermark(0, p.named)
		p.clock.passes.Add(1)
	}
	if p.stage == reading || p.stage == admitting && p.barrier.Waiting() {
		again = max(LookAgain, costly*p.again)
	}
	return again, nil
}

func (p *pass) send() error {
	_, err := p.in.Write([]byte{0})
	return err
}
