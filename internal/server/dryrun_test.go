package server

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/mqttbridge"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

func TestDryRunLine(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	tests := []struct {
		name, bridge string
		line         mqttbridge.DryRunLine
		want         string
	}{
		{
			"beat", "",
			mqttbridge.DryRunLine{
				Message: convention.Message{Topic: "a/b", Payload: []byte("x\n"), Time: at}, Convention: "raw",
				Signs: []convention.Sign{{Meaning: convention.Beat, Device: "a", Why: "any message counts"}},
			},
			`03:04:05.006  a/b  "x\n"  -> beat a (raw: any message counts)`,
		},
		{
			"all of a sign", "plant",
			mqttbridge.DryRunLine{
				Message: convention.Message{Topic: "a", Retained: true, Time: at}, Convention: "own",
				Signs: []convention.Sign{
					{
						Meaning: convention.Sleep, Device: "d", Behind: "g", Interval: time.Minute, Timeout: 3 * time.Minute, Length: time.Hour, Text: "t",
						Publish: []convention.Publication{{Topic: "p"}}, Subscribe: []convention.Subscription{{Filter: "s/#"}},
					},
					{Meaning: convention.Online, Device: "e", Timeout: convention.Never, Why: "w"},
				},
			},
			`03:04:05.006  plant  a  "" (retained)  -> sleep d behind g, timeout 3m, interval 1m, for 1h, "t", would publish to p, subscribes to s/# (own), ` +
				`online e, timeout never (own: w)`,
		},
		{
			"rejected", "",
			mqttbridge.DryRunLine{
				Message: convention.Message{Topic: "a", Payload: []byte("{"), Time: at}, Convention: "own", Err: errors.New("json: cut off"),
			},
			`03:04:05.006  a  "{"  -> rejected (own: json: cut off)`,
		},
		{
			"hidden letters", "",
			mqttbridge.DryRunLine{Message: convention.Message{Topic: "a\x1b[31m", Payload: []byte("\xff\x1b"), Time: at}},
			`03:04:05.006  a\x1b[31m  "\xff\x1b"  -> nothing matches`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := lineText(tt.bridge, &tt.line); got != tt.want+"\n" {
				t.Errorf("lineText() =\n%swant\n%s", got, tt.want)
			}
		})
	}
}

func TestPayloadText(t *testing.T) {
	tests := []struct{ name, payload, want string }{
		{"empty", "", `""`},
		{"fits", strings.Repeat("é", payloadShown), `"` + strings.Repeat("é", payloadShown) + `"`},
		{"cut", strings.Repeat("é", payloadShown+1), `"` + strings.Repeat("é", payloadShown) + `"… (162 bytes)`},
		{"long", strings.Repeat("a", 100_000), `"` + strings.Repeat("a", payloadShown) + `"… (100,000 bytes)`},
		{"cut between letters", strings.Repeat("€", 1000), `"` + strings.Repeat("€", payloadShown) + `"… (3,000 bytes)`},
		{"binary", strings.Repeat("\xff", 1000), `"` + strings.Repeat(`\xff`, payloadShown) + `"… (1,000 bytes)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := payloadText([]byte(tt.payload)); got != tt.want {
				t.Errorf("payloadText() = %s, want %s", got, tt.want)
			}
		})
	}
}
