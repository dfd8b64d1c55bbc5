package mqttbridge_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/holter-iot/holter/mqttbridge"
)

// slowBroker sends retained messages for a while after the second subscription, and nothing else. Of a halfCut one, only so many packets
// are answered after that as it says; then live messages come, but no answers. One that chatters sends
// no message and drops those that it gets, but something always comes from it.
type slowBroker struct {
	retains     time.Duration
	halfCut     bool
	answers     int
	chatters    bool
	connections atomic.Int64
	serving     sync.WaitGroup
}

// startSlow runs a broker in a bubble until the test ends, and returns a bridge to it.
func startSlow(t *testing.T, b *slowBroker, probeTimeout time.Duration) *site {
	t.Helper()
	t.Cleanup(b.serving.Wait)
	return start(t, mqttbridge.Within(mqttbridge.Config{URL: "tcp://broker", ProbeTimeout: probeTimeout}, b.dial))
}

func (b *slowBroker) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	b.connections.Add(1)
	b.serving.Go(func() {
		defer func() { _ = there.Close() }()
		b.serve(there)
	})
	return here, nil
}

// serve answers what a client sends, but only after the retained messages.
func (b *slowBroker) serve(c net.Conn) {
	in := make(chan packets.ControlPacket, 1024)
	b.serving.Go(func() {
		defer close(in)
		for {
			p, err := packets.ReadPacket(c)
			if err != nil {
				return
			}
			time.Sleep(100 * time.Microsecond) // the way
			in <- p
		}
	})
	subscribed, answered := 0, 0
	for p := range in {
		if subscribed == 2 && b.halfCut {
			if answered == b.answers {
				b.send(c, false, time.Minute)
				return
			}
			answered++
		}
		var out bytes.Buffer
		switch p := p.(type) {
		case *packets.ConnectPacket:
			_ = packets.NewControlPacket(packets.Connack).Write(&out)
		case *packets.SubscribePacket:
			a := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
			a.MessageID, a.ReturnCodes = p.MessageID, p.Qoss
			_ = a.Write(&out)
			subscribed++
		case *packets.UnsubscribePacket:
			a := packets.NewControlPacket(packets.Unsuback).(*packets.UnsubackPacket)
			a.MessageID = p.MessageID
			_ = a.Write(&out)
		case *packets.PublishPacket:
			if !b.chatters {
				_ = p.Write(&out)
			}
		case *packets.PingreqPacket:
			_ = packets.NewControlPacket(packets.Pingresp).Write(&out)
		}
		if _, err := c.Write(out.Bytes()); err != nil {
			return
		}
		if _, subscribes := p.(*packets.SubscribePacket); !subscribes || subscribed != 2 {
			continue
		}
		if b.chatters {
			b.serving.Go(func() { b.chatter(c) })
		}
		b.send(c, true, b.retains)
	}
}

// send sends messages for a while, or until the connection ends.
func (b *slowBroker) send(c io.Writer, retained bool, length time.Duration) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(length); time.Now().Before(end); <-tick.C {
		p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
		p.TopicName, p.Payload, p.Retain = "d/dev-1", []byte("beat"), retained
		if p.Write(c) != nil {
			return
		}
	}
}

// chatter sends what is no message until the connection ends.
func (b *slowBroker) chatter(c io.Writer) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for packets.NewControlPacket(packets.Pingresp).Write(c) == nil {
		<-tick.C
	}
}

// TestDroppedWatermark: a broker that sends no messages and drops the watermarks, but answers, is listened
// to: the silence of its devices counts.
func TestDroppedWatermark(t *testing.T) { synctest.Test(t, droppedWatermark) }

func droppedWatermark(t *testing.T) {
	t.Helper()
	s := startSlow(t, &slowBroker{chatters: true}, 300*time.Millisecond)
	s.listens()
	if v := s.bridge.View(); v.Watermark != "answer" {
		t.Errorf("Watermark = %q, want answer", v.Watermark)
	}
}

// TestLongBacklog: a broker whose retained messages keep the watermark back for long is not given up, and keeps its watermark.
func TestLongBacklog(t *testing.T) { synctest.Test(t, longBacklog) }

func longBacklog(t *testing.T) {
	t.Helper()
	const timeout = 200 * time.Millisecond
	b := &slowBroker{retains: 10 * timeout}
	s := startSlow(t, b, timeout)
	s.listens()
	if n := b.connections.Load(); n != 1 {
		t.Errorf("it took %d connections", n)
	}
	if v := s.bridge.View(); v.Watermark != "message" {
		t.Errorf("Watermark = %q, want message", v.Watermark)
	}
}

// TestHalfCut: a connection on which messages come but no answers is given up, before the first watermark came back and after it.
func TestHalfCut(t *testing.T) {
	for name, answers := range map[string]int{"from the beginning": 0, "later": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &slowBroker{halfCut: true, answers: answers}
				s := startSlow(t, b, 100*time.Millisecond)
				s.until("another connection", func() bool { return b.connections.Load() > 1 })
				s.until("the error", func() bool { return s.bridge.View().LastError == "no answer from the broker" })
			})
		})
	}
}
