package config

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/internal/strictyaml"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// ruleList stores the rules of a bridge.
func ruleList(d *strictyaml.Reader, all *[]convention.Rule) strictyaml.Setter {
	return func(path string, n ast.Node) {
		for i, item := range d.SomeItems(path, n, "write a rule") {
			*all = append(*all, rule(d, strictyaml.Element(path, i), item))
		}
	}
}

// rule reads a rule. Package convention checks its patterns and templates, and what goes together.
func rule(d *strictyaml.Reader, path string, n ast.Node) (r convention.Rule) {
	some := span{min: time.Millisecond, max: aYear}
	template, pointer := text("text", 1024), text("JSON pointer", 1024)
	before := d.Mistakes()
	d.Mapping(path, n, []strictyaml.Field{
		{Key: "topic", Need: "a rule needs one, as in tele/{device}/LWT", Set: strictyaml.Value(d, &r.Topic, text("topic", 1024))},
		{Key: "device", Set: strictyaml.Value(d, &r.Device, template)},
		{Key: "device_json", Set: strictyaml.Value(d, &r.DeviceJSON, pointer)},
		{Key: "qos", Set: strictyaml.Plain(d, &r.QoS, parseQoS)},
		{Key: "behind", Set: strictyaml.Value(d, &r.Behind, template)},
		{Key: "interval", Set: strictyaml.Value(d, &r.Interval, some.parse)},
		{Key: "timeout", Set: strictyaml.Value(d, &r.Timeout, some.orNeverOfRule)},
		{Key: "interval_json", Set: strictyaml.Value(d, &r.IntervalJSON, pointer)},
		{Key: "factor", Set: strictyaml.Plain(d, &r.Factor, parseFactor)},
		{Key: "keepalive_json", Set: strictyaml.Value(d, &r.KeepaliveJSON, pointer)},
		{Key: "ttd_json", Set: strictyaml.Value(d, &r.TTDJSON, pointer)},
		{Key: "sleep_json", Set: strictyaml.Value(d, &r.SleepJSON, pointer)},
		{Key: "order_json", Set: strictyaml.Value(d, &r.OrderJSON, pointer)},
		{Key: "epoch_json", Set: strictyaml.Value(d, &r.EpochJSON, pointer)},
		{Key: "cases", Set: caseList(d, &r.Cases)},
		{Key: "else", Set: strictyaml.Value(d, &r.Else, convention.ParseMeaning)},
	})
	if d.Mistakes() > before {
		return r
	}
	_, err := convention.New(convention.Spec{Name: path, Rules: []convention.Rule{r}})
	for _, err := range joined(err) {
		at := path
		if e, ok := errors.AsType[*convention.FieldError](err); ok {
			if err = e.Err; e.Case >= 0 {
				at = strictyaml.Element(strictyaml.Join(path, "cases"), e.Case)
			}
			at = strictyaml.Join(at, e.Field)
		}
		d.FailAt(at, err.Error())
	}
	return r
}

func caseList(d *strictyaml.Reader, all *[]convention.Case) strictyaml.Setter {
	return func(path string, n ast.Node) {
		for i, item := range d.SomeItems(path, n, "write a case") {
			*all = append(*all, ruleCase(d, strictyaml.Element(path, i), item))
		}
	}
}

func ruleCase(d *strictyaml.Reader, path string, n ast.Node) (c convention.Case) {
	before := d.Mistakes()
	seen := d.Mapping(path, n, []strictyaml.Field{
		{Key: "text", Set: func(path string, n ast.Node) {
			if text, ok := d.Text(path, n); ok {
				c.Text = &text
			}
		}},
		{Key: "json", Set: strictyaml.Value(d, &c.JSON, text("JSON pointer", 1024))},
		{Key: "equals", Set: equals(d, &c.Equals)},
		{Key: "regex", Set: strictyaml.Value(d, &c.Regex, parseRegex)},
		{Key: "empty", Set: strictyaml.Flag(d, &c.Empty)},
		{Key: "means", Need: "a case says what the message means, as in means: offline", Set: strictyaml.Value(d, &c.Means, convention.ParseMeaning)},
	})
	if seen["empty"] != nil && !c.Empty && d.Mistakes() == before {
		d.Fail(strictyaml.Join(path, "empty"), seen["empty"], "only true has a meaning; remove it")
	}
	return c
}

// equals stores a value, or a list of them, of which one is to be found.
func equals(d *strictyaml.Reader, all *[]any) strictyaml.Setter {
	return func(path string, n ast.Node) {
		var text json.RawMessage
		var value any
		if strictyaml.JSON(d, &text)(path, n); text == nil {
			return
		}
		if json.Unmarshal(text, &value) != nil {
			d.Fail(path, n, "a number is too large to be compared; put a text in quotes")
		}
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		} else if len(list) == 0 {
			d.Fail(path, n, "the list is empty; write a value, or remove it")
		}
		*all = list
	}
}
