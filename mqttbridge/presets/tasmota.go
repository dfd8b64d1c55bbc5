package presets

import (
	"time"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

// tasmota follows https://tasmota.github.io/docs/MQTT/: LWT is retained, and tele/.../STATE is sent every TelePeriod.
func tasmota() convention.Spec {
	const (
		period  = 300 * time.Second // the default of TelePeriod
		timeout = period * 5 / 2    // one lost message is not an outage
	)
	rules := []convention.Rule{
		{Topic: "tele/{device}/LWT", QoS: 1, Cases: onlineOffline("Online", "Offline")},
		{Topic: "{device}/tele/LWT", QoS: 1, Cases: onlineOffline("Online", "Offline")},
		{Topic: "tele/{device}/{kind}"},
		{Topic: "{device}/tele/{kind}"},
		{Topic: "stat/{device}/{kind}"},
		{Topic: "{device}/stat/{kind}"},
	}
	for i := range rules {
		rules[i].Interval, rules[i].Timeout = period, timeout
	}
	return convention.Spec{
		Name: "tasmota",
		About: `Tasmota, with FullTopic %prefix%/%topic%/ (the default) or %topic%/%prefix%/.
Telemetry and answers are heartbeats. The timeout is 2.5 times TelePeriod's default of 300 s: give devices with
another TelePeriod a timeout in a group. A lost connection is seen earlier, by the last will.
https://tasmota.github.io/docs/MQTT/`,
		Rules: rules,
	}
}
