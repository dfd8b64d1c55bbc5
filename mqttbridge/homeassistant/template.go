package homeassistant

import (
	"encoding/json"
	"strings"
)

// template is a value template of the supported kinds.
type template struct {
	path []string // path into the payload as JSON; nil: the payload itself
}

// parseTemplate parses "{{ value_json.state }}", with any number of names, and "{{ value }}".
// Nothing else of Jinja is supported.
func parseTemplate(text string) (template, bool) {
	text = strings.TrimSpace(text)
	if text == "" {
		return template{}, true
	}
	inner, open := strings.CutPrefix(text, "{{")
	inner, closed := strings.CutSuffix(inner, "}}")
	if !open || !closed {
		return template{}, false
	}
	path := strings.Split(strings.TrimSpace(inner), ".")
	if len(path) == 1 && path[0] == "value" {
		return template{}, true
	}
	if len(path) < 2 || len(path) > 8 || path[0] != "value_json" {
		return template{}, false
	}
	for _, name := range path[1:] {
		if !isName(name) {
			return template{}, false
		}
	}
	return template{path: path[1:]}, true
}

func isName(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// render returns the template's value for a payload, as Python would write it. ok is false if the
// payload has no such value.
func (t template) render(payload []byte) (text string, ok bool) {
	if len(t.path) == 0 {
		return string(payload), true
	}
	raw := json.RawMessage(payload)
	for _, name := range t.path {
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return "", false
		}
		if raw, ok = object[name]; !ok {
			return "", false
		}
	}
	switch {
	case raw[0] == '"':
		ok = json.Unmarshal(raw, &text) == nil
		return text, ok
	case string(raw) == "true":
		return "True", true
	case string(raw) == "false":
		return "False", true
	case string(raw) == "null":
		return "None", true
	}
	return string(raw), true
}
