package homeassistant

import (
	"cmp"
	"encoding/json"
)

// The short forms of options, as far as they matter here
// (https://www.home-assistant.io/integrations/mqtt/#supported-abbreviations-in-mqtt-discovery-messages).
//
//nolint:gochecknoglobals // tables that nobody changes
var (
	optionShort = map[string]string{
		"avty": "availability", "avty_mode": "availability_mode", "avty_t": "availability_topic", "avty_tpl": "availability_template",
		"pl_avail": "payload_available", "pl_not_avail": "payload_not_available", "cmps": "components", "dev": "device",
		"dev_cla": "device_class", "pl_off": "payload_off",
		"exp_aft": "expire_after", "migr_discvry": "migrate_discovery", "o": "origin", "p": "platform", "stat_t": "state_topic",
		"t": "topic", "uniq_id": "unique_id", "val_tpl": "value_template",
	}
	deviceShort = map[string]string{"cns": "connections", "ids": "identifiers"}
)

// object returns an object with its keys in long form, or nil if v is not an object. Of an option
// in both forms the short one counts, as in Home Assistant.
func object(v any, short map[string]string) map[string]any {
	raw, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	out := make(map[string]any, len(raw))
	for key, value := range raw {
		full := cmp.Or(short[key], key)
		if _, set := out[full]; !set || full != key {
			out[full] = value
		}
	}
	return out
}

// list returns a list, or a list of the value if it is not a list. It is never empty.
func list(v any) []any {
	if l, ok := v.([]any); ok && len(l) > 0 {
		return l
	}
	return []any{v}
}

// text returns a string or the raw text of a number, and "" for anything else.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool: // as Python shows it, and so Home Assistant
		return map[bool]string{true: "True", false: "False"}[v]
	}
	return ""
}

// first returns the first text of a list, or the value itself if it is a text.
func first(v any) string {
	for _, one := range list(v) {
		if s := text(one); s != "" {
			return s
		}
	}
	return ""
}
