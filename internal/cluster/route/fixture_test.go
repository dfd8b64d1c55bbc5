package route_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holter-iot/holter/internal/cluster/route"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

// hub is a hub that runs.
type hub struct {
	*route.Hub

	broker  *mqtt.Broker
	address string
	stop    func()
}

func startHub(tb testing.TB, cfg mqtt.Config, rcfg route.Config) *hub {
	tb.Helper()
	return startHubAt(tb, "127.0.0.1:0", cfg, rcfg)
}

// startHubAt starts a hub, which ends with the test.
func startHubAt(tb testing.TB, address string, cfg mqtt.Config, rcfg route.Config) *hub {
	tb.Helper()
	h := &hub{broker: newBroker(tb, cfg)}
	if err := h.broker.Open(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	h.Hub = route.NewHub(h.broker, rcfg)
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	running.Go(func() { _ = h.broker.Run(ctx) })
	running.Go(func() { _ = h.Run(ctx) })
	var end func()
	h.address, end = serve(tb, address, h.Register)
	h.stop = sync.OnceFunc(func() {
		cancel()
		end()
		running.Wait()
	})
	tb.Cleanup(h.stop)
	return h
}

// serve serves what register registers, at an address, until end is called.
func serve(tb testing.TB, address string, register func(grpc.ServiceRegistrar)) (at string, end func()) {
	tb.Helper()
	var l net.Listener
	testwait.Until(tb, "the address is free", func() (ok bool) {
		var err error
		l, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
		return err == nil
	})
	server := grpc.NewServer(grpc.MaxRecvMsgSize(route.MaxFrame))
	register(server)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	return l.Addr().String(), func() {
		server.Stop()
		serving.Wait()
	}
}

func newBroker(tb testing.TB, cfg mqtt.Config) *mqtt.Broker {
	tb.Helper()
	cfg.ReceiveMaximum, cfg.MaxQueue, cfg.MaxQueueBytes = 60_000, 60_000, 64<<20
	b, err := mqtt.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// spoke is a spoke that runs.
type spoke struct {
	*route.Spoke

	broker *mqtt.Broker
	stop   func()

	mu      sync.Mutex // guards the fields below
	address string
	conns   []net.Conn
	gate    chan struct{} // closed while the spoke reads
}

// newSpoke returns a spoke of the hub at an address that does not run yet.
func newSpoke(tb testing.TB, address, name string, cfg mqtt.Config, rcfg route.Config) *spoke {
	tb.Helper()
	s := &spoke{broker: newBroker(tb, cfg), address: address, gate: make(chan struct{})}
	close(s.gate)
	var err error
	if s.Spoke, err = route.NewSpoke(s.broker, name, rcfg); err != nil {
		tb.Fatal(err)
	}
	return s
}

func startSpoke(tb testing.TB, address, name string, cfg mqtt.Config) *spoke {
	tb.Helper()
	s := newSpoke(tb, address, name, cfg, route.Config{})
	s.start(tb)
	testwait.Until(tb, "the spoke has its hub", s.joined)
	return s
}

func (s *spoke) joined() bool { return s.Stats().Brokers == 1 }

// start runs the spoke until the test ends, or stop is called.
func (s *spoke) start(tb testing.TB) {
	tb.Helper()
	conn, err := grpc.NewClient("passthrough:///hub", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(s.dial),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: time.Millisecond, Multiplier: 1, MaxDelay: time.Millisecond}, MinConnectTimeout: time.Second}))
	if err != nil {
		tb.Fatal(err)
	}
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	running.Go(func() { _ = s.broker.Run(ctx) })
	running.Go(func() { s.Serve(ctx, conn) })
	s.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		_ = conn.Close()
	})
	tb.Cleanup(s.stop)
}

func (s *spoke) dial(ctx context.Context, _ string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.address)
	if err != nil {
		return nil, err
	}
	s.conns = append(s.conns, c)
	return &gated{Conn: c, spoke: s}, nil
}

// lead leads the next connections to another address; "": nowhere.
func (s *spoke) lead(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.address = address
}

// cut breaks all connections.
func (s *spoke) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
}

// deafen has the spoke read nothing, until the func that it returns is called.
func (s *spoke) deafen() (hear func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gate := make(chan struct{})
	s.gate = gate
	return sync.OnceFunc(func() { close(gate) })
}

// gated is a connection that can be kept from being read.
type gated struct {
	net.Conn

	spoke *spoke
}

func (g *gated) Read(p []byte) (int, error) {
	g.spoke.mu.Lock()
	gate := g.spoke.gate
	g.spoke.mu.Unlock()
	<-gate
	return g.Conn.Read(p)
}

// anyone may do everything.
type anyone struct{}

func (anyone) User() string             { return "" }
func (anyone) MayPublish(string) bool   { return true }
func (anyone) MaySubscribe(string) bool { return true }
func (anyone) Valid() bool              { return true }

// wire is the wire of a client in memory.
type wire struct{}

func (wire) Wake()             {}
func (wire) Close(packet.Code) {}

// client is a client in memory, which acknowledges what it gets.
type client struct {
	tb   testing.TB
	conn *mqtt.Conn
	in   []byte
	got  []string // messages, and answers to its own
	id   uint16

	ignored string // what the topics of messages begin with that do not count; "": all count
}

