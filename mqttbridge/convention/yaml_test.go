package convention_test

import (
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

func TestYAML(t *testing.T) {
	spec := convention.Spec{Name: "test", About: "What it is.\nAnd more.", Rules: []convention.Rule{
		{
			Topic: "tele/{device}/LWT", QoS: 1, Interval: 5 * time.Minute, Timeout: convention.Never,
			Cases: []convention.Case{
				{Text: new("Online"), Means: convention.Online},
				{Text: new("off"), Means: convention.Offline},
				{Text: new("1"), Means: convention.Offline},
				{JSON: "/state", Equals: []any{"on", 1, 2.5, true, nil}, Means: convention.Online},
				{JSON: "/state", Equals: []any{"x, y"}, Means: convention.Bye},
				{Regex: `^it's "(\d+)"`, Means: convention.Beat},
				{Empty: true, Means: convention.Gone},
			},
			Else: convention.Beat,
		},
		{
			Topic: "{base}/#", Device: "{base}", Behind: "gw {base}", Timeout: 90 * time.Minute,
			IntervalJSON: "/i", KeepaliveJSON: "/k", TTDJSON: "/t", SleepJSON: "/s", OrderJSON: "/o", EpochJSON: "/e",
		},
		{Topic: "$SYS/x", DeviceJSON: "/a~1b", Interval: time.Second, Factor: 2.5},
	}}
	const want = `# What it is.
# And more.
rules:
  - topic: tele/{device}/LWT
    qos: 1
    interval: 5m
    timeout: never
    cases:
      - {text: Online, means: online}
      - {text: "off", means: offline}
      - {text: "1", means: offline}
      - {json: /state, equals: ["on", 1, 2.5, true, null], means: online}
      - {json: /state, equals: ["x, y"], means: bye}
      - {regex: "^it's \"(\\d+)\"", means: beat}
      - {empty: true, means: gone}
    else: beat
  - topic: "{base}/#"
    device: "{base}"
    behind: gw {base}
    timeout: 1h30m
    interval_json: /i
    keepalive_json: /k
    ttd_json: /t
    sleep_json: /s
    order_json: /o
    epoch_json: /e
  - topic: $SYS/x
    device_json: /a~1b
    interval: 1s
    factor: 2.5
`
	if got := spec.YAML(); got != want {
		t.Errorf("YAML() =\n%s\nwant\n%s", got, want)
	}
	var back struct {
		Rules []struct {
			Topic, Device, Behind string
			Cases                 []struct {
				Text, Regex string
				Equals      []any
			}
		}
	}
	if err := yaml.Unmarshal([]byte(want), &back); err != nil {
		t.Fatal(err)
	}
	if r := back.Rules[0]; r.Topic != "tele/{device}/LWT" || r.Cases[1].Text != "off" || r.Cases[2].Text != "1" || len(r.Cases[4].Equals) != 1 || r.Cases[4].Equals[0] != "x, y" || r.Cases[5].Regex != `^it's "(\d+)"` {
		t.Errorf("what it wrote is read as %+v", r)
	}
}
