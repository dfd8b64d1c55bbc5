package presets

import "github.com/holter-iot/holter/mqttbridge/convention"

// hono follows https://eclipse.dev/hono/docs/concepts/connection-events/ and https://eclipse.dev/hono/docs/concepts/device-notifications/.
func hono() convention.Spec {
	var rules []convention.Rule
	for _, endpoint := range []string{"event", "e"} {
		rules = append(rules, convention.Rule{
			Topic: endpoint + "/{tenant}/{device}", Device: "{tenant}/{device}", QoS: 1, Timeout: convention.Never, TTDJSON: "/ttd",
			Cases: []convention.Case{
				{JSON: "/cause", Equals: []any{"connected"}, Means: convention.Online},
				{JSON: "/cause", Equals: []any{"disconnected"}, Means: convention.Offline},
				{Means: convention.Beat},
			},
		})
	}
	for _, endpoint := range []string{"telemetry", "t"} {
		rules = append(rules, convention.Rule{Topic: endpoint + "/{tenant}/{device}", Device: "{tenant}/{device}", TTDJSON: "/ttd"})
	}
	return convention.Spec{
		Name: "hono",
		About: `Eclipse Hono: its messages, republished by a bridge from AMQP or Kafka on {endpoint}/{tenant}/{device}. A device's id is
tenant/device. Connection events (cause: connected, disconnected) are as Hono writes them; ttd, a property of Hono's
messages, is looked for in the payload: a device is online for so many seconds, -1 until further notice, 0 no more.
https://eclipse.dev/hono/docs/concepts/connection-events/
https://eclipse.dev/hono/docs/concepts/device-notifications/`,
		Rules: rules,
	}
}
