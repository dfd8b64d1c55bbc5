package presets

import "github.com/holter-iot/holter/mqttbridge/convention"

// esphome follows https://esphome.io/components/mqtt/: birth and last will on <topic_prefix>/status, retained.
func esphome() convention.Spec {
	return convention.Spec{
		Name: "esphome",
		About: `ESPHome: the birth message and the last will, with a topic_prefix of one level (the default is the node's name).
The broker notices a device that is silent, by its keep alive.
https://esphome.io/components/mqtt/`,
		Rules: []convention.Rule{
			{Topic: "homeassistant/status", Cases: ignored()}, // is that of Home Assistant itself
			{Topic: "{device}/status", QoS: 1, Timeout: convention.Never, Cases: onlineOffline("online", "offline")},
		},
	}
}
