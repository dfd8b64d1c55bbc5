package mqttbridge_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testmqtt"
	"github.com/holter-iot/holter/mqttbridge"
	"github.com/holter-iot/holter/mqttbridge/convention"
	"github.com/holter-iot/holter/mqttbridge/presets"
)

// A payload may name any topic. One for which the broker would close the connection is left out, and all others are heard.
func TestUnsoundTopics(t *testing.T) {
	testenv.Check(t)
	discovery, err := presets.New("homeassistant")
	if err != nil {
		t.Fatal(err)
	}
	broker := testmqtt.Mosquitto(t, testmqtt.Options{})
	c, log := client(t, broker.URL()), &lockedBuffer{}
	s := start(t, mqttbridge.Config{URL: broker.URL(), Conventions: []convention.Convention{discovery}, Logger: slog.New(slog.NewTextHandler(log, nil))})
	s.listens()
	announce := func(device, topic string) {
		payload, err := json.Marshal(map[string]any{"state_topic": topic, "device": map[string]any{"identifiers": []string{device}, "name": device}})
		if err != nil {
			t.Fatal(err)
		}
		publish(t, c, "homeassistant/sensor/"+device+"/x/config", string(payload), false)
	}
	bad := []string{strings.Repeat("a/", 299) + "a", "a\uffff", "my\tsensor", "a\u0085", "$share", "$share/g/a"}
	for i, topic := range bad {
		announce(fmt.Sprintf("bad-%d", i), topic)
	}
	announce("good", "fine")
	s.until("the good topic is subscribed to", func() bool { return strings.Contains(strings.Join(s.bridge.View().Subscriptions, " "), "fine") })
	publish(t, c, "fine", "21.5", false)
	s.until("the device is heard", func() bool { return s.state("good") == "online" })
	v := s.bridge.View()
	if v.Rejected["topic"] != uint64(len(bad)) || !strings.Contains(log.String(), "is no topic to subscribe to") {
		t.Errorf("Rejected = %v, want %d topics; the log is\n%s", v.Rejected, len(bad), log)
	}
	if n := strings.Count(log.String(), "connected to the broker"); n != 1 {
		t.Errorf("it has connected %d times", n)
	}
}
