package mqttbridge_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testmqtt"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// scale is how large a fleet is, how patient the bridge is with it, and for how long a fault lasts.
type scale struct {
	living, dead, wills          int
	interval, timeout, reconnect time.Duration
	probeTimeout, pause          time.Duration
	full                         bool // in a fault, the source is deaf as often as it is to be, and not once more
	simulated                    bool
}

// smallScale is for a machine that does other things at the same time, and for simulated time.
func smallScale() scale {
	return scale{
		living: 200, dead: 30, wills: 20, interval: 500 * time.Millisecond, timeout: 2 * time.Second, reconnect: 2 * time.Second,
		probeTimeout: time.Second, pause: 3 * time.Second,
	}
}

// largeScale has the machine to itself.
func largeScale() scale {
	return scale{
		living: 10_000, dead: 1000, wills: 100, interval: time.Second, timeout: 5 * time.Second, reconnect: 5 * time.Second,
		probeTimeout: 5 * time.Second, pause: 12 * time.Second, full: true,
	}
}

// faulty runs a test in simulated time, and in make check with mosquitto and a network as well.
func faulty(t *testing.T, test func(t *testing.T, s scale)) {
	t.Helper()
	simulated(t, test)
	if testenv.Checks() {
		t.Run("mosquitto", func(t *testing.T) {
			t.Parallel()
			test(t, smallScale())
		})
	}
}

// simulated runs a test in simulated time.
func simulated(t *testing.T, test func(t *testing.T, s scale)) {
	t.Helper()
	t.Parallel()
	t.Run("simulated", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := smallScale()
			s.simulated = true
			test(t, s)
		})
	})
}

// broker is a mosquitto, or a simulated one.
type broker interface {
	Kill()
	Restart()
	Stop()
	Cont()
}

// network is between clients and a broker, and can fail.
type network interface {
	URL() string
	Cut(d testmqtt.Direction)
	Stall(d testmqtt.Direction)
	Break()
	Heal()
}

// world is a broker, devices at one side of it, and posts at the other.
type world struct {
	testing.TB
	scale

	broker broker
	fleet  *testmqtt.Fleet
	posts  []*post
	stalls *testwait.Stalls

	mu    sync.Mutex // guards the field below
	beats map[string][]beat
}

// post is a bridge, with a network of its own between broker and bridge that can fail.
type post struct {
	*world
	fault

	link     network
	told     *recorder
	faults   []window // until the source listened again
	registry *liveness.Registry
	source   *liveness.Source
	bridge   *mqttbridge.Bridge
	cfg      mqttbridge.Config
	grace    time.Duration // for those whose connection ended
	heard    int           // how often the source had begun to listen again before the fault
}

// fault is something that happens to a broker, to a network or to a bridge.
type fault struct {
	name       string
	begin, end func(*post)
	deaf       int  // how often the source is deaf because of it
	hears      bool // the bridge goes on hearing devices, although its clock stands
	restart    bool // of the bridge: what its clock had not shown yet by then is forgotten
}

// beat is one that was handed to a connection between two instants.
type beat struct{ begun, done time.Time }

// window is a time in which what devices send may be lost.
type window struct{ from, to time.Time }

func (w window) String() string {
	return "from " + w.from.Format(instantLayout) + " to " + w.to.Format(instantLayout)
}

const instantLayout = "15:04:05.000"

func (w window) has(b beat) bool { return !b.done.Before(w.from) && !b.begun.After(w.to) }

// recorder is a sink that remembers all.
type recorder struct {
	mu     sync.Mutex    // guards the fields below
	next   liveness.Sink // what is recorded is appended here before; nil: nowhere
	events []liveness.Event
}

// follow makes another sink the next.
func (r *recorder) follow(next liveness.Sink) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = next
}

// Append implements liveness.Sink.
func (r *recorder) Append(ctx context.Context, events []liveness.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next != nil {
		if err := r.next.Append(ctx, events); err != nil {
			return err
		}
	}
	r.events = append(r.events, events...)
	return nil
}

