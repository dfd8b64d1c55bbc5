package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holter-iot/holter/bench/internal/measured"
)

const (
	beatMessage = "PING 123456789012\n"
	beatAnswer  = "PONG 123456789012\n"

	pipelined = 16   // messages of one write
	window    = 1000 // writes that are not answered yet, at most
	warmup    = time.Second / 2
)

// beatsResult is how a server took heartbeats.
type beatsResult struct {
	measured.Usage

	messages int
	waiting  float64 // share of the time for which the client had nothing to do: near to 0, it is the limit
	lost     int     // datagrams without an answer
}

// rate returns messages per second.
func (r beatsResult) rate() float64 { return float64(r.messages) / r.Elapsed.Seconds() }

// perCPU returns messages per second of the server's CPU time.
func (r beatsResult) perCPU() float64 { return float64(r.messages) / r.CPU.Seconds() }

// measureBeats measures heartbeats one by one and pipelined, on the same connections.
func (b *bench) measureBeats(ctx context.Context, server string) error {
	runs := []struct {
		name  string
		batch int
		to    *table[beatsResult]
	}{{"beats-1", 1, &b.beats1}, {"beats-16", pipelined, &b.beats16}}
	if !b.wanted(runs[0].name, server) && !b.wanted(runs[1].name, server) {
		return nil
	}
	return b.with(ctx, server, nil, func(ctx context.Context, s session) error {
		if _, err := s.client.connect(ctx, b.config.connections, inLines(greeting(server, "10m"))); err != nil {
			return err
		}
		for _, run := range runs {
			if !b.wanted(run.name, server) {
				continue
			}
			profile, _ := b.profile(run.name, server, "cpu")
			r, err := beat(ctx, s, run.batch, b.config.length, profile)
			if err != nil {
				return fmt.Errorf("%s: %w", run.name, err)
			}
			run.to.add(server, r)
			b.progress("%-8s %-11s %8.0f messages/s; server busy %3.0f %%, client waiting %3.0f %%, others %3.0f %% of a core", run.name,
				server, r.rate(), 100*r.Share, 100*r.waiting, 100*r.Others)
		}
		return nil
	})
}

// beat keeps the server busy for a while and measures it. A CPU profile of it is written if it has a name.
func beat(ctx context.Context, s session, batch int, length time.Duration, profile string) (r beatsResult, err error) {
	l := newLoad(s.client, batch)
	if err := l.run(ctx, warmup); err != nil {
		return r, err
	}
	end, err := s.child.ProfileCPU(profile)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, end()) }()
	before := l.answered
	l.waited = 0
	m, err := measured.StartMeter(s.child.PID)
	if err != nil {
		return r, err
	}
	if err := l.run(ctx, length); err != nil {
		return r, err
	}
	r.messages = l.answered - before
	if r.Usage, err = m.Read(); err != nil {
		return r, err
	}
	r.waiting = l.waited.Seconds() / r.Elapsed.Seconds()
	return r, l.drain(ctx)
}

// load is a closed loop over all connections: each answer sends the next message on the connection whose turn it is, in a random order
// that stays the same. So memory is not visited in the order in which it was allocated. It never sleeps: waking it would be at the
// server's cost.
type load struct {
	client          *client
	message, answer []byte
	batch           int
	order           []int
	next            int
	got             []int // bytes of an answer that is not complete, by connection
	sent, answered  int   // messages
	waited          time.Duration
}

func newLoad(c *client, batch int) *load {
	random := rand.New(rand.NewPCG(1, 2))
	return &load{
		client:  c,
		message: bytes.Repeat([]byte(beatMessage), batch),
		answer:  bytes.Repeat([]byte(beatAnswer), batch),
		batch:   batch,
		order:   random.Perm(len(c.fds)),
		got:     make([]int, len(c.fds)),
	}
}

// run sends and receives for a while, and leaves what is on its way.
func (l *load) run(ctx context.Context, length time.Duration) error {
	for l.sent-l.answered < min(window, len(l.order))*l.batch {
		if err := l.send(); err != nil {
			return err
		}
	}
	now := time.Now()
	for end := now.Add(length); now.Before(end); {
		n, err := l.turn(ctx, true)
		if err != nil {
			return err
		}
		last := now
		if now = time.Now(); n == 0 {
			l.waited += now.Sub(last)
		}
	}
	return nil
}

// drain receives what is on its way.
func (l *load) drain(ctx context.Context) error {
	for l.answered < l.sent {
		if _, err := l.turn(ctx, false); err != nil {
			return err
		}
	}
	return nil
}

func (l *load) send() error {
	i := l.order[l.next]
	if l.next++; l.next == len(l.order) {
		l.next = 0
	}
	l.sent += l.batch
	return l.client.write(i, l.message)
}

// turn takes what is there, on n connections, and sends as much again if more is true.
func (l *load) turn(ctx context.Context, more bool) (n int, err error) {
	events, err := l.client.wait(ctx, 0)
	if err != nil {
		return 0, err
	}
	for _, e := range events {
		answers, err := l.receive(int(e.Fd))
		if err != nil {
			return 0, err
		}
		l.answered += answers * l.batch
		for ; more && answers > 0; answers-- {
			if err := l.send(); err != nil {
				return 0, err
			}
		}
	}
	return len(events), nil
}

// receive takes what came in on a connection, and returns how many writes are answered by it.
func (l *load) receive(i int) (answers int, err error) {
	p, err := l.client.read(i)
	if err != nil {
		return 0, err
	}
	for len(p) > 0 {
		n := min(len(p), len(l.answer)-l.got[i])
		if !bytes.Equal(p[:n], l.answer[l.got[i]:l.got[i]+n]) {
			return 0, fmt.Errorf("connection %d was answered %q, want %q", i, p, l.answer)
		}
		p = p[n:]
		if l.got[i] += n; l.got[i] == len(l.answer) {
			l.got[i] = 0
			answers++
		}
	}
	return answers, nil
}
