package gateway_test

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	mqttcodec "github.com/holter-iot/holter/gateway/codec/mqtt"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/access"
	"github.com/holter-iot/holter/mqtt/packet"
)

// diary is when a device began to send each packet, and when it had.
type diary [][2]time.Time

// between reports whether a packet was sent between two instants.
func (d diary) between(from, to time.Time) bool {
	for _, sent := range d {
		if sent[0].After(from) && sent[1].Before(to) {
			return true
		}
	}
	return false
}

// live sends PINGREQ after each pause until stop, and comes back when it is cut off.
func (r *rig) live(id string, pause func(i int) time.Duration, stop <-chan struct{}) (sent diary) {
	var c *mqttClient
	defer func() {
		if c != nil {
			_ = c.conn.Close()
		}
	}()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return sent
		case <-time.After(pause(i)):
		}
		if c == nil {
			conn, err := (&net.Dialer{}).DialContext(r.t.Context(), "tcp", r.addr)
			if err != nil {
				r.t.Error(err)
				return sent
			}
			c = &mqttClient{t: r.t, conn: conn, v: packet.V5}
			if code, err := c.tryConnect(mqttDevice(id, 60)); err != nil || code != packet.Success {
				_ = conn.Close()
				c = nil
			}
			continue
		}
		began := time.Now()
		_, err := c.conn.Write(packet.AppendPingreq(nil))
		if err == nil {
			sent = append(sent, [2]time.Time{began, time.Now()})
		}
		if h, _ := c.next(); err != nil || h.Type != packet.TypePingresp { // it was judged
			_ = c.conn.Close()
			c = nil
		}
	}
}

// silences returns the verdicts of silence on the devices whose ids begin with a prefix.
func (r *rig) silences(prefix string) (judged []liveness.Event) {
	r.t.Helper()
	events, err := r.log.Read(nil, 0, 1<<20)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range events {
		if e := &events[i]; e.Type == liveness.DeviceOffline && e.Reason == liveness.Silence && strings.HasPrefix(e.Subject, prefix) {
			judged = append(judged, *e)
		}
	}
	return judged
}

// Devices send just in time, or just too late, to a broker with more to do than it can: whoever is judged
// has sent nothing between his last packet and his deadline.
func TestMQTTNoFalseOffline(t *testing.T) {
	fleet := liveness.Config{Groups: []liveness.GroupConfig{{Name: "dev", Match: "dev-*", Policy: liveness.Policy{Timeout: 100 * time.Millisecond}}}}
	eachJudge(t, func(t *testing.T) {
		t.Helper()
		r, _ := startMQTT(t, fleet, gateway.Config{Listen: unlimited()}, access.Config{})
		stop := make(chan struct{})
		diaries := make([]diary, 50)
		var living sync.WaitGroup
		for i := range 64 {
			living.Go(func() { r.live(fmt.Sprint("flood-", i), func(int) time.Duration { return 0 }, stop) })
		}
		for i := range diaries {
			living.Go(func() {
				diaries[i] = r.live(fmt.Sprint("dev-", i), func(n int) time.Duration { return time.Duration(80+n*37%120) * time.Millisecond }, stop)
			})
		}
		<-time.After(atChecks(time.Second, 3*time.Second))
		testwait.Until(t, "somebody is judged", func() bool { return len(r.silences("dev-")) > 0 }) // all are silent for twice the timeout now and then
		close(stop)
		living.Wait()
		judged := r.silences("dev-")
		for i := range judged {
			e := &judged[i]
			device, err := strconv.Atoi(strings.TrimPrefix(e.Subject, "dev-"))
			if err != nil {
				t.Fatal(err)
			}
			if diaries[device].between(e.LastSeen, e.Deadline) {
				t.Errorf("%s was judged at %v, and had sent after %v and before %v", e.Subject, e.Time, e.LastSeen, e.Deadline)
			}
		}
		t.Logf("%d verdicts", len(judged))
	})
}

// mqttChild is a gatewayChild that speaks MQTT.
func mqttChild() error {
	broker, err := mqtt.New(mqtt.Config{})
	if err != nil {
		return err
	}
	who, err := access.New(access.Config{})
	if err != nil {
		return err
	}
	return gatewayChild(gateway.Listener{Address: "127.0.0.1:0", Protocols: []codec.Protocol{&mqttcodec.Protocol{Broker: broker, Access: who}}})
}

// More clients connect than there are descriptors: some are turned away, and nobody is hurt who is in.
func TestMQTTOutOfDescriptors(t *testing.T) {
	c := startChild(t, "mqtt", 64)
	r := c.rig()
	connect := func(id string) (*mqttClient, bool) {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.addr)
		if err != nil { // turned away before the call is back
			return nil, false
		}
		c := &mqttClient{t: t, conn: conn, v: packet.V5}
		_ = conn.SetDeadline(time.Now().Add(500 * time.Millisecond))
		if code, err := c.tryConnect(mqttDevice(id, 60)); err != nil || code != packet.Success {
			_ = conn.Close()
			return nil, false
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		t.Cleanup(func() { _ = conn.Close() })
		return c, true
	}
	var served []*mqttClient
	for i := range 100 {
		c, ok := connect(fmt.Sprint("dev-", i))
		if !ok {
			break
		}
		served = append(served, c)
	}
	if len(served) < 10 || len(served) > 60 {
		t.Fatalf("%d clients were let in with 64 descriptors", len(served))
	}
	for _, c := range served {
		c.ping()
	}
	for _, c := range served[:5] {
		c.bye()
	}
	testwait.Until(t, "another client is let in", func() bool {
		late, ok := connect("late")
		if ok {
			late.ping()
		}
		return ok
	})
	for _, c := range served[5:] {
		c.ping()
	}
}
