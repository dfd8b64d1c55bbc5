package score_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/holter-iot/holter/internal/loadgen/score"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testmqtt"
)

func TestParseMQTT(t *testing.T) {
	follower := func(state score.State, filters map[string]byte) *score.MQTT {
		m, err := score.NewMQTT(score.MQTTConfig{URL: "tcp://x:1", State: state})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Filters(); !maps.Equal(got, filters) {
			t.Errorf("filters %v, want %v", got, filters)
		}
		return m
	}
	tele := follower(score.State{Topic: "tele/{device}/LWT", Online: "Online", Offline: "Offline"}, map[string]byte{"tele/+/LWT": 1})
	within := follower(score.State{Topic: "a/b-{device}", Online: "1", Offline: ""}, map[string]byte{"a/+": 1})
	emqx := follower(score.State{}, map[string]byte{"$SYS/brokers/+/clients/+/connected": 1, "$SYS/brokers/+/clients/+/disconnected": 1})
	gone := func(reason string) string { return fmt.Sprintf(`{"clientid":"d-0","ts":1000,"reason":%q}`, reason) }
	for _, c := range []struct {
		topic, payload string
		kind           score.Kind
		device, reason string
		ok             bool
	}{
		{"tele/d-0/LWT", "Online", score.Online, "d-0", "", true},
		{"tele/d-0/LWT", "Offline", score.Offline, "d-0", "", true},
		{"tele/d-0/LWT", "", 0, "", "", false},
		{"tele//LWT", "Online", 0, "", "", false},
		{"tele/a/b/LWT", "Online", 0, "", "", false},
		{"a/b-d-0", "1", score.Online, "d-0", "", true},
		{"a/b-d-0", "", score.Offline, "d-0", "", true},
		{"a/c-d-0", "1", 0, "", "", false},
		{"$SYS/brokers/emqx@127.0.0.1/clients/d-0/connected", `{"clientid":"d-0","ts":1000,"connected_at":1000}`, score.Online, "d-0", "", true},
		{"$SYS/brokers/emqx@127.0.0.1/clients/d-0/disconnected", gone("normal"), score.Offline, "d-0", "bye", true},
		{"$SYS/brokers/emqx@127.0.0.1/clients/d-0/disconnected", gone("keepalive_timeout"), score.Offline, "d-0", "silence", true},
		{"$SYS/brokers/emqx@127.0.0.1/clients/d-0/disconnected", gone("tcp_closed"), score.Offline, "d-0", "closed", true},
		{"$SYS/brokers/emqx@127.0.0.1/clients/d-0/disconnected", gone("takenover"), score.Replaced, "d-0", "", true},
		{"$SYS/brokers/emqx@127.0.0.1/clients/d-0/disconnected", gone("discarded"), score.Replaced, "d-0", "", true},
		{"$SYS/brokers/emqx@127.0.0.1/clients/d-0/disconnected", "{", 0, "", "", false},
		{"$SYS/brokers/emqx@127.0.0.1/uptime", "1 day", 0, "", "", false},
	} {
		m := emqx
		if strings.HasPrefix(c.topic, "tele/") {
			m = tele
		} else if strings.HasPrefix(c.topic, "a/") {
			m = within
		}
		v, ok := m.ParseMQTT(c.topic, c.payload, true)
		if ok != c.ok || ok && (v.Kind != c.kind || v.Device != c.device || v.Reason != c.reason) {
			t.Errorf("%s %q: %+v, %v", c.topic, c.payload, v, ok)
		}
		if emqx := strings.HasPrefix(c.topic, "$SYS"); ok && (v.Retained == emqx || emqx && v.Time.UnixMilli() != 1000) {
			t.Errorf("%s: %+v", c.topic, v)
		}
	}
}

func TestNewMQTT(t *testing.T) {
	for _, c := range []struct {
		config score.MQTTConfig
		want   string
	}{
		{score.MQTTConfig{}, "has no URL"},
		{score.MQTTConfig{URL: "tcp://x:1", State: score.State{"a/b", "1", "0"}}, "must have {device}"},
		{score.MQTTConfig{URL: "tcp://x:1", State: score.State{"a/{device}/#", "1", "0"}}, "neither wildcards"},
		{score.MQTTConfig{URL: "tcp://x:1", State: score.State{"a/{device}/{device}", "1", "0"}}, "nor other braces"},
		{score.MQTTConfig{URL: "tcp://x:1", State: score.State{"a/{device}", "1", "1"}}, "cannot mean both"},
	} {
		if _, err := score.NewMQTT(c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewMQTT(%+v) = %v, want %q", c.config, err, c.want)
		}
	}
}

// A real broker tells a state, a will, and after a restart what it kept.
func TestFollowMosquitto(t *testing.T) {
	testenv.Check(t)
	broker := testmqtt.Mosquitto(t, testmqtt.Options{})
	url := "tcp://" + broker.Addr()
	m, err := score.NewMQTT(score.MQTTConfig{URL: url, State: score.State{Topic: "state/{device}", Online: "1", Offline: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	said := make(chan score.Verdict, 100)
	done := make(chan error, 1)
	go func() { done <- m.Follow(ctx, func(v score.Verdict) { said <- v }) }()
	next := func(kind score.Kind, device string) score.Verdict {
		t.Helper()
		select {
		case v := <-said:
			if v.Kind != kind || v.Device != device || v.URL != url || v.Seen.IsZero() {
				t.Fatalf("%+v, want kind %d of %q", v, kind, device)
			}
			return v
		case <-ctx.Done():
			t.Fatalf("waited for kind %d of %q in vain", kind, device)
		}
		return score.Verdict{}
	}
	next(score.Following, "")
	device := paho.NewClient(paho.NewClientOptions().AddBroker(url).SetClientID("d-0").SetWill("state/d-0", "0", 1, true).SetAutoReconnect(false))
	for _, do := range []func() paho.Token{device.Connect, func() paho.Token { return device.Publish("state/d-0", 1, true, "1") }} {
		if token := do(); !token.WaitTimeout(20*time.Second) || token.Error() != nil {
			t.Fatal(token.Error())
		}
	}
	if v := next(score.Online, "d-0"); v.Retained {
		t.Error("a state that changed is told as one that was kept")
	}
	rival := paho.NewClient(paho.NewClientOptions().AddBroker(url).SetClientID("d-0"))
	if token := rival.Connect(); !token.WaitTimeout(20*time.Second) || token.Error() != nil {
		t.Fatal(token.Error())
	}
	next(score.Offline, "d-0") // the will of the session that was taken over
	rival.Disconnect(0)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestFollowNoBroker(t *testing.T) {
	m, err := score.NewMQTT(score.MQTTConfig{URL: "tcp://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Follow(t.Context(), func(score.Verdict) {}); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("Follow of nobody = %v", err)
	}
}
