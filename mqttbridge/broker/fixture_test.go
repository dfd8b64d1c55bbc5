package broker_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/holter-iot/holter/internal/testwait"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
	"github.com/holter-iot/holter/mqttbridge/broker"
)

// station is a broker that runs until the test ends.
type station struct {
	tb       testing.TB
	registry *liveness.Registry
	log      *eventlog.Log
	broker   *broker.Broker
	stop     func()
}

// quick lets a device whose connection ended be offline at once.
var quick = liveness.Config{Policy: liveness.Policy{CloseGrace: time.Millisecond}}

func start(tb testing.TB, fleet liveness.Config, cfg broker.Config) *station {
	tb.Helper()
	log, err := eventlog.New(1 << 16)
	if err != nil {
		tb.Fatal(err)
	}
	s := startAt(tb, log, fleet, cfg)
	s.log = log
	return s
}

// startAt starts a broker whose events go to a sink.
func startAt(tb testing.TB, sink liveness.Sink, fleet liveness.Config, cfg broker.Config) *station {
	tb.Helper()
	fleet.MinTimeout = cmp.Or(fleet.MinTimeout, time.Millisecond) // tests are not to wait for long
	registry, err := liveness.New(sink, fleet)
	if err != nil {
		tb.Fatal(err)
	}
	s := &station{tb: tb, registry: registry}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := registry.Run(ctx); err != nil {
			tb.Error(err)
		}
	})
	stopBroker := s.restart(cfg)
	s.stop = sync.OnceFunc(func() {
		stopBroker()
		cancel()
		running.Wait()
	})
	tb.Cleanup(s.stop)
	return s
}

// restart starts a broker, and returns what stops it.
func (s *station) restart(cfg broker.Config) (stop func()) {
	s.tb.Helper()
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	var err error
	if s.broker, err = broker.New(context.Background(), s.registry, cfg); err != nil {
		s.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	b := s.broker
	go func() { done <- b.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.tb.Error(err)
		}
	})
}

// event waits for an event of a device.
func (s *station) event(id string, kind liveness.Type) liveness.Event {
	s.tb.Helper()
	var events []liveness.Event
	for after := uint64(0); ; {
		var err error
		if events, err = s.log.Wait(s.tb.Context(), events[:0], after, 1000); err != nil {
			s.tb.Fatalf("%v of %q never came: %v", kind, id, err)
		}
		for i := range events {
			if after = events[i].Offset; events[i].Subject == id && events[i].Type == kind {
				return events[i]
			}
		}
	}
}

// none wants no event of a kind.
func (s *station) none(kind liveness.Type) {
	s.tb.Helper()
	events, err := s.log.Read(nil, 0, 1<<16)
	if err != nil {
		s.tb.Fatal(err)
	}
	for i := range events {
		if events[i].Type == kind {
			s.tb.Errorf("there is an event %+v", events[i])
		}
	}
}

// rejected waits for a count.
func (s *station) rejected(reason broker.Reason, n uint64) {
	s.tb.Helper()
	testwait.Until(s.tb, fmt.Sprintf("%d rejected for %s", n, reason), func() bool { return s.broker.Stats().Rejected[string(reason)] == n })
}

// client speaks MQTT.
type client struct {
	tb      testing.TB
	conn    net.Conn
	in      *bufio.Reader
	version byte
	mu      sync.Mutex // held while writing
	next    uint16
}

// hello is a CONNECT.
type hello struct {
	id, user, password string
	version            byte // default 4
	keepAlive          uint16
	will               string // topic
	willRetain         bool
	stay               bool // keep the session
	change             func(pk *packets.Packet)
}

func (s *station) dial() *client {
	s.tb.Helper()
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", s.broker.Addr().String())
	if err != nil {
		s.tb.Fatal(err)
	}
	s.tb.Cleanup(func() { conn.Close() })
	return &client{tb: s.tb, conn: conn, in: bufio.NewReader(conn), version: 4}
}

// connect connects and wants to be let in.
func (s *station) connect(h hello) *client {
	s.tb.Helper()
	c := s.dial()
	if code := c.hello(h); code != 0 {
		s.tb.Fatalf("CONNECT of %q = %#x, want 0", h.id, code)
	}
	return c
}

// hello sends a CONNECT and returns the code of the answer.
func (c *client) hello(h hello) byte {
	c.tb.Helper()
	code, err := c.tryHello(h)
	if err != nil {
		c.tb.Fatalf("CONNECT of %q: %v", h.id, err)
	}
	return code
}

