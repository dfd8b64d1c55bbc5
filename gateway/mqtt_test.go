package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	mqttcodec "github.com/holter-iot/holter/gateway/codec/mqtt"
	"github.com/holter-iot/holter/internal/test/mqttconformance"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/access"
	"github.com/holter-iot/holter/mqtt/packet"
)

// startMQTT starts a gateway with a broker on its event loops.
func startMQTT(t *testing.T, fleet liveness.Config, cfg gateway.Config, who access.Config) (*rig, *mqtt.Broker) {
	t.Helper()
	p := newMQTT(t, who)
	if cfg.Listen == nil {
		cfg.Listen = []gateway.Listener{{Address: "127.0.0.1:0"}}
	}
	cfg.Listen[0].Protocols = []codec.Protocol{p}
	return startRig(t, fleet, cfg), p.Broker
}

// newMQTT returns the protocol of a broker that runs until the test ends.
func newMQTT(t *testing.T, who access.Config) *mqttcodec.Protocol {
	t.Helper()
	broker, err := mqtt.New(mqtt.Config{MaxQueueBytes: 4 << 20, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	guard, err := access.New(who)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	for _, run := range []func(context.Context) error{broker.Run, guard.Run} {
		go func() { ended <- run(ctx) }()
	}
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
	})
	return &mqttcodec.Protocol{Broker: broker, Access: guard}
}

// The broker does what the Eclipse interoperability tests ask for, and more. Its settings are those of
// the file holter.yaml beside the rules.
func TestMQTTConformance(t *testing.T) {
	t.Parallel()
	fleet := liveness.Config{Groups: []liveness.GroupConfig{{Name: "limited", Match: "*limited", Policy: liveness.Policy{Timeout: 3 * time.Second}}}}
	r, _ := startMQTT(t, fleet, gateway.Config{}, access.Config{Rules: "../internal/test/mqttconformance/testdata/rules.yaml"})
	for _, result := range mqttconformance.Run(t, r.addr, mqttconformance.Options{Prefix: "conform", Refused: "refused", KeepAlive: 2 * time.Second}) {
		if result.Outcome == mqttconformance.Skipped && strings.HasPrefix(result.Name, "v") { // those of Eclipse, for a version each
			t.Errorf("%s was skipped: %s", result.Name, result.Detail)
		}
	}
}

// mqttClient speaks MQTT by hand.
type mqttClient struct {
	t    *testing.T
	conn net.Conn
	in   []byte
	v    packet.Version
}

func (r *rig) mqtt() *mqttClient {
	d := r.dial()
	return &mqttClient{t: r.t, conn: d.conn, v: packet.V5}
}

// connect says CONNECT, and returns the answer. The client speaks version 5.
func (c *mqttClient) connect(p packet.Connect) (ack packet.Connack) {
	c.t.Helper()
	p.Version, p.RequestProblem, p.ReceiveMaximum = c.v, true, 65535
	c.send(p.Append(nil))
	h, body := c.next()
	if err := ack.Decode(c.v, body); h.Type != packet.TypeConnack || err != nil {
		c.t.Fatalf("the answer to CONNECT is %v, %v", h.Type, err)
	}
	return ack
}

// welcome connects a client that is let in.
func (c *mqttClient) welcome(p packet.Connect) *mqttClient {
	c.t.Helper()
	if ack := c.connect(p); ack.Code != packet.Success {
		c.t.Fatalf("CONNECT of %q: %v %s", p.ClientID, ack.Code, ack.Reason)
	}
	return c
}

