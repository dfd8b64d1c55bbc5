package server

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/holter-iot/holter/internal/mqttreport"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testmqtt"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// The sensor of a device joins the device that Home Assistant has, also when that becomes known late, and stays there after a restart.
func TestSensorJoins(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	mosquitto := testmqtt.Mosquitto(t, testmqtt.Options{})
	var mu sync.Mutex // guards got
	var got []string  // device blocks that were published, and "" for deletions
	c := paho.NewClient(paho.NewClientOptions().AddBroker(mosquitto.URL()).SetClientID("zigbee2mqtt").SetAutoReconnect(false))
	done := func(token paho.Token) {
		t.Helper()
		if token.Wait(); token.Error() != nil {
			t.Fatal(token.Error())
		}
	}
	done(c.Connect())
	t.Cleanup(func() { c.Disconnect(0) })
	done(c.Subscribe(mqttreport.DiscoveryTopic("homeassistant", "lamp"), 1, func(_ paho.Client, m paho.Message) {
		var d struct{ Device json.RawMessage }
		_ = json.Unmarshal(m.Payload(), &d) // "" after a deletion
		mu.Lock()
		defer mu.Unlock()
		got = append(got, string(d.Device))
	}))
	published := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
	state := statusOf(t, mosquitto.URL(), mqttreport.StateTopic("holter", "lamp"))
	say := func(topic, payload string) {
		t.Helper()
		done(c.Publish(topic, 1, true, payload))
	}
	const config = "homeassistant/light/0x01/light/config"
	say("zigbee2mqtt/bridge/state", `{"state":"online"}`)
	say("zigbee2mqtt/lamp/availability", `{"state":"online"}`)
	lines := fmt.Sprintf("listen: [off]\ndatabase: %q\nreport: {to: plant, home_assistant: true}\nbridges:\n- {name: plant, url: '%s', presets: [zigbee2mqtt]}\n",
		"sqlite:"+filepath.Join(t.TempDir(), "holter.db"), mosquitto.URL())
	want := []string{`{"identifiers":["holter_holter_lamp"],"name":"lamp"}`}

	first := serveFile(t, "a", lines, t.Output())
	testwait.Until(t, "the sensor has a device of its own", func() bool { return slices.Equal(published(), want) })
	say(config, `{"availability":[{"topic":"zigbee2mqtt/bridge/state"},{"topic":"zigbee2mqtt/lamp/availability"}],"state_topic":"zigbee2mqtt/lamp",
		"device":{"identifiers":["zigbee2mqtt_0x01"],"name":"lamp","via_device":"zigbee2mqtt_bridge_0x02"}}`)
	want = append(want, "", `{"identifiers":["zigbee2mqtt_0x01"]}`)
	testwait.Until(t, "the sensor joins the device of Zigbee2MQTT", func() bool { return slices.Equal(published(), want) })
	say("zigbee2mqtt/lamp/availability", `{"state":"offline"}`)
	testwait.Until(t, "the lamp is offline", func() bool { return strings.Contains(state(), `"state":"offline"`) })
	if err := first.stop(); err != nil {
		t.Error(err)
	}

	serveFile(t, "a", lines, io.Discard)
	say("zigbee2mqtt/lamp/availability", `{"state":"online"}`)
	testwait.Until(t, "the lamp is online again", func() bool { return strings.Contains(state(), `"state":"online"`) })
	if !slices.Equal(published(), want) {
		t.Errorf("published %q, want nothing after the restart: %q", published(), want)
	}
	say(config, "")
	want = append(want, "", want[0])
	testwait.Until(t, "the sensor has a device of its own again", func() bool { return slices.Equal(published(), want) })
	say("zigbee2mqtt/lamp/availability", "")
	want = append(want, "")
	testwait.Until(t, "the sensor is gone with its device", func() bool { return slices.Equal(published(), want) })
}
