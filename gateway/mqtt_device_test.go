package gateway_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqtt/access"
	"github.com/holter-iot/holter/mqtt/packet"
)

// A client announces one and a half times its keep alive, and none if it has none.
func TestMQTTHello(t *testing.T) {
	eachVersion(t, func(t *testing.T, v packet.Version) {
		t.Helper()
		r, _ := startMQTT(t, liveness.Config{}, gateway.Config{}, access.Config{})
		c := r.mqttIn(v).welcome(mqttDevice("a", 5))
		if e := r.event("a", liveness.DeviceOnline); e.Timeout != 7500*time.Millisecond || e.Policy != "announced" || e.Source != "gateway" {
			t.Errorf("event %+v, want a timeout of 7.5 s that was announced", e)
		}
		c.ping()
		c.bye()
		if e := r.event("a", liveness.DeviceOffline); e.Reason != liveness.Bye {
			t.Errorf("reason is %v, want bye", e.Reason)
		}
		r.mqttIn(v).welcome(mqttDevice("b", 0)).ping()
		if e := r.event("b", liveness.DeviceOnline); e.Timeout != liveness.Never || !e.Deadline.IsZero() {
			t.Errorf("event %+v, want no deadline", e)
		}
	})
}

// The will of a client is published exactly if its presence ends with one, whatever the end.
func TestMQTTWill(t *testing.T) {
	v311, v5 := packet.V311, packet.V5
	second := mqttDevice("b", 60)
	second.Version = v5
	leave := func(code packet.Code) func(c *mqttClient) {
		return func(c *mqttClient) { c.send(packet.AppendDisconnect(nil, packet.V5, code, "")) }
	}
	send := func(bytes string) func(c *mqttClient) {
		return func(c *mqttClient) { c.send([]byte(bytes)) }
	}
	cut := func(c *mqttClient) { _ = c.conn.Close() }
	tests := []struct {
		name string
		v    packet.Version
		will bool
		end  func(c *mqttClient)
		want liveness.Reason
	}{
		{"closed", v311, false, cut, liveness.Closed},
		{"closed with a will", v311, true, cut, liveness.Will},
		{"goodbye with a will", v311, true, send("\xe0\x00"), liveness.Bye},
		{"left with the will", v5, true, leave(packet.DisconnectWithWill), liveness.Will},
		{"left with the will and none there", v5, false, leave(packet.DisconnectWithWill), liveness.Closed},
		{"left for an error of its own", v5, true, leave(packet.UnspecifiedError), liveness.Will},
		{"nonsense", v311, false, send("\x00\x00"), liveness.Protocol},
		{"nonsense with a will", v311, true, send("\x00\x00"), liveness.Will},
		{"a second CONNECT", v5, false, send(string(second.Append(nil))), liveness.Protocol},
		{"silence", v311, false, (*mqttClient).over, liveness.Silence},
		{"silence with a will", v5, true, (*mqttClient).over, liveness.Silence},
	}
	eachJudge(t, func(t *testing.T) {
		t.Helper()
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				fleet := quick
				if tt.want == liveness.Silence {
					fleet.Devices = map[string]liveness.Policy{"a": {Timeout: 300 * time.Millisecond}}
				}
				r, _ := startMQTT(t, fleet, gateway.Config{}, access.Config{})
				watcher := r.mqtt().welcome(mqttDevice("watcher", 60)).subscribe("will/#", 0)
				p := mqttDevice("a", 1)
				if tt.will {
					p = withWill(p)
				}
				tt.end(r.mqttIn(tt.v).welcome(p))
				if e := r.event("a", liveness.DeviceOffline); e.Reason != tt.want {
					t.Errorf("reason is %v, want %v", e.Reason, tt.want)
				}
				if tt.will && tt.want != liveness.Bye {
					watcher.message("will/of", "gone")
				}
				watcher.ping() // nothing else came
			})
		}
	})
}

// A configured policy stands above the keep alive: nobody is cut off by what he announced.
func TestMQTTPolicyOutlastsKeepAlive(t *testing.T) {
	t.Parallel()
	fleet := liveness.Config{Groups: []liveness.GroupConfig{{Name: "slow", Match: "slow-*", Policy: liveness.Policy{Timeout: time.Hour}}}}
	r, _ := startMQTT(t, fleet, gateway.Config{}, access.Config{})
	slow := r.mqtt()
	if ack := slow.connect(mqttDevice("slow-1", 1)); !ack.HasServerKeepAlive || ack.ServerKeepAlive != 2400 {
		t.Errorf("CONNACK %+v, want a keep alive of 2,400 s", ack)
	}
	r.mqtt().welcome(mqttDevice("a", 1))
	r.event("a", liveness.DeviceOffline) // which takes longer than the keep alive of the other
	slow.ping()
}

