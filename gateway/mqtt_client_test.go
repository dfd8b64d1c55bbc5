package gateway_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqtt/packet"
)

var mqttVersions = map[string]packet.Version{"MQTT 3.1": packet.V31, "MQTT 3.1.1": packet.V311, "MQTT 5": packet.V5}

// quick lets a device whose connection has ended be offline at once.
var quick = liveness.Config{Policy: liveness.Policy{Timeout: time.Minute, CloseGrace: time.Millisecond}}

// mqttIn returns a client that speaks a version.
func (r *rig) mqttIn(v packet.Version) *mqttClient {
	r.t.Helper()
	c := r.mqtt()
	c.v = v
	return c
}

// tryConnect says CONNECT; the error is that of a connection that ends without an answer.
func (c *mqttClient) tryConnect(p packet.Connect) (packet.Code, error) {
	p.Version, p.RequestProblem, p.ReceiveMaximum = c.v, true, 65535
	if _, err := c.conn.Write(p.Append(nil)); err != nil {
		return 0, err
	}
	h, body := c.next()
	if h.Type == 0 {
		return 0, io.EOF
	}
	var ack packet.Connack
	err := ack.Decode(c.v, body)
	if h.Type != packet.TypeConnack && err == nil {
		err = errors.New("the answer to CONNECT is " + h.Type.String())
	}
	return ack.Code, err
}

// want reads a packet of a type, and returns its body.
func (c *mqttClient) want(kind packet.Type) (packet.Header, []byte) {
	c.t.Helper()
	h, body := c.next()
	if h.Type != kind {
		c.t.Fatalf("a packet of type %v, want %v", h.Type, kind)
	}
	return h, body
}

// over wants the connection to end, whatever comes before.
func (c *mqttClient) over() {
	c.t.Helper()
	for {
		if h, _ := c.next(); h.Type == 0 {
			return
		}
	}
}

// bye says DISCONNECT, and waits for the end.
func (c *mqttClient) bye() {
	c.t.Helper()
	c.send([]byte{byte(packet.TypeDisconnect) << 4, 0})
	c.over()
}

// subscribe subscribes, and wants it to be granted.
func (c *mqttClient) subscribe(filter string, qos uint8) *mqttClient {
	c.t.Helper()
	c.send(packet.AppendSubscribe(nil, c.v, 1, 0, packet.Filter{Topic: []byte(filter), QoS: qos}))
	_, body := c.want(packet.TypeSuback)
	var p packet.Suback
	err := p.Decode(c.v, body)
	if code, ok := p.Next(); err != nil || !ok || code != packet.Code(qos) {
		c.t.Fatalf("SUBACK of %q with %v, %v", filter, code, err)
	}
	return c
}

// publish publishes with QoS 0, or with QoS 1 and waits for PUBACK.
func (c *mqttClient) publish(topic, payload string, qos uint8) {
	c.t.Helper()
	out := packet.Out{Topic: topic, Payload: []byte(payload), QoS: qos, ID: uint16(qos)}
	c.send(out.Append(nil, c.v))
	if qos > 0 {
		c.want(packet.TypePuback)
	}
}

// message reads a message, and acknowledges it.
func (c *mqttClient) message(topic, payload string) {
	c.t.Helper()
	h, body := c.want(packet.TypePublish)
	var p packet.Publish
	if err := p.DecodeFromServer(c.v, h, body); err != nil || string(p.Topic) != topic || string(p.Payload) != payload {
		c.t.Fatalf("message %.40q on %q, %v; want %.40q on %q", p.Payload, p.Topic, err, payload, topic)
	}
	if p.QoS == 1 {
		c.send(packet.AppendAck(nil, c.v, packet.TypePuback, p.ID, packet.Success))
	}
}

// event waits for an event of a device.
func (r *rig) event(id string, kind liveness.Type) liveness.Event {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	var events []liveness.Event
	for after := uint64(0); ; {
		var err error
		if events, err = r.log.Wait(ctx, events[:0], after, 1000); err != nil {
			r.t.Fatalf("%v of %q never came: %v", kind, id, err)
		}
		for i := range events {
			if after = events[i].Offset; events[i].Subject == id && events[i].Type == kind {
				return events[i]
			}
		}
	}
}

// none wants no event of a kind.
func (r *rig) none(kind liveness.Type) {
	r.t.Helper()
	events, err := r.log.Read(nil, 0, 1<<20)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range events {
		if events[i].Type == kind {
			r.t.Errorf("there is %v of %s: %v", kind, events[i].Subject, events[i].Reason)
		}
	}
}

// eachJudge runs a test with devices that are judged here, and elsewhere.
func eachJudge(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	for name, elsewhere := range map[string]bool{"here": false, "elsewhere": true} {
		t.Run(name, func(t *testing.T) {
			judgesElsewhere = elsewhere
			defer func() { judgesElsewhere = false }()
			test(t)
		})
	}
}

// eachVersion runs a test with each version of MQTT.
func eachVersion(t *testing.T, test func(t *testing.T, v packet.Version)) {
	t.Helper()
	for name, v := range mqttVersions {
		t.Run(strings.ReplaceAll(name, " ", ""), func(t *testing.T) { test(t, v) })
	}
}
