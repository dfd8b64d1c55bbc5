package homeassistant

import (
	"strings"
	"testing"
)

func TestTemplate(t *testing.T) {
	const missing = "(missing)"
	for _, tt := range []struct{ template, payload, want string }{
		{"", "online", "online"},
		{"{{ value }}", "up", "up"},
		{"{{value_json.a.b}}", `{"a":{"b":"x"}}`, "x"},
		{"{{ value_json.online }}", `{"online":true}`, "True"},
		{"{{ value_json.x }}", `{"y":1}`, missing},
		{"{{ value_json.x }}", `no JSON`, missing},
		{"{{ value_json['status'] }}", `{"status":"online"}`, "online"},
		{`{{ value_json["a b"][0] }}`, `{"a b":["first"]}`, "first"},
		{"{{ value_json.n }}", `{"n":1.50}`, "1.50"},
		{"{{'true' if value_json.value else 'false'}}", `{"value":true}`, "true"},
		{"{{'true' if value_json.value else 'false'}}", `{"value":false}`, "false"},
		{"{{'true' if value_json.value else 'false'}}", `{}`, "false"},
		{"{{'online' if value == 'online' else 'offline'}}", "online", "online"},
		{"{{'online' if value == 'online' else 'offline'}}", "gone", "offline"},
		{"{{ 'online' if value_json.ww is defined else 'offline' }}", `{"ww":5}`, "online"},
		{"{{ 'online' if value_json.ww is not defined else 'offline' }}", `{"ww":5}`, "offline"},
		{"{{ value_json.state | default('offline') }}", `{}`, "offline"},
		{"{{ value_json.state | default('offline') }}", `{"state":"online"}`, "online"},
		{"{{ value_json.state|lower }}", `{"state":"ONLINE"}`, "online"},
		{"{{ value_json.get('state', 'offline') }}", `{}`, "offline"},
		{"{{ value.strip().lower() }}", " Up ", "up"},
		{"{{ 'on' if value_json.rssi | int(0) > -90 and not value_json.lost else 'off' }}", `{"rssi":"-70","lost":false}`, "on"},
		{"{{ 'on' if value_json.rssi | int(0) > -90 and not value_json.lost else 'off' }}", `{"rssi":"-95"}`, "off"},
		{"{{ 'on' if value in ['1', 'yes'] or value not in ('0') else 'off' }}", "yes", "on"},
		{"{{ (value_json.a == 1) | iif('on', 'off') }}", `{"a":1.0}`, "on"},
		{"{{ value_json.a is none }}", `{"a":null}`, "True"},
		{"{% if value_json.ok %}online{% else %}offline{% endif %}", `{"ok":1}`, "online"},
		{"{%- if value == 'a' -%} A {%- elif value == 'b' -%} B {%- endif -%}", "b", "B"},
		{"x{# nothing #}{{ value }}{y", "1", "x1{y"},
	} {
		parsed, err := parseTemplate(tt.template)
		if err != nil {
			t.Errorf("%s: %v", tt.template, err)
			continue
		}
		got, ok := parsed.render([]byte(tt.payload))
		if !ok {
			got = missing
		}
		if got != tt.want {
			t.Errorf("%s of %s is %q, want %q", tt.template, tt.payload, got, tt.want)
		}
	}
	for _, bad := range []string{
		"{{ value", "{{ states('x') }}", "{{ value | regex_replace('a') }}", "{% for x in value %}{% endfor %}", "{% if value %}a", "{% endif %}", "{% %}x", "{% set x = 1 %}", "{{ now() }}", "{{ }}",
		"{{ value == }}", "{{ 'a }}", "{{ value..x }}", "{{ a.b }}", "{{ value is odd }}", "{{ value + 1 }}", "{{" + strings.Repeat("(", 100) + "value" + strings.Repeat(")", 100) + "}}",
		strings.Repeat("{% if value %}", 50) + strings.Repeat("{% endif %}", 50),
	} {
		if _, err := parseTemplate(bad); err == nil {
			t.Errorf("%.60s is understood", bad)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add("{{ 'a' if value_json.x[0] | default('b') == -1.5 else value }}", `{"x":[1]}`)
	f.Add("{% if value in ['a'] %}{{ value.get('x') }}{% elif not value %}b{% endif %}", "a")
	f.Fuzz(func(t *testing.T, text, payload string) {
		if parsed, err := parseTemplate(text); err == nil {
			_, _ = parsed.render([]byte(payload))
		}
	})
}