// Of many clients with one id, in turn and all at once, one remains: it gets what is published, and the
// device is never offline. Whoever is not let in is told that the id is contested.
func TestMQTTContested(t *testing.T) {
	eachVersion(t, func(t *testing.T, v packet.Version) {
		t.Helper()
		r, broker := startMQTT(t, quick, gateway.Config{}, access.Config{})
		last := r.mqttIn(v).welcome(withWill(mqttDevice("a", 60)))
		for range 6 {
			before := last
			last = r.mqttIn(v).welcome(withWill(mqttDevice("a", 60)))
			before.over() // then it is counted that it was taken over
		}
		want := packet.ConnectionRateExceeded
		if v != packet.V5 {
			want = packet.ServerUnavailable
		}
		clients := make([]*mqttClient, 200)
		for i := range clients {
			clients[i] = r.mqttIn(v)
		}
		var asking sync.WaitGroup
		for _, c := range clients {
			asking.Go(func() {
				if code, err := c.tryConnect(mqttDevice("a", 60)); err != nil || code != want {
					t.Errorf("CONNACK with %v, %v; want %v", code, err, want)
				}
			})
		}
		asking.Wait()
		last.subscribe("x", 0)
		if err := broker.Publish("x", []byte("y"), false); err != nil {
			t.Fatal(err)
		}
		last.message("x", "y")
		testwait.Until(t, "the others have gone", func() bool { st := broker.Stats(); return st.Connected == 1 && st.Sessions == 1 })
		r.none(liveness.DeviceOffline)
		if view := r.device("a"); view.State != liveness.Online || view.Epoch != 7 {
			t.Errorf("device %+v; want it online in epoch 7", view)
		}
	})
}

// At the end clients are told, no will is published, and no device is blamed.
func TestMQTTShutdown(t *testing.T) {
	eachJudge(t, func(t *testing.T) {
		t.Helper()
		r, broker := startMQTT(t, quick, gateway.Config{}, access.Config{})
		c := r.mqtt().welcome(withWill(mqttDevice("a", 1)))
		kept := withWill(mqttDevice("b", 1))
		kept.Will.Retain = true
		r.mqttIn(packet.V311).welcome(kept)
		r.event("b", liveness.DeviceOnline)
		r.stop()
		c.closed(packet.ServerShuttingDown)
		r.none(liveness.DeviceOffline)
		if got := broker.Retained("#"); len(got) > 0 {
			t.Errorf("a will was published: %v", got)
		}
	})
}

// Gateways start and stop while clients come and go.
func TestMQTTStartStop(t *testing.T) {
	for range 10 {
		r, _ := startMQTT(t, quick, gateway.Config{}, access.Config{})
		var clients []*mqttClient
		for range 10 {
			clients = append(clients, r.mqtt())
		}
		var coming sync.WaitGroup
		for i, c := range clients {
			coming.Go(func() {
				_, _ = c.tryConnect(withWill(mqttDevice(strconv.Itoa(i), 60))) // or it has stopped
				_ = c.conn.Close()
			})
		}
		r.mqtt().welcome(mqttDevice("a", 60)).subscribe("#", 1)
		r.stop()
		coming.Wait()
	}
}

// Clients that publish as much as they can, and others that read nothing, cost those no verdict who send
// their heartbeats in time.
func TestMQTTFlood(t *testing.T) {
	r, broker := startMQTT(t, liveness.Config{}, gateway.Config{Listen: unlimited(), Loops: 1}, access.Config{})
	for i := range 2 {
		r.mqtt().welcome(mqttDevice(fmt.Sprint("reader-", i), 0)).subscribe("flood", 0) // and never reads
	}
	stop := make(chan struct{})
	var running sync.WaitGroup
	flood := r.mqtt().welcome(mqttDevice("flood", 0))
	out := packet.Out{Topic: "flood", Payload: make([]byte, 1000)}
	running.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := flood.conn.Write(out.Append(nil, packet.V5)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range 20 {
		c := r.mqtt().welcome(mqttDevice(fmt.Sprint("dev-", i), 1))
		running.Go(func() {
			beats := time.NewTicker(700 * time.Millisecond)
			defer beats.Stop()
			for {
				select {
				case <-stop:
					return
				case <-beats.C:
				}
				if _, err := c.conn.Write(packet.AppendPingreq(nil)); err != nil {
					t.Errorf("a device that beats was cut off: %v", err)
					return
				}
			}
		})
	}
	<-time.After(atChecks(time.Second, 3*time.Second))
	testwait.Until(t, "those who read nothing miss something", func() bool { return broker.Stats().Dropped > 0 })
	close(stop)
	running.Wait()
	r.none(liveness.DeviceOffline)
}
