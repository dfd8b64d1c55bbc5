package mqttbridge_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"go.uber.org/goleak"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testmqtt"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
	"github.com/holter-iot/holter/mqttbridge"
	"github.com/holter-iot/holter/mqttbridge/convention"
	"github.com/holter-iot/holter/mqttbridge/presets"
)

func TestMain(m *testing.M) {
	testenv.Together(4)
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(), // ants has two goroutines of its own
		// toxiproxy leaves some behind when a network fails while it is full.
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"))
}

// plain is a convention: fleet/DEVICE/beat is a heartbeat, fleet/DEVICE/status says online or offline.
type plain struct{ timeout time.Duration }

func (plain) Name() string { return "plain" }

func (plain) Subscriptions() []convention.Subscription {
	return []convention.Subscription{{Filter: "fleet/+/beat"}, {Filter: "fleet/+/status"}, {Filter: "fleet/+/radio"}}
}

func (plain) Connected(convention.Fleet, func(convention.Sign)) {}

func (p plain) Apply(m convention.Message, _ bool, emit func(convention.Sign)) error {
	levels := strings.Split(m.Topic, "/")
	if len(levels) != 3 || levels[0] != "fleet" {
		return nil
	}
	s := convention.Sign{Device: levels[1], Timeout: p.timeout}
	switch string(m.Payload) {
	case "online":
		s.Meaning = convention.Online
	case "offline":
		s.Meaning = convention.Offline
	case "bye":
		s.Meaning = convention.Bye
	case "gone":
		s.Meaning = convention.Gone
	case "sleep":
		s.Meaning = convention.Sleep
	case "fail":
		s.Meaning, s.Text = convention.Fail, "it hurts"
	case "behind":
		s.Meaning, s.Behind = convention.Beat, "radio"
	case "deaf":
		s = convention.Sign{Meaning: convention.Deaf, Behind: levels[1]}
	case "heard":
		s = convention.Sign{Meaning: convention.Heard, Behind: levels[1]}
	case "old session":
		s.Meaning, s.Epoch = convention.Offline, 1
	case "session":
		s.Meaning, s.Epoch = convention.Online, 2
	case "ask":
		s.Publish = []convention.Publication{{Topic: "asked/" + levels[1], Payload: []byte("please")}}
		s.Subscribe = []convention.Subscription{{Filter: "more/" + levels[1]}}
	case "broken":
		return &convention.Rejected{Reason: "payload", Detail: "broken"}
	default:
		s.Meaning = convention.Beat
	}
	emit(s)
	return nil
}

// site is a bridge at work.
type site struct {
	testing.TB

	registry *liveness.Registry
	log      *eventlog.Log
	bridge   *mqttbridge.Bridge
	cfg      mqttbridge.Config
}

func start(tb testing.TB, cfg mqttbridge.Config) *site {
	tb.Helper()
	return startAfter(tb, cfg, func(*liveness.Registry) error { return nil })
}

// startAfter starts a bridge in a process that goes on with what another one left.
func startAfter(tb testing.TB, cfg mqttbridge.Config, restore func(*liveness.Registry) error) *site {
	tb.Helper()
	log, err := eventlog.New(0)
	if err != nil {
		tb.Fatal(err)
	}
	s := &site{TB: tb, log: log}
	if s.registry, err = liveness.New(log, liveness.Config{Policy: liveness.Policy{CloseGrace: 50 * time.Millisecond}}); err != nil {
		tb.Fatal(err)
	}
	if err := restore(s.registry); err != nil {
		tb.Fatal(err)
	}
	if cfg.Name == "" {
		cfg.Name = "site"
	}
	if cfg.Conventions == nil {
		cfg.Conventions = []convention.Convention{plain{timeout: time.Minute}}
	}
	if s.bridge, err = mqttbridge.New(s.registry, cfg); err != nil {
		tb.Fatal(err)
	}
	s.cfg = cfg
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- s.bridge.Run(ctx) }()
	registryCtx, end := context.WithCancel(context.Background())
	go func() { done <- s.registry.Run(registryCtx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Errorf("Run = %v", err)
		}
		end()
		if err := <-done; err != nil {
			tb.Errorf("the registry's Run = %v", err)
		}
	})
	return s
}