func (r *recorder) all() []liveness.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// count counts the events of a type.
func (r *recorder) count(t liveness.Type) int {
	n := 0
	for _, e := range r.all() {
		if e.Type == t {
			n++
		}
	}
	return n
}

// newWorld starts a broker.
func newWorld(t *testing.T, s scale) *world {
	t.Helper()
	w := &world{TB: t, scale: s, stalls: testwait.Watch(t), beats: make(map[string][]beat)}
	if s.simulated {
		b := testmqtt.NewSimulated()
		t.Cleanup(b.End)
		w.broker = b
	} else {
		w.broker = testmqtt.Mosquitto(t, testmqtt.Options{})
	}
	return w
}

// dialer connects by a network; nil: by that of the machine.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// network returns a network of its own to the broker.
func (w *world) network() (n network, dial dialer) {
	w.Helper()
	if b, ok := w.broker.(*testmqtt.Simulated); ok {
		n := b.Network()
		return n, n.Dial
	}
	return testmqtt.Proxy(w, w.broker.(*testmqtt.Server).Addr()), nil
}

// post adds a post that is not at work yet.
func (w *world) post(f fault) *post {
	w.Helper()
	f.name = cmp.Or(f.name, "the only one")
	p := &post{world: w, fault: f, told: &recorder{}, grace: time.Second / 2}
	var dial dialer
	p.link, dial = w.network()
	p.cfg = mqttbridge.Config{
		Name: "site", URL: p.link.URL(), Conventions: []convention.Convention{plain{timeout: w.timeout}},
		ProbeTimeout: w.probeTimeout, ReconnectGrace: w.reconnect, ReconnectMax: 2 * time.Second, ConnectTimeout: 3 * time.Second,
		MaxGap: 10 * time.Second, // a machine that is busy is not to look like a fault
	}
	p.cfg = mqttbridge.Within(p.cfg, dial)
	w.posts = append(w.posts, p)
	return p
}

// live runs a registry and a bridge until the test ends.
func (p *post) live() {
	p.Helper()
	p.newRegistry()
	p.run()
}

// newRegistry makes a registry and a bridge, which is its source.
func (p *post) newRegistry() {
	p.Helper()
	var err error
	p.registry, err = liveness.New(p.told, liveness.Config{Policy: liveness.Policy{Interval: p.interval, CloseGrace: p.grace}})
	if err != nil {
		p.Fatal(err)
	}
	if p.bridge, err = mqttbridge.New(p.registry, p.cfg); err != nil {
		p.Fatal(err)
	}
	p.source = p.registry.Sources()[0]
}

// run runs the registry and the bridge until the function that it returns is called, or the test ends.
func (p *post) run() (end func()) {
	p.Helper()
	bridge, registry := p.bridge, p.registry
	bridgeCtx, endBridge := context.WithCancel(context.Background())
	registryCtx, endRegistry := context.WithCancel(context.Background())
	var bridges, registries sync.WaitGroup
	bridges.Go(func() {
		if err := bridge.Run(bridgeCtx); err != nil {
			p.Errorf("Run = %v", err)
		}
	})
	registries.Go(func() {
		if err := registry.Run(registryCtx); err != nil && !errors.Is(err, errGone) {
			p.Errorf("the registry's Run = %v", err)
		}
	})
	end = sync.OnceFunc(func() {
		endBridge()
		bridges.Wait()
		endRegistry()
		registries.Wait()
	})
	p.Cleanup(end)
	p.until("the clock", func() bool { return p.bridge.View().Listening })
	return end
}

// populate starts the fleet, by way of a network of its own, and waits until all devices are online.
func (w *world) populate() network {
	w.Helper()
	var err error
	devices, dial := w.network()
	w.fleet, err = testmqtt.NewFleet(testmqtt.FleetConfig{Broker: devices.URL(), Devices: w.living + w.dead, Wills: w.wills, Interval: w.interval, Dial: dial})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = w.fleet.Run(ctx) }) // ctx has ended
	running.Go(func() { w.witness(ctx) })
	w.Cleanup(func() {
		cancel()
		running.Wait()
	})
	for _, p := range w.posts {
		p.until("the fleet", func() bool { return p.registry.Stats().States[liveness.Online] == w.devices() })
	}
	return devices
}

