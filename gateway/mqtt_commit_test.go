package gateway_test

import (
	"bytes"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqtt/access"
	"github.com/holter-iot/holter/mqtt/packet"
)

// startMQTTValved is startMQTT with a sink that can be shut.
func startMQTTValved(t *testing.T, fleet liveness.Config) (*rig, *valve) {
	t.Helper()
	protocols := []codec.Protocol{newMQTT(t, access.Config{})}
	return startValved(t, fleet, gateway.Config{Listen: []gateway.Listener{{Address: "127.0.0.1:0", Protocols: protocols}}})
}

// A client whose CONNECT is an event is let in when that is committed. Heartbeats of others do not wait.
func TestMQTTCommitted(t *testing.T) {
	eachJudge(t, func(t *testing.T) {
		t.Helper()
		eachVersion(t, func(t *testing.T, v packet.Version) {
			t.Helper()
			r, valve := startMQTTValved(t, quick)
			known := r.mqttIn(v).welcome(mqttDevice("known", 60))
			testwait.Until(t, "its event is stored", func() bool { return r.registry.Stats().Queued == 0 })
			valve.set(true)
			known.ping()

			fresh := r.mqttIn(v)
			answered := make(chan struct{})
			took := valve.took()
			go func() {
				defer close(answered)
				if code, err := fresh.tryConnect(mqttDevice("fresh", 60)); err != nil || code != packet.Success {
					t.Errorf("CONNACK with %v, %v", code, err)
				}
				if valve.took() == took {
					t.Error("CONNACK came before the event was stored")
				}
			}()
			r.asked()
			known.ping()
			known.ping()
			valve.set(false)
			<-answered
			fresh.ping()
		})
	})
}

// A client whose CONNECT cannot be committed in time is told so, and its connection is closed. It may say
// CONNECT on another one.
func TestMQTTNotCommitted(t *testing.T) {
	t.Parallel()
	for name, v := range mqttVersions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, valve := startMQTTValved(t, quick)
			known := r.mqttIn(v).welcome(mqttDevice("known", 60))
			valve.set(true)
			want := packet.ServerBusy
			if v != packet.V5 {
				want = packet.ServerUnavailable
			}
			clients := make([]*mqttClient, 3) // of one id, which take turns
			for i := range clients {
				clients[i] = r.mqttIn(v)
			}
			var asking sync.WaitGroup
			for _, c := range clients {
				asking.Go(func() {
					if code, err := c.tryConnect(withWill(mqttDevice("fresh", 60))); err != nil || code != want {
						t.Errorf("CONNACK with %v, %v; want %v", code, err, want)
						return
					}
					if h, _ := c.next(); h.Type != 0 {
						t.Errorf("behind CONNACK comes %v", h.Type)
					}
				})
			}
			asking.Wait()
			known.ping()
			valve.set(false)
			c := r.mqttIn(v).welcome(mqttDevice("fresh", 60))
			c.ping()
			c.bye()
		})
	}
}

// A client that says too much behind a CONNECT that is not committed is not told that it is in, and then
// goes on: its connection ends.
func TestMQTTTooMuchBehindConnect(t *testing.T) {
	t.Parallel()
	for name, committed := range map[string]bool{"committed": true, "not committed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			protocols := []codec.Protocol{newMQTT(t, access.Config{})}
			r, valve := startValved(t, quick, gateway.Config{
				Listen: []gateway.Listener{{Address: "127.0.0.1:0", Protocols: protocols}}, MaxOutbound: 4 << 10,
			})
			valve.set(true)
			c := r.mqtt()
			hello := mqttDevice("a", 10) // where the sink is shut for long, the source is deaf, and the device has its interval and a grace
			hello.Version = c.v
			c.send(append(hello.Append(nil), bytes.Repeat(packet.AppendPingreq(nil), 3000)...))
			testwait.Until(t, "much is read", func() bool { return r.gateway.Stats().Messages > 1024 })
			valve.set(!committed)
			h, body := c.want(packet.TypeConnack)
			var ack packet.Connack
			if err := ack.Decode(c.v, body); err != nil || (ack.Code == packet.Success) != committed {
				t.Errorf("CONNACK with %v, %v", ack.Code, err)
			}
			h, _ = c.next()
			for committed && h.Type == packet.TypePingresp {
				h, _ = c.next()
			}
			if h.Type != 0 {
				t.Errorf("behind CONNACK comes %v", h.Type)
			}
			valve.set(false)
			if e := r.event("a", liveness.DeviceOffline); e.Reason != liveness.Closed {
				t.Errorf("reason is %v, want closed", e.Reason)
			}
		})
	}
}

