package broker_test

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/holter-iot/holter/internal/testwait"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/broker"
)

var versions = map[string]byte{"MQTT 3.1.1": 4, "MQTT 5": 5}

func TestHelloPingBye(t *testing.T) {
	for name, version := range versions {
		t.Run(name, func(t *testing.T) {
			s := start(t, liveness.Config{}, broker.Config{})
			c := s.connect(hello{id: "a", keepAlive: 5, version: version})
			e := s.event("a", liveness.DeviceOnline)
			if e.Timeout != 7500*time.Millisecond || e.Policy != "announced" || e.Source != "mqtt" {
				t.Errorf("event %+v, want a timeout of 7.5 s that was announced to mqtt", e)
			}
			c.ping()
			if st := s.broker.Stats(); st.Packets != 1 || st.Clients != 1 || st.Accepted != 1 {
				t.Errorf("stats %+v", st)
			}
			c.disconnect(0)
			c.over()
			if e := s.event("a", liveness.DeviceOffline); e.Reason != liveness.Bye {
				t.Errorf("reason is %v, want bye", e.Reason)
			}
		})
	}
}

func TestNoKeepAlive(t *testing.T) {
	s := start(t, liveness.Config{}, broker.Config{})
	s.connect(hello{id: "a"})
	if e := s.event("a", liveness.DeviceOnline); e.Timeout != liveness.Never || !e.Deadline.IsZero() {
		t.Errorf("event %+v, want no deadline", e)
	}
}

func TestConnectionEnds(t *testing.T) {
	tests := []struct {
		name    string
		version byte
		will    string
		end     func(c *client)
		want    liveness.Reason
	}{
		{"closed", 4, "", func(c *client) { c.conn.Close() }, liveness.Closed},
		{"closed with a will", 4, "w", func(c *client) { c.conn.Close() }, liveness.Will},
		{"bye with a will", 4, "w", func(c *client) { c.disconnect(0) }, liveness.Bye},
		{"left with the will", 5, "w", func(c *client) { c.disconnect(packets.CodeDisconnectWillMessage.Code) }, liveness.Will},
		{"left with the will and none there", 5, "", func(c *client) { c.disconnect(packets.CodeDisconnectWillMessage.Code) }, liveness.Closed},
		{"left for an error of its own", 5, "w", func(c *client) { c.disconnect(packets.ErrUnspecifiedError.Code) }, liveness.Will},
		{"nonsense", 4, "", func(c *client) { _, _ = c.conn.Write([]byte{0, 0}) }, liveness.Protocol},
		{"nonsense with a will", 4, "w", func(c *client) { _, _ = c.conn.Write([]byte{0, 0}) }, liveness.Will},
		{"a second CONNECT", 5, "", func(c *client) {
			pk := packets.Packet{
				FixedHeader: packets.FixedHeader{Type: packets.Connect},
				Connect:     packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: "b", Clean: true},
			}
			_ = c.write(&pk, pk.ConnectEncode)
		}, liveness.Protocol},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, quick, broker.Config{})
			watcher := s.connect(hello{id: "watcher"})
			watcher.subscribe("w", 0)
			c := s.connect(hello{id: "a", version: tt.version, will: tt.will, keepAlive: 60})
			tt.end(c)
			if e := s.event("a", liveness.DeviceOffline); e.Reason != tt.want {
				t.Errorf("reason is %v, want %v", e.Reason, tt.want)
			}
			if tt.want == liveness.Will {
				watcher.message("w", "gone")
			}
			watcher.ping() // nothing else came
		})
	}
}

