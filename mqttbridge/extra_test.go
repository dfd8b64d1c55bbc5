package mqttbridge_test

import (
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/holter-iot/holter/internal/test/testmqtt"
	"github.com/holter-iot/holter/mqttbridge"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// asking starts a bridge to a simulated broker. The function that it returns publishes that devices ask for topics.
func asking(t *testing.T, broker *testmqtt.Simulated, cfg mqttbridge.Config) (s *site, ask func(devices ...string)) {
	t.Helper()
	t.Cleanup(broker.End)
	network := broker.Network()
	cfg.URL = network.URL()
	s = start(t, mqttbridge.Within(cfg, network.Dial))
	s.listens()
	o := paho.NewClientOptions().AddBroker(network.URL()).SetClientID("devices").SetAutoReconnect(false)
	o.SetCustomOpenConnectionFn(func(*url.URL, paho.ClientOptions) (net.Conn, error) { return network.Dial(t.Context(), "", "") })
	c := paho.NewClient(o)
	if token := c.Connect(); token.Wait() && token.Error() != nil {
		t.Fatal(token.Error())
	}
	t.Cleanup(func() { c.Disconnect(0) })
	return s, func(devices ...string) {
		for _, device := range devices {
			publish(t, c, "fleet/"+device+"/beat", "ask", false)
		}
	}
}

// One topic for which the broker closes the connection is found and left out, whatever it was asked for together with. All others are
// heard, and it is said which is not.
func TestPoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker := testmqtt.NewSimulated()
		broker.Closes = func(filter string) bool { return strings.HasPrefix(filter, "more/poison") }
		s, ask := asking(t, broker, mqttbridge.Config{})
		var good []string
		for i := range 20 {
			good = append(good, fmt.Sprintf("more/good-%02d", i))
		}
		for _, filter := range good {
			ask(strings.TrimPrefix(filter, "more/"))
		}
		ask("poison")
		time.Sleep(5 * time.Minute)
		ask("poison-2")
		time.Sleep(5 * time.Minute)
		v := s.bridge.View()
		if !v.Listening || !slices.Equal(v.LeftOut, []string{"more/poison", "more/poison-2"}) || v.Rejected["subscription"] != 2 {
			t.Fatalf("the bridge is %+v", v)
		}
		for _, filter := range good {
			if !slices.Contains(v.Subscriptions, filter) {
				t.Errorf("%s is not subscribed to", filter)
			}
		}
		if note := s.registry.Sources()[0].View().Note; !strings.Contains(note, `2 topics that messages name, such as "more/poison"`) {
			t.Errorf("Note = %q", note)
		}
		since := v.Since
		time.Sleep(time.Hour)
		ask("good-01", "poison")
		time.Sleep(time.Minute)
		if v := s.bridge.View(); !v.Since.Equal(since) {
			t.Errorf("the connection of %v was lost: %+v", since, v)
		}
	})
}

// A topic for which the broker closes the connection only after it was updated is found among those that it is asked for together with.
func TestLatePoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker := testmqtt.NewSimulated()
		var updated atomic.Bool
		broker.Closes = func(filter string) bool { return updated.Load() && filter == "more/05" }
		s, ask := asking(t, broker, mqttbridge.Config{})
		for i := range 20 {
			ask(fmt.Sprintf("%02d", i))
		}
		time.Sleep(time.Second)
		broker.Kill()
		updated.Store(true)
		broker.Restart()
		time.Sleep(time.Minute)
		if v := s.bridge.View(); !v.Listening || !slices.Equal(v.LeftOut, []string{"more/05"}) || len(v.Subscriptions) != 3+19 {
			t.Errorf("the bridge is %+v", v)
		}
	})
}

// A sender of ever more such topics is not heard any more after some of them, and the bridge goes on.
func TestManyPoisons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker := testmqtt.NewSimulated()
		broker.Closes = func(filter string) bool { return strings.HasPrefix(filter, "more/poison") }
		s, ask := asking(t, broker, mqttbridge.Config{})
		ask("good")
		for i := range 200 {
			ask(fmt.Sprintf("poison-%03d", i))
			time.Sleep(10 * time.Second)
		}
		time.Sleep(time.Minute)
		since := s.bridge.View().Since
		ask("poison-more")
		time.Sleep(time.Minute)
		v := s.bridge.View()
		if !v.Listening || !v.Since.Equal(since) || !slices.Contains(v.Subscriptions, "more/good") || len(v.LeftOut) > 110 {
			t.Errorf("the bridge is %+v", v)
		}
		if note := s.registry.Sources()[0].View().Note; !strings.Contains(note, "it holds as much as it may, and has refused messages: subscriptions: ") {
			t.Errorf("Note = %q", note)
		}
	})
}

// packed is a convention that holds as much as it may.
type packed struct{}

func (packed) Name() string { return "packed" }
func (packed) Subscriptions() []convention.Subscription {
	return []convention.Subscription{{Filter: "fleet/#"}}
}
func (packed) Connected(convention.Fleet, func(convention.Sign)) {}
func (packed) Apply(convention.Message, bool, func(convention.Sign)) error {
	return &convention.Rejected{Reason: "limit", Detail: "no more is taken"}
}

// Whoever asks why a device is not watched finds that its message was refused: in the log, in the source's note and by the metric.
func TestSaysThatItIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &lockedBuffer{}
		s, ask := asking(t, testmqtt.NewSimulated(), mqttbridge.Config{Conventions: []convention.Convention{packed{}}, Logger: slog.New(slog.NewTextHandler(log, nil))})
		ask("a", "b", "c")
		time.Sleep(time.Second)
		if v := s.bridge.View(); v.Rejected["limit"] != 3 {
			t.Errorf("Rejected = %v", v.Rejected)
		}
		if note := s.registry.Sources()[0].View().Note; !strings.HasSuffix(note, "; it holds as much as it may, and has refused messages: packed: no more is taken") {
			t.Errorf("Note = %q", note)
		}
		if n := strings.Count(log.String(), "a message is refused because of a limit"); n != 1 {
			t.Errorf("it is said %d times in\n%s", n, log)
		}
	})
}

// A topic that the broker refuses keeps the bridge from no other, on later connections, too; nor does a connection that is lost.
func TestRefusedTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker := testmqtt.NewSimulated()
		broker.Refuses = func(filter string) bool { return filter == "more/secret" }
		s, ask := asking(t, broker, mqttbridge.Config{})
		ask("good-1", "secret", "good-2")
		time.Sleep(time.Second)
		for range 5 {
			broker.Kill()
			broker.Restart()
			time.Sleep(time.Minute)
		}
		v := s.bridge.View()
		if !v.Listening || !slices.Equal(v.LeftOut, []string{"more/secret"}) || v.Rejected["subscription"] != 1 {
			t.Errorf("the bridge is %+v", v)
		}
		for _, filter := range []string{"more/good-1", "more/good-2"} {
			if !slices.Contains(v.Subscriptions, filter) {
				t.Errorf("%s is not subscribed to", filter)
			}
		}
	})
}
