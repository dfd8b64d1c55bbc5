package mqttbridge_test

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testmqtt"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

func nothing(*post)       {}
func heal(p *post)        { p.link.Heal() }
func killBroker(p *post)  { p.broker.Kill() }
func startBroker(p *post) { p.broker.Restart() }
func stopBroker(p *post)  { p.broker.Stop() }
func contBroker(p *post)  { p.broker.Cont() }

// Whatever happens to a broker: nobody who beats is offline, nobody who is dead is missed, and the sums add up; also where the broker's
// answers are all that the clock follows.
func TestBrokerFaults(t *testing.T) {
	t.Parallel()
	for _, f := range brokerFaults() {
		t.Run(f.name, func(t *testing.T) { faulty(t, f.ofBroker) })
	}
}

func brokerFaults() []fault {
	return []fault{
		{name: "killed", begin: killBroker, end: startBroker, deaf: 1},
		{name: "stopped", begin: stopBroker, end: contBroker, deaf: 1},
	}
}

func (f fault) ofBroker(t *testing.T, s scale) {
	t.Helper()
	w := newWorld(t, s)
	f.name = "message"
	w.post(f).live()
	weak := w.post(fault{name: "answer", begin: nothing, end: nothing, deaf: f.deaf})
	weak.cfg.Watermark = "off"
	weak.live()
	if v := weak.bridge.View(); v.Watermark != "answer" {
		t.Fatalf("Watermark = %q, want answer", v.Watermark)
	}
	w.populate()
	w.suffer()
}

// The same for whatever happens to the network between broker and bridge.
func TestNetworkFaults(t *testing.T) { faulty(t, networkFaults) }

func networkFaults(t *testing.T, s scale) {
	t.Helper()
	w := newWorld(t, s)
	for _, f := range []fault{
		{name: "broken", begin: func(p *post) { p.link.Break() }, end: heal, deaf: 1},
		{name: "cut", begin: func(p *post) { p.link.Cut(testmqtt.Both) }, end: heal, deaf: 1},
		{name: "cut to the broker", begin: func(p *post) { p.link.Cut(testmqtt.Up) }, end: heal, deaf: 1, hears: true},
		{name: "cut from the broker", begin: func(p *post) { p.link.Cut(testmqtt.Down) }, end: heal, deaf: 1},
		{name: "stalled", begin: func(p *post) { p.link.Stall(testmqtt.Both) }, end: heal, deaf: 1},
		// The bridge hears all devices, but does not know that: its clock stands.
		{name: "stalled to the broker", begin: func(p *post) { p.link.Stall(testmqtt.Up) }, end: heal, hears: true},
		{name: "stalled from the broker", begin: func(p *post) { p.link.Stall(testmqtt.Down) }, end: heal, deaf: 1},
	} {
		w.post(f).live()
	}
	w.populate()
	w.suffer()
}

// A broker that stands still for less than the bridge's patience is not noticed: all that devices sent waits in its sockets meanwhile, and
// is read in an order of its own. Timeouts are shorter than that.
func TestShortStops(t *testing.T) {
	t.Parallel()
	for _, stop := range []time.Duration{time.Second / 5, time.Second, 9 * time.Second / 5} {
		t.Run(stop.String(), func(t *testing.T) {
			simulated(t, func(t *testing.T, s scale) {
				t.Helper()
				s.interval, s.timeout, s.reconnect = 200*time.Millisecond, 600*time.Millisecond, 200*time.Millisecond
				s.probeTimeout, s.pause = 2*time.Second, stop
				w := newWorld(t, s)
				w.post(fault{begin: stopBroker, end: contBroker}).live()
				w.populate()
				w.suffer()
			})
		})
	}
}

// A watermark that was sent after the last byte was heard shows nothing of the time between: not of what waits in the network.
func TestStallInTwoSteps(t *testing.T) {
	simulated(t, func(t *testing.T, s scale) {
		t.Helper()
		s.living, s.dead, s.wills = 300, 30, 0
		s.interval, s.timeout, s.reconnect = 200*time.Millisecond, 600*time.Millisecond, 200*time.Millisecond
		s.probeTimeout, s.pause = time.Second, 2*time.Second
		w := newWorld(t, s)
		begin := func(p *post) {
			p.link.Stall(testmqtt.Up)
			p.rest(3 * p.probeTimeout / 2)
			p.link.Stall(testmqtt.Down)
		}
		w.post(fault{begin: begin, end: heal, deaf: 1, hears: true}).live()
		w.populate()
		w.suffer()
	})
}

