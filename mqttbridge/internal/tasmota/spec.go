package tasmota

import (
	"time"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

const (
	period  = 300 * time.Second // the default of TelePeriod
	timeout = period * 5 / 2    // one lost message is not an outage

	online, offline = "Online", "Offline"
)

// Spec returns the rules of the convention: all but discovery.
func Spec() convention.Spec {
	// Of topics with several levels, only what the device itself publishes: tele/bridge/sensor/SENSOR is
	// of a sensor behind it, which keeps no TelePeriod.
	paths := []string{"{a}", "{a}/{b}", "{a}/{b}/{c}", "{a}/{b}/{c}/{d}"}
	sleep := []convention.Case{{JSON: "/DeepSleep", Means: convention.Sleep}}
	rules := []convention.Rule{
		{Topic: "tele/{device...}/LWT", QoS: 1, Cases: lwt(online, offline)},
		{Topic: "tele/{device...}/DEEPSLEEP", QoS: 1, Cases: sleep},
		{Topic: "tele/{device...}/STATE"},
	}
	for _, path := range paths {
		rules = append(rules,
			convention.Rule{Topic: path + "/tele/LWT", Device: path, QoS: 1, Cases: lwt(online, offline)},
			convention.Rule{Topic: path + "/tele/DEEPSLEEP", Device: path, QoS: 1, Cases: sleep},
			convention.Rule{Topic: path + "/tele/STATE", Device: path})
	}
	rules = append(rules,
		convention.Rule{Topic: "tele/{device}/{kind}"},
		convention.Rule{Topic: "{device}/tele/{kind}"},
		convention.Rule{Topic: "stat/{device}/{kind}"},
		convention.Rule{Topic: "{device}/stat/{kind}"})
	for i := range rules {
		rules[i].Interval, rules[i].Timeout = period, timeout
	}
	return convention.Spec{
		Name: "tasmota",
		About: `Tasmota, with FullTopic %prefix%/%topic%/ (the default) or %topic%/%prefix%/, also with more levels. The preset finds other
FullTopics and renamed prefixes by tasmota/discovery/MAC/config; that is more than rules can do.
Telemetry and answers are heartbeats. The timeout is 2.5 times TelePeriod's default of 300 s: give devices with
another TelePeriod a timeout in a group. A lost connection is seen earlier, by the last will.
https://tasmota.github.io/docs/MQTT/`,
		Rules: rules,
	}
}

// lwt returns the cases of the topic LWT.
func lwt(online, offline string) []convention.Case {
	return []convention.Case{
		{Text: new(online), Means: convention.Online},
		{Text: new(offline), Means: convention.Offline},
		{Empty: true, Means: convention.Gone},
	}
}
