package drive

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/gateway/codec"
)

// dial begins to connect device i.
func (d *Drive) dial(i int32) {
	v := &d.devs[i]
	now := d.clock()
	fd, err := d.connect(i, v.moves)
	if err != nil {
		d.refused(i, causeOf(err))
		return
	}
	d.owners[fd] = i + 1
	v.fd, v.planned = fd, now
	d.set(i, dialing)
	d.due(i, now+int64(d.cfg.ConnectTimeout))
	// To a target on the same machine the handshake is over when connect returns, so greeting at
	// once saves a wait for epoll.
	if d.greet(i); v.fd != fd {
		return
	}
	if err := d.watch(fd, unix.EPOLL_CTL_ADD, watched); err != nil {
		d.refused(i, causeOf(err))
	}
}

// connect opens a socket for device i and begins the handshake.
func (d *Drive) connect(i int32, moves uint8) (int32, error) {
	d.counts.Connects++
	target, source := d.places.place(d.number(i), moves)
	s, err := openSocket(target.address, source)
	if err != nil {
		return -1, err
	}
	if err := unix.Connect(s, target.socket); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		closeSocket(s)
		return -1, err
	}
	for len(d.owners) <= s {
		d.owners = append(d.owners, 0)
	}
	d.sockets++
	return int32(s), nil
}

// drop closes a socket by the given function, and forgets it.
func (d *Drive) drop(fd int32, closing func(int)) {
	d.owners[fd] = 0
	d.sockets--
	delete(d.partial, fd)
	delete(d.unsent, fd)
	closing(int(fd))
}

// greet says hello once the handshake is over.
func (d *Drive) greet(i int32) {
	v := &d.devs[i]
	switch at, err := d.sayHello(i, v.fd); {
	case errors.Is(err, unix.EAGAIN): // the handshake is not over
	case err != nil:
		d.refused(i, causeOf(err))
	default:
		v.mark = at
		d.sent(i, at)
		d.set(i, greeting)
		d.due(i, at+int64(d.cfg.ConnectTimeout))
	}
}

// send hands data to the kernel, and keeps what it does not take of it; EAGAIN means that it takes
// nothing.
func (d *Drive) send(fd int32, data []byte) error {
	n, err := write(fd, data)
	if err != nil {
		return err
	}
	d.counts.BytesOut += uint64(n)
	if n < len(data) {
		d.unsent[fd] = bytes.Clone(data[n:])
	}
	return nil
}

// welcome handles a gateway's welcome.
func (d *Drive) welcome(i int32) {
	v := &d.devs[i]
	now := d.clock()
	record(d.histograms[Connect], now-v.planned)
	d.counts.Welcomes++
	if !v.has(seen) {
		d.welcomed++
	}
	greeted := v.mark
	v.tries, v.mark = 0, 0
	d.set(i, open)
	d.back(i, greeted, now)
	d.welcomedAt(i, v.moves)
	d.begun(i, now)
}

// begun starts the heartbeats of a new connection.
func (d *Drive) begun(i int32, now int64) {
	v := &d.devs[i]
	fd := v.fd
	v.flags = v.flags&^(unanswered|blocked) | seen
	v.sent, v.acked = 0, 0
	v.beat = d.schedule.after(d.number(i), now)
	if p, ok := d.protocol.(*mqttClient); ok && p.plan.WillTopic != "" && p.plan.BirthPayload != "" {
		d.out = p.appendBirth(d.out[:0], d.id(i))
		if err := d.send(fd, d.out); err != nil {
			d.lose(i, causeOf(err), closeSocket)
			return
		}
	}
	if d.cfg.Closed {
		if d.beat(i, now); v.state != open {
			return
		}
	}
	d.arm(i)
}

// refused handles a failed attempt to connect.
func (d *Drive) refused(i int32, cause string) {
	v := &d.devs[i]
	d.counts.Failed++
	d.failed(cause)
	greeted := d.greeted(i)
	if strings.HasPrefix(cause, CauseRejected) && cause != coded(CauseRejected, codec.Busy) {
		greeted = time.Time{}
	}
	d.miss(i, cause, d.clock(), greeted)
	if d.cfg.Roam {
		v.moves++
	}
	if v.fd >= 0 {
		d.drop(v.fd, resetSocket)
		v.fd = -1
	}
	d.pause(i)
}

// pause makes a device try again after its back-off: twice as long each time, less up to half of it
// by chance.
func (d *Drive) pause(i int32) {
	v := &d.devs[i]
	wait, longest := int64(d.cfg.Plan.Backoff), int64(d.cfg.Plan.BackoffMax)
	for n := v.tries; n > 0 && wait < longest; n-- {
		wait = min(2*wait, longest)
	}
	wait -= d.chance.Int64N(wait/2 + 1)
	if v.tries < 255 {
		v.tries++
	}
	d.set(i, pausing)
	v.mark = d.clock() + wait
	d.due(i, v.mark)
}