// TestSoakFleet is the same with 10,000 devices, which have the machine to themselves.
func TestSoakFleet(t *testing.T) {
	testenv.Soak(t)
	for _, f := range brokerFaults() {
		t.Run(f.name, func(t *testing.T) { f.ofBroker(t, largeScale()) })
	}
	t.Run("network", func(t *testing.T) { // seven bridges hear as many messages as one that hears all of a large fleet
		s := largeScale()
		s.living, s.dead = 2000, 200
		networkFaults(t, s)
	})
}

// A bridge that ends is deaf until one with the same name goes on in another process, with what was kept.
func TestRestart(t *testing.T) {
	t.Parallel()
	for name, orderly := range map[string]bool{"in order": true, "crash": false} {
		t.Run(name, func(t *testing.T) {
			faulty(t, func(t *testing.T, s scale) {
				t.Helper()
				restart(t, s, orderly)
			})
		})
	}
}

func restart(t *testing.T, s scale, orderly bool) {
	t.Helper()
	w := newWorld(t, s)
	url := "sqlite:" + filepath.Join(t.TempDir(), "holter.db")
	var end func(*post)
	begin := func(p *post) {
		db, err := sqldb.New(sqldb.Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		kept, err := store.New(db, store.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := kept.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.told.follow(kept)
		p.newRegistry()
		if _, err := kept.Load(t.Context(), p.registry); err != nil {
			t.Fatal(err)
		}
		endBridge := p.run()
		end = func(p *post) {
			if orderly {
				endBridge()
			}
			if err := kept.Checkpoint(t.Context(), p.registry); err != nil {
				t.Error(err)
			}
			if !orderly {
				p.rest(p.interval) // of this, nothing is kept
				p.told.follow(gone{})
				endBridge()
			}
			if err := kept.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	p := w.post(fault{begin: func(p *post) { end(p) }, end: begin, deaf: 1, restart: true})
	begin(p)
	w.populate()
	w.suffer()
	end(p)
}

// gone is the sink of a process that is no more.
type gone struct{}

// Append implements liveness.Sink.
func (gone) Append(context.Context, []liveness.Event) error { return errGone }

var errGone = errors.New("the process is gone")

// held is a convention that may be held up.
type held struct {
	plain

	door chan struct{} // with room for one: full while messages are held up
}

func (h held) Apply(m convention.Message, dry bool, emit func(convention.Sign)) error {
	h.door <- struct{}{}
	defer func() { <-h.door }()
	return h.plain.Apply(m, dry, emit)
}

// Messages that had to be dropped may have been heartbeats.
func TestOverload(t *testing.T) { simulated(t, overload) }

func overload(t *testing.T, s scale) {
	t.Helper()
	s.living, s.dead, s.wills, s.probeTimeout = 200, 18, 10, time.Second/2
	s.pause = s.timeout + 3*time.Second
	w := newWorld(t, s)
	door := make(chan struct{}, 1)
	p := w.post(fault{
		begin: func(*post) { door <- struct{}{} },
		end: func(p *post) {
			p.until("a full queue", func() bool { return p.bridge.View().Dropped > 0 })
			<-door
		},
		deaf: 1,
	})
	p.cfg.Conventions = []convention.Convention{held{plain{timeout: s.timeout}, door}}
	p.cfg.Queue = 2 * int(time.Second/s.interval) * w.devices() // of what comes in two seconds
	p.live()
	w.populate()
	w.suffer()
	if v := p.bridge.View(); v.Dropped == 0 || v.Rejected != nil {
		t.Errorf("View = %+v, want dropped messages", v)
	}
}

// A last will takes a device offline only if it does not come back in time, also one that was published while nobody listened.
func TestWills(t *testing.T) { faulty(t, wills) }

func wills(t *testing.T, s scale) {
	t.Helper()
	s.living, s.dead, s.wills, s.timeout = 0, 0, 20, time.Minute
	w := newWorld(t, s)
	p := w.post(fault{deaf: 1})
	p.grace = 3 * time.Second
	p.live()
	devices := w.populate()
	offline := func(n int) func() bool {
		return func() bool { return p.registry.Stats().States[liveness.Offline] == n }
	}

	w.killOne("will-00000")
	p.until("the verdict on one that is dead", offline(1))

	devices.Break()
	p.until("the wills of all", func() bool { return p.closing() == w.wills-1 })
	w.killOne("will-00001")
	devices.Heal()
	p.until("their return", func() bool { return p.closing() <= 1 })
	p.until("the verdict on one that did not return", offline(2))

	p.link.Break() // nobody listens
	p.until("a deaf bridge", func() bool { return !p.source.View().DeafSince.IsZero() })
	w.killOne("will-00002")
	devices.Break()
	devices.Heal()
	p.until("the return of all", func() bool { return w.fleet.Reconnects() == int64(2*w.wills-5) })
	p.link.Heal()
	p.until("the verdict on one that died while nobody listened", offline(3))

	out := p.judge()
	if out.verdicts != 0 || out.wills != 3 || out.wrong+out.excused != 0 {
		t.Errorf("%v; want 3 wills", out)
	}
}

// closing counts the devices whose connection ended and that may still come back.
func (p *post) closing() int {
	views, _ := p.registry.List(nil, 0, p.devices())
	n := 0
	for i := range views {
		if views[i].Closing == liveness.Will {
			n++
		}
	}
	return n
}

// A client that connects again while its old connection is open: the broker publishes the old one's will, and then its own birth message.
func TestTakeover(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	w := newWorld(t, smallScale())
	p := w.post(fault{})
	p.grace = 3 * time.Second
	p.cfg.Conventions = []convention.Convention{plain{timeout: time.Minute}}
	p.live()
	url := w.broker.(*testmqtt.Server).URL()
	connect := func(id string) {
		o, err := mqttbridge.Options(mqttbridge.Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		c := paho.NewClient(o.SetClientID(id).SetAutoReconnect(false).SetWill("fleet/"+id+"/status", "offline", 1, true))
		if token := c.Connect(); token.Wait() && token.Error() != nil {
			t.Fatal(token.Error())
		}
		t.Cleanup(func() { c.Disconnect(0) })
		publish(t, c, "fleet/"+id+"/status", "online", true)
	}
	for range 20 {
		connect("twice")
		connect("once")
		connect("once")
	}
	other := client(t, url)
	publish(t, other, "fleet/dead/status", "online", true)
	publish(t, other, "fleet/dead/status", "offline", true)
	p.until("the verdict on another one", func() bool { return p.registry.Stats().States[liveness.Offline] > 0 })
	for _, e := range p.told.all() {
		if e.Type == liveness.DeviceOffline && e.Subject != "dead" {
			t.Errorf("%s, although it came back at once", show(&e))
		}
	}
}

// What a connection needs is given back when it is lost.
func TestManyConnections(t *testing.T) {
	testenv.Check(t) // it counts goroutines, so it is alone
	s, times := smallScale(), 8
	s.living, s.dead, s.wills, s.full = 100, 0, 0, true
	w := newWorld(t, s)
	p := w.post(fault{deaf: times + 2})
	p.live()
	w.populate()
	again := func() {
		deaf := p.told.count(liveness.SourceDeaf)
		p.link.Break()
		p.until("the loss", func() bool { return p.told.count(liveness.SourceDeaf) == deaf+1 })
		p.link.Heal()
		p.until("the connection", func() bool { return p.bridge.View().Listening && p.told.count(liveness.SourceHeard) == deaf+1 })
	}
	again()
	again()
	before := w.usage()
	for range times {
		again()
	}
	after := w.usage()
	t.Logf("after %d connections more: %+v, before: %+v", times, after, before)
	if after.goroutines > before.goroutines+5 || after.heap > before.heap+4<<20 {
		t.Errorf("after %d connections more: %+v, before: %+v", times, after, before)
	}
	p.settle()
	p.judge()
}

type usage struct {
	goroutines int
	heap       uint64
}

// usage returns what is in use when things have calmed down.
func (w *world) usage() usage {
	w.Helper()
	least := usage{goroutines: 1 << 30, heap: 1 << 62}
	for range 20 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		least.goroutines, least.heap = min(least.goroutines, runtime.NumGoroutine()), min(least.heap, m.HeapAlloc)
		w.rest(20 * time.Millisecond)
	}
	return least
}
