package mqttreport_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	randv2 "math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/holter-iot/holter/internal/mqttreport"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testmqtt"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// testLog shows what is logged if the test fails.
func testLog(t *testing.T) *slog.Logger {
	t.Helper()
	var log syncBuffer
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return slog.New(slog.NewTextHandler(&log, nil))
}

type syncBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// connect runs a publisher until the test ends, or the returned func is called.
func connect(t *testing.T, url string, o func(*mqttreport.PahoConfig)) (p *mqttreport.Paho, stop func()) {
	t.Helper()
	cfg := mqttreport.PahoConfig{
		Options: paho.NewClientOptions().AddBroker(url), MaxReconnect: 500 * time.Millisecond, KeepAlive: 2 * time.Second, Logger: testLog(t),
	}
	if o != nil {
		o(&cfg)
	}
	p, err := mqttreport.NewPaho(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.Run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	t.Cleanup(stop)
	return p, stop
}

// watcher holds what the broker retains, as a subscriber sees it that was there before.
type watcher struct {
	mu  sync.Mutex // guards the field below
	now map[string][]byte
}

// watch subscribes to all topics on a connection of its own, and does so again whenever the broker comes back.
func watch(t *testing.T, url string) *watcher {
	t.Helper()
	w := &watcher{now: make(map[string][]byte)}
	o := paho.NewClientOptions().AddBroker(url).SetClientID("watcher").SetMaxReconnectInterval(200 * time.Millisecond).
		SetConnectRetry(true).SetConnectRetryInterval(100 * time.Millisecond)
	o.SetOnConnectHandler(func(c paho.Client) {
		w.mu.Lock()
		clear(w.now)
		w.mu.Unlock()
		c.Subscribe("#", 0, func(_ paho.Client, m paho.Message) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(m.Payload()) == 0 {
				delete(w.now, m.Topic())
			} else {
				w.now[m.Topic()] = m.Payload()
			}
		})
	})
	c := paho.NewClient(o)
	if token := c.Connect(); token.Wait() && token.Error() != nil {
		t.Fatal(token.Error())
	}
	t.Cleanup(func() { c.Disconnect(50) })
	return w
}

func (w *watcher) get(topic string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.now[topic])
}

// agrees reports whether the states retained are those of a fleet.
func (w *watcher) agrees(f *fakeFleet) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for topic, p := range w.now {
		if !matches("holter/+/state", topic) {
			continue
		}
		n++
		s := stateOf(f.t, p)
		v, ok := f.views[s.Device]
		if !ok || s.Seq != v.Seq || s.State != v.State.String() || mqttreport.StateTopic("holter", s.Device) != topic {
			return false
		}
	}
	return n == len(f.views)
}

// TestMosquitto: states follow the events; what is stale is cleared; a broker that is killed and comes back without what it retained gets
// it again; the status tells whether the reporter is there.
func TestMosquitto(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	random := randv2.New(randv2.NewPCG(7, 8))
	s := testmqtt.Mosquitto(t, testmqtt.Options{})
	f := newFleet(t, 0)
	registry, _, end := newRegistry(t)
	defer end()
	source := addSource(t, registry, "mqtt")
	f.sources = registry.Sources()
	pulse(source)
	for _, id := range []string{"a/b", "c+d", "#", "100%", "%2F", "ü x", "$SYS"} {
		f.happen(id, liveness.DeviceOnline)
	}
	old := paho.NewClient(paho.NewClientOptions().AddBroker(s.URL()).SetAutoReconnect(false))
	if token := old.Connect(); token.Wait() && token.Error() != nil {
		t.Fatal(token.Error())
	}
	for _, m := range [][2]string{
		{"holter/gone/state", `{"device":"gone","seq":1,"state":"online"}`},
		{"holter/go%2Fne/state", `{"device":"go/ne","seq":1,"state":"online"}`},
		{"homeassistant/binary_sensor/holter_gone/connectivity/config", `{"state_topic":"holter/gone/state"}`},
		{"someone/else/state", "hers"},
	} {
		if token := old.Publish(m[0], 1, true, m[1]); token.Wait() && token.Error() != nil {
			t.Fatal(token.Error())
		}
	}
	old.Disconnect(50)
	w := watch(t, s.URL())
	p, stop := connect(t, s.URL(), nil)
	start(t, mqttreport.Config{Registry: f, Events: f.log, Publisher: p, HomeAssistant: true, Logger: testLog(t)})
	testwait.Until(t, "the states are those of the fleet", func() bool { return w.agrees(f) })
	if got := w.get("someone/else/state"); got != "hers" {
		t.Errorf("someone else's message is now %q", got)
	}
	if got := w.get("homeassistant/binary_sensor/holter_gone/connectivity/config"); got != "" {
		t.Errorf("the sensor of a device that is gone: %q", got)
	}
	if got := w.get("holter/status"); got != "online" {
		t.Errorf("status %q, want online", got)
	}
	if got := w.get("holter/source/mqtt/status"); got != "online" {
		t.Errorf("status of the source %q, want online", got)
	}
	source.Deafen(time.Now())
	testwait.Until(t, "the source is deaf", func() bool { return w.get("holter/source/mqtt/status") == "offline" })
	f.play(random, 50, 500)
	f.happen("a/b", liveness.DeviceForgotten)
	testwait.Until(t, "the states follow", func() bool { return w.agrees(f) })
	if got := w.get(mqttreport.DiscoveryTopic("homeassistant", "a/b")); got != "" {
		t.Errorf("the sensor of a forgotten device: %q", got)
	}

	s.Kill()
	f.play(random, 50, 300)
	pulse(source)
	s.Restart()
	f.play(random, 50, 300)
	testwait.Until(t, "the source listens", func() bool { return w.get("holter/source/mqtt/status") == "online" })
	testwait.Until(t, "the states are right again after the broker was killed", func() bool { return w.agrees(f) && w.get("holter/status") == "online" })

	s.Stop()
	f.play(random, 50, 300)
	<-time.After(4 * time.Second) // longer than the keep alive and its half
	s.Cont()
	testwait.Until(t, "the states are right again after the broker stood still", func() bool { return w.agrees(f) && w.get("holter/status") == "online" })
	stop()
	testwait.Until(t, "the status after the end", func() bool { return w.get("holter/status") == "offline" })
}