// until waits for something, as long as the test may take.
func (s *site) until(what string, is func() bool) {
	s.Helper()
	testwait.Until(s, what, is, func() string { return fmt.Sprintf("the bridge is %+v", s.bridge.View()) })
}

func (s *site) listens() {
	s.Helper()
	s.until("the clock", func() bool { return s.bridge.View().Listening })
}

func (s *site) state(id string) string {
	v, err := s.registry.Device(id)
	if err != nil {
		return "not known"
	}
	if v.Closing != liveness.NoReason {
		return "closing"
	}
	if v.State == liveness.Offline {
		return v.State.String() + " " + v.Reason.String()
	}
	return v.State.String()
}

// client is another client of the broker.
func client(tb testing.TB, url string) paho.Client {
	tb.Helper()
	o, err := mqttbridge.Options(mqttbridge.Config{URL: url})
	if err != nil {
		tb.Fatal(err)
	}
	c := paho.NewClient(o.SetClientID("test-client"))
	if token := c.Connect(); token.Wait() && token.Error() != nil {
		tb.Fatal(token.Error())
	}
	tb.Cleanup(func() { c.Disconnect(1000) }) // waits so long at most, or the broker is gone first, and the client connects again
	return c
}

func publish(tb testing.TB, c paho.Client, topic, payload string, retained bool) {
	tb.Helper()
	if token := c.Publish(topic, 1, retained, payload); token.Wait() && token.Error() != nil {
		tb.Fatal(token.Error())
	}
}

