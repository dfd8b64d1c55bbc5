package presets

import "github.com/holter-iot/holter/mqttbridge/convention"

// esphome follows https://esphome.io/components/mqtt/: birth and last will on <topic_prefix>/status, retained.
func esphome() convention.Spec {
	status := func(prefix string) convention.Rule {
		return convention.Rule{Topic: prefix + "/status", Device: prefix, QoS: 1, Timeout: convention.Never, Cases: onlineOffline("online", "offline")}
	}
	return convention.Spec{
		Name: "esphome",
		About: `ESPHome: the birth message and the last will, with a topic_prefix of one to four levels (the default is the node's name).
The broker notices a device that is silent, by its keep alive.
https://esphome.io/components/mqtt/`,
		Rules: []convention.Rule{
			{Topic: "homeassistant/status", Cases: ignored()}, // is that of Home Assistant itself
			status("{a}"),
			status("{a}/{b}"),
			status("{a}/{b}/{c}"),
			status("{a}/{b}/{c}/{d}"),
		},
	}
}
