package liveness_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/liveness"
)

var seedsFlag = flag.Int("seeds", 100, "runs of the model of a pool")

// The spans of the model of a pool.
const (
	tick         = 50 * time.Millisecond
	worldTimeout = 1200 * time.Millisecond
	worldGrace   = 2500 * time.Millisecond // ReconnectGrace and the devices' interval
	failover     = 2000 * time.Millisecond // until a device whose ear is lost is at another, at most
	worldLost    = 4 * time.Second         // between two ears that are lost
	worldTime    = 24 * time.Second
	worldQuiet   = 12 * time.Second // at the end, in which nothing else goes wrong
)

// world is a registry with ears, each of which reads what devices send long before the registry is
// given it: in order, and late.
type world struct {
	*testing.T

	random   *rand.Rand
	registry *liveness.Registry
	log      interface {
		Read([]liveness.Event, uint64, int) ([]liveness.Event, error)
	}
	start    time.Time
	ears     []*ear
	devices  []*sender
	lost     time.Time // when an ear was lost last
	deafTill time.Time // until then nobody pulses or handles anything
	stalled  time.Duration
}

// ear is a source and what it has read and nobody has handled.
type ear struct {
	name      string
	source    *liveness.Source
	parts     [][]message
	pulse     time.Time // when the next one is due
	stuckTill time.Time
	backAt    time.Time // of one that is lost; zero while it listens
}

// message is something that an ear has read, or a mark.
type message struct {
	from   time.Time // when it can be handled
	handle func()
	sign   *sign
}

// sign is a sign of life.
type sign struct {
	at   time.Time
	lost bool // with its ear, to a late hello, or read while the source was deaf: no instant is known of it
}

// sender is a device that sends as often as it must, until it dies.
type sender struct {
	id      string
	ear     *ear
	part    int
	session *liveness.Session
	next    time.Time
	dies    time.Time // zero if it never does
	signs   []*sign

	replaced bool // its session was, by a hello of its own that came late
}

// farEnd is the connection of a session.
type farEnd struct {
	*sender

	session *liveness.Session
}

func (f farEnd) Replaced() { f.replaced = f.replaced || f.sender.session == f.session }
func (farEnd) Dismissed()  {}
func (farEnd) Judged()     {}
func (farEnd) Committed()  {}
func (farEnd) Probe() bool { return false }

func (d *sender) dead(at time.Time) bool { return !d.dies.IsZero() && !at.Before(d.dies) }

// TestPool: whatever is late, stalls, moves, dies and comes back, no device is judged that was heard
// in time by any ear, and no dead one is missed.
func TestPool(t *testing.T) {
	verdicts, seeds := 0, atLevel(*seedsFlag/2, *seedsFlag)
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { verdicts += runWorld(t, uint64(seed)) })
		if t.Failed() {
			return
		}
	}
	if verdicts < seeds {
		t.Errorf("%d verdicts in %d runs", verdicts, seeds)
	}
}

func runWorld(t *testing.T, seed uint64) (verdicts int) {
	t.Helper()
	log := newLog(t, 0)
	w := &world{T: t, random: rand.New(rand.NewPCG(seed, 1)), log: log, start: time.Now()}
	w.registry = newRegistry(t, log, liveness.Config{Policy: liveness.Policy{
		Timeout: worldTimeout, Interval: 500 * time.Millisecond, CloseGrace: time.Second, LateAfter: time.Second,
	}})
	defer start(t, w.registry)()
	for i := range 2 + w.random.IntN(2) {
		w.ears = append(w.ears, &ear{name: fmt.Sprintf("gateway/%d", i), parts: make([][]message, 1+w.random.IntN(2))})
		w.listen(w.ears[i])
	}
	for i := range 8 {
		d := &sender{id: fmt.Sprintf("device-%d", i)}
		if i%2 == 0 {
			d.dies = w.start.Add(w.between(2*time.Second, worldTime-worldQuiet))
		}
		w.devices = append(w.devices, d)
	}
	for now := w.start; now.Sub(w.start) < worldTime; now = time.Now() {
		w.step(now)
		synctest.Wait()
		time.Sleep(tick)
	}
	return w.check(seed)
}

func (w *world) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.random.Int64N(int64(most-least)/int64(tick)+1))*tick
}

func (w *world) one(in int) bool { return w.random.IntN(in) == 0 }

// listen makes an ear listen, also again.
func (w *world) listen(e *ear) {
	e.source = addSource(w.T, w.registry, liveness.SourceConfig{
		Name: e.name, Parts: len(e.parts), Pool: "gateway", MaxGap: 300 * time.Millisecond, ReconnectGrace: worldGrace - 500*time.Millisecond,
	})
	e.backAt = time.Time{}
	w.mark(e, time.Now())
}

// mark pulses an ear, and sends what that returns behind all that it has read.
func (w *world) mark(e *ear, now time.Time) {
	listened := e.source.Pulse(now)
	e.pulse = now.Add(w.between(tick, 3*tick))
	for part := range e.parts {
		e.parts[part] = append(e.parts[part], message{now, func() { e.source.Watermark(part, listened) }, nil})
	}
}

func (w *world) step(now time.Time) {
	if now.Sub(w.start) < worldTime-worldQuiet {
		w.upset(now)
	}
	for _, d := range w.devices {
		if !d.dead(now) {
			w.send(d, now)
		}
	}
	if now.Before(w.deafTill) {
		return
	}
	for _, e := range w.ears {
		switch {
		case e.backAt.IsZero():
			if !now.Before(e.pulse) {
				w.mark(e, now)
			}
			w.handle(e, now)
		case !now.Before(e.backAt):
			w.listen(e)
		}
	}
}

