package drive

import (
	"bytes"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxEvents is how many events are taken from the kernel at once.
	maxEvents = 512
	// maxWait bounds how late the loop notices Begin, an Order, or the end of ctx.
	maxWait = 50 * time.Millisecond
	// How much of each is done before answers are read again.
	maxSteps, maxTurns, maxDials = 128, 128, 64
	// sweepEvery is how often second connections are looked through.
	sweepEvery = int64(250 * time.Millisecond)
	// maxReads bounds what one connection may take of a turn.
	maxReads = 16
)

// work does what is due, and returns for how many milliseconds nothing will be.
func (d *Drive) work() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.look()
	now := d.anchored
	next := now + int64(maxWait)
	next = min(next, d.stepsDue(now), d.rampDue(now))
	next = min(next, d.turnsDue(now), d.dialsDue())
	if now-d.swept >= sweepEvery {
		d.swept = now
		d.sweep(now)
	}
	left := time.Duration(max(next-d.clock(), 0))
	return int((left + time.Millisecond - 1) / time.Millisecond)
}

// look reads the clock. time.Now reads the wall clock and the monotonic one, one after the other;
// if the thread was held up in between, the wall's reading is too early, and what the reading
// before it amounts to is nearer to the truth.
func (d *Drive) look() {
	now := time.Now()
	wall := now.Round(0)
	if carried := d.anchor.Round(0).Add(now.Sub(d.anchor)); !d.anchor.IsZero() && carried.After(wall) {
		wall = carried
	}
	d.anchor, d.wall, d.anchored = now, wall, int64(now.Sub(d.base))
}

const notSoon = int64(1 << 62)

// stepsDue does the steps whose time has come, and returns when the next is due.
func (d *Drive) stepsDue(now int64) int64 {
	if d.begin.IsZero() {
		return notSoon
	}
	began := int64(d.begin.Sub(d.base))
	for range maxSteps {
		if d.done == len(d.steps) {
			d.steps, d.done = nil, 0
			return notSoon
		}
		s := &d.steps[d.done]
		if began+s.at > now {
			return began + s.at
		}
		d.done++
		d.counts.Steps++
		d.act(s, began)
	}
	return now
}

// rampDue queues the devices that the ramp reaches, and returns when it reaches the next.
func (d *Drive) rampDue(now int64) int64 {
	if d.ramped == len(d.devs) {
		return notSoon
	}
	ramping := time.Duration(now) - d.cfg.Wait
	reached := min(int(max(ramping.Seconds()*d.cfg.Rate, 0)), len(d.devs))
	for ; d.ramped < reached; d.ramped++ {
		if i := int32(d.ramped); d.devs[i].state == idle {
			d.enqueue(i)
		}
	}
	return max(int64(d.cfg.Wait)+int64(float64(d.ramped+1)/d.cfg.Rate*float64(time.Second)), now+int64(time.Millisecond))
}

// turnsDue handles the devices whose timers expired, and returns when the next expires.
func (d *Drive) turnsDue(now int64) int64 {
	tick := d.tickOf(now)
	for range maxTurns {
		i, ok := d.wheel.pop(d.devs, tick)
		if !ok {
			return int64(d.wheel.next(uint32(maxWait/d.cfg.Tick)+1)) * int64(d.cfg.Tick)
		}
		d.turn(i)
	}
	return now
}

// dialsDue connects those whose turn it is, as many as may be under way.
func (d *Drive) dialsDue() int64 {
	for range maxDials {
		if d.head == len(d.queue) {
			d.queue, d.head = d.queue[:0], 0
			return notSoon
		}
		if d.inState[dialing]+d.inState[greeting] >= d.cfg.Connecting {
			return notSoon // an answer, or a time that is up, makes room
		}
		i := d.queue[d.head]
		d.head++
		if d.devs[i].state == queued {
			d.dial(i)
		}
	}
	return 0
}

// enqueue makes device i wait for its turn to connect.
func (d *Drive) enqueue(i int32) {
	d.wheel.remove(d.devs, i)
	d.set(i, queued)
	if d.head > 1024 && d.head > len(d.queue)/2 {
		d.queue = d.queue[:copy(d.queue, d.queue[d.head:])]
		d.head = 0
	}
	d.queue = append(d.queue, i)
}

// tickOf returns the tick of an instant.
func (d *Drive) tickOf(at int64) uint32 {
	return uint32(max(at, 0) / int64(d.cfg.Tick)) // 2^32 ticks are months
}

// serve handles what the kernel reported. Nothing in it opens a socket, so that no event can mean a
// later socket with the same descriptor.
func (d *Drive) serve(events []unix.EpollEvent) {
	if len(events) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.look()
	for i := range events {
		e := &events[i]
		switch owner := d.owners[e.Fd]; {
		case owner > 0:
			d.event(owner-1, e.Events)
		case owner < 0:
			d.secondEvent(e.Fd, e.Events)
		}
	}
}

const (
	// watched is what epoll reports of a socket, edge-triggered.
	watched = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET
	broken  = unix.EPOLLERR | unix.EPOLLHUP
	ending  = broken | unix.EPOLLRDHUP
)

// watch lets epoll report what happens to a socket.
func (d *Drive) watch(fd int32, operation int, events uint32) error {
	return unix.EpollCtl(d.epoll, operation, int(fd), &unix.EpollEvent{Events: events, Fd: fd})
}

// event handles what was reported of a device's own socket.
func (d *Drive) event(i int32, events uint32) {
	v := &d.devs[i]
	fd := v.fd
	if v.state == dialing {
		if d.greet(i); v.state != greeting {
			return
		}
	}
	if events&unix.EPOLLOUT != 0 && len(d.unsent) > 0 {
		if d.flush(i); v.fd != fd {
			return
		}
	}
	switch {
	case v.has(stalled):
		if events&broken != 0 {
			d.lose(i, CauseReset, closeSocket)
		}
	case events&(unix.EPOLLIN|ending) != 0:
		d.read(i, events&ending != 0)
	}
}

// read reads a device's input; all of it if the connection has ended.
func (d *Drive) read(i int32, all bool) {
	v := &d.devs[i]
	fd := v.fd
	for reads := 0; ; reads++ {
		n, err := read(fd, d.in)
		switch {
		case n > 0:
			d.counts.BytesIn += uint64(n)
			if d.input(i, d.in[:n]); v.fd != fd || n < len(d.in) && !all {
				return
			}
			if reads == maxReads { // asks for another report
				_ = d.watch(fd, unix.EPOLL_CTL_MOD, watched)
				return
			}
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil:
			d.lose(i, causeOf(err), closeSocket)
			return
		default:
			d.lose(i, CauseClosed, closeSocket)
			return
		}
	}
}

// input handles the answers in data.
func (d *Drive) input(i int32, data []byte) {
	v := &d.devs[i]
	fd := v.fd
	d.heard = d.clock()
	data = d.joined(fd, data)
	for len(data) > 0 {
		a, n := d.protocol.Next(data)
		if n == 0 {
			d.partial[fd] = bytes.Clone(data)
			return
		}
		data = data[n:]
		if d.answer(i, a); v.fd != fd {
			return
		}
	}
}

// joined returns data behind the incomplete answer that arrived before.
func (d *Drive) joined(fd int32, data []byte) []byte {
	if len(d.partial) == 0 {
		return data
	}
	before, ok := d.partial[fd]
	if !ok {
		return data
	}
	delete(d.partial, fd)
	return append(before, data...)
}
