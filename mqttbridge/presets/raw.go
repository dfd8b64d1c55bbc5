package presets

import "github.com/holter-iot/holter/mqttbridge/convention"

// raw takes each message for a heartbeat.
func raw() convention.Spec {
	return convention.Spec{
		Name: "raw",
		About: `Any message is a heartbeat of the device that the first level of its topic names.
Whoever publishes there counts: if devices are also told something below that level, write rules of your own.`,
		Rules: []convention.Rule{{Topic: "{device}/#"}},
	}
}
