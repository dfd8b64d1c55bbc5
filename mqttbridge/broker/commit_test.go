package broker_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/holter-iot/holter/internal/testwait"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
	"github.com/holter-iot/holter/mqttbridge/broker"
)

// gate is a sink that takes nothing while it is shut.
type gate struct {
	log *eventlog.Log

	mu   sync.Mutex // guards the field below
	open chan struct{}
}

func newGate(t *testing.T) *gate {
	t.Helper()
	log, err := eventlog.New(0)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{log: log, open: make(chan struct{})}
	g.let()
	return g
}

// let opens the gate.
func (g *gate) let() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

// shut shuts it.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

// Append implements liveness.Sink.
func (g *gate) Append(ctx context.Context, events []liveness.Event) error {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	<-open
	return g.log.Append(ctx, events)
}

// startGated starts a broker whose events wait at a gate, and whose clients have some patience.
func startGated(t *testing.T, patience time.Duration) (*station, *gate) {
	t.Helper()
	g := newGate(t)
	s := startAt(t, g, quick, broker.Config{}.WithCommitTimeout(patience))
	s.log = g.log
	t.Cleanup(g.let)
	return s, g
}

// TestCommitted: a client whose CONNECT is an event is let in when that is stored, one that is known and there at once.
func TestCommitted(t *testing.T) {
	for name, version := range versions {
		t.Run(name, func(t *testing.T) {
			s, g := startGated(t, time.Hour)
			known := s.connect(hello{id: "known", version: version, keepAlive: 60})
			g.shut()
			known.ping() // a heartbeat waits for nobody

			answered := make(chan byte, 1)
			fresh := s.dial()
			go func() {
				code, err := fresh.tryHello(hello{id: "fresh", version: version, keepAlive: 60})
				if err != nil {
					t.Error(err)
				}
				answered <- code
			}()
			testwait.Until(t, "the CONNECT", func() bool { return s.registry.Known("fresh") })
			known.ping()
			reads := s.broker.Source().Now()
			testwait.Until(t, "the clock", func() bool { return s.broker.Source().Now() > reads })
			select {
			case code := <-answered:
				t.Fatalf("CONNACK %#x before the event was stored", code)
			default:
			}
			g.let()
			if code := <-answered; code != 0 {
				t.Errorf("CONNACK %#x, want 0", code)
			}
			fresh.ping()
			events, err := s.log.Read(nil, 0, 10)
			if err != nil || len(events) < 2 {
				t.Errorf("the log has %v, %v; want both devices", events, err)
			}
		})
	}
}

// TestNotCommitted: a client whose CONNECT cannot be stored is told so within some time, and its session ends.
func TestNotCommitted(t *testing.T) {
	for name, version := range versions {
		t.Run(name, func(t *testing.T) {
			s, g := startGated(t, time.Second/2)
			known := s.connect(hello{id: "known", version: version, keepAlive: 60})
			g.shut()
			clients := make([]*client, 5) // of one id, which take turns
			for i := range clients {
				clients[i] = s.dial()
			}
			want := map[byte]byte{4: packets.Err3ServerUnavailable.Code, 5: packets.ErrServerUnavailable.Code}[version]
			var asking sync.WaitGroup
			for _, c := range clients {
				asking.Go(func() {
					if code, err := c.tryHello(hello{id: "fresh", version: version, keepAlive: 60, will: "w"}); err != nil || code != want {
						t.Errorf("CONNACK %#x, %v; want %#x", code, err, want)
						return
					}
					c.over()
				})
			}
			asking.Wait()
			known.ping()
			s.rejected(broker.Busy, uint64(len(clients)))
			g.let()
			if e := s.event("fresh", liveness.DeviceOffline); e.Reason != liveness.Closed {
				t.Errorf("%+v, want it closed", e)
			}
			s.connect(hello{id: "fresh", version: version, keepAlive: 60}).ping()
		})
	}
}