func TestMeanings(t *testing.T) {
	broker := testmqtt.Mosquitto(t, testmqtt.Options{})
	c := client(t, broker.URL())
	publish(t, c, "fleet/kept-online/status", "online", true)
	publish(t, c, "fleet/kept-offline/status", "offline", true)
	publish(t, c, "fleet/kept-bye/status", "bye", true)
	publish(t, c, "fleet/kept-beat/beat", "beat", true)
	publish(t, c, "fleet/kept-sleep/status", "sleep", true)
	s := start(t, mqttbridge.Config{URL: broker.URL()})
	s.listens()
	for _, m := range [][2]string{
		{"beating/beat", "beat"},
		{"leaving/beat", "beat"},
		{"leaving/status", "bye"},
		{"stranger/status", "bye"},
		{"lost/status", "online"},
		{"lost/status", "offline"},
		{"back/status", "online"},
		{"back/status", "offline"},
		{"back/beat", "beat"},
		{"asleep/status", "sleep"},
		{"failing/status", "fail"},
		{"removed/beat", "beat"},
		{"removed/status", "gone"},
		{"session/status", "session"},
		{"session/status", "old session"},
		{"broken/status", "broken"},
		{strings.Repeat("x", 200) + "/beat", "beat"},
		{"big/beat", strings.Repeat("x", 300<<10)},
		{"asking/status", "ask"},
		{"end/beat", "beat"},
	} {
		publish(t, c, "fleet/"+m[0], m[1], false)
	}
	publish(t, c, "holter/end/beat", "x", false)
	s.until("the last message", func() bool { return s.state("end") == "online" && s.state("lost") == "offline will" })
	for id, want := range map[string]string{
		"kept-online": "online", "kept-offline": "offline will", "kept-bye": "offline bye", "kept-beat": "not known", "kept-sleep": "sleeping",
		"beating": "online", "leaving": "offline bye", "stranger": "offline bye", "back": "online", "asleep": "sleeping", "failing": "online",
		"removed": "not known", "session": "online", "broken": "not known", "big": "not known", "asking": "not known",
	} {
		if got := s.state(id); got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	v := s.bridge.View()
	for _, reason := range []string{"payload", "device_id", "oversized", "stale_session"} {
		if v.Rejected[reason] != 1 {
			t.Errorf("Rejected = %v, want one for each reason", v.Rejected)
			break
		}
	}
	s.until("the subscription that a message asked for", func() bool { return slices.Contains(s.bridge.View().Subscriptions, "more/asking") })
	if v.Watermark != "message" || !v.Connected || v.Retained != 5 || v.Dropped != 0 {
		t.Errorf("View = %+v", v)
	}
}

// Devices behind a gateway that is deaf are unknown, the others are not.
func TestBehind(t *testing.T) {
	testenv.Check(t)
	broker := testmqtt.Mosquitto(t, testmqtt.Options{})
	c := client(t, broker.URL())
	s := start(t, mqttbridge.Config{URL: broker.URL()})
	s.listens()
	publish(t, c, "fleet/near/beat", "beat", false)
	publish(t, c, "fleet/far/beat", "behind", false)
	s.until("both devices", func() bool { return s.state("near") == "online" && s.state("far") == "online" })
	publish(t, c, "fleet/radio/radio", "deaf", false)
	s.until("the deaf gateway", func() bool { return s.state("far") == "unknown" })
	if got := s.state("near"); got != "online" {
		t.Errorf("a device that is not behind the gateway is %s", got)
	}
	publish(t, c, "fleet/radio/radio", "heard", false)
	publish(t, c, "fleet/far/beat", "behind", false)
	s.until("the gateway", func() bool { return s.state("far") == "online" })
	if v, err := s.registry.Device("far"); err != nil || v.Source != "site/radio" {
		t.Errorf("the device behind the gateway is %+v, %v", v, err)
	}
}

// A retained message that a gateway is offline, which nobody replaced, keeps no device unknown that is heard through it.
func TestGatewaySaidToBeOffline(t *testing.T) {
	testenv.Check(t)
	broker := testmqtt.Mosquitto(t, testmqtt.Options{})
	c := client(t, broker.URL())
	z2m, err := presets.New("zigbee2mqtt")
	if err != nil {
		t.Fatal(err)
	}
	publish(t, c, "zigbee2mqtt/bridge/state", `{"state":"offline"}`, true)
	publish(t, c, "zigbee2mqtt/gone/availability", `{"state":"online"}`, true)
	s := start(t, mqttbridge.Config{URL: broker.URL(), Conventions: []convention.Convention{z2m}})
	s.listens()
	publish(t, c, "zigbee2mqtt/lamp", `{"brightness":5}`, false)
	s.until("the device is online, and its gateway is listened to", func() bool {
		return s.state("lamp") == "online" && slices.ContainsFunc(s.registry.Sources(), func(source *liveness.Source) bool {
			return source.Name() == "site/zigbee2mqtt" && source.Now() > 0
		})
	})
	publish(t, c, "zigbee2mqtt/bridge/state", `{"state":"offline"}`, false)
	s.until("the gateway is offline", func() bool { return s.state("lamp") == "unknown" })
	publish(t, c, "zigbee2mqtt/lamp", `{"brightness":6}`, false)
	s.until("the device is online again", func() bool { return s.state("lamp") == "online" })
}

// A bridge that was renamed finds what the broker retains of its devices: nobody is alive again because of that.
func TestRenamed(t *testing.T) {
	testenv.Check(t)
	broker := testmqtt.Mosquitto(t, testmqtt.Options{})
	c := client(t, broker.URL())
	const listened, timeout = time.Hour, 4 * time.Second
	devices := []keep.Record{
		{ID: "dead", State: liveness.Online, Last: listened - timeout/2},
		{ID: "long-dead", State: liveness.Offline, Reason: liveness.Silence, Last: listened - time.Minute},
		{ID: "lost", State: liveness.Online, Last: listened - timeout/2},
		{ID: "living", State: liveness.Online, Last: listened - timeout/2},
	}
	for _, d := range devices {
		publish(t, c, "fleet/"+d.ID+"/status", map[bool]string{false: "online", true: "offline"}[d.ID == "lost"], true)
	}
	began := time.Now()
	s := startAfter(t, mqttbridge.Config{
		Name: "new", URL: broker.URL(), ReconnectGrace: time.Second / 2, Conventions: []convention.Convention{plain{timeout: timeout}},
	}, func(r *liveness.Registry) error {
		err := r.Keeper().RestoreSource(keep.SourceRecord{Name: "old", Listened: listened, At: began.Add(-time.Second)})
		for i, d := range devices {
			d.Num, d.Source, d.Seq, d.Since = uint32(i+1), "old", 1, began.Add(-time.Minute)
			d.Announced.Timeout = timeout
			err = errors.Join(err, r.Keeper().Restore(d))
		}
		return err
	})
	s.until("the verdicts", func() bool {
		publish(t, c, "fleet/living/beat", "beat", false)
		return s.state("dead") == "offline silence" && s.state("lost") == "offline will"
	})
	for id, want := range map[string]string{"long-dead": "offline silence", "living": "online"} {
		if got := s.state(id); got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	events, err := s.log.Read(nil, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Type == liveness.DeviceOnline {
			t.Errorf("%s came back: %+v", e.Subject, e)
		}
	}
	if v, err := s.registry.Device("dead"); err != nil || v.Source != "new" || v.HeardSilence < timeout {
		t.Errorf("%+v, %v; want its silence at the new bridge", v, err)
	}
}

func TestConnections(t *testing.T) {
	testenv.Check(t)
	broker := testmqtt.Mosquitto(t, testmqtt.Options{
		TLS: true, WebSocket: true, Users: map[string]string{"ada": "secret"},
	})
	password := func() (string, error) { return "secret", nil }
	pem, err := os.ReadFile(broker.Files().CA)
	if err != nil {
		t.Fatal(err)
	}
	roots := &tls.Config{RootCAs: x509.NewCertPool()}
	roots.RootCAs.AppendCertsFromPEM(pem)
	for name, cfg := range map[string]mqttbridge.Config{
		"tcp": {URL: broker.URL()},
		"tls": {URL: broker.TLSURL(), TLS: roots},
		"ws":  {URL: broker.WebSocketURL()},
		"wss": {URL: broker.SecureWebSocketURL(), TLS: roots},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Username, cfg.Password = "ada", password
			s := start(t, cfg)
			s.listens()
			if v := s.bridge.View(); strings.Contains(v.URL, "secret") || len(v.Subscriptions) != 3 {
				t.Errorf("View = %+v", v)
			}
		})
	}
	failures := map[string]struct {
		cfg  mqttbridge.Config
		want string
	}{
		"no password":    {mqttbridge.Config{URL: broker.URL()}, "check the user name and the password"},
		"wrong password": {mqttbridge.Config{URL: broker.URL(), Username: "ada", Password: func() (string, error) { return "x", nil }}, "check the user name and the password"},
		"no file":        {mqttbridge.Config{URL: broker.URL(), Username: "ada", Password: func() (string, error) { return "", errors.New("no such file") }}, "read the password: no such file"},
		"unknown CA":     {mqttbridge.Config{URL: broker.TLSURL(), Username: "ada", Password: password}, "check the CA"},
		"nobody":         {mqttbridge.Config{URL: "tcp://127.0.0.1:1"}, "no broker listens there"},
	}
	for name, tt := range failures {
		t.Run(name, func(t *testing.T) {
			s := start(t, tt.cfg)
			s.until("the error", func() bool { return s.bridge.View().LastError != "" })
			if v := s.bridge.View(); !strings.Contains(v.LastError, tt.want) || v.Connected {
				t.Errorf("View = %+v, want an error with %q", v, tt.want)
			}
		})
	}
}

