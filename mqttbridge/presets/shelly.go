package presets

import (
	"time"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

// shelly follows https://shelly-api-docs.shelly.cloud/gen1/#mqtt-support and
// https://shelly-api-docs.shelly.cloud/gen2/ComponentsAndServices/Mqtt. Battery models have no last
// will. Their timeout is 1.2 times the period in which they wake up, which models of the second
// generation report.
func shelly() convention.Spec {
	const late = 1.2
	object := []convention.Case{{Regex: `^\s*\{`, Means: convention.Beat}}
	return convention.Spec{
		Name: "shelly",
		About: `Shelly, first generation (shellies/...) and later ones (with a prefix of one level, the default is the device's id).
Models on battery sleep and have no last will: the timeout is 1.2 times the period in which they wake up. Those of the
first generation do not tell it; 12 h is assumed.
https://shelly-api-docs.shelly.cloud/gen1/#mqtt-support
https://shelly-api-docs.shelly.cloud/gen2/ComponentsAndServices/Mqtt`,
		Rules: []convention.Rule{
			{Topic: "shellies/announce", DeviceJSON: "/id", Cases: []convention.Case{{JSON: "/id", Means: convention.Beat}}},
			{Topic: "shellies/command", Cases: ignored()},
			{Topic: "shellies/{device}/online", QoS: 1, Timeout: convention.Never, Cases: onlineOffline("true", "false")},
			{Topic: "shellies/{device}/command", Cases: ignored()},
			{Topic: "shellies/{device}/{part...}/command", Cases: ignored()},
			{Topic: "shellies/{device}/{part...}/set", Cases: ignored()},
			{Topic: "shellies/{device}/thermostat/+/command/#", Cases: ignored()},
			{Topic: "shellies/{device}/sensor/#", Interval: 12 * time.Hour, Timeout: 12 * time.Hour * 6 / 5},
			{Topic: "shellies/{device}/{part...}"},

			{Topic: "{device}/online", QoS: 1, Timeout: convention.Never, Cases: onlineOffline("true", "false")},
			{Topic: "{device}/events/rpc", IntervalJSON: "/params/sys/wakeup_period", Factor: late, Cases: []convention.Case{{JSON: "/src", Means: convention.Beat}}},
			{Topic: "{device}/status/sys", IntervalJSON: "/wakeup_period", Factor: late, Cases: object},
			{Topic: "{device}/status/{component}", Cases: object},
		},
	}
}