// TestWill: when the network is cut, the broker says that the reporter is gone.
func TestWill(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	s := testmqtt.Mosquitto(t, testmqtt.Options{})
	link := testmqtt.Proxy(t, s.URL())
	w := watch(t, s.URL())
	p, _ := connect(t, link.URL(), func(c *mqttreport.PahoConfig) { c.KeepAlive = time.Second })
	f := newFleet(t, 0)
	start(t, mqttreport.Config{Registry: f, Events: f.log, Publisher: p, Logger: testLog(t)})
	f.happen("a", liveness.DeviceOnline)
	testwait.Until(t, "online", func() bool { return w.get("holter/status") == "online" && w.agrees(f) })
	link.Cut(testmqtt.Both)
	f.happen("a", liveness.DeviceOffline)
	testwait.Until(t, "the will", func() bool { return w.get("holter/status") == "offline" })
	link.Heal()
	testwait.Until(t, "online again", func() bool { return w.get("holter/status") == "online" && w.agrees(f) })
}

// TestRetainedAll: all that mosquitto retains comes before our own message does, also when it is much more than the queue of a subscriber.
func TestRetainedAll(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	const n = 20_000
	s := testmqtt.Mosquitto(t, testmqtt.Options{Users: map[string]string{"ada": "secret"}, TLS: true})
	config := testTLS(t, s.Files())
	p, _ := connect(t, s.TLSURL(), func(c *mqttreport.PahoConfig) {
		c.Options.SetUsername("ada").SetPassword("secret").SetTLSConfig(config)
		c.Quiet = time.Nanosecond // so that our own message alone says that all has come
	})
	if _, err := p.Connected(t.Context()); err != nil {
		t.Fatal(err)
	}
	padding := rand.Text() + rand.Text()
	var wg sync.WaitGroup
	for worker := range 50 {
		wg.Go(func() {
			for i := worker; i < n; i += 50 {
				if err := p.Publish(t.Context(), fmt.Sprintf("holter/d%d/state", i), []byte(padding), true); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for range 3 {
		began := time.Now()
		found, err := p.Retained(t.Context(), "holter/+/state")
		if err != nil || len(found) != n {
			t.Fatalf("Retained: %d messages, %v, want %d", len(found), err, n)
		}
		t.Logf("%d messages in %v", n, time.Since(began))
	}
}

func TestRetainedRefused(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	s := testmqtt.Mosquitto(t, testmqtt.Options{Users: map[string]string{"ada": "secret"}, ACL: []string{"user ada", "topic write holter/#"}})
	p, _ := connect(t, s.URL(), func(c *mqttreport.PahoConfig) { c.Options.SetUsername("ada").SetPassword("secret") })
	f := newFleet(t, 0)
	f.happen("a", liveness.DeviceOnline)
	r := start(t, mqttreport.Config{Registry: f, Events: f.log, Publisher: p, Logger: testLog(t)})
	testwait.Until(t, "something is published to a broker that lets us write only", func() bool { return r.Stats().Published > 0 })
}

func TestWrongPassword(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	s := testmqtt.Mosquitto(t, testmqtt.Options{Users: map[string]string{"ada": "secret"}})
	var log syncBuffer
	_, stop := connect(t, s.URL(), func(c *mqttreport.PahoConfig) {
		c.Options.SetUsername("ada").SetPassword("wrong-password")
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	testwait.Until(t, "it is said that we may not", func() bool { return bytes.Contains([]byte(log.String()), []byte("not Authorized")) })
	stop()
	if bytes.Contains([]byte(log.String()), []byte("wrong-password")) {
		t.Error("the log has the password")
	}
}

// TestEndWhileAway: Run returns at once though the broker does not answer.
func TestEndWhileAway(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	s := testmqtt.Mosquitto(t, testmqtt.Options{})
	s.Stop()
	_, stop := connect(t, s.URL(), nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-time.After(300 * time.Millisecond)
		stop()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Error("Run did not return")
	}
}

// TestSession: the publisher connects when its turn comes, with the identifier that it is told then. The
// next process ends its connection, and its will comes before what that one says.
func TestSession(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	s := testmqtt.Mosquitto(t, testmqtt.Options{})
	w := watch(t, s.URL())
	var turn atomic.Int32 // of the first or the second
	for n := range int32(2) {
		connect(t, s.URL(), func(c *mqttreport.PahoConfig) {
			c.ClientID = "mine"
			c.Session = func(context.Context) (string, error) {
				if n != turn.Load() {
					return "", errors.New("another one has its turn")
				}
				return "ours", nil
			}
		})
	}
	testwait.Until(t, "the first is online", func() bool { return w.get("holter/status") == "online" })
	turn.Store(1)
	testwait.Until(t, "the second has ended the connection of the first", func() bool {
		return strings.Contains(s.Log(), "Client ours already connected, closing old connection.") && w.get("holter/status") == "online"
	})
	if log := s.Log(); strings.Count(log, " as ours ") != 2 || strings.Contains(log, " as mine ") {
		t.Error("there were other connections than one of each")
	}
}
