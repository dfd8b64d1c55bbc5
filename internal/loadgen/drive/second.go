package drive

import (
	"bytes"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// second is another socket of a device, beside its own.
type second struct {
	device   int32
	role     role
	greeted  int64 // of a rival: when; 0: not yet
	deadline int64
}

type role uint8

const (
	leaving  role = iota // has said FIN, and reads until the gateway does
	ghost                // of a device that crashed: open, and never used again
	rival                // says the id of a device that is connected
	replaced             // was the device's own until its rival was welcomed
)

const (
	leaveTime   = int64(5 * time.Second)
	replaceTime = int64(10 * time.Second)
)

// second makes a socket one of device i's others.
func (d *Drive) second(i, fd int32, s second) {
	s.device = i
	d.seconds[fd] = &s
	d.owners[fd] = -(i + 1)
}

// dropSecond closes it in some way.
func (d *Drive) dropSecond(fd int32, closing func(int)) {
	delete(d.seconds, fd)
	d.drop(fd, closing)
}

// secondEvent handles what was reported of one.
func (d *Drive) secondEvent(fd int32, events uint32) {
	s := d.seconds[fd]
	switch s.role {
	case ghost:
		if events&ending != 0 {
			d.dropSecond(fd, closeSocket)
		}
	case rival:
		if s.greeted == 0 && !d.greetRival(fd, s) {
			return
		}
		d.readSecond(fd, s)
	case leaving, replaced:
		d.readSecond(fd, s)
	}
}

// readSecond reads all there is.
func (d *Drive) readSecond(fd int32, s *second) {
	for {
		n, err := read(fd, d.in)
		switch {
		case n > 0:
			d.counts.BytesIn += uint64(n)
			if s.role == rival {
				d.rivalInput(fd, s, d.in[:n])
			}
			if d.seconds[fd] != s || n < len(d.in) && s.role == rival {
				return
			}
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return
		default: // the end, in whatever way
			cause := CauseClosed
			if err != nil {
				cause = causeOf(err)
			}
			if s.role == rival {
				d.rivalFailed(fd, s, cause)
			} else {
				d.dropSecond(fd, closeSocket)
			}
			return
		}
	}
}

// sweep ends those that have taken too long.
func (d *Drive) sweep(now int64) {
	for fd, s := range d.seconds {
		if s.deadline > now {
			continue
		}
		switch s.role {
		case rival:
			d.rivalFailed(fd, s, CauseNoWelcome)
			continue
		case leaving:
			d.failed(CauseNotClosed)
		case replaced:
			d.failed(CauseNotReplaced)
		case ghost:
		}
		d.dropSecond(fd, resetSocket)
	}
}

// duplicate opens another connection that says the id of device i.
func (d *Drive) duplicate(i int32) {
	fd, err := d.connect(i, d.devs[i].moves+1)
	if err != nil {
		d.failed(causeOf(err))
		d.failed(CauseDuplicate)
		return
	}
	d.devs[i].flags |= rivalled
	d.rivals[i] = fd
	d.second(i, fd, second{role: rival, deadline: d.clock() + int64(d.cfg.ConnectTimeout)})
	if !d.greetRival(fd, d.seconds[fd]) && d.seconds[fd] == nil {
		return
	}
	if err := d.watch(fd, unix.EPOLL_CTL_ADD, watched); err != nil {
		d.rivalFailed(fd, d.seconds[fd], causeOf(err))
	}
}

// greetRival greets once the handshake is over, and reports whether it has.
func (d *Drive) greetRival(fd int32, s *second) bool {
	switch at, err := d.sayHello(s.device, fd); {
	case errors.Is(err, unix.EAGAIN):
		return false
	case err != nil:
		d.rivalFailed(fd, s, causeOf(err))
		return false
	default:
		s.greeted = at
		return true
	}
}

// rivalInput waits for the gateway to welcome a duplicate.
func (d *Drive) rivalInput(fd int32, s *second, data []byte) {
	data = d.joined(fd, data)
	a, n := d.protocol.Next(data)
	if n == 0 {
		d.partial[fd] = bytes.Clone(data)
		return
	}
	switch a.Kind {
	case codec.Welcome:
		d.promote(fd, s)
		if rest := data[n:]; len(rest) > 0 && d.devs[s.device].fd == fd {
			d.input(s.device, rest)
		}
	case codec.Refused:
		d.rivalFailed(fd, s, coded(CauseRejected, a.Code))
	case codec.Farewell:
	default:
		d.rivalFailed(fd, s, CauseGarbage)
	}
}

// promote makes a duplicate the device's own connection. The gateway is to close the other.
func (d *Drive) promote(fd int32, s *second) {
	i := s.device
	v := &d.devs[i]
	now := d.clock()
	d.counts.Welcomes++
	delete(d.seconds, fd)
	delete(d.rivals, i)
	if v.fd >= 0 {
		d.second(i, v.fd, second{role: replaced, deadline: now + replaceTime})
	}
	v.fd = fd
	d.owners[fd] = i + 1
	v.flags &^= rivalled
	v.mark = 0
	if v.state == orphan {
		d.set(i, open)
	}
	at := d.instant(s.greeted)
	d.truths = append(d.truths, plan.Truth{
		Device: d.number(i), Kind: plan.Duplicate, At: at, Last: d.instant(v.last), Back: at, Connected: true,
	})
	d.back(i, max(v.last, s.greeted), now)
	d.welcomedAt(i, v.moves+1)
	d.begun(i, now)
}

// rivalFailed ends a duplicate that did not get in.
func (d *Drive) rivalFailed(fd int32, s *second, cause string) {
	i := s.device
	v := &d.devs[i]
	d.dropSecond(fd, resetSocket)
	delete(d.rivals, i)
	v.flags &^= rivalled
	d.failed(cause)
	d.failed(CauseDuplicate)
	if v.state == orphan {
		d.counts.Lost++
		d.failed(CauseClosed)
		d.miss(i, CauseClosed, v.mark, time.Time{})
		d.pause(i)
	}
}

// cancelRival ends a duplicate of a device to which something else happens.
func (d *Drive) cancelRival(i int32) {
	if d.devs[i].has(rivalled) {
		fd := d.rivals[i]
		d.dropSecond(fd, resetSocket)
		delete(d.rivals, i)
		d.devs[i].flags &^= rivalled
	}
}
