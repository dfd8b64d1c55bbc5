package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/holter-iot/holter/bench/internal/measured"
)

const (
	measureReplay = "replay"
	measureRelay  = "relay"
	publishers    = 50 // connections: mosquitto reads one packet of each in turn
)

// measureInbound measures how a subscriber takes messages: from this program, or by way of mosquitto.
func (b *bench) measureInbound(ctx context.Context, measurement, subscriber string) error {
	if !b.wanted(measurement, subscriber) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, childLife)
	defer cancel()
	take, to := b.replay, &b.Replay
	if measurement == measureRelay {
		take, to = b.relay, &b.Relay
	}
	r, err := take(ctx, subscriber, b.profile(measurement, subscriber))
	if err != nil {
		return err
	}
	to.add(subscriber, r)
	b.progress("%-8s %-11s %8.0f messages/s, %.2f CPU s per million, %d lost; busy %3.0f %%, driver %3.0f %%, others %3.0f %% of a core", measurement,
		subscriber, r.rate(), r.perMillion(), r.Lost, 100*r.Share, 100*r.Driver, 100*r.Others)
	return nil
}

// replay plays the broker.
func (b *bench) replay(ctx context.Context, subscriber, profile string) (r Taken, err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", anyPort)
	if err != nil {
		return r, err
	}
	defer l.Close()
	played := make(chan *stage, 1) // room for the one that comes; never closed
	go func() {
		if conn, err := l.Accept(); err == nil {
			s := &stage{conn: conn}
			played <- s
			s.play()
		}
	}()
	c, err := startOn(ctx, measuredCore, subscriber, "tcp://"+l.Addr().String())
	if err != nil {
		return r, err
	}
	defer c.Stop()
	s := <-played
	defer s.conn.Close()
	f := b.feed(c, func(batch []byte, _ int) error { return s.write(batch) })
	r, err = f.measure(ctx, c, b.length, profile)
	c.Stop() // before the connection ends, which it would complain of
	return r, err
}

// relay sends by way of mosquitto.
func (b *bench) relay(ctx context.Context, subscriber, profile string) (r Taken, err error) {
	server, err := startOn(ctx, driverCore, serverMosquitto)
	if err != nil {
		return r, err
	}
	defer server.Stop()
	c, err := startOn(ctx, measuredCore, subscriber, "tcp://"+server.Addr.String())
	if err != nil {
		return r, err
	}
	defer c.Stop()
	conns := make([]net.Conn, publishers)
	for i := range conns {
		if conns[i], err = dialPublisher(ctx, server.Addr.String(), i); err != nil {
			return r, err
		}
		defer conns[i].Close()
	}
	f := b.feed(c, func(batch []byte, turn int) error {
		_, err := conns[turn%publishers].Write(batch)
		return err
	})
	return f.measure(ctx, c, b.length, profile, server.PID)
}

func (b *bench) feed(c *measured.Process, send func(batch []byte, turn int) error) *feed {
	if b.stream == nil {
		b.stream = prepare(b.Devices)
	}
	return &feed{stream: b.stream, devices: b.Devices, send: send, count: func() (n counts, err error) {
		err = c.Ask("count", &n)
		return n, err
	}}
}

// connectPacket returns a CONNECT of MQTT 3.1.1.
func connectPacket(id string, keepAlive time.Duration) []byte {
	var out bytes.Buffer
	p := packets.NewControlPacket(packets.Connect).(*packets.ConnectPacket)
	p.ProtocolName, p.ProtocolVersion, p.CleanSession = "MQTT", 4, true
	p.ClientIdentifier, p.Keepalive = id, uint16(keepAlive/time.Second)
	_ = p.Write(&out) // into memory
	return out.Bytes()
}

func dialPublisher(ctx context.Context, addr string, i int) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, err = conn.Write(connectPacket(fmt.Sprintf("publisher-%d", i), 0))
	if err == nil {
		var answer packets.ControlPacket
		answer, err = packets.ReadPacket(conn)
		if ack, ok := answer.(*packets.ConnackPacket); err == nil && (!ok || ack.ReturnCode != packets.Accepted) {
			err = fmt.Errorf("the broker answers %v", answer)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("publisher %d: %w", i, err), conn.Close())
	}
	return conn, conn.SetDeadline(time.Time{})
}

// stage plays as much of a broker as a subscriber needs: it answers, and gives back what the subscriber publishes.
type stage struct {
	conn net.Conn

	mu sync.Mutex // guards writes, so that packets stay whole
}

func (s *stage) write(p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.conn.Write(p)
	return err
}

// play answers until the connection ends.
func (s *stage) play() {
	for {
		in, err := packets.ReadPacket(s.conn)
		if err != nil {
			return
		}
		if out := answer(in); out != nil {
			var text bytes.Buffer
			if out.Write(&text) != nil || s.write(text.Bytes()) != nil {
				return
			}
		}
	}
}

// answer returns what a broker would send back, nil if that is nothing.
func answer(in packets.ControlPacket) packets.ControlPacket {
	switch p := in.(type) {
	case *packets.ConnectPacket:
		return packets.NewControlPacket(packets.Connack)
	case *packets.SubscribePacket:
		out := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
		out.MessageID, out.ReturnCodes = p.MessageID, make([]byte, len(p.Topics))
		return out
	case *packets.UnsubscribePacket:
		out := packets.NewControlPacket(packets.Unsuback).(*packets.UnsubackPacket)
		out.MessageID = p.MessageID
		return out
	case *packets.PublishPacket:
		return p
	case *packets.PingreqPacket:
		return packets.NewControlPacket(packets.Pingresp)
	}
	return nil
}
