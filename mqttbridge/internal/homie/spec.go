package homie

import (
	"slices"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

// Spec returns the rules of the convention: all but the trees of version 5.
func Spec() convention.Spec {
	var (
		told   = []convention.Case{{Means: convention.Ignore}} // messages to the device
		beat   = []convention.Case{{Empty: true, Means: convention.Ignore}, {Means: convention.Beat}}
		states = []convention.Case{
			{Text: new("ready"), Means: convention.Online},
			{Text: new("init"), Means: convention.Online},
			{Text: new("disconnected"), Means: convention.Bye},
			{Text: new("sleeping"), Means: convention.Sleep},
			{Text: new("lost"), Means: convention.Offline},
			{Empty: true, Means: convention.Gone},
		}
	)
	spec := convention.Spec{
		Name: "homie",
		About: `Homie 3, 4 and 5: the state of each device, and all that it publishes is a heartbeat. Version 5 is found in other domains
than homie as well, there by its states alone. How long a sleeping device will be silent is not told.
https://homieiot.github.io/specification/`,
		Rules: []convention.Rule{
			{Topic: "{domain}/5/{device}/$state", QoS: 1, Cases: slices.Clone(states)},
			{Topic: "{domain}/5/{device}/$description", QoS: 1, Cases: beat},
			{Topic: "homie/5/$broadcast/#", Cases: told},
			{Topic: "homie/5/{device}/{node}/{property}/set", Cases: told},
			{Topic: "homie/5/{device}/{attribute...}", Cases: beat},

			{Topic: "homie/{device}/$state", QoS: 1, Cases: append(slices.Clone(states), convention.Case{Text: new("alert"), Means: convention.Online})},
			{Topic: "homie/$broadcast/#", Cases: told},
			{Topic: "homie/{device}/$implementation/#", Cases: told},
			{Topic: "homie/{device}/{node}/{property}/set", Cases: told},
			{Topic: "homie/{device}/{attribute...}", Cases: beat},
		},
	}
	for i, r := range spec.Rules {
		if r.Cases[0].Means != convention.Ignore || len(r.Cases) > 1 {
			spec.Rules[i].Timeout = convention.Never // the broker tracks the device's liveness
		}
	}
	return spec
}
