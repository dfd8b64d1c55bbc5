package presets_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/holter-iot/holter/mqttbridge/convention"
	"github.com/holter-iot/holter/mqttbridge/presets"
)

// written is a rule as the configuration has it.
type written struct {
	Topic         string
	Device        string
	DeviceJSON    string `yaml:"device_json"`
	QoS           byte   `yaml:"qos"`
	Behind        string
	Interval      time.Duration
	Timeout       string
	IntervalJSON  string `yaml:"interval_json"`
	Factor        float64
	KeepaliveJSON string `yaml:"keepalive_json"`
	TTDJSON       string `yaml:"ttd_json"`
	SleepJSON     string `yaml:"sleep_json"`
	OrderJSON     string `yaml:"order_json"`
	EpochJSON     string `yaml:"epoch_json"`
	Cases         []struct {
		Text   *string
		JSON   string `yaml:"json"`
		Equals any
		Regex  string
		Empty  bool
		Means  string
	}
	Else string
}

func (w written) rule() (convention.Rule, error) {
	r := convention.Rule{
		Topic: w.Topic, Device: w.Device, DeviceJSON: w.DeviceJSON, QoS: w.QoS, Behind: w.Behind,
		Interval: w.Interval, IntervalJSON: w.IntervalJSON, Factor: w.Factor, KeepaliveJSON: w.KeepaliveJSON, TTDJSON: w.TTDJSON,
		SleepJSON: w.SleepJSON, OrderJSON: w.OrderJSON, EpochJSON: w.EpochJSON,
	}
	var err error
	switch w.Timeout {
	case "":
	case "never":
		r.Timeout = convention.Never
	default:
		if r.Timeout, err = time.ParseDuration(w.Timeout); err != nil {
			return r, err
		}
	}
	for _, c := range w.Cases {
		out := convention.Case{Text: c.Text, JSON: c.JSON, Regex: c.Regex, Empty: c.Empty}
		switch v := c.Equals.(type) {
		case nil:
		case []any:
			out.Equals = v
		default:
			out.Equals = []any{v}
		}
		if out.Means, err = convention.ParseMeaning(c.Means); err != nil {
			return r, fmt.Errorf("case of %s: %w", w.Topic, err)
		}
		r.Cases = append(r.Cases, out)
	}
	if w.Else != "" {
		r.Else, err = convention.ParseMeaning(w.Else)
	}
	return r, err
}

// What is printed of a preset is to be the preset, when it is read again.
func TestYAML(t *testing.T) {
	for _, name := range presets.Names() {
		spec, ok := presets.Spec(name)
		if !ok {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var file struct{ Rules []written }
			if err := yaml.UnmarshalWithOptions([]byte(spec.YAML()), &file, yaml.Strict()); err != nil {
				t.Fatal(err)
			}
			var back []convention.Rule
			for _, w := range file.Rules {
				r, err := w.rule()
				if err != nil {
					t.Fatal(err)
				}
				back = append(back, r)
			}
			if !reflect.DeepEqual(back, spec.Rules) {
				t.Errorf("%s\nis read as %+v\nwant %+v", spec.YAML(), back, spec.Rules)
			}
		})
	}
}