func (w *world) devices() int { return w.living + w.dead + w.wills }

// witness notes the beats of the fleet.
func (w *world) witness(ctx context.Context) {
	tick := time.NewTicker(w.interval / 5)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		devices := w.fleet.Devices()
		w.mu.Lock()
		for i := range devices {
			d := &devices[i]
			known := w.beats[d.ID]
			if !d.Last.IsZero() && (len(known) == 0 || known[len(known)-1].done.Before(d.Last)) {
				w.beats[d.ID] = append(known, beat{d.Begun, d.Last})
			}
		}
		w.mu.Unlock()
	}
}

// until waits for something, for long.
func (p *post) until(what string, is func() bool) {
	p.Helper()
	testwait.Until(p, p.name+": "+what, is, func() string {
		return fmt.Sprintf("the bridge is %+v, the source is %+v, devices are %v", p.bridge.View(), p.source.View(), p.registry.Stats().States)
	})
}

// rest lets time pass.
func (w *world) rest(d time.Duration) {
	w.Helper()
	select {
	case <-time.After(d):
	case <-w.Context().Done():
	}
}

// kill kills one of the thirds of those who are to die: 0, 1 or 2.
func (w *world) kill(third int) {
	w.Helper()
	for i := third; i < w.dead; i += 3 {
		w.killOne(fmt.Sprintf("device-%05d", i*(w.living+w.dead)/w.dead))
	}
	for i := third; i < w.wills/5; i += 3 {
		w.killOne(fmt.Sprintf("will-%05d", i*5))
	}
}

func (w *world) killOne(id string) {
	w.Helper()
	if _, ok := w.fleet.Kill(id); !ok {
		w.Fatalf("there is no %s to kill", id)
	}
}

// suffer lets devices die before, in and after a fault, waits until all that are dead have been judged and all that live are online, and
// judges what all posts told.
func (w *world) suffer() {
	w.Helper()
	for _, p := range w.posts {
		p.heard = p.told.count(liveness.SourceHeard)
	}
	w.kill(0)
	w.rest(w.interval)
	from := time.Now()
	for _, p := range w.posts {
		p.begin(p)
	}
	w.rest(w.pause / 2)
	w.kill(1)
	w.rest(w.pause / 2)
	for _, p := range w.posts {
		p.end(p)
	}
	w.awaitEnds(from)
	w.rest(w.interval)
	w.kill(2)
	for _, p := range w.posts {
		p.settle()
		p.judge()
	}
}

// awaitEnds waits until the sources of all posts listen again, and notes for each post when its own does:
// what happens to it afterwards is no part of its fault.
func (w *world) awaitEnds(from time.Time) {
	w.Helper()
	faulty := slices.Clone(w.posts)
	for len(faulty) > 0 {
		faulty[0].until("the end of the fault", func() bool {
			first := faulty[0]
			faulty = slices.DeleteFunc(faulty, func(p *post) bool {
				over := p.told.count(liveness.SourceHeard) >= p.heard+p.deaf && p.bridge.View().Listening
				if over {
					p.faults = append(p.faults, window{from, time.Now()})
				}
				return over
			})
			return len(faulty) == 0 || faulty[0] != first
		})
	}
}

// settle waits until all that are dead are offline and the others online, and then for a verdict that should not come.
func (p *post) settle() {
	p.Helper()
	dead := 0
	for _, d := range p.fleet.Devices() {
		if !d.Killed.IsZero() {
			dead++
		}
	}
	all := func() bool {
		s := p.registry.Stats().States
		return s[liveness.Offline] == dead && s[liveness.Online] == p.devices()-dead
	}
	p.until("the verdict on all", all)
	to := p.source.Now() + 2*p.interval
	p.until("listening time", func() bool { return p.source.Now() >= to })
	p.until("the verdict on all, again", all)
}
