package config

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/internal/duration"
	"github.com/holter-iot/holter/internal/strictyaml"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// ruleList stores the rules of a bridge.
func ruleList(d *strictyaml.Reader, all *[]Rule) strictyaml.Setter {
	return func(path string, n ast.Node) {
		for i, item := range d.SomeItems(path, n, "write a rule") {
			*all = append(*all, rule(d, strictyaml.Element(path, i), item))
		}
	}
}

func rule(d *strictyaml.Reader, path string, n ast.Node) Rule {
	var r Rule
	some := span{min: time.Millisecond, max: aYear}
	before := d.Mistakes()
	seen := d.Mapping(path, n, []strictyaml.Field{
		{Key: "topic", Set: strictyaml.Value(d, &r.Topic, parseTopicPattern)},
		{Key: "device", Set: strictyaml.Value(d, &r.Device, parseTemplate)},
		{Key: "device_json", Set: strictyaml.Value(d, &r.DeviceJSON, parsePointer)},
		{Key: "qos", Set: strictyaml.Plain(d, &r.QoS, parseQoS)},
		{Key: "behind", Set: strictyaml.Value(d, &r.Behind, parseTemplate)},
		{Key: "interval", Set: strictyaml.Value(d, &r.Interval, some.parse)},
		{Key: "timeout", Set: strictyaml.Value(d, &r.Timeout, some.orNeverOfRule)},
		{Key: "interval_json", Set: strictyaml.Value(d, &r.IntervalJSON, parsePointer)},
		{Key: "factor", Set: strictyaml.Plain(d, &r.Factor, parseFactor)},
		{Key: "keepalive_json", Set: strictyaml.Value(d, &r.KeepaliveJSON, parsePointer)},
		{Key: "ttd_json", Set: strictyaml.Value(d, &r.TTDJSON, parsePointer)},
		{Key: "sleep_json", Set: strictyaml.Value(d, &r.SleepJSON, parsePointer)},
		{Key: "order_json", Set: strictyaml.Value(d, &r.OrderJSON, parsePointer)},
		{Key: "epoch_json", Set: strictyaml.Value(d, &r.EpochJSON, parsePointer)},
		{Key: "cases", Set: caseList(d, &r)},
		{Key: "else", Set: strictyaml.Value(d, &r.Else, parseMeaning)},
	})
	r.at = spotsOf(d, path, n, seen)
	if len(seen) == 0 && d.Mistakes() > before {
		return r // not even a mapping
	}
	if seen["topic"] == nil {
		d.Fail(path, n, "topic is missing; a rule needs one, as in tele/{device}/LWT")
	}
	if seen["else"] != nil && seen["cases"] == nil {
		d.Fail(strictyaml.Join(path, "else"), seen["else"], "there are no cases that it could be else to; without cases every message is a beat")
	}
	if r.Timeout > 0 && r.Interval >= r.Timeout {
		d.Fail(strictyaml.Join(path, "interval"), seen["interval"],
			"%s is not shorter than the timeout (%s): a device would go offline between two heartbeats", duration.String(r.Interval), duration.String(r.Timeout))
	}
	return r
}

func caseList(d *strictyaml.Reader, r *Rule) strictyaml.Setter {
	return func(path string, n ast.Node) {
		for i, item := range d.SomeItems(path, n, "write a case") {
			c, at := ruleCase(d, strictyaml.Element(path, i), item)
			r.Cases, r.cases = append(r.Cases, c), append(r.cases, at)
		}
	}
}

func ruleCase(d *strictyaml.Reader, path string, n ast.Node) (c convention.Case, at spots) {
	before := d.Mistakes()
	seen := d.Mapping(path, n, []strictyaml.Field{
		{Key: "text", Set: func(path string, n ast.Node) {
			if text, ok := d.Text(path, n); ok {
				c.Text = &text
			}
		}},
		{Key: "json", Set: strictyaml.Value(d, &c.JSON, parsePointer)},
		{Key: "equals", Set: equals(d, &c.Equals)},
		{Key: "regex", Set: strictyaml.Value(d, &c.Regex, parseRegex)},
		{Key: "empty", Set: strictyaml.Plain(d, &c.Empty, strictyaml.Bool)},
		{Key: "means", Set: strictyaml.Value(d, &c.Means, parseMeaning)},
	})
	at = spotsOf(d, path, n, seen)
	if len(seen) == 0 && d.Mistakes() > before {
		return c, at // not even a mapping
	}
	if seen["means"] == nil {
		d.Fail(path, n, "means is missing; a case says what the message means, as in means: offline")
	}
	first := ""
	for _, key := range []string{"text", "json", "regex", "empty"} {
		switch {
		case seen[key] == nil:
		case first == "":
			first = key
		default:
			d.Fail(strictyaml.Join(path, key), seen[key], "a case has only one condition, and there is %s already; write another case", first)
		}
	}
	if seen["equals"] != nil && seen["json"] == nil {
		d.Fail(strictyaml.Join(path, "equals"), seen["equals"], "it goes with json, which says what is compared; text: compares the whole payload")
	}
	if seen["empty"] != nil && !c.Empty && d.Mistakes() == before {
		d.Fail(strictyaml.Join(path, "empty"), seen["empty"], "only true has a meaning; remove it")
	}
	return c, at
}

// equals stores a value, or a list of them, of which one is to be found.
func equals(d *strictyaml.Reader, all *[]any) strictyaml.Setter {
	return func(path string, n ast.Node) {
		v := d.Resolve(path, n)
		list, ok := v.(*ast.SequenceNode)
		if !ok {
			if v != nil {
				equal(d, all, path, n)
			}
			return
		}
		if len(list.Values) == 0 {
			d.Fail(path, n, "the list is empty; write a value, or remove it")
		}
		for i, item := range list.Values {
			equal(d, all, strictyaml.Element(path, i), item)
		}
	}
}

func equal(d *strictyaml.Reader, all *[]any, path string, n ast.Node) {
	v := d.Resolve(path, n)
	if v == nil {
		return
	}
	if null, ok := v.(*ast.NullNode); ok && null.GetToken() != nil && null.GetToken().Value == "null" {
		*all = append(*all, nil)
		return
	}
	text, ok := d.Text(path, n)
	if !ok {
		return
	}
	switch v.(type) {
	case *ast.BoolNode:
		*all = append(*all, strings.EqualFold(text, "true"))
	case *ast.IntegerNode, *ast.FloatNode:
		digits := strings.ReplaceAll(text, "_", "")
		number, err := strconv.ParseFloat(digits, 64)
		if err != nil || !json.Valid([]byte(digits)) { // as 0123, which is another number in YAML
			d.Fail(path, n, "%s is not a number of JSON; put a text in quotes", strictyaml.Quote(text))
			return
		}
		*all = append(*all, number)
	case *ast.InfinityNode, *ast.NanNode:
		d.Fail(path, n, "%s is not a number of JSON; put a text in quotes", strictyaml.Quote(text))
	default:
		*all = append(*all, text)
	}
}
