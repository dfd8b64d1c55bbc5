package presets

import "github.com/holter-iot/holter/mqttbridge/convention"

// zigbee2mqtt follows https://www.zigbee2mqtt.io/guide/usage/mqtt_topics_and_messages.html. A friendly name may have slashes in it; a device
// that is renamed or removed leaves an empty retained message.
func zigbee2mqtt() convention.Spec {
	const base = "zigbee2mqtt"
	return convention.Spec{
		Name: "zigbee2mqtt",
		About: `Zigbee2MQTT with its default base topic; for another one, replace zigbee2mqtt in all topics.
The availability feature has to be on, or else devices only ever come online: what they send is a heartbeat, but
sensors may be silent for a day. While the bridge is offline its devices are unknown, not offline.
Groups show up as devices, too.
https://www.zigbee2mqtt.io/guide/usage/mqtt_topics_and_messages.html`,
		Rules: []convention.Rule{
			{
				Topic: base + "/bridge/state", QoS: 1, Behind: base,
				Cases: []convention.Case{
					{Text: new("online"), Means: convention.Heard},
					{Text: new("offline"), Means: convention.Deaf},
					{JSON: "/state", Equals: []any{"online"}, Means: convention.Heard},
					{JSON: "/state", Equals: []any{"offline"}, Means: convention.Deaf},
				},
			},
			{Topic: base + "/bridge/#", Cases: ignored()},
			{
				Topic: base + "/{device...}/availability", QoS: 1, Behind: base, Timeout: convention.Never,
				Cases: []convention.Case{
					{Text: new("online"), Means: convention.Online},
					{Text: new("offline"), Means: convention.Reported},
					{JSON: "/state", Equals: []any{"online"}, Means: convention.Online},
					{JSON: "/state", Equals: []any{"offline"}, Means: convention.Reported},
					{Empty: true, Means: convention.Gone},
				},
			},
			{Topic: base + "/{device...}/set", Cases: ignored()},
			{Topic: base + "/{device...}/get", Cases: ignored()},
			{Topic: base + "/{device...}/set/{key}", Cases: ignored()},
			{Topic: base + "/{device...}/get/{key}", Cases: ignored()},
			{
				// With "output: attribute" each value has a topic of its own, one level further down; those are not JSON objects.
				Topic: base + "/{device...}", Behind: base, Timeout: convention.Never,
				Cases: []convention.Case{
					{Regex: `^\s*\{`, Means: convention.Beat},
					{Empty: true, Means: convention.Gone},
					{Means: convention.Ignore},
				},
			},
		},
	}
}