// A client that comes back before its connection counts as ended is no event, and waits for nothing.
func TestMQTTReturnIsNotDelayed(t *testing.T) {
	r, valve := startMQTTValved(t, liveness.Config{Policy: liveness.Policy{CloseGrace: time.Hour}})
	c := r.mqtt().welcome(mqttDevice("a", 60))
	_ = c.conn.Close()
	testwait.Until(t, "the end is known", func() bool { return r.device("a").Closing == liveness.Closed })
	valve.set(true)
	r.mqtt().welcome(mqttDevice("a", 60)).ping()
}

// A client whose session an operator ends is told so, and may come back at once, as often as it likes.
func TestMQTTDismissed(t *testing.T) {
	eachJudge(t, func(t *testing.T) {
		t.Helper()
		eachVersion(t, func(t *testing.T, v packet.Version) {
			t.Helper()
			r, _ := startMQTT(t, quick, gateway.Config{}, access.Config{})
			watcher := r.mqtt().welcome(mqttDevice("watcher", 60)).subscribe("will/#", 0)
			told := func(c *mqttClient) {
				t.Helper()
				if v == packet.V5 {
					c.closed(packet.AdministrativeAction)
				} else if h, _ := c.next(); h.Type != 0 {
					t.Errorf("a packet of type %v, want the end", h.Type)
				}
				watcher.message("will/of", "gone")
			}
			for range 10 {
				c := r.mqttIn(v).welcome(withWill(mqttDevice("a", 60)))
				if err := r.registry.Forget("a"); err != nil {
					t.Fatal(err)
				}
				told(c)
			}
			c := r.mqttIn(v).welcome(withWill(mqttDevice("a", 60)))
			if ended, err := r.registry.Disconnect("a"); !ended || err != nil {
				t.Fatalf("Disconnect = %v, %v", ended, err)
			}
			told(c)
			if e := r.event("a", liveness.DeviceOffline); e.Reason != liveness.Admin {
				t.Errorf("reason is %v, want admin", e.Reason)
			}
			r.mqttIn(v).welcome(mqttDevice("a", 60)).ping()
			if st := r.gateway.Stats(); st.Duplicates != 0 || st.Mistakes != 0 || st.Panics != 0 {
				t.Errorf("stats %+v", st)
			}
			r.none(liveness.DeviceSessionReplaced)
		})
	})
}

// The will of a client that is cut off is published, also if it was sending.
func TestMQTTWillOfTheBusy(t *testing.T) {
	eachVersion(t, func(t *testing.T, v packet.Version) {
		t.Helper()
		r, _ := startMQTT(t, quick, gateway.Config{Listen: unlimited()}, access.Config{})
		watcher := r.mqtt().welcome(mqttDevice("watcher", 60)).subscribe("will/#", 0)
		for range 30 {
			c := r.mqttIn(v).welcome(withWill(mqttDevice("a", 0)))
			var sending sync.WaitGroup
			sending.Go(func() {
				for pings := bytes.Repeat(packet.AppendPingreq(nil), 100); ; {
					if _, err := c.conn.Write(pings); err != nil {
						return
					}
				}
			})
			sending.Go(func() { _, _ = io.Copy(io.Discard, c.conn) })
			before := r.gateway.Stats().Messages
			testwait.Until(t, "its packets are read", func() bool { return r.gateway.Stats().Messages > before+100 })
			if err := r.registry.Forget("a"); err != nil {
				t.Fatal(err)
			}
			watcher.message("will/of", "gone")
			_ = c.conn.Close()
			sending.Wait()
		}
	})
}
