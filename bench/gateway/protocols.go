package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/measured"
)

// measureProtocols measures heartbeats of each protocol, and beside each the echo of the same bytes. Who comes first changes.
func (b *bench) measureProtocols(ctx context.Context, round int) error {
	for _, name := range dialects {
		if !b.wanted("protocol-1", name) && !b.wanted("protocol-16", name) {
			continue
		}
		d, err := newDialect(name)
		if err != nil {
			return err
		}
		subjects := []string{holterOf + name, d.bare()}
		if round%2 == 1 {
			subjects[0], subjects[1] = subjects[1], subjects[0]
		}
		for _, server := range subjects {
			if server == "" {
				continue
			}
			if err := b.measureProtocol(ctx, d, server); err != nil {
				return fmt.Errorf("%s of %s: %w", name, server, err)
			}
		}
	}
	return nil
}

// bare is the server that a dialect is held against; TLS has none.
func (d dialect) bare() string {
	switch {
	case d.carrier == overTLS:
		return ""
	case d.carrier == overUDP:
		return echoUDP
	case d.mute():
		return sink
	}
	return echoTCP
}

// measureProtocol measures one server, with one message per write and with more, on the same connections.
func (b *bench) measureProtocol(ctx context.Context, d dialect, server string) error {
	return b.with(ctx, server, nil, func(ctx context.Context, s session) error {
		c := newChat(s, d, server)
		if err := c.connect(ctx, b.config.connections); err != nil {
			return err
		}
		defer c.close()
		for _, batch := range []int{1, pipelined} {
			measurement := fmt.Sprintf("protocol-%d", batch)
			if !b.wanted(measurement, d.name) {
				continue
			}
			profile, _ := b.profile(measurement, d.name+"."+server, "cpu")
			r, err := c.measure(ctx, batch, b.config.length, profile)
			if err != nil {
				return fmt.Errorf("%s: %w", measurement, err)
			}
			subject := d.name
			if !strings.HasPrefix(server, holterOf) {
				subject += "/bare"
			}
			b.addSpoken(batch, subject, r)
			b.progress("%-11s %-9s %-16s %8.0f messages/s, %5.2f µs of CPU each; server busy %3.0f %%, client waiting %3.0f %%, others %3.0f %%; %d lost",
				measurement, d.name, server, r.rate(), 1e6/r.perCPU(), 100*r.Share, 100*r.waiting, 100*r.Others, r.lost)
		}
		return nil
	})
}

func (b *bench) addSpoken(batch int, subject string, r beatsResult) {
	if b.spoken == nil {
		b.spoken = make(map[int]table[beatsResult])
	}
	t := b.spoken[batch]
	t.add(subject, r)
	b.spoken[batch] = t
}

// chat is a closed loop over connections that speak a dialect, to the gateway or to a server that sends everything back.
type chat struct {
	session

	dialect dialect
	echo    bool // the answer to a byte is this byte
	secure  *secureClients

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
	base           uint64 // what the server had handled before
}

func newChat(s session, d dialect, server string) *chat {
	s.client.target.Packets = d.carrier == overUDP
	return &chat{session: s, dialect: d, echo: !strings.HasPrefix(server, holterOf)}
}

