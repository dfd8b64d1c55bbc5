package presets

import "github.com/holter-iot/holter/mqttbridge/convention"

// theThingsStack follows https://www.thethingsindustries.com/docs/integrations/other-integrations/mqtt/.
func theThingsStack() convention.Spec {
	rule := func(kind string, cases ...convention.Case) convention.Rule {
		return convention.Rule{Topic: "v3/{application}/devices/{device}/" + kind, Device: "{application}/{device}", QoS: 1, Cases: cases}
	}
	return convention.Spec{
		Name: "thethingsstack",
		About: `The Things Stack 3: uplinks, joins and confirmations of devices. Their ids are application@tenant/device, or application/device
where there are no tenants. Simulated uplinks mean nothing. The messages do not say how often a device sends: give devices
an interval and a timeout in a group.
https://www.thethingsindustries.com/docs/integrations/other-integrations/mqtt/`,
		Rules: []convention.Rule{
			rule("up", convention.Case{JSON: "/simulated", Equals: []any{true}, Means: convention.Ignore}, convention.Case{Means: convention.Beat}),
			rule("join"),
			rule("down/ack"),
		},
	}
}
