package mqttreport_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/holter-iot/holter/internal/homeassistant"
	"github.com/holter-iot/holter/internal/mqttreport"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/convention"
	"github.com/holter-iot/holter/mqttbridge/presets"
)

// Of each preset: what the firmware or gateway publishes, and the sensor of its device. UPDATE_GOLDEN=1 writes the files.
func TestPresetsJoin(t *testing.T) {
	for _, tt := range []struct {
		preset, device string
		source         string // that the message follows
		topic, payload string
	}{
		{
			"zigbee2mqtt", "lamp", "https://github.com/Koenkk/zigbee2mqtt/blob/master/lib/extension/homeassistant.ts",
			"homeassistant/sensor/0xa4c138f3747cfefe/linkquality/config",
			`{"availability":[{"topic":"zigbee2mqtt/bridge/state","value_template":"{{ value_json.state }}"},{"topic":"zigbee2mqtt/lamp/availability","value_template":"{{ value_json.state }}"}],
			"availability_mode":"all","device":{"identifiers":["zigbee2mqtt_0xa4c138f3747cfefe"],"manufacturer":"Zbeacon","model":"a lamp","name":"lamp","via_device":"zigbee2mqtt_bridge_0x94b216fffea0c123"},
			"origin":{"name":"Zigbee2MQTT"},"state_topic":"zigbee2mqtt/lamp","unique_id":"0xa4c138f3747cfefe_linkquality_zigbee2mqtt","value_template":"{{ value_json.linkquality }}"}`,
		},
		{
			"tasmota", "house/roof", "https://github.com/home-assistant/core/blob/dev/homeassistant/components/tasmota/__init__.py",
			"tasmota/discovery/3C71BFF01A7C/config",
			`{"t":"roof","ft":"house/%prefix%/%topic%/","tp":["cmd","state","telemetry"],"ofln":"away","onln":"here","hn":"roof-6780","mac":"3C71BFF01A7C","ver":1}`,
		},
		{
			"esphome", "livingroom", "https://github.com/esphome/esphome/blob/dev/esphome/components/mqtt/mqtt_component.cpp",
			"homeassistant/sensor/livingroom/uptime/config",
			`{"name":"Uptime","stat_t":"livingroom/sensor/uptime/state","avty_t":"livingroom/status","uniq_id":"ESPsensoruptime",
			"dev":{"ids":"3c71bff01a7c","name":"livingroom","sw":"esphome v2026.1.0","mdl":"esp32dev","mf":"Espressif","cns":[["mac","3c71bff01a7c"]]}}`,
		},
		{
			"homeassistant", "0AFFD2", "https://www.home-assistant.io/integrations/mqtt/#device-discovery-payload",
			"homeassistant/device/0AFFD2/config",
			`{"dev":{"ids":["0AFFD2"],"name":"Kitchen"},"o":{"name":"bla2mqtt"},"cmps":{"t":{"p":"sensor","unique_id":"temp01ae_t"}},"stat_t":"sensorBedroom/state"}`,
		},
		{
			"shelly", "shellyplug-s-7AE2BC", "https://www.home-assistant.io/integrations/mqtt/#discovery-messages, by a script: the firmware publishes none",
			"homeassistant/switch/shellyplug-s-7AE2BC/relay/config",
			`{"state_topic":"shellies/shellyplug-s-7AE2BC/relay/0","availability_topic":"shellies/shellyplug-s-7AE2BC/online","payload_available":"true","payload_not_available":"false",
			"unique_id":"a","device":{"connections":[["mac","4022D87AE2BC"]],"name":"plug"}}`,
		},
		{
			"homie", "super-car", "https://www.home-assistant.io/integrations/mqtt/#discovery-messages, by a script: Homie has no such messages",
			"homeassistant/sensor/super-car/speed/config",
			`{"state_topic":"homie/5/super-car/engine/speed","availability_topic":"homie/5/super-car/$state","payload_available":"ready","payload_not_available":"lost",
			"unique_id":"b","device":{"identifiers":["super-car"],"name":"Super car"}}`,
		},
	} {
		t.Run(tt.preset, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				preset, err := presets.New(tt.preset)
				if err != nil {
					t.Fatal(err)
				}
				f, b := newFleet(t, 0), newBroker()
				b.connect(false)
				r := start(t, mqttreport.Config{Registry: f, Events: f.log, Publisher: b, HomeAssistant: true})
				for _, c := range []convention.Convention{preset, homeassistant.NewJoin("homeassistant", []convention.Convention{preset})} {
					err := c.Apply(convention.Message{Topic: tt.topic, Payload: []byte(tt.payload), Retained: true}, false, func(s convention.Sign) {
						if s.Identity != nil {
							r.Identify(s.Device, *s.Identity)
						}
					})
					if err != nil {
						t.Error(err)
					}
				}
				f.happen(tt.device, liveness.DeviceOnline)
				synctest.Wait()
				golden(t, filepath.Join("testdata", "joined", tt.preset+".json"), b.all()[mqttreport.DiscoveryTopic("homeassistant", tt.device)])
			})
		})
	}
}

// golden compares a JSON document with that of a file.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	var indented bytes.Buffer
	if err := json.Indent(&indented, got, "", "  "); err != nil {
		t.Fatalf("%q: %v", got, err)
	}
	indented.WriteByte('\n')
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, indented.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(indented.Bytes(), want) {
		t.Errorf("%s is\n%s\nwant\n%s", file, indented.Bytes(), want)
	}
}