// TestReturnIsNotDelayed: a client that comes back before its connection counts as ended is no event, and waits for nothing.
func TestReturnIsNotDelayed(t *testing.T) {
	g := newGate(t)
	s := startAt(t, g, liveness.Config{Policy: liveness.Policy{CloseGrace: time.Hour}}, broker.Config{})
	t.Cleanup(g.let)
	c := s.connect(hello{id: "a", keepAlive: 60})
	c.conn.Close()
	testwait.Until(t, "the end", func() bool {
		v, err := s.registry.Device("a")
		return err == nil && v.Closing == liveness.Closed
	})
	g.shut()
	s.connect(hello{id: "a", keepAlive: 60}).ping()
}

// TestDismissed: a client whose session an operator ends is told so, not that it came back elsewhere, and may come back at once, as often
// as it likes.
func TestDismissed(t *testing.T) {
	for name, version := range versions {
		t.Run(name, func(t *testing.T) {
			s := start(t, quick, broker.Config{})
			watcher := s.connect(hello{id: "watcher"})
			watcher.subscribe("w", 0)
			told := func(c *client) {
				t.Helper()
				if version == 5 {
					if pk := c.want(packets.Disconnect); pk.ReasonCode != packets.ErrAdministrativeAction.Code {
						t.Errorf("DISCONNECT with %#x, want %#x", pk.ReasonCode, packets.ErrAdministrativeAction.Code)
					}
				}
				if pk, err := c.read(); err == nil {
					t.Errorf("a packet of type %d, want the end", pk.FixedHeader.Type)
				}
			}
			for range 10 {
				c := s.connect(hello{id: "a", version: version, keepAlive: 60, will: "w"})
				if err := s.registry.Forget("a"); err != nil {
					t.Fatal(err)
				}
				told(c)
				watcher.message("w", "gone") // which is not published before its client is gone (MQTT 5, 3.1.2.5)
			}
			c := s.connect(hello{id: "a", version: version, keepAlive: 60})
			if ended, err := s.registry.Disconnect("a"); !ended || err != nil {
				t.Fatalf("Disconnect = %v, %v", ended, err)
			}
			told(c)
			if e := s.event("a", liveness.DeviceOffline); e.Reason != liveness.Admin {
				t.Errorf("reason is %v, want admin", e.Reason)
			}
			s.connect(hello{id: "a", version: version, keepAlive: 60}).ping()
			if st := s.broker.Stats(); st.Closed != 0 || st.Panics != 0 {
				t.Errorf("stats %+v", st)
			}
			for reason, n := range s.broker.Stats().Rejected {
				if n != 0 {
					t.Errorf("%d rejected for %s", n, reason)
				}
			}
			s.none(liveness.DeviceSessionReplaced)
		})
	}
}

// TestWillOfTheBusy: the will of a client that is cut off is published, also if it was sending.
func TestWillOfTheBusy(t *testing.T) {
	for name, version := range versions {
		t.Run(name, func(t *testing.T) {
			s := start(t, quick, broker.Config{})
			watcher := s.connect(hello{id: "watcher"})
			watcher.subscribe("w", 0)
			if err := watcher.conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			for range 30 {
				c := s.connect(hello{id: "a", version: version, will: "w"})
				var sending sync.WaitGroup
				sending.Go(func() {
					for pings := bytes.Repeat([]byte{packets.Pingreq << 4, 0}, 100); ; {
						if _, err := c.conn.Write(pings); err != nil {
							return
						}
					}
				})
				sending.Go(c.over)
				before := s.broker.Stats().Packets
				testwait.Until(t, "its packets", func() bool { return s.broker.Stats().Packets > before+100 })
				if err := s.registry.Forget("a"); err != nil {
					t.Fatal(err)
				}
				watcher.message("w", "gone")
				c.conn.Close()
				sending.Wait()
			}
		})
	}
}
