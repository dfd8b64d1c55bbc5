package presets

import "github.com/holter-iot/holter/mqttbridge/convention"

// emqx follows https://docs.emqx.com/en/emqx/latest/observability/mqtt-system-topics.html. A session that was taken over or discarded ends
// because its client is back already.
func emqx() convention.Spec {
	const clients = "$SYS/brokers/{node}/clients/{device...}/"
	return convention.Spec{
		Name: "emqx",
		About: `EMQX: what the broker says of its clients, whose ids are the devices. It vouches for them: EMQX closes a connection after
1.5 times its keep alive and then says so, but not when it hears a client. Their silence means nothing else here.
An id may have slashes in it, so the bridge subscribes to $SYS/brokers/+/clients/#. By default only clients on EMQX's own
host may subscribe to $SYS.
https://docs.emqx.com/en/emqx/latest/observability/mqtt-system-topics.html`,
		Rules: []convention.Rule{
			{
				Topic: clients + "connected", QoS: 1, Timeout: convention.Never, OrderJSON: "/ts", EpochJSON: "/connected_at",
				Cases: []convention.Case{
					{JSON: "/connack", Equals: []any{0.0}, Means: convention.Online},
					{JSON: "/connack", Means: convention.Ignore}, // it was refused
					{JSON: "/clientid", Means: convention.Online},
				},
			},
			{
				Topic: clients + "disconnected", QoS: 1, Timeout: convention.Never, OrderJSON: "/ts", EpochJSON: "/connected_at",
				Cases: []convention.Case{
					{JSON: "/reason", Equals: []any{"takenover", "takeovered", "discarded"}, Means: convention.Ignore},
					{JSON: "/reason", Equals: []any{"normal"}, Means: convention.Bye},
					{JSON: "/reason", Equals: []any{"keepalive_timeout"}, Means: convention.Reported},
					{JSON: "/clientid", Means: convention.Offline},
				},
			},
		},
	}
}

// emqxKeepAlive is emqx with 1.5 times the keep alive as the timeout.
func emqxKeepAlive() convention.Spec {
	spec := emqx()
	spec.Name = "emqx-keepalive"
	spec.About = `EMQX, with 1.5 times a client's keep alive as its timeout. Only together with a preset or rules that see what the clients
publish, and for clients that publish at least as often as their keep alive asks for: the broker does not tell when it hears a ping.
https://docs.emqx.com/en/emqx/latest/observability/mqtt-system-topics.html`
	spec.Rules[0].KeepaliveJSON = "/keepalive"
	for i := range spec.Rules {
		spec.Rules[i].Timeout = 0
	}
	return spec
}