// upset is what goes wrong.
func (w *world) upset(now time.Time) {
	if w.one(100) && now.After(w.deafTill) {
		stall := w.between(4*tick, 30*tick)
		w.deafTill, w.stalled = now.Add(stall), w.stalled+stall
	}
	e := w.ears[w.random.IntN(len(w.ears))]
	if !e.backAt.IsZero() {
		return
	}
	if w.one(20) && now.After(e.stuckTill) {
		stall := w.between(4*tick, 30*tick)
		e.stuckTill, w.stalled = now.Add(stall), w.stalled+stall
	}
	if w.one(30) && now.Sub(w.lost) >= worldLost && w.listening() > 1 && !now.Before(w.deafTill) {
		w.lose(e, now)
	}
}

func (w *world) listening() (n int) {
	for _, e := range w.ears {
		if e.backAt.IsZero() {
			n++
		}
	}
	return n
}

// lose loses an ear with all that was not handled yet. Its devices connect to others after a while.
func (w *world) lose(e *ear, now time.Time) {
	w.lost, e.backAt = now, now.Add(w.between(tick, 3*time.Second))
	for part, messages := range e.parts {
		for _, m := range messages {
			if m.sign != nil {
				m.sign.lost = true
			}
		}
		e.parts[part] = nil
	}
	for _, d := range w.devices {
		if d.ear == e {
			d.session.Abandon()
			d.ear, d.next = nil, now.Add(w.between(0, failover))
		}
	}
	e.source.Owner().Leave(now)
}

// send lets a device beat, or connect to an ear, which is another now and then.
func (w *world) send(d *sender, now time.Time) {
	if now.Before(d.next) && !d.replaced {
		return
	}
	d.next = now.Add(w.between(4*tick, 10*tick))
	if d.ear != nil && !w.one(5) && !d.replaced {
		session, at := d.session, d.ear.source.Time(now)
		w.put(d, now, func(s *sign) { s.lost = !session.Beat(at) || s.lost })
		return
	}
	if d.ear != nil && w.one(2) { // the others leave a connection that is half open
		session, at, old := d.session, d.ear.source.Time(now), d.ear
		old.parts[d.part] = append(old.parts[d.part], message{now, func() { session.Close(at, liveness.Closed) }, nil})
	}
	for d.ear = nil; d.ear == nil || !d.ear.backAt.IsZero(); {
		d.ear = w.ears[w.random.IntN(len(w.ears))]
	}
	d.part = w.random.IntN(len(d.ear.parts))
	d.session, d.replaced = new(liveness.Session), false
	session, source, at := d.session, d.ear.source, d.ear.source.Time(now)
	w.put(d, now, func(s *sign) {
		switch _, err := source.Open(session, d.id, liveness.Hello{}, farEnd{d, session}, at); {
		case errors.Is(err, liveness.ErrReplaced): // it is older than the one that the device has
			s.lost = true
			farEnd{d, session}.Replaced()
		case err != nil:
			w.Errorf("Open = %v", err)
		}
	})
}

// put makes a device's ear read a sign of life.
func (w *world) put(d *sender, now time.Time, handle func(*sign)) {
	s := &sign{at: now, lost: now.Before(w.deafTill)}
	d.signs = append(d.signs, s)
	d.ear.parts[d.part] = append(d.ear.parts[d.part], message{now.Add(w.between(0, 4*tick)), func() { handle(s) }, s})
}

// handle handles what has come out of an ear.
func (w *world) handle(e *ear, now time.Time) {
	if now.Before(e.stuckTill) {
		return
	}
	for part := range e.parts {
		for len(e.parts[part]) > 0 && !e.parts[part][0].from.After(now) {
			m := e.parts[part][0]
			e.parts[part] = e.parts[part][1:]
			m.handle()
		}
	}
}

// check compares the verdicts with what was sent.
func (w *world) check(seed uint64) (verdicts int) {
	events, err := w.log.Read(nil, 0, 1<<20)
	if err != nil {
		w.Fatal(err)
	}
	devices := make(map[string]*sender)
	for _, d := range w.devices {
		devices[d.id] = d
	}
	for _, e := range events {
		d := devices[e.Subject]
		if d == nil || e.Type != liveness.DeviceOffline {
			continue
		}
		verdicts++
		if !d.dead(e.Deadline) {
			w.Errorf("seed %d: %s, which lives, is offline (%v) at %v, seen %v, due %v", seed, d.id, e.Reason, e.Time.Sub(w.start), e.LastSeen.Sub(w.start), e.Deadline.Sub(w.start))
		}
		for _, s := range d.signs {
			if !s.lost && s.at.After(e.LastSeen.Add(time.Millisecond)) && s.at.Before(e.Deadline) {
				w.Errorf("seed %d: %s is offline at %v, due %v, and was heard at %v", seed, d.id, e.Time.Sub(w.start), e.Deadline.Sub(w.start), s.at.Sub(w.start))
			}
		}
		if most := worldTimeout + 3*worldGrace + w.stalled + 2*time.Second; e.Time.Sub(d.dies) > most {
			w.Errorf("seed %d: %s died at %v and is offline at %v", seed, d.id, d.dies.Sub(w.start), e.Time.Sub(w.start))
		}
	}
	for _, d := range w.devices {
		v, err := w.registry.Device(d.id)
		if want := map[bool]liveness.State{true: liveness.Offline, false: liveness.Online}[d.dead(time.Now())]; err == nil && v.State != want && (want == liveness.Offline || v.State != liveness.Late) {
			w.Errorf("seed %d: %s is %v at the end, want %v", seed, d.id, v.State, want)
		}
	}
	return verdicts
}
