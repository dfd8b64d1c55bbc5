package testmqtt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"
)

// step is how long beats wait to be sent together with others.
const step = 5 * time.Millisecond

// schedule gives the order of the devices' beats, by their phases, again and again.
type schedule struct {
	start    time.Time
	interval time.Duration
	devices  []*device
	next     int           // the index of the next device
	lap      time.Duration // when its lap began, after start
}

func (s *schedule) due() time.Time { return s.start.Add(s.lap + s.devices[s.next].phase) }

// take appends the beats that are due to buffer and their devices to who, each at most once. A beat
// that was missed, because there was no connection or it was blocked, is not sent later.
func (s *schedule) take(now time.Time, buffer []byte, who []*device) ([]byte, []*device) {
	elapsed := now.Sub(s.start)
	if behind := elapsed - s.lap - s.devices[s.next].phase; behind >= s.interval {
		s.lap += behind.Truncate(s.interval)
	}
	for range s.devices {
		d := s.devices[s.next]
		if s.lap+d.phase > elapsed {
			break
		}
		if d.killed.Load() == 0 {
			buffer = append(buffer, d.packet...)
			who = append(who, d)
		}
		if s.next++; s.next == len(s.devices) {
			s.next = 0
			s.lap += s.interval
		}
	}
	return buffer, who
}

// run keeps the link connected and its devices beating until ctx is done or the link has ended.
func (l *link) run(ctx context.Context, start time.Time) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, l.end)
	defer stop()
	s := &schedule{start: start, interval: l.fleet.cfg.Interval, devices: l.devices}
	for first := true; ; {
		c, err := l.connect(ctx)
		if err == nil {
			if !first {
				l.fleet.reconnects.Add(1)
			}
			first = false
			l.beat(c, s)
		}
		select {
		case <-time.After(retry/2 + rand.N(retry)): // jitter
		case <-l.ended:
			return
		}
	}
}

// connect opens a session. Unless it fails, the connection belongs to the link.
func (l *link) connect(ctx context.Context) (net.Conn, error) {
	select {
	case l.fleet.dialing <- struct{}{}:
		defer func() { <-l.fleet.dialing }()
	case <-l.ended:
		return nil, net.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := l.fleet.cfg.Dial(ctx, "tcp", l.fleet.cfg.Broker)
	if err != nil {
		return nil, err
	}
	if !l.adopt(c) {
		c.Close()
		return nil, net.ErrClosed
	}
	if err := l.greet(c); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (l *link) greet(c net.Conn) error {
	c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Write(appendConnect(nil, l.id, l.status)); err != nil {
		return err
	}
	var ack [4]byte
	if _, err := io.ReadFull(c, ack[:]); err != nil {
		return err
	}
	if ack[0] != 0x20 || ack[3] != 0 {
		return fmt.Errorf("the broker answered % x", ack)
	}
	c.SetDeadline(time.Time{})
	if l.status == "" {
		return nil
	}
	_, err := c.Write(appendPublish(nil, l.status, "online", true))
	return err
}

// beat lets the devices beat until the connection ends, and closes it.
func (l *link) beat(c net.Conn, s *schedule) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		l.read(c)
	}()
	defer func() {
		c.Close()
		<-gone
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var buffer []byte
	var who []*device
	for pinged := time.Now(); ; {
		select {
		case <-timer.C:
		case <-gone:
			return
		}
		now := time.Now()
		buffer, who = s.take(now, buffer[:0], who[:0])
		if now.Sub(pinged) >= keepAlive/2 {
			buffer, pinged = append(buffer, pingRequest...), now
		}
		if len(buffer) > 0 {
			c.SetWriteDeadline(now.Add(keepAlive))
			if _, err := c.Write(buffer); err != nil {
				return
			}
			sent(who, now)
		}
		timer.Reset(max(min(time.Until(s.due()), keepAlive/2), step))
	}
}

// sent records beats that were handed to a socket.
func sent(who []*device, begun time.Time) {
	last := time.Now().UnixNano()
	for _, d := range who {
		d.begun.Store(begun.UnixNano())
		d.last.Store(last)
		d.beats.Add(1)
	}
}

// read reads until the connection ends, or until the broker has been silent for so long that it did
// not answer a ping.
func (l *link) read(c net.Conn) {
	buffer := make([]byte, 64)
	for {
		c.SetReadDeadline(time.Now().Add(keepAlive * 3 / 2))
		if _, err := c.Read(buffer); err != nil {
			if !errors.Is(err, net.ErrClosed) {
				c.Close()
			}
			return
		}
	}
}
