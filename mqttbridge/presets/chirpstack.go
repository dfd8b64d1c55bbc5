package presets

import (
	"time"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

// chirpstack follows api/proto/integration/integration.proto and api/proto/gw/gw.proto of
// https://github.com/chirpstack/chirpstack. Events are JSON or protobuf, as configured: where the topic
// says enough, the payload is not looked at.
func chirpstack() convention.Spec {
	const event = "application/{application}/device/{device}/event/"
	rules := []convention.Rule{
		{Topic: event + "up", QoS: 1},
		{Topic: event + "join", QoS: 1},
		{Topic: event + "status", QoS: 1},
		// It is also sent when no confirmation came.
		{Topic: event + "ack", QoS: 1, Cases: []convention.Case{{JSON: "/acknowledged", Equals: []any{true}, Means: convention.Beat}, {Means: convention.Ignore}}},
	}
	for _, gateway := range []string{"gateway/{gateway}", "{region}/gateway/{gateway}"} {
		rules = append(rules,
			convention.Rule{Topic: gateway + "/state/conn", QoS: 1, Cases: connState()},
			convention.Rule{Topic: gateway + "/event/stats"})
	}
	const period = 30 * time.Second // the default of stats_interval
	for i := range rules[4:] {
		r := &rules[4+i]
		r.Device, r.Interval, r.Timeout = "gateway/{gateway}", period, period*5/2
	}
	return convention.Spec{
		Name: "chirpstack",
		About: `ChirpStack 4: uplinks, joins, statuses and confirmations of devices, whose ids are their DevEUIs, and gateways, as gateway/ID,
with or without a region before their topics. The events do not say how often a device sends: give devices an interval
and a timeout in a group, or write the seconds into a tag of the device profile, and copy these rules with
interval_json: /deviceInfo/tags/NAME and a factor. The timeout of gateways is 2.5 times the default of stats_interval.
https://www.chirpstack.io/docs/chirpstack/integrations/mqtt.html`,
		Rules: rules,
	}
}

// connState returns the cases of a gateway's ConnState. Its fields are state, 2, with ONLINE as 1, and
// gateway_id, 3; both encodings leave out OFFLINE, which is 0.
func connState() []convention.Case {
	const protobufID = `\x1a\x10[0-9a-f]{16}`
	return []convention.Case{
		{Regex: `^(\x10\x01` + protobufID + `|` + protobufID + `\x10\x01)$`, Means: convention.Online},
		{Regex: `^(\x10\x00)?` + protobufID + `$`, Means: convention.Offline},
		{JSON: "/state", Equals: []any{"ONLINE"}, Means: convention.Online},
		{JSON: "/state", Equals: []any{"OFFLINE"}, Means: convention.Offline},
		{Regex: `^\{\s*"gatewayI[dD]"\s*:\s*"[0-9a-f]{16}"\s*\}$`, Means: convention.Offline},
		{Empty: true, Means: convention.Gone},
	}
}
