package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/liveness"
)

const (
	// idlePulse is the time between pulses while no deadline is near, nearPulse the least there is.
	idlePulse = 200 * time.Millisecond
	nearPulse = 10 * time.Millisecond
	// settle is how much longer than the probe a heartbeat may take from the socket to its handler.
	settle = 50 * time.Millisecond
	// lookAgain is when to ask again whether what was unread is read, and readWithin how long that is waited for.
	lookAgain  = 2 * time.Millisecond
	readWithin = 5 * time.Second
	// deafAfterFailure is how long nothing is heard once a heartbeat was refused because its token could not be checked.
	deafAfterFailure = time.Second
)

// ear is the source of the heartbeats that come by HTTP, and keeps its listening clock.
//
// The clock passes an instant once what had reached the process before it was handled. net/http does not say how far it is, so at a pulse
// the ear asks the kernel: connections that wait to be accepted must have been, and sockets that hold something must have been read from.
// Then, for what is between a socket and its handler, a byte that is put into a pipe must come out at a goroutine that reads it through the
// poller of the runtime, as connections are read, twice; and all requests with heartbeats that are being handled then must have ended. Last,
// the clock stays 50 ms behind what was shown by that: between the reading of a request and its handling lies a stretch which is covered only
// as far as the poller and the scheduler are fair, and no further. Where the kernel cannot be asked (not on Unix, and with a server that is
// not [API.Serve]'s), the same goes for requests that lie unread in their sockets.
//
// A client cannot hold the clock up for more than some seconds: not with a body that comes slowly, nor with requests that it sends
// before it has the answer to those before. While connections wait because [Config.MaxConnections] are served, the clock waits, too.
//
// It is deaf while the process starts, while tokens cannot be checked, and when it does not run.
type ear struct {
	source  *liveness.Source
	flights *flights
	sockets *sockets
	deaf    func() bool
	running atomic.Bool
	crowded atomic.Bool // connections wait to be accepted

	beats   atomic.Uint64 // that were taken
	refused atomic.Uint64 // that were not
}

func newEar(registry *liveness.Registry, name string, deaf func() bool, sockets *sockets) (*ear, error) {
	source, err := registry.AddSource(liveness.SourceConfig{Name: name})
	if err != nil {
		return nil, fmt.Errorf("httpapi: source of heartbeats: %w", err)
	}
	return &ear{source: source, flights: newFlights(), sockets: sockets, deaf: deaf}, nil
}

// now returns the listening time to stamp a heartbeat with.
func (e *ear) now() time.Duration { return e.source.Time(time.Now()) }

// Listen keeps the listening clock of the heartbeats by HTTP until ctx is done; without it no device that is heard there is ever
// judged. [API.Serve] calls it by itself. Call it once. It fails at once if the process has no descriptors left.
func (a *API) Listen(ctx context.Context) error {
	if a.ear == nil || !a.ear.running.CompareAndSwap(false, true) {
		return nil
	}
	defer a.ear.running.Store(false)
	if err := a.ear.run(ctx); err != nil {
		return fmt.Errorf("httpapi: listening clock: %w", err)
	}
	return nil
}

// deaf says whether heartbeats are refused, through no fault of the devices.
func (a *API) deaf() bool {
	return a.config.Starting() != nil || a.tokens != nil && a.tokens.failing(a.now(), deafAfterFailure)
}

func (e *ear) run(ctx context.Context) error {
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
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
	ear  *ear
	in   io.Writer
	back chan struct{} // room for one; never closed; receives when the byte has come out

	last     time.Time     // the latest pulse
	listened time.Duration // what it returned
	stage    stage
	began    time.Time     // when the probe did
	named    time.Duration // what has passed when the probe is through
	unread   []unread
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
			wait = min(wait, lookAgain)
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
	if p.stage == idle && !p.ear.crowded.Load() {
		p.stage, p.began, p.named = accepting, now, p.listened-settle
	}
}

// advance takes the probe as far as it can go now.
func (p *probe) advance(now time.Time) error {
	late := now.Sub(p.began) >= readWithin
	if p.stage == accepting && (late || !p.ear.sockets.backlog()) {
		p.stage, p.unread = reading, p.ear.sockets.unread()
	} else if p.stage == reading {
		p.unread = p.ear.sockets.still(p.unread)
	}
	if p.stage == reading && (late || len(p.unread) == 0) {
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
	if next, ok := p.ear.source.Next(); ok {
		return max(min(idlePulse, next+settle-p.listened), nearPulse)
	}
	return idlePulse
}