// connect makes the connections, each of which has said hello.
func (c *chat) connect(ctx context.Context, n int) (err error) {
	if c.dialect.carrier == overTLS {
		c.secure, err = connectSecure(ctx, c.child.Addr, c.dialect, min(n, secureConnections))
		return err
	}
	c.got, c.rest = make([]int, n), make([][]byte, n)
	c.order = rand.New(rand.NewPCG(1, 2)).Perm(n)
	say := c.dialect.hello
	if c.dialect.carrier == overUDP {
		say = func(i int) []byte { return c.dialect.beats(i, 1) }
	}
	g := greeter{say: say, heard: func(i int, answer []byte) (bool, error) {
		if c.echo {
			c.got[i] += len(answer)
			return len(answer) > 0 && c.got[i] == len(say(i)), nil
		}
		heard, welcome, _, err := c.dialect.count(answer)
		return welcome || heard > 0, err
	}}
	if c.dialect.mute() {
		g.heard = nil
	}
	if _, err := c.client.connect(ctx, n, g); err != nil {
		return err
	}
	for c.dialect.mute() { // until all have been read
		done, err := c.handled()
		want := uint64(n)
		if c.echo {
			want *= uint64(len(say(0)))
		}
		if err != nil || done >= want {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (c *chat) close() {
	if c.secure != nil {
		c.secure.close()
	}
}

// measure keeps the server busy for a while. A CPU profile of it is written if it has a name.
func (c *chat) measure(ctx context.Context, batch int, length time.Duration, profile string) (r beatsResult, err error) {
	run := c.prepare(batch)
	if err := run(ctx, warmup); err != nil {
		return r, err
	}
	end, err := c.child.ProfileCPU(profile)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, end()) }()
	before, lost := c.total(), c.lost
	c.waited = 0
	m, err := measured.StartMeter(c.child.PID)
	if err != nil {
		return r, err
	}
	if err := run(ctx, length); err != nil {
		return r, err
	}
	r.messages = (c.total() - before) * batch
	if r.Usage, err = m.Read(); err != nil {
		return r, err
	}
	r.waiting = c.waited.Seconds() / r.Elapsed.Seconds()
	r.lost = c.lost - lost
	return r, c.drain(ctx)
}

// prepare makes the messages, and returns what sends them for a while and leaves what is on its way.
func (c *chat) prepare(batch int) func(context.Context, time.Duration) error {
	c.batch = batch
	if c.secure != nil {
		return func(ctx context.Context, length time.Duration) error { return c.secure.run(ctx, batch, length) }
	}
	clear(c.got)
	c.messages = make([][]byte, len(c.order))
	for i := range c.messages {
		c.messages[i] = c.dialect.beats(i, batch)
	}
	c.sent, c.answered = 0, 0
	if c.dialect.mute() {
		c.base, _ = c.handled() // if it cannot tell, the next question says so
	}
	return c.run
}

// total is how many writes were answered.
func (c *chat) total() int {
	if c.secure != nil {
		return int(c.secure.answered.Load())
	}
	return c.answered
}

// window is how many writes may be on their way: less than one for each connection, and for datagrams no more than wait in a queue.
func (c *chat) window() int {
	switch {
	case c.dialect.carrier == overUDP:
		return min(64, len(c.order))
	case c.dialect.mute():
		return (len(c.order) + 1) / 2 // it takes a while to learn how many there are
	}
	return min(window, len(c.order))
}

func (c *chat) run(ctx context.Context, length time.Duration) error {
	now := time.Now()
	c.moved = now
	for end := now.Add(length); now.Before(end); {
		for c.sent-c.answered < c.window() {
			if err := c.send(); err != nil {
				return err
			}
		}
		n, err := c.turn(ctx)
		if err != nil {
			return err
		}
		last := now
		if now = time.Now(); n > 0 {
			c.moved = now
		} else {
			c.waited += now.Sub(last)
		}
		c.forget(now)
	}
	return nil
}

// forget gives up what was not answered for long, if it may have been lost.
func (c *chat) forget(now time.Time) {
	const long = 200 * time.Millisecond
	if c.dialect.carrier == overUDP && now.Sub(c.moved) > long {
		c.lost += c.sent - c.answered
		c.sent, c.moved = c.answered, now
		clear(c.got)
	}
}

func (c *chat) send() error {
	i := c.order[c.next]
	if c.next++; c.next == len(c.order) {
		c.next = 0
	}
	c.sent++
	return c.client.write(i, c.messages[i])
}

// turn takes what is there; n is zero if there was nothing.
func (c *chat) turn(ctx context.Context) (n int, err error) {
	if c.dialect.mute() {
		before := c.answered
		done, err := c.handled()
		unit := c.batch
		if c.echo {
			unit = len(c.messages[0])
		}
		c.answered = int(done-c.base) / unit // it only grows
		return c.answered - before, errors.Join(err, ctx.Err())
	}
	events, err := c.client.wait(ctx, 0)
	if err != nil {
		return 0, err
	}
	for _, e := range events {
		if err := c.receive(int(e.Fd)); err != nil {
			return 0, err
		}
	}
	return len(events), nil
}

// receive takes what came in on a connection.
func (c *chat) receive(i int) error {
	p, err := c.client.read(i)
	if err != nil || len(p) == 0 {
		return err
	}
	want := c.batch
	if c.echo {
		want = len(c.messages[i])
		c.got[i] += len(p)
	} else {
		if len(c.rest[i]) > 0 {
			p = append(c.rest[i], p...)
		}
		heard, _, rest, err := c.dialect.count(p)
		if err != nil {
			return fmt.Errorf("connection %d was answered: %w", i, err)
		}
		c.rest[i] = append(c.rest[i][:0], rest...)
		c.got[i] += heard
	}
	if c.got[i] >= want {
		c.got[i] -= want
		c.answered++
	}
	return nil
}

// handled asks the server what it has read.
func (c *chat) handled() (n uint64, err error) {
	err = c.child.Ask(handled, &n)
	return n, err
}

// drain receives what is on its way.
func (c *chat) drain(ctx context.Context) error {
	if c.secure != nil {
		return nil
	}
	for c.answered < c.sent {
		if _, err := c.turn(ctx); err != nil {
			return err
		}
		c.forget(time.Now())
	}
	return nil
}
