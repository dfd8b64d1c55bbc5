package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holter-iot/holter/bench/internal/measured"
)

const (
	pipelined = 16   // messages of one write
	window    = 1000 // writes that are not answered yet, at most
	warmup    = time.Second / 2
	bareRow   = "/echo" // after the name of a dialect: the server beside it
)

// beats is how a server took heartbeats.
type beats struct {
	measured.Usage

	messages int
	waiting  float64 // share of the time for which the client had nothing to do: near to 0, the client is the limit
	lost     int     // datagrams without an answer
}

// rate returns messages per second.
func (r beats) rate() float64 { return float64(r.messages) / r.Elapsed.Seconds() }

// perCPU returns messages per second of the server's CPU time.
func (r beats) perCPU() float64 { return float64(r.messages) / r.CPU.Seconds() }

// cost returns microseconds of the server's CPU time per message.
func (r beats) cost() float64 { return 1e6 / r.perCPU() }

// measureBeats measures one server with one message per write and with more, on the same connections.
func (b *bench) measureBeats(ctx context.Context, kind string, d dialect, server, row string) error {
	var wanted []int
	for _, batch := range []int{1, pipelined} {
		if b.Wanted(fmt.Sprintf("%s-%d", kind, batch), row) {
			wanted = append(wanted, batch)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	return b.with(ctx, server, d, func(ctx context.Context, s session) error {
		l := &load{session: s}
		if err := l.connect(ctx, b.connections); err != nil {
			return fmt.Errorf("%s, %s: %w", kind, row, err)
		}
		for _, batch := range wanted {
			measurement := fmt.Sprintf("%s-%d", kind, batch)
			r, err := b.beat(ctx, l, batch)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", measurement, row, err)
			}
			if b.beats[measurement] == nil {
				b.beats[measurement] = make(map[string][]beats)
			}
			b.beats[measurement][row] = append(b.beats[measurement][row], r)
			b.Progress("%-11s %-14s %8.0f messages/s, %5.2f µs of CPU each; server busy %3.0f %%, client waiting %3.0f %%, others %3.0f %%; %d lost",
				measurement, row, r.rate(), r.cost(), 100*r.Share, 100*r.waiting, 100*r.Others, r.lost)
		}
		return nil
	})
}

// beat keeps the server busy for a while and measures it.
func (b *bench) beat(ctx context.Context, l *load, batch int) (r beats, err error) {
	l.prepare(batch)
	if err := l.run(ctx, min(warmup, b.Length)); err != nil {
		return r, err
	}
	answered, lost := l.answered, l.lost
	l.waited = 0
	m, err := measured.StartMeter(l.process.PID)
	if err != nil {
		return r, err
	}
	if err := l.run(ctx, b.Length); err != nil {
		return r, err
	}
	r.messages = (l.answered - answered) * batch
	if r.Usage, err = m.Read(); err != nil {
		return r, err
	}
	r.waiting, r.lost = l.waited.Seconds()/r.Elapsed.Seconds(), l.lost-lost
	return r, l.drain(ctx)
}

// load is a closed loop over all connections: each answer sends the next message, on the connection whose turn it is in a random order.
// So memory is not visited in the order in which it was allocated. The loop never sleeps: to wake it would cost the server.
type load struct {
	session

	batch          int
	messages       [][]byte // of one write, by connection
	order          []int
	next           int
	got            []int    // answers, or bytes of an echo, since the last write; by connection
	rest           [][]byte // of an answer that is not complete, by connection
	sent, answered int      // writes
	lost           int      // writes that were not answered for long
	moved          time.Time
	waited         time.Duration
	base           uint64 // what the server had read before
}

// connect makes n connections, each of which has sent its greeting.
func (l *load) connect(ctx context.Context, n int) error {
	l.got, l.rest = make([]int, n), make([][]byte, n)
	l.order = rand.New(rand.NewPCG(1, 2)).Perm(n)
	say := l.greeting(10 * time.Minute)
	if _, err := l.session.connect(ctx, n, say); err != nil {
		return err
	}
	for l.silentServer() { // until all have been read
		done, err := l.handled()
		want := uint64(n)
		if l.echoes() {
			want *= uint64(len(say(0)))
		}
		if err = errors.Join(err, ctx.Err()); err != nil || done >= want {
			return err
		}
	}
	return nil
}

// prepare makes the messages.
func (l *load) prepare(batch int) {
	l.batch = batch
	clear(l.got)
	l.messages = make([][]byte, len(l.order))
	for i := range l.messages {
		l.messages[i] = l.beats(i, batch)
	}
	l.sent, l.answered = 0, 0
	if l.silentServer() {
		l.base, _ = l.handled() // an error comes again at the next question
	}
}

// window is how many writes may be on their way: less than one for each connection, and for datagrams no more than wait in a queue.
func (l *load) window() int {
	switch {
	case l.client.Packets:
		return min(64, len(l.order))
	case l.silentServer():
		return (len(l.order) + 1) / 2 // it takes a while to learn how many there are
	}
	return min(window, len(l.order))
}

// run sends and receives for a while, and leaves what is on its way.
func (l *load) run(ctx context.Context, length time.Duration) error {
	now := time.Now()
	l.moved = now
	for end := now.Add(length); now.Before(end); {
		for l.sent-l.answered < l.window() {
			if err := l.send(); err != nil {
				return err
			}
		}
		n, err := l.turn(ctx)
		if err != nil {
			return err
		}
		last := now
		if now = time.Now(); n > 0 {
			l.moved = now
		} else {
			l.waited += now.Sub(last)
		}
		l.abandon(now)
	}
	return nil
}

// drain receives what is on its way.
func (l *load) drain(ctx context.Context) error {
	for l.answered < l.sent {
		if _, err := l.turn(ctx); err != nil {
			return err
		}
		l.abandon(time.Now())
	}
	return nil
}

// abandon counts datagrams as lost that were not answered for long.
func (l *load) abandon(now time.Time) {
	const long = 200 * time.Millisecond
	if l.client.Packets && now.Sub(l.moved) > long {
		l.lost += l.sent - l.answered
		l.sent, l.moved = l.answered, now
		clear(l.got)
	}
}

func (l *load) send() error {
	i := l.order[l.next]
	if l.next++; l.next == len(l.order) {
		l.next = 0
	}
	l.sent++
	return l.client.Write(i, l.messages[i])
}

// turn takes what is there; n is zero if that was nothing.
func (l *load) turn(ctx context.Context) (n int, err error) {
	if !l.silentServer() {
		return l.client.Wait(ctx, 0, l.receive)
	}
	before := l.answered
	done, err := l.handled()
	unit := l.batch
	if l.echoes() {
		unit = len(l.messages[0])
	}
	l.answered = int(done-l.base) / unit // it only grows
	return l.answered - before, errors.Join(err, ctx.Err())
}

// receive takes what a connection has received.
func (l *load) receive(i int) error {
	p, err := l.client.Read(i)
	if err != nil || len(p) == 0 {
		return err
	}
	want := l.batch
	if l.echoes() {
		want = len(l.messages[i])
		l.got[i] += len(p)
	} else {
		if len(l.rest[i]) > 0 {
			p = append(l.rest[i], p...)
		}
		heard, _, rest, err := l.count(p)
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		l.rest[i] = append(l.rest[i][:0], rest...)
		l.got[i] += heard
	}
	l.answered += l.got[i] / want
	l.got[i] %= want
	return nil
}

// handled asks the server what it has read: messages of the gateway, bytes of a bare server.
func (l *load) handled() (n uint64, err error) {
	err = l.process.Ask(handled, &n)
	return n, err
}