// Where the broker forbids a subscription, nothing is heard and the error says which one. Where it forbids only the watermark, the broker's
// answers take its place.
func TestForbidden(t *testing.T) {
	testenv.Check(t)
	t.Run("subscription", func(t *testing.T) {
		broker := testmqtt.Mosquitto(t, testmqtt.Options{ACL: []string{"topic readwrite holter/#", "topic write fleet/#"}, Lines: []string{"allow_anonymous true"}})
		s := start(t, mqttbridge.Config{URL: broker.URL(), ProbeTimeout: 300 * time.Millisecond})
		// mosquitto grants the subscription and delivers nothing: the watermark alone says that it works.
		s.listens()
	})
	t.Run("watermark", func(t *testing.T) {
		broker := testmqtt.Mosquitto(t, testmqtt.Options{ACL: []string{"topic readwrite fleet/#"}, Lines: []string{"allow_anonymous true"}})
		s := start(t, mqttbridge.Config{URL: broker.URL(), ProbeTimeout: 300 * time.Millisecond})
		s.listens()
		if v := s.bridge.View(); v.Watermark != "answer" {
			t.Errorf("Watermark = %q, want answer", v.Watermark)
		}
		if v := s.registry.Sources()[0].View(); !strings.Contains(v.Note, "answers") {
			t.Errorf("Note = %q", v.Note)
		}
	})
	t.Run("off", func(t *testing.T) {
		broker := testmqtt.Mosquitto(t, testmqtt.Options{})
		s := start(t, mqttbridge.Config{URL: broker.URL(), Watermark: "off", Conventions: []convention.Convention{plain{timeout: 300 * time.Millisecond}}})
		s.listens()
		publish(t, client(t, broker.URL()), "fleet/a/beat", "beat", false)
		s.until("the verdict", func() bool { return s.state("a") == "offline silence" })
	})
}

