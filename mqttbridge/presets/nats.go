package presets

import "github.com/holter-iot/holter/mqttbridge/convention"

// nats follows https://docs.nats.io/running-a-nats-service/configuration/sys_accounts; a dot in a subject is a slash in a topic. The time at
// which a connection began numbers the sessions of a client. The advisories of MQTT clients have client_id, in some versions mqtt_client.
func nats() convention.Spec {
	const older = `"mqtt_client"\s*:\s*"(?P<device>[^"\\]+)"`
	rule := func(event string, means convention.Meaning) convention.Rule {
		return convention.Rule{
			Topic: "$SYS/ACCOUNT/{account}/" + event, DeviceJSON: "/client/client_id", EpochJSON: "/client/start", Timeout: convention.Never,
			Cases: []convention.Case{{JSON: "/client/client_id", Means: means}, {Regex: older, Means: means}, {Means: convention.Ignore}},
		}
	}
	return convention.Spec{
		Name: "nats",
		About: `NATS: what its servers say of MQTT clients, whose ids are the devices. The bridge has to be a user of the system account.
The reason "Client Closed" does not tell a goodbye from a lost connection, so devices have the grace period to return.
https://docs.nats.io/running-a-nats-service/configuration/sys_accounts`,
		Rules: []convention.Rule{rule("CONNECT", convention.Online), rule("DISCONNECT", convention.Offline)},
	}
}