// TestSilence lets a client fall silent: it is judged after 1.5 times its keep alive, exactly, and cut off only then.
func TestSilence(t *testing.T) {
	for name, version := range versions {
		t.Run(name, func(t *testing.T) {
			s := start(t, liveness.Config{}, broker.Config{})
			watcher := s.connect(hello{id: "watcher"})
			watcher.subscribe("w", 0)
			began := time.Now()
			c := s.connect(hello{id: "a", keepAlive: 1, version: version, will: "w"})
			if version == 5 {
				if pk := c.want(packets.Disconnect); pk.ReasonCode != packets.ErrKeepAliveTimeout.Code {
					t.Errorf("DISCONNECT with %#x, want %#x", pk.ReasonCode, packets.ErrKeepAliveTimeout.Code)
				}
			}
			c.over()
			if d := time.Since(began); d < 1500*time.Millisecond {
				t.Errorf("cut off after %v", d)
			}
			e := s.event("a", liveness.DeviceOffline)
			if e.Reason != liveness.Silence || e.Timeout != 1500*time.Millisecond || e.HeardSilence < e.Timeout {
				t.Errorf("event %+v, want silence after 1.5 s", e)
			}
			watcher.message("w", "gone")
			if st := s.broker.Stats(); st.Closed != 1 {
				t.Errorf("%d closed, want 1", st.Closed)
			}
		})
	}
}

// TestPolicyOutlastsKeepAlive wants the fleet's policy to stand above the keep alive: the broker cuts nobody off by itself.
func TestPolicyOutlastsKeepAlive(t *testing.T) {
	fleet := liveness.Config{Groups: []liveness.GroupConfig{{Name: "slow", Match: "slow-*", Policy: liveness.Policy{Timeout: time.Hour}}}}
	s := start(t, fleet, broker.Config{})
	slow := s.connect(hello{id: "slow-1", keepAlive: 1})
	s.connect(hello{id: "a", keepAlive: 1})
	s.event("a", liveness.DeviceOffline) // which takes longer than the keep alive of the other
	slow.ping()
}

// TestNoDevice connects a client without an id.
func TestNoDevice(t *testing.T) {
	for name, version := range versions {
		t.Run(name, func(t *testing.T) {
			s := start(t, liveness.Config{}, broker.Config{})
			began := time.Now()
			c := s.connect(hello{keepAlive: 1, version: version})
			c.ping()
			c.over()
			if d := time.Since(began); d < 1500*time.Millisecond {
				t.Errorf("cut off after %v", d)
			}
			if n := s.registry.Stats().Devices; n != 0 {
				t.Errorf("%d devices, want 0", n)
			}
		})
	}
}

// TestTakeover connects a thousand clients with the same id, in turn and all at once: one of them remains, and gets what is published.
func TestTakeover(t *testing.T) {
	for name, version := range versions {
		t.Run(name, func(t *testing.T) {
			s := start(t, quick, broker.Config{})
			for range 200 {
				s.connect(hello{id: "a", keepAlive: 60, version: version, will: "w"})
			}
			clients := make([]*client, 800)
			for i := range clients {
				clients[i] = s.dial()
			}
			var asking sync.WaitGroup
			var in atomic.Int64
			for _, c := range clients {
				asking.Go(func() {
					if code, err := c.tryHello(hello{id: "a", keepAlive: 60, version: version, will: "w"}); err == nil && code == 0 {
						in.Add(1)
					}
				})
			}
			asking.Wait()
			last := s.connect(hello{id: "a", keepAlive: 60, version: version})
			testwait.Until(t, "the end of the others", func() bool { return s.broker.Stats().Clients == 1 })
			if st := s.broker.Stats(); st.Sessions != 1 || st.Panics != 0 {
				t.Errorf("stats %+v, want one session", st)
			}
			last.subscribe("x", 0)
			if err := s.broker.Publish("x", []byte("y"), false); err != nil {
				t.Fatal(err)
			}
			last.message("x", "y")
			s.none(liveness.DeviceOffline)
			view, err := s.registry.Device("a")
			if err != nil || view.Epoch != 1001 || view.State != liveness.Online {
				t.Errorf("device %+v, %v; want it online in epoch 1001", view, err)
			}
			t.Logf("%d of %d got an answer", in.Load(), len(clients))
		})
	}
}

