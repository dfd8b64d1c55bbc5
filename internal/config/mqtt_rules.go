package config

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/internal/strictyaml"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// ruleFields lists the keys of a rule of a bridge.
func ruleFields(r *convention.Rule) []strictyaml.Field {
	template := func(dst *string) strictyaml.Setter { return strictyaml.Text(dst, "text", 1024) }
	return []strictyaml.Field{
		strictyaml.Key("topic", strictyaml.Text(&r.Topic, "topic", 1024), "required",
			"MQTT topic filter with captures: `tele/{device}/LWT`. A level may hold several with text between them (`{model}-{id}`: the first takes as much as it can); "+
				"`{name...}` matches one or more levels; `+` and `#` as in MQTT").Needed("a rule needs one, as in tele/{device}/LWT"),
		strictyaml.Key("device", template(&r.Device), "{device}", "id of the device, composed of captures: `\"{group}/{device}\"`"),
		strictyaml.Key("device_json", pointer(&r.DeviceJSON), "", "JSON pointer to the id in the payload: `/clientid`"),
		strictyaml.Key("qos", strictyaml.Plain(&r.QoS, parseQoS), "0", "quality of service to subscribe with, 0 or 1"),
		strictyaml.Key("behind", template(&r.Behind), "none",
			"name of the gateway through which the device is heard, composed of captures; `deaf` and `heard` apply to all devices behind it"),
		strictyaml.Key("interval", strictyaml.Span(&r.Interval, time.Millisecond, aYear), "none", "announced interval of the device"),
		strictyaml.Key("timeout", strictyaml.Value(&r.Timeout, orNeverOfRule), "none", "announced timeout, 1ms to 365d, or `never`"),
		strictyaml.Key("interval_json", pointer(&r.IntervalJSON), "", "JSON pointer to the interval in seconds"),
		strictyaml.Key("factor", strictyaml.Plain(&r.Factor, parseFactor), "none", "announced timeout in intervals, more than 1 to 1000"),
		strictyaml.Key("keepalive_json", pointer(&r.KeepaliveJSON), "", "JSON pointer to the keep alive in seconds: the timeout is one and a half times that; 0 is `never`"),
		strictyaml.Key("ttd_json", pointer(&r.TTDJSON), "", "JSON pointer to the seconds for which the device will be available: -1 is until further notice, 0 is `bye`"),
		strictyaml.Key("sleep_json", pointer(&r.SleepJSON), "", "JSON pointer to the length of a `sleep` in seconds"),
		strictyaml.Key("order_json", pointer(&r.OrderJSON), "", "JSON pointer to a number or time that must not decrease; an older message is dropped"),
		strictyaml.Key("epoch_json", pointer(&r.EpochJSON), "", "JSON pointer to a number of the device's session; the end of an earlier session is dropped"),
		strictyaml.Key("cases", strictyaml.Entries(&r.Cases, "write a case", ruleCase), "each message is a beat", "list of cases, tried in order; the first that matches decides"),
		strictyaml.Key("else", strictyaml.Value(&r.Else, convention.ParseMeaning), "ignore", "meaning if no case matches"),
	}
}

func pointer(dst *string) strictyaml.Setter { return strictyaml.Text(dst, "JSON pointer", 1024) }

// orNeverOfRule is orNever in the words of package convention.
func orNeverOfRule(text string) (time.Duration, error) {
	d, err := orNever(text)
	if d == liveness.Never {
		d = convention.Never
	}
	return d, err
}

// rule reads a rule. Package convention checks its patterns and templates, and what goes together.
func rule(d *strictyaml.Reader, path string, n ast.Node) (r convention.Rule) {
	before := d.Mistakes()
	d.Mapping(path, n, ruleFields(&r))
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

// caseFields lists the keys of a case of a rule.
func caseFields(c *convention.Case) []strictyaml.Field {
	return []strictyaml.Field{
		strictyaml.Key("text", payload(&c.Text), "", "the whole payload"),
		strictyaml.Key("json", pointer(&c.JSON), "", "JSON pointer to a value that must exist"),
		strictyaml.Key("equals", equals(&c.Equals), "", "with `json`: the value, or a list of possible values: texts, numbers, `true`, `false`, `null`"),
		strictyaml.Key("regex", strictyaml.Value(&c.Regex, parseRegex), "",
			"regular expression ([RE2](https://github.com/google/re2/wiki/Syntax)) that must match somewhere in the payload; "+
				"the group `(?P<seconds>…)` is the length of a `sleep`, `(?P<device>…)` the id, `(?P<text>…)` the text of a `fail`"),
		strictyaml.Key("empty", onlyTrue(&c.Empty), "", "`true`: the payload is empty"),
		strictyaml.Key("means", strictyaml.Value(&c.Means, convention.ParseMeaning), "required", "meaning of the message").
			Needed("a case says what the message means, as in means: offline"),
	}
}

func ruleCase(d *strictyaml.Reader, path string, n ast.Node) (c convention.Case) {
	d.Mapping(path, n, caseFields(&c))
	return c
}

func payload(dst **string) strictyaml.Setter {
	return strictyaml.Setter{Read: func(d *strictyaml.Reader, path string, n ast.Node) {
		if text, ok := d.Text(path, n); ok {
			*dst = &text
		}
	}}
}

func onlyTrue(dst *bool) strictyaml.Setter {
	return strictyaml.Setter{Read: func(d *strictyaml.Reader, path string, n ast.Node) {
		before := d.Mistakes()
		strictyaml.Flag(dst).Read(d, path, n)
		if !*dst && d.Mistakes() == before {
			d.Fail(path, n, "only true has a meaning; remove it")
		}
	}}
}

// equals stores a value, or a list of them, of which one is to be found.
func equals(all *[]any) strictyaml.Setter {
	return strictyaml.Setter{Read: func(d *strictyaml.Reader, path string, n ast.Node) {
		var text json.RawMessage
		var value any
		if strictyaml.JSON(&text).Read(d, path, n); text == nil {
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
	}}
}