func (c *mqttClient) send(b []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// next returns the next packet; its type is 0 if the connection has ended.
func (c *mqttClient) next() (packet.Header, []byte) {
	c.t.Helper()
	for {
		h, body, n, err := packet.Split(c.v, c.in, packet.MaxSize)
		if err != nil {
			c.t.Fatal(err)
		}
		if n > 0 {
			c.in = c.in[n:]
			return h, body
		}
		room := make([]byte, 64<<10)
		n, err = c.conn.Read(room)
		if err != nil {
			return packet.Header{}, nil
		}
		c.in = append(c.in, room[:n]...)
	}
}

// ping checks that the broker answers.
func (c *mqttClient) ping() {
	c.t.Helper()
	c.send(packet.AppendPingreq(nil))
	if h, _ := c.next(); h.Type != packet.TypePingresp {
		c.t.Fatalf("the answer to PINGREQ is %v", h.Type)
	}
}

// closed checks that the broker says goodbye with a code, and closes.
func (c *mqttClient) closed(want packet.Code) {
	c.t.Helper()
	var p packet.Disconnect
	h, body := c.next()
	if err := p.Decode(c.v, body); h.Type != packet.TypeDisconnect || err != nil || p.Code != want {
		c.t.Fatalf("the broker says %v with %v, %v; want DISCONNECT with %v", h.Type, p.Code, err, want)
	}
	if h, _ := c.next(); h.Type != 0 {
		c.t.Fatalf("behind DISCONNECT comes %v", h.Type)
	}
}

func mqttDevice(id string, keepAlive uint16) packet.Connect {
	return packet.Connect{Clean: true, ClientID: []byte(id), KeepAlive: keepAlive}
}

func withWill(p packet.Connect) packet.Connect {
	p.HasWill, p.Will = true, packet.Will{Topic: []byte("will/of"), Payload: []byte("gone")}
	return p
}

// Each way in which a connection of MQTT ends is told apart.
func TestMQTTPresence(t *testing.T) {
	grace := liveness.Config{Policy: liveness.Policy{Timeout: time.Minute, CloseGrace: time.Millisecond}}
	tests := map[string]struct {
		connect packet.Connect
		end     func(r *rig, c *mqttClient)
		want    string
	}{
		"DISCONNECT": {withWill(mqttDevice("d", 60)), func(_ *rig, c *mqttClient) {
			c.send(packet.AppendDisconnect(nil, packet.V5, packet.Success, ""))
		}, "d:1 device.online; d:2 device.offline bye"},
		"DISCONNECT with the will": {withWill(mqttDevice("d", 60)), func(_ *rig, c *mqttClient) {
			c.send([]byte{0xe0, 1, 4})
		}, "d:1 device.online; d:2 device.offline will"},
		"closed":             {mqttDevice("d", 60), func(_ *rig, c *mqttClient) { _ = c.conn.Close() }, "d:1 device.online; d:2 device.offline closed"},
		"closed with a will": {withWill(mqttDevice("d", 60)), func(_ *rig, c *mqttClient) { _ = c.conn.Close() }, "d:1 device.online; d:2 device.offline will"},
		"protocol error": {mqttDevice("d", 60), func(_ *rig, c *mqttClient) {
			c.send([]byte{0x30, 1, 0})
			c.closed(packet.MalformedPacket)
		}, "d:1 device.online; d:2 device.offline protocol"},
		"topic alias that was not announced": {mqttDevice("d", 60), func(_ *rig, c *mqttClient) {
			c.send([]byte{0x30, 6, 0, 0, 3, 0x23, 0xff, 0xff})
			c.closed(packet.InvalidAlias)
		}, "d:1 device.online; d:2 device.offline protocol"},
		"silence": {mqttDevice("d", 1), func(_ *rig, c *mqttClient) { c.closed(packet.KeepAliveTimeout) }, "d:1 device.online; d:2 device.offline silence"},
		"taken over": {mqttDevice("d", 60), func(r *rig, c *mqttClient) {
			next := r.mqtt().welcome(mqttDevice("d", 60))
			c.closed(packet.SessionTakenOver)
			next.ping()
			next.send(packet.AppendDisconnect(nil, packet.V5, packet.Success, ""))
		}, "d:1 device.online; d:2 device.session_replaced; d:3 device.offline bye"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := startMQTT(t, grace, gateway.Config{}, access.Config{})
			c := r.mqtt().welcome(tt.connect)
			c.ping()
			tt.end(r, c)
			n := strings.Count(tt.want, ";") + 1
			if got := r.story(n); got != tt.want {
				t.Errorf("story = %s, want %s", got, tt.want)
			}
			if e := r.events(n)[n-1]; name == "silence" && (e.Timeout != 1500*time.Millisecond || e.HeardSilence < e.Timeout) {
				t.Errorf("timeout %v, heard silence %v, want 1.5 s and no less", e.Timeout, e.HeardSilence)
			}
		})
	}
}