// TestDelayedWill takes over from clients whose will is to be published only if they do not come back.
func TestDelayedWill(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 4 s")
	}
	s := start(t, quick, broker.Config{})
	watcher := s.connect(hello{id: "watcher"})
	watcher.subscribe("w", 0)
	delayed := func(pk *packets.Packet) {
		pk.Connect.WillProperties.WillDelayInterval = 1
		pk.Properties.SessionExpiryInterval, pk.Properties.SessionExpiryIntervalFlag = 60, true
	}
	var last *client
	for range 100 {
		last = s.connect(hello{id: "a", version: 5, will: "w", change: delayed})
	}
	<-time.After(3500 * time.Millisecond)
	watcher.ping() // nothing came
	last.conn.Close()
	watcher.message("w", "gone")
	if e := s.event("a", liveness.DeviceOffline); e.Reason != liveness.Will {
		t.Errorf("reason is %v, want will", e.Reason)
	}
}

// TestSessionIsKept lets a client come back to its subscriptions and what was sent to it meanwhile.
func TestSessionIsKept(t *testing.T) {
	s := start(t, liveness.Config{}, broker.Config{})
	c := s.connect(hello{id: "a", stay: true})
	c.subscribe("x/+", 1)
	c.disconnect(0)
	c.over()
	s.event("a", liveness.DeviceOffline)
	p := s.connect(hello{id: "p"})
	p.publish("x/1", "one", 1, false)
	p.want(packets.Puback)
	c = s.connect(hello{id: "a", stay: true})
	pk := c.message("x/1", "one")
	c.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Puback}, PacketID: pk.PacketID})
	c.ping()
}

// TestFlood lets a client publish as much as it can, while others send heartbeats just in time.
func TestFlood(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 3 s")
	}
	s := start(t, liveness.Config{}, broker.Config{})
	stop := make(chan struct{})
	var running sync.WaitGroup
	flood := s.connect(hello{id: "flood"})
	for range 2 {
		s.connect(hello{id: fmt.Sprint("reader-", time.Now().UnixNano())}).subscribe("#", 0) // and never reads
	}
	running.Go(func() {
		pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish}, TopicName: "x", Payload: make([]byte, 1000)}
		for {
			select {
			case <-stop:
				return
			default:
				if err := flood.write(&pk, pk.PublishEncode); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	for i := range 20 {
		c := s.connect(hello{id: fmt.Sprint("dev-", i), keepAlive: 1})
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(1300 * time.Millisecond):
					c.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingreq}})
				}
			}
		})
	}
	<-time.After(3 * time.Second)
	close(stop)
	running.Wait()
	s.none(liveness.DeviceOffline)
	st := s.broker.Stats()
	if st.Dropped == 0 {
		t.Error("those who read nothing got all")
	}
	t.Logf("%d published, %d dropped", st.Published, st.Dropped)
}

// TestShutdown ends the broker: clients are told, no device is blamed, and the next broker goes on.
func TestShutdown(t *testing.T) {
	s := start(t, quick, broker.Config{})
	watcher := s.connect(hello{id: "watcher", version: 5})
	watcher.subscribe("w", 0)
	s.connect(hello{id: "a", will: "w", keepAlive: 1})
	s.event("a", liveness.DeviceOnline)
	addr := s.broker.Addr().String()
	s.stop()
	if pk := watcher.want(packets.Disconnect); pk.ReasonCode != packets.ErrServerShuttingDown.Code {
		t.Errorf("DISCONNECT with %#x, want %#x", pk.ReasonCode, packets.ErrServerShuttingDown.Code)
	}
	s.none(liveness.DeviceOffline)
	start(t, quick, broker.Config{Listen: addr}).connect(hello{id: "a"})
}

// TestStartStop starts and stops brokers while clients come and go.
func TestStartStop(t *testing.T) {
	for range 20 {
		s := start(t, quick, broker.Config{})
		var coming sync.WaitGroup
		for i := range 10 {
			coming.Go(func() {
				conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.broker.Addr().String())
				if err != nil { // it has stopped
					return
				}
				defer conn.Close()
				c := &client{tb: t, conn: conn, in: bufio.NewReader(conn), version: 4}
				_, _ = c.tryHello(hello{id: strconv.Itoa(i), will: "w"})
			})
		}
		s.connect(hello{id: "a"}).subscribe("#", 1)
		s.stop()
		coming.Wait()
	}
}
