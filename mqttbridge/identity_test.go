package mqttbridge_test

import (
	"maps"
	"sync"
	"testing"

	"github.com/holter-iot/holter/internal/homeassistant"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testmqtt"
	"github.com/holter-iot/holter/mqttbridge"
	"github.com/holter-iot/holter/mqttbridge/convention"
	"github.com/holter-iot/holter/mqttbridge/internal/tasmota"
)

// startJoined starts a bridge that asks what Home Assistant knows its devices by, and returns what it was told.
func startJoined(t *testing.T, url string) (s *site, known func() map[string]convention.Identity) {
	t.Helper()
	preset, err := tasmota.New()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // guards told
	told := make(map[string]convention.Identity)
	s = start(t, mqttbridge.Config{
		URL:         url,
		Conventions: []convention.Convention{preset, homeassistant.NewJoin("homeassistant", []convention.Convention{preset})},
		Identify: func(device string, id convention.Identity) {
			mu.Lock()
			defer mu.Unlock()
			told[device] = id
		},
	})
	return s, func() map[string]convention.Identity {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(told)
	}
}

func TestIdentify(t *testing.T) {
	testenv.Check(t)
	broker := testmqtt.Mosquitto(t, testmqtt.Options{})
	c := client(t, broker.URL())
	publish(t, c, "homeassistant/switch/8A1B2C_RL_1/config", `{"stat_t":"tele/lamp/STATE","avty_t":"tele/lamp/LWT","uniq_id":"8A1B2C_RL_1","dev":{"ids":["8A1B2C"]}}`, true)
	publish(t, c, "tasmota/discovery/3C71BFF01A7C/config",
		`{"t":"plug","ft":"%prefix%/%topic%/","tp":["cmnd","stat","tele"],"ofln":"Offline","onln":"Online","hn":"plug-6780","mac":"3C71BFF01A7C","ver":1}`, true)
	s, known := startJoined(t, broker.URL())
	want := map[string]convention.Identity{"lamp": {Value: "8A1B2C"}, "plug": {Kind: "mac", Value: "3c:71:bf:f0:1a:7c"}}
	s.until("both are known", func() bool { return maps.Equal(known(), want) })
	if s.state("lamp") != "not known" || s.state("plug") != "not known" {
		t.Error("that Home Assistant knows a device was taken for a sign of life")
	}
}

// A broker that does not let the bridge read discovery messages is of use without.
func TestIdentifyRefused(t *testing.T) {
	testenv.Check(t)
	broker := testmqtt.Mosquitto(t, testmqtt.Options{
		ACL: []string{"topic readwrite #", "topic deny homeassistant/#"}, Lines: []string{"allow_anonymous true"},
	})
	s, known := startJoined(t, broker.URL())
	s.listens()
	publish(t, client(t, broker.URL()), "tele/lamp/LWT", "Online", false)
	s.until("the lamp is online", func() bool { return s.state("lamp") == "online" })
	if got := known(); len(got) > 0 {
		t.Errorf("known: %v", got)
	}
}