// A client without an identifier is no device, and is disconnected when it is silent.
func TestMQTTGuest(t *testing.T) {
	t.Parallel()
	r, _ := startMQTT(t, liveness.Config{}, gateway.Config{}, access.Config{})
	c := r.mqtt()
	ack := c.connect(mqttDevice("", 1))
	if ack.Code != packet.Success || ack.AssignedClientID == "" {
		t.Fatalf("CONNACK %+v, want an identifier", ack)
	}
	c.ping()
	c.closed(packet.KeepAliveTimeout)
	if n := r.registry.Stats().Devices; n != 0 {
		t.Errorf("%d devices, want none", n)
	}
}

// A message that is larger than what a connection may leave unread arrives, and those behind it.
func TestMQTTLargeMessage(t *testing.T) {
	r, _ := startMQTT(t, liveness.Config{}, gateway.Config{MaxOutbound: 4096}, access.Config{})
	sub, pub := r.mqtt().welcome(mqttDevice("sub", 60)), r.mqtt().welcome(mqttDevice("pub", 60))
	sub.send(packet.AppendSubscribe(nil, packet.V5, 1, 0, packet.Filter{Topic: []byte("large/#"), QoS: 1}))
	if h, _ := sub.next(); h.Type != packet.TypeSuback {
		t.Fatalf("the answer to SUBSCRIBE is %v", h.Type)
	}
	for i := range 20 {
		out := packet.Out{Topic: "large/1", Payload: bytes.Repeat([]byte{byte(i)}, 200_000), QoS: 1, ID: uint16(i + 1)}
		pub.send(out.Append(nil, packet.V5))
		if h, _ := pub.next(); h.Type != packet.TypePuback {
			t.Fatalf("the answer to PUBLISH is %v", h.Type)
		}
		if i >= 4 { // no more than a queue holds
			sub.receive(t, byte(i-4))
		}
	}
	for i := 16; i < 20; i++ {
		sub.receive(t, byte(i))
	}
	sub.ping()
}

// receive checks and acknowledges a message of TestMQTTLargeMessage.
func (c *mqttClient) receive(t *testing.T, want byte) {
	t.Helper()
	h, body := c.next()
	var p packet.Publish
	if err := p.DecodeFromServer(c.v, h, body); h.Type != packet.TypePublish || err != nil || len(p.Payload) != 200_000 || p.Payload[0] != want {
		t.Fatalf("%v, %v, %d bytes of %d; want message %d", h.Type, err, len(p.Payload), p.Payload[0], want)
	}
	c.send(packet.AppendAck(nil, c.v, packet.TypePuback, p.ID, packet.Success))
}

// Users log in with their passwords, cannot take each other's clients over while those are connected, and
// are disconnected when they are no users any more.
func TestMQTTUsers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	lines := func(names ...string) {
		var text strings.Builder
		for _, name := range names {
			hash, err := access.HashPassword(name + "'s")
			if err != nil {
				t.Fatal(err)
			}
			text.WriteString(name + ":" + hash + "\n")
		}
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lines("anna", "ben")
	as := func(user, password string) packet.Connect {
		p := mqttDevice("pump", 60)
		p.HasUser, p.User, p.HasPassword, p.Password = true, []byte(user), true, []byte(password)
		return p
	}
	r, _ := startMQTT(t, liveness.Config{}, gateway.Config{}, access.Config{Users: file, Anonymous: access.Never})
	for _, p := range []packet.Connect{as("anna", "wrong"), as("nobody", "nobody's"), mqttDevice("pump", 60)} {
		if ack := r.mqtt().connect(p); ack.Code != packet.BadUserOrPassword {
			t.Errorf("user %q with %q: %v", p.User, p.Password, ack.Code)
		}
	}
	if r.registry.Operator().Known("pump") {
		t.Error("a device that was not let in is known")
	}
	c := r.mqtt().welcome(as("anna", "anna's"))
	if ack := r.mqtt().connect(as("ben", "ben's")); ack.Code != packet.NotAuthorized {
		t.Errorf("another user's client gets %v", ack.Code)
	}
	c.ping()
	lines("ben")
	c.closed(packet.NotAuthorized)
}
