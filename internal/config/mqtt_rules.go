package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// spot returns where a node was written.
func (d *decoder) spot(path string, n ast.Node) spot {
	at := start(n)
	return spot{src: &d.src, line: at.Line, column: at.Column, path: path}
}

// spots returns where a mapping and the values of its keys were written.
func (d *decoder) spots(path string, n ast.Node, seen map[string]ast.Node) spots {
	s := spots{whole: d.spot(path, n), keys: make(map[string]spot, len(seen))}
	for key, v := range seen {
		s.keys[key] = d.spot(join(path, key), v)
	}
	return s
}

// ruleList stores the rules of a bridge.
func ruleList(d *decoder, all *[]Rule) setter {
	return func(path string, n ast.Node) {
		for i, item := range d.someItems(path, n, "write a rule") {
			*all = append(*all, rule(d, fmt.Sprintf("%s[%d]", path, i), item))
		}
	}
}

func rule(d *decoder, path string, n ast.Node) Rule {
	var r Rule
	some := span{min: time.Millisecond, max: aYear}
	before := d.mistakes()
	seen := d.mapping(path, n, []field{
		{"topic", value(d, &r.Topic, parseTopicPattern)},
		{"device", value(d, &r.Device, parseTemplate)},
		{"device_json", value(d, &r.DeviceJSON, parsePointer)},
		{"qos", plain(d, &r.QoS, parseQoS)},
		{"behind", value(d, &r.Behind, parseTemplate)},
		{"interval", value(d, &r.Interval, some.parse)},
		{"timeout", value(d, &r.Timeout, some.orNever)},
		{"interval_json", value(d, &r.IntervalJSON, parsePointer)},
		{"factor", plain(d, &r.Factor, parseFactor)},
		{"keepalive_json", value(d, &r.KeepaliveJSON, parsePointer)},
		{"ttd_json", value(d, &r.TTDJSON, parsePointer)},
		{"sleep_json", value(d, &r.SleepJSON, parsePointer)},
		{"order_json", value(d, &r.OrderJSON, parsePointer)},
		{"epoch_json", value(d, &r.EpochJSON, parsePointer)},
		{"cases", caseList(d, &r.Cases)},
		{"else", value(d, &r.Else, parseMeaning)},
	})
	r.at = d.spots(path, n, seen)
	if len(seen) == 0 && d.mistakes() > before {
		return r // not even a mapping
	}
	if seen["topic"] == nil {
		d.fail(path, n, "topic is missing; a rule needs one, as in tele/{device}/LWT")
	}
	if seen["else"] != nil && seen["cases"] == nil {
		d.fail(join(path, "else"), seen["else"], "there are no cases that it could be else to; without cases every message is a beat")
	}
	if r.Timeout > 0 && r.Interval >= r.Timeout {
		d.fail(join(path, "interval"), seen["interval"],
			"%s is not shorter than the timeout (%s): a device would go offline between two heartbeats", short(r.Interval), short(r.Timeout))
	}
	return r
}

func caseList(d *decoder, all *[]Case) setter {
	return func(path string, n ast.Node) {
		for i, item := range d.someItems(path, n, "write a case") {
			*all = append(*all, ruleCase(d, fmt.Sprintf("%s[%d]", path, i), item))
		}
	}
}

func ruleCase(d *decoder, path string, n ast.Node) Case {
	var c Case
	before := d.mistakes()
	seen := d.mapping(path, n, []field{
		{"text", func(path string, n ast.Node) {
			if text, ok := d.text(path, n); ok {
				c.Text = &text
			}
		}},
		{"json", value(d, &c.JSON, parsePointer)},
		{"equals", equals(d, &c.Equals)},
		{"regex", value(d, &c.Regex, parseRegex)},
		{"empty", plain(d, &c.Empty, parseBool)},
		{"means", value(d, &c.Means, parseMeaning)},
	})
	c.at = d.spots(path, n, seen)
	if len(seen) == 0 && d.mistakes() > before {
		return c // not even a mapping
	}
	if seen["means"] == nil {
		d.fail(path, n, "means is missing; a case says what the message means, as in means: offline")
	}
	first := ""
	for _, key := range []string{"text", "json", "regex", "empty"} {
		switch {
		case seen[key] == nil:
		case first == "":
			first = key
		default:
			d.fail(join(path, key), seen[key], "a case has only one condition, and there is %s already; write another case", first)
		}
	}
	if seen["equals"] != nil && seen["json"] == nil {
		d.fail(join(path, "equals"), seen["equals"], "it goes with json, which says what is compared; text: compares the whole payload")
	}
	if seen["empty"] != nil && !c.Empty && d.mistakes() == before {
		d.fail(join(path, "empty"), seen["empty"], "only true has a meaning; remove it")
	}
	return c
}

// equals stores a value, or a list of them, of which one is to be found.
func equals(d *decoder, all *[]any) setter {
	return func(path string, n ast.Node) {
		v := d.resolve(path, n)
		list, ok := v.(*ast.SequenceNode)
		if !ok {
			if v != nil {
				equal(d, all, path, n)
			}
			return
		}
		if len(list.Values) == 0 {
			d.fail(path, n, "the list is empty; write a value, or remove it")
		}
		for i, item := range list.Values {
			equal(d, all, fmt.Sprintf("%s[%d]", path, i), item)
		}
	}
}

func equal(d *decoder, all *[]any, path string, n ast.Node) {
	v := d.resolve(path, n)
	if v == nil {
		return
	}
	if null, ok := v.(*ast.NullNode); ok && null.GetToken() != nil && null.GetToken().Value == "null" {
		*all = append(*all, nil)
		return
	}
	text, ok := d.text(path, n)
	if !ok {
		return
	}
	switch v.(type) {
	case *ast.BoolNode:
		*all = append(*all, strings.EqualFold(text, "true"))
	case *ast.IntegerNode, *ast.FloatNode:
		number, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
		if err != nil {
			d.fail(path, n, "%s is not a number of JSON; put a text in quotes", quote(text))
			return
		}
		*all = append(*all, number)
	case *ast.InfinityNode, *ast.NanNode:
		d.fail(path, n, "%s is not a number of JSON; put a text in quotes", quote(text))
	default:
		*all = append(*all, text)
	}
}
