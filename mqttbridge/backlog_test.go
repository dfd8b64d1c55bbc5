package mqttbridge_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/holter-iot/holter/mqttbridge"
)

// slowBroker has so much retained that for a while after the second subscription nothing else comes of it.
type slowBroker struct {
	listener    net.Listener
	length      time.Duration // of that
	connections atomic.Int64
	serving     sync.WaitGroup
}

func (b *slowBroker) run() {
	for {
		c, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.connections.Add(1)
		b.serving.Go(func() {
			defer func() { _ = c.Close() }()
			b.serve(c)
		})
	}
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
			in <- p
		}
	})
	subscribed := 0
	for p := range in {
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
			_ = p.Write(&out)
		case *packets.PingreqPacket:
			_ = packets.NewControlPacket(packets.Pingresp).Write(&out)
		}
		if _, err := c.Write(out.Bytes()); err != nil {
			return
		}
		if _, subscribes := p.(*packets.SubscribePacket); subscribes && subscribed == 2 {
			b.retained(c)
		}
	}
}

// retained sends retained messages for a while.
func (b *slowBroker) retained(c io.Writer) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(b.length); time.Now().Before(end); <-tick.C {
		p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
		p.TopicName, p.Payload, p.Retain = "d/dev-1", []byte("beat"), true
		if p.Write(c) != nil {
			return
		}
	}
}

// TestLongBacklog: a broker that has retained so much that no watermark comes back for long is not given up while messages come.
func TestLongBacklog(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const timeout = 200 * time.Millisecond
	b := &slowBroker{listener: l, length: 10 * timeout}
	b.serving.Go(b.run)
	t.Cleanup(func() {
		_ = l.Close()
		b.serving.Wait()
	})
	s := start(t, mqttbridge.Config{URL: "tcp://" + l.Addr().String(), ProbeTimeout: timeout})
	s.listens()
	if n := b.connections.Load(); n != 1 {
		t.Errorf("it took %d connections", n)
	}
}
