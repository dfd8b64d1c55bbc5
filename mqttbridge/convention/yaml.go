package convention

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// YAML returns the rules as they are written in the configuration of a bridge, to be copied and adapted.
func (s Spec) YAML() string {
	var b strings.Builder
	for line := range strings.Lines(s.About) {
		b.WriteString("# " + strings.TrimRight(line, "\n") + "\n")
	}
	b.WriteString("rules:\n")
	for _, r := range s.Rules {
		lines := r.yaml()
		for i, line := range lines {
			if i == 0 {
				b.WriteString("  - " + line + "\n")
			} else {
				b.WriteString("    " + line + "\n")
			}
		}
	}
	return b.String()
}

// yaml returns the lines of a rule.
func (r Rule) yaml() []string {
	lines := []string{"topic: " + blockYAML(r.Topic)}
	text := func(key, value string) {
		if value != "" {
			lines = append(lines, key+": "+blockYAML(value))
		}
	}
	duration := func(key string, d time.Duration) {
		if d != 0 {
			lines = append(lines, key+": "+durationYAML(d))
		}
	}
	text("device", r.Device)
	text("device_json", r.DeviceJSON)
	if r.QoS != 0 {
		lines = append(lines, "qos: "+strconv.Itoa(int(r.QoS)))
	}
	text("behind", r.Behind)
	duration("interval", r.Interval)
	duration("timeout", r.Timeout)
	text("interval_json", r.IntervalJSON)
	if r.Factor != 0 {
		lines = append(lines, "factor: "+strconv.FormatFloat(r.Factor, 'g', -1, 64))
	}
	text("keepalive_json", r.KeepaliveJSON)
	text("ttd_json", r.TTDJSON)
	text("sleep_json", r.SleepJSON)
	text("order_json", r.OrderJSON)
	text("epoch_json", r.EpochJSON)
	if len(r.Cases) > 0 {
		lines = append(lines, "cases:")
	}
	for _, c := range r.Cases {
		lines = append(lines, "  - {"+c.yaml()+"}")
	}
	if r.Else != Ignore {
		text("else", r.Else.String())
	}
	return lines
}

// yaml returns the inside of a case's flow mapping.
func (c Case) yaml() string {
	var all []string
	if c.Text != nil {
		all = append(all, "text: "+scalarYAML(*c.Text))
	}
	if c.JSON != "" {
		all = append(all, "json: "+scalarYAML(c.JSON))
	}
	if len(c.Equals) > 0 {
		values := make([]string, len(c.Equals))
		for i, v := range c.Equals {
			values[i] = valueYAML(v)
		}
		equals := values[0]
		if len(values) > 1 {
			equals = "[" + strings.Join(values, ", ") + "]"
		}
		all = append(all, "equals: "+equals)
	}
	if c.Regex != "" {
		all = append(all, "regex: "+scalarYAML(c.Regex))
	}
	if c.Empty {
		all = append(all, "empty: true")
	}
	return strings.Join(append(all, "means: "+c.Means.String()), ", ")
}

// valueYAML writes a value of JSON.
func valueYAML(v any) string {
	if text, ok := v.(string); ok {
		return scalarYAML(text)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return "null" // New rejects what is no value of JSON
	}
	return string(out)
}

// blockYAML writes a text outside of {}, where those in it do no harm unless it begins with one.
func blockYAML(text string) string {
	if regexp.MustCompile(`^[A-Za-z/$][A-Za-z0-9_./$+~-]*[{][A-Za-z0-9_./$+~{}#-]*$`).MatchString(text) {
		return text
	}
	return scalarYAML(text)
}

// scalarYAML writes a text, in quotes where YAML would read something else, also inside {}.
func scalarYAML(text string) string {
	plain := regexp.MustCompile(`^[A-Za-z/$][A-Za-z0-9_./$+~-]*$`)
	word := regexp.MustCompile(`^(?i:true|false|null|yes|no|on|off|y|n)$`)
	if plain.MatchString(text) && !word.MatchString(text) {
		return text
	}
	if !strings.ContainsAny(text, "'\n\r\t") && strings.ToValidUTF8(text, "") == text && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) {
		return "'" + text + "'" // nothing has a second meaning in these
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(text) != nil {
		return "''"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// durationYAML writes a duration without the units that are 0: 5m, not 5m0s.
func durationYAML(d time.Duration) string {
	if d == Never {
		return "never"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