func connect(tb testing.TB, b *mqtt.Broker, id string, change ...func(*packet.Connect)) *client {
	tb.Helper()
	p := packet.Connect{Version: packet.V5, Clean: true, ClientID: []byte(id), ReceiveMaximum: 65_535}
	for _, f := range change {
		f(&p)
	}
	c := &client{tb: tb}
	var err error
	if c.conn, _, err = b.Connect(&p, id, anyone{}, wire{}, time.Now()); err != nil {
		tb.Fatal(err)
	}
	return c
}

func (c *client) send(input []byte) {
	c.tb.Helper()
	h, body, _, err := packet.Split(packet.V5, input, packet.MaxSize)
	if err == nil {
		c.in, err = c.conn.Handle(c.in, h, body, time.Now())
	}
	if err != nil {
		c.tb.Fatal(err)
	}
}

// subscribe subscribes, and reads what is retained: what comes later is not retained for the client.
func (c *client) subscribe(filters ...string) *client {
	c.tb.Helper()
	for _, f := range filters {
		c.send(packet.AppendSubscribe(nil, packet.V5, 1, 0, packet.Filter{Topic: []byte(f), QoS: 2}))
	}
	c.read()
	return c
}

func (c *client) unsubscribe(filter string) {
	c.tb.Helper()
	c.send(packet.AppendUnsubscribe(nil, packet.V5, 1, []byte(filter)))
}

func (c *client) publish(topic, payload string, qos uint8) {
	c.tb.Helper()
	c.publishOut(packet.Out{Topic: topic, Payload: []byte(payload), QoS: qos})
}

func (c *client) publishOut(o packet.Out) {
	c.tb.Helper()
	if c.id++; c.id == 0 {
		c.id = 1
	}
	o.ID = c.id
	c.send(o.Append(nil, packet.V5))
}

func (c *client) retain(topic, payload string) {
	c.tb.Helper()
	c.publishOut(packet.Out{Topic: topic, Payload: []byte(payload), QoS: 1, Retain: true})
}

// read handles what has come.
func (c *client) read() {
	c.tb.Helper()
	for {
		c.in, _ = c.conn.Pump(c.in, 1<<20, time.Now())
		if len(c.in) == 0 {
			return
		}
		h, body, n, err := packet.Split(packet.V5, c.in, packet.MaxSize)
		if err != nil || n == 0 {
			c.tb.Fatalf("Split = %d, %v", n, err)
		}
		kind, answer := h.Type, packet.Type(0)
		var ack packet.Ack
		switch kind {
		case packet.TypePublish:
			var p packet.Publish
			if err := p.DecodeFromServer(packet.V5, h, body); err != nil {
				c.tb.Fatal(err)
			}
			text := fmt.Sprintf("%s=%s q%d", p.Topic, p.Payload, p.QoS)
			if p.Retain {
				text += " retain"
			}
			c.got = append(c.got, text)
			ack.ID = p.ID
			answer = []packet.Type{0, packet.TypePuback, packet.TypePubrec}[p.QoS]
		case packet.TypePubrec, packet.TypePuback, packet.TypePubcomp, packet.TypePubrel:
			if err := ack.Decode(packet.V5, h, body); err != nil {
				c.tb.Fatal(err)
			}
			switch kind {
			case packet.TypePubrec:
				answer = packet.TypePubrel
			case packet.TypePubrel:
				answer = packet.TypePubcomp
			default:
				c.got = append(c.got, fmt.Sprintf("%v %d", kind, ack.ID))
			}
		default:
		}
		c.in = c.in[n:]
		if answer != 0 {
			c.send(packet.AppendAck(nil, packet.V5, answer, ack.ID, packet.Success))
		}
	}
}

// wants waits until the client has got this, in this order, and no more, and forgets it.
func (c *client) wants(want ...string) {
	c.tb.Helper()
	testwait.Until(c.tb, strings.Join(want, ", "), func() bool {
		c.read()
		c.got = slices.DeleteFunc(c.got, func(s string) bool { return c.ignored != "" && strings.HasPrefix(s, c.ignored) })
		return len(c.got) >= len(want)
	}, func() string { return fmt.Sprintf("it got %q", c.got) })
	if !slices.Equal(c.got, want) {
		c.tb.Fatalf("the client got %q, want %q", c.got, want)
	}
	c.got = nil
}

// pair is a hub with two spokes.
type pair struct {
	hub      *hub
	one, two *spoke
}

func startPair(tb testing.TB) pair {
	tb.Helper()
	h := startHub(tb, mqtt.Config{}, route.Config{})
	return pair{h, startSpoke(tb, h.address, "one", mqtt.Config{}), startSpoke(tb, h.address, "two", mqtt.Config{})}
}

// brokers returns all of them.
func (p pair) brokers() map[string]*mqtt.Broker {
	return map[string]*mqtt.Broker{"hub": p.hub.broker, "one": p.one.broker, "two": p.two.broker}
}

// reach waits until what from publishes to a topic reaches to, which has subscribed to it.
func reach(from, to *client, topic string) {
	from.tb.Helper()
	testwait.Until(from.tb, "a subscription is known everywhere", func() bool {
		from.publish(topic, "there?", 0)
		to.read()
		return len(to.got) > 0
	})
	settle(from, to, topic)
}

// settle waits until all has come that reach has sent.
func settle(from, to *client, topic string) {
	from.tb.Helper()
	from.publish(topic, "here", 1)
	testwait.Until(from.tb, "the last of what was sent has come", func() bool {
		from.read()
		to.read()
		return slices.Contains(to.got, topic+"=here q1") && slices.Contains(from.got, fmt.Sprintf("PUBACK %d", from.id))
	}, func() string { return fmt.Sprintf("%q %q", from.got, to.got) })
	from.got, to.got = nil, nil
}
