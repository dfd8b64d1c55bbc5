package drive

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// act does a step of a device's fate. began is when the phases began.
func (d *Drive) act(s *step, began int64) {
	i := s.device
	v := &d.devs[i]
	if s.ordered && v.state != open && v.state != pausing {
		d.failed(CauseNotConnected)
		return
	}
	if s.beat && v.state == open {
		if d.beat(i, d.clock()); v.state != open {
			return // the connection was lost just then
		}
	}
	var mark int64
	if s.back > s.at { // otherwise at once, or never
		mark = began + s.back
	}
	switch s.kind {
	case plan.Signal:
		return
	case plan.Stall, plan.Duplicate:
		switch {
		case v.state != open || v.has(stalled|rivalled):
			d.failed(CauseNotConnected)
		case s.kind == plan.Stall:
			d.stall(i, mark)
		default:
			d.duplicate(i)
		}
		return
	default:
	}
	d.cancelRival(i)
	if v.has(stalled) {
		d.unstall(i)
	}
	done := plan.Truth{Kind: s.kind, Connected: v.state == open, Greeted: d.greeted(i)}
	at := d.leave(i, s.kind, mark)
	done.At = d.instant(at)
	d.did(i, done)
	if s.kind == plan.Sleep && v.fd >= 0 {
		v.last = at
	}
	v.flags &^= unanswered | blocked
	d.wheel.remove(d.devs, i)
	d.set(i, away)
	if s.kind == plan.Move {
		v.moves++
	}
	v.mark, v.tries = mark, 0
	switch {
	case mark > 0:
		d.due(i, mark)
	case s.kind == plan.Move:
		d.enqueue(i)
	case s.kind == plan.Reconnect:
		d.pause(i)
	}
}

// leave ends the connection of a device, or stops using it, and returns when that was.
func (d *Drive) leave(i int32, kind plan.Kind, mark int64) int64 {
	v := &d.devs[i]
	if v.fd < 0 {
		return d.clock()
	}
	if v.state != open && (v.state != away || kind != plan.Silent) { // there is no session to end in another way
		return d.hangUp(i)
	}
	switch kind {
	case plan.Silent:
		return d.clock()
	case plan.Crash:
		at := d.clock()
		d.second(i, v.fd, second{role: ghost, deadline: notSoon})
		v.fd = -1
		return at
	case plan.Bye:
		return d.say(i, d.protocol.AppendBye(d.out[:0], d.id(i)))
	case plan.Sleep:
		at := d.clock()
		words := d.protocol.AppendSleep(d.out[:0], d.id(i), time.Duration(max(mark-at, 0)))
		if d.out = words; d.unsent[v.fd] != nil || d.send(v.fd, words) != nil {
			d.failed(CauseGoodbye)
		}
		return at
	case plan.Close, plan.Move:
		return d.say(i, nil)
	default: // Reset, Reconnect
		return d.hangUp(i)
	}
}

// hangUp closes with RST.
func (d *Drive) hangUp(i int32) int64 {
	v := &d.devs[i]
	at := d.clock()
	d.drop(v.fd, resetSocket)
	v.fd = -1
	return at
}

// say sends a last message, if there is one, and closes with FIN. The socket becomes a second
// connection, which reads until the gateway closes its side.
func (d *Drive) say(i int32, words []byte) int64 {
	v := &d.devs[i]
	fd := v.fd
	at := d.clock()
	if len(words) > 0 {
		d.out = words
		if d.unsent[fd] != nil || d.send(fd, words) != nil {
			d.failed(CauseGoodbye)
		}
	}
	_ = unix.Shutdown(int(fd), unix.SHUT_WR) // fails only if the connection is gone
	d.second(i, fd, second{role: leaving, deadline: at + leaveTime})
	v.fd = -1
	return at
}

// stall makes a device read nothing.
func (d *Drive) stall(i int32, mark int64) {
	v := &d.devs[i]
	at := d.clock()
	if err := d.watch(v.fd, unix.EPOLL_CTL_MOD, unix.EPOLLOUT|unix.EPOLLET); err != nil {
		d.failed(causeOf(err))
		return
	}
	v.flags |= stalled
	v.mark = mark
	t := plan.Truth{Device: d.number(i), Kind: plan.Stall, At: d.instant(at), Last: d.instant(v.last), Connected: true}
	d.stalls[i] = t
	d.truths = append(d.truths, t)
	d.arm(i)
}

// unstall makes it read again, beginning with what has arrived meanwhile.
func (d *Drive) unstall(i int32) {
	v := &d.devs[i]
	v.flags &^= stalled
	v.mark = 0
	t := d.stalls[i]
	t.Back = d.instant(d.clock())
	delete(d.stalls, i)
	d.truths = append(d.truths, t)
	if err := d.watch(v.fd, unix.EPOLL_CTL_MOD, watched); err != nil {
		d.failed(causeOf(err))
	}
}
