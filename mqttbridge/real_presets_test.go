package mqttbridge_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testmqtt"
	"github.com/holter-iot/holter/mqttbridge"
	"github.com/holter-iot/holter/mqttbridge/convention"
	"github.com/holter-iot/holter/mqttbridge/presets"
)

// lockedBuffer is a buffer that a logger writes to while a test reads it.
type lockedBuffer struct {
	mu  sync.Mutex // guards the field below
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Presets see what real devices publish: what they need is subscribed to, also what only a message names,
// and what they do not understand is logged once.
func TestPresets(t *testing.T) {
	testenv.Check(t)
	var all []convention.Convention
	for _, name := range []string{"tasmota", "zigbee2mqtt", "esphome", "chirpstack", "thethingsstack"} {
		c, err := presets.New(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	broker := testmqtt.Mosquitto(t, testmqtt.Options{})
	c := client(t, broker.URL())
	publish(t, c, "tasmota/discovery/3C71BFF01A7C/config",
		`{"t":"roof","ft":"house/%prefix%/%topic%/","tp":["cmd","state","telemetry"],"ofln":"away","onln":"here","hn":"roof-6780","mac":"3C71BFF01A7C","ver":1}`, true)
	publish(t, c, "house/telemetry/roof/LWT", "here", true)
	publish(t, c, "zigbee2mqtt/kept/availability", `{"state":"offline"}`, true)
	log := &lockedBuffer{}
	s := start(t, mqttbridge.Config{URL: broker.URL(), Conventions: all, Logger: slog.New(slog.NewTextHandler(log, nil))})
	s.listens()
	s.until("the device that only its description names", func() bool { return s.state("house/roof") == "online" })
	const eui = "0101010101010101"
	for _, m := range [][2]string{
		{"tele/house/kitchen/lamp/LWT", "Online"},
		{"house/telemetry/roof/LWT", "away"},
		{"zigbee2mqtt/lamp/availability", `{"state":"online"}`},
		{"zigbee2mqtt/lamp/availability", `{"state":"offline"}`},
		{"house/node/status", "online"},
		{"application/17c82e96/device/" + eui + "/event/up", "\n$3ac7e3c4\x00\xff"},
		{"eu868/gateway/0016c001f153a14c/state/conn", "\x10\x01\x1a\x100016c001f153a14c"},
		{"v3/app1@ttn/devices/dev1/up", `{"uplink_message":{"f_port":1}}`},
		{"tele/other/LWT", "offline"},
		{"tele/other/LWT", "online"},
		{"tele/end/STATE", "{}"},
	} {
		publish(t, c, m[0], m[1], false)
	}
	for id, want := range map[string]string{
		"house/kitchen/lamp": "online", "house/roof": "offline will", "lamp": "offline reported", "kept": "offline reported", "house/node": "online",
		eui: "online", "gateway/0016c001f153a14c": "online", "app1@ttn/dev1": "online", "end": "online",
	} {
		s.until(id+" to be "+want, func() bool { return s.state(id) == want })
	}
	if got := s.bridge.View().Rejected; got[convention.NoCase] != 2 {
		t.Errorf("Rejected = %v, want 2 that no case fits", got)
	}
	const line = `"a message is not understood; others of its kind are only counted" bridge=site convention=tasmota error="no_case: rule 1 (tele/{device...}/LWT): no case fits" topic=tele/other/LWT payload="\"offline\"" bytes=7`
	if got := log.String(); strings.Count(got, "is not understood") != 1 || !strings.Contains(got, line) {
		t.Errorf("the log is\n%s\nwant once\n%s", got, line)
	}
}