func (c *client) tryHello(h hello) (byte, error) {
	if h.version != 0 {
		c.version = h.version
	}
	pk := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: c.version,
		Connect: packets.ConnectParams{
			ProtocolName: []byte("MQTT"), Clean: !h.stay, ClientIdentifier: h.id, Keepalive: h.keepAlive,
			UsernameFlag: h.user != "", Username: []byte(h.user), PasswordFlag: h.password != "", Password: []byte(h.password),
			WillFlag: h.will != "", WillTopic: h.will, WillPayload: []byte("gone"), WillRetain: h.willRetain,
		},
	}
	if h.change != nil {
		h.change(&pk)
	}
	if err := c.write(&pk, pk.ConnectEncode); err != nil {
		return 0, err
	}
	answer, err := c.read()
	if err != nil {
		return 0, err
	}
	if answer.FixedHeader.Type != packets.Connack {
		return 0, fmt.Errorf("the answer is a packet of type %d", answer.FixedHeader.Type)
	}
	return answer.ReasonCode, nil
}

func (c *client) write(pk *packets.Packet, encode func(*bytes.Buffer) error) error {
	pk.ProtocolVersion = c.version
	var out bytes.Buffer
	if err := encode(&out); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.conn.Write(out.Bytes())
	return err
}

// send sends a packet.
func (c *client) send(pk packets.Packet) {
	c.tb.Helper()
	encode := map[byte]func(*bytes.Buffer) error{
		packets.Pingreq: pk.PingreqEncode, packets.Publish: pk.PublishEncode, packets.Subscribe: pk.SubscribeEncode,
		packets.Disconnect: pk.DisconnectEncode, packets.Puback: pk.PubackEncode,
	}[pk.FixedHeader.Type]
	if err := c.write(&pk, encode); err != nil {
		c.tb.Fatal(err)
	}
}

// read reads a packet.
func (c *client) read() (packets.Packet, error) {
	var pk packets.Packet
	first, err := c.in.ReadByte()
	if err != nil {
		return pk, err
	}
	if err := pk.FixedHeader.Decode(first); err != nil {
		return pk, err
	}
	if pk.FixedHeader.Remaining, _, err = packets.DecodeLength(c.in); err != nil {
		return pk, err
	}
	rest := make([]byte, pk.FixedHeader.Remaining)
	if _, err := io.ReadFull(c.in, rest); err != nil {
		return pk, err
	}
	pk.ProtocolVersion = c.version
	decode := map[byte]func([]byte) error{
		packets.Connack: pk.ConnackDecode, packets.Publish: pk.PublishDecode, packets.Suback: pk.SubackDecode,
		packets.Puback: pk.PubackDecode, packets.Disconnect: pk.DisconnectDecode,
	}[pk.FixedHeader.Type]
	if decode != nil {
		err = decode(rest)
	}
	return pk, err
}

// want reads a packet of a type.
func (c *client) want(kind byte) packets.Packet {
	c.tb.Helper()
	pk, err := c.read()
	if err != nil {
		c.tb.Fatalf("%v, want a packet of type %d", err, kind)
	}
	if pk.FixedHeader.Type != kind {
		c.tb.Fatalf("a packet of type %d (%+v), want %d", pk.FixedHeader.Type, pk, kind)
	}
	return pk
}

// over wants the connection to end, whatever came before.
func (c *client) over() {
	c.tb.Helper()
	if _, err := io.Copy(io.Discard, c.in); err != nil && errors.Is(err, context.DeadlineExceeded) {
		c.tb.Fatal(err)
	}
}

func (c *client) ping() {
	c.tb.Helper()
	c.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingreq}})
	c.want(packets.Pingresp)
}

// disconnect says goodbye, with a reason that only MQTT 5 knows.
func (c *client) disconnect(code byte) {
	c.tb.Helper()
	c.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Disconnect}, ReasonCode: code})
}

// subscribe subscribes and returns the code of the answer.
func (c *client) subscribe(filter string, qos byte) byte {
	c.tb.Helper()
	return c.subscribeWith(packets.Subscription{Filter: filter, Qos: qos})
}

func (c *client) subscribeWith(sub packets.Subscription) byte {
	c.tb.Helper()
	c.next++
	c.send(packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Subscribe, Qos: 1}, PacketID: c.next, Filters: packets.Subscriptions{sub},
	})
	for {
		pk, err := c.read()
		if err != nil {
			c.tb.Fatalf("%v, want SUBACK", err)
		}
		switch pk.FixedHeader.Type {
		case packets.Suback:
			return pk.ReasonCodes[0]
		case packets.Publish: // the server may send what fits before it (MQTT 3.1.1, section 3.8.4)
		default:
			c.tb.Fatalf("a packet of type %d, want SUBACK", pk.FixedHeader.Type)
		}
	}
}

func (c *client) publish(topic, payload string, qos byte, retain bool) {
	c.tb.Helper()
	c.next++
	c.send(packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: qos, Retain: retain}, PacketID: c.next, TopicName: topic, Payload: []byte(payload),
	})
}

// message reads a message.
func (c *client) message(topic, payload string) packets.Packet {
	c.tb.Helper()
	pk := c.want(packets.Publish)
	if pk.TopicName != topic || string(pk.Payload) != payload {
		c.tb.Fatalf("message %q on %q, want %q on %q", pk.Payload, pk.TopicName, payload, topic)
	}
	return pk
}
