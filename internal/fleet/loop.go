//go:build linux

package fleet

import (
	"bytes"
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxWait bounds how late the loop notices an order, or the end of ctx.
	maxWait = 10 * time.Millisecond
	// maxBeats is how many heartbeats are sent before answers are read again.
	maxBeats = 256
	// maxLine is the longest line accepted from a gateway.
	maxLine = 4096
	// maxLast is how much of a line is kept for the truth.
	maxLast = 128
)

// drive runs the loop until done says so, under mu, or ctx is done. The caller
// holds turn.
func (f *Fleet) drive(ctx context.Context, done func() bool) error {
	for {
		wait, finished, err := f.work(done)
		if err != nil || finished {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := unix.EpollWait(f.ep, f.ready, wait)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("epoll_wait", err)
		}
		f.serve(f.ready[:max(n, 0)])
	}
}

// work does all that is due, and returns how many milliseconds may pass until
// something is due again.
func (f *Fleet) work(done func() bool) (wait int, finished bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0, true, ErrClosed
	}
	now := time.Now()
	for o, ok := f.orders.due(now); ok; o, ok = f.orders.due(now) {
		f.execute(o)
	}
	for _, d := range f.waits.due(now) {
		f.dials.add(d, d.retry.step)
	}
	for q, ok := f.dials.due(now); ok; q, ok = f.dials.due(now) {
		f.dial(q.dev, q.step)
	}
	f.beatDue(now)
	if done() {
		return 0, true, nil
	}
	at := now.Add(maxWait)
	for _, t := range []time.Time{f.rounds.planned(), f.orders.next(at), f.dials.next(at), f.waits.next(at)} {
		if t.Before(at) {
			at = t
		}
	}
	left := max(at.Sub(now), 0)
	return int((left + time.Millisecond - 1) / time.Millisecond), false, nil
}

// beatDue sends the heartbeats that are due, up to maxBeats.
func (f *Fleet) beatDue(now time.Time) {
	f.stats.SkippedRounds += f.rounds.skip(now)
	for sent := 0; sent < maxBeats; f.rounds.beat++ {
		planned := f.rounds.planned()
		if planned.After(now) {
			return
		}
		if d := &f.devs[f.rounds.device()]; d.living() {
			f.beat(d.cur, planned)
			sent++
		}
	}
}

// beat sends one heartbeat. Its number is the instant of sending, in
// microseconds since the fleet's start, so that the answer needs no table.
func (f *Fleet) beat(c *conn, planned time.Time) {
	if len(c.out) > 0 {
		f.stats.Blocked++
		return
	}
	now := time.Now()
	record(f.stats.Lateness, now.Sub(planned))
	f.scrap = appendPing(f.scrap[:0], uint64(now.Sub(f.rounds.start).Microseconds()))
	f.send(c, f.scrap, true, now)
}

// serve handles what the kernel reported.
func (f *Fleet) serve(ready []unix.EpollEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ev := range ready {
		c := f.conns[ev.Fd]
		if c == nil || c.gen != ev.Pad {
			continue // closed by an earlier event of this batch
		}
		if c.state == ConnDialing {
			f.greet(c)
			continue
		}
		if ev.Events&unix.EPOLLOUT != 0 {
			f.flush(c)
		}
		if ev.Events&^unix.EPOLLOUT != 0 && c.fd >= 0 {
			f.read(c)
		}
	}
}

// read takes what a connection has, once; the kernel reports it again if there
// is more.
func (f *Fleet) read(c *conn) {
	n, err := unix.Read(c.fd, f.buffer)
	now := time.Now()
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
	case err != nil:
		f.lost(c, err.Error(), now)
	case n == 0:
		f.lost(c, "EOF", now)
	default:
		f.lines(c, f.buffer[:n], now)
	}
}

// lines handles each whole line and keeps the rest for later.
func (f *Fleet) lines(c *conn, data []byte, now time.Time) {
	if len(c.in) > 0 {
		data = append(c.in, data...)
	}
	for {
		line, rest, found := bytes.Cut(data, []byte("\n"))
		if !found {
			break
		}
		data = rest
		f.line(c, bytes.TrimSuffix(line, []byte("\r")), now)
		if c.fd < 0 {
			return
		}
	}
	if len(data) > maxLine {
		f.lost(c, "line too long", now)
		return
	}
	c.in = append(c.in[:0], data...)
}

// line acts on one line from the gateway.
func (f *Fleet) line(c *conn, line []byte, now time.Time) {
	c.last = append(c.last[:0], line[:min(len(line), maxLast)]...)
	a := parseAnswer(line)
	switch {
	case a.kind == answerOK && c.state == ConnGreeting:
		f.promote(c, a, now)
	case a.kind == answerErr && c.state == ConnGreeting:
		f.refuse(c, "ERR "+a.text, now)
	case a.kind == answerPong && c.state != ConnGreeting:
		f.stats.Answers++
		c.dev.Answers++
		f.answered(c, now)
		sent := time.Duration(a.seq) * time.Microsecond
		record(f.stats.RTT, now.Sub(f.rounds.start)-sent)
	default:
		f.stats.Other++
	}
}
