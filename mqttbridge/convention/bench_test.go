package convention_test

import (
	"fmt"
	"testing"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

func BenchmarkApply(b *testing.B) {
	states := []convention.Case{
		{JSON: "/state", Equals: []any{"online"}, Means: convention.Online},
		{JSON: "/state", Equals: []any{"offline"}, Means: convention.Offline},
	}
	thirty := make([]convention.Rule, 0, 30)
	for i := range 29 {
		thirty = append(thirty, convention.Rule{Topic: fmt.Sprintf("{site}/x-{device}/line/%d", i)})
	}
	thirty = append(thirty, convention.Rule{Topic: "{site}/x-{device}/line/last"})
	for _, bb := range []struct {
		name           string
		rules          []convention.Rule
		topic, payload string
	}{
		{"raw", []convention.Rule{{Topic: "{device}/#"}}, "device-00017/temperature", "21.5"},
		{
			"tasmota",
			[]convention.Rule{
				{Topic: "tele/{device}/LWT", Cases: []convention.Case{{Text: new("Online"), Means: convention.Online}, {Text: new("Offline"), Means: convention.Offline}}},
				{Topic: "tele/{device}/{kind}"},
			},
			"tele/tasmota_9CF9D1/STATE", `{"Time":"2024-02-24T22:20:38","Uptime":"0T00:10:11"}`,
		},
		{
			"zigbee2mqtt-availability",
			[]convention.Rule{{Topic: "zigbee2mqtt/{device...}/availability", Cases: states}},
			"zigbee2mqtt/kitchen/floor_lamp/availability", `{"state":"offline"}`,
		},
		{
			"zigbee2mqtt-200B",
			[]convention.Rule{{Topic: "zigbee2mqtt/{device...}", Cases: []convention.Case{{JSON: "/linkquality", Means: convention.Beat}}}},
			"zigbee2mqtt/kitchen/floor_lamp",
			`{"battery":97,"humidity":41.77,"last_seen":"2024-02-24T22:20:38+01:00","power_outage_count":17,"pressure":1009.9,"temperature":21.43,"update":{"installed_version":-1,"state":"idle"},"voltage":2995,"linkquality":112}`,
		},
		{"last-of-30", thirty, "north/x-17/line/last", ""},
		{"none-of-30", thirty, "north/x-17/line/nothing", ""},
	} {
		b.Run(bb.name, func(b *testing.B) {
			rules, err := convention.New(convention.Spec{Name: "bench", Rules: bb.rules})
			if err != nil {
				b.Fatal(err)
			}
			m := convention.Message{Topic: bb.topic, Payload: []byte(bb.payload)}
			signs := 0
			emit := func(convention.Sign) { signs++ }
			b.ReportAllocs()
			for b.Loop() {
				if err := rules.Apply(m, false, emit); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