func TestBadConfig(t *testing.T) {
	registry, err := liveness.New(nil, liveness.Config{})
	if err != nil {
		t.Fatal(err)
	}
	good := mqttbridge.Config{URL: "tcp://broker", Conventions: []convention.Convention{plain{}}}
	for name, tt := range map[string]struct {
		change func(*mqttbridge.Config)
		want   string
	}{
		"no scheme":       {func(c *mqttbridge.Config) { c.URL = "broker:1883" }, "want tcp://"},
		"http":            {func(c *mqttbridge.Config) { c.URL = "http://broker" }, "want tcp://"},
		"no host":         {func(c *mqttbridge.Config) { c.URL = "tcp://:1883" }, "names no host"},
		"password in URL": {func(c *mqttbridge.Config) { c.URL = "tcp://ada:secret@broker" }, "leave user and password out"},
		"broken URL":      {func(c *mqttbridge.Config) { c.URL = "tcp://ada:secret@[" }, "want for instance"},
		"no conventions":  {func(c *mqttbridge.Config) { c.Conventions = nil }, "no conventions"},
		"name":            {func(c *mqttbridge.Config) { c.Name = "a/b" }, "behind a slash"},
		"QoS":             {func(c *mqttbridge.Config) { c.QoS = 2 }, "QoS is 2"},
		"queue":           {func(c *mqttbridge.Config) { c.Queue = -1 }, "Queue is -1"},
		"payload":         {func(c *mqttbridge.Config) { c.MaxPayload = 1 << 30 }, "MaxPayload is"},
		"watermark":       {func(c *mqttbridge.Config) { c.Watermark = "a/#" }, "Watermark is"},
		"share":           {func(c *mqttbridge.Config) { c.Share = "a/b" }, "Share is"},
		"keep alive":      {func(c *mqttbridge.Config) { c.KeepAlive = -1 }, "KeepAlive is"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			tt.change(&cfg)
			_, err := mqttbridge.New(registry, cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("New = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// TestSession: a bridge connects when its turn comes, with the identifier that it is told then.
func TestSession(t *testing.T) {
	testenv.Check(t)
	broker := testmqtt.Mosquitto(t, testmqtt.Options{})
	errLater := errors.New("another one has its turn")
	var turn atomic.Bool
	s := start(t, mqttbridge.Config{URL: broker.URL(), ClientID: "mine", Session: func(context.Context) (string, error) {
		if !turn.Load() {
			return "", errLater
		}
		return "ours", nil
	}})
	testwait.Until(t, "it is refused", func() bool { return s.bridge.View().LastError == errLater.Error() })
	turn.Store(true)
	testwait.Until(t, "the bridge listens", func() bool { return s.bridge.View().Listening })
	if log := broker.Log(); !strings.Contains(log, " as ours ") || strings.Contains(log, " as mine ") {
		t.Error("it is not connected as ours alone")
	}
	if v := s.bridge.View(); v.Watermark != "message" {
		t.Errorf("Watermark = %q, want message", v.Watermark)
	}
}
