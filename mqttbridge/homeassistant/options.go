package homeassistant

import (
	"encoding/json"
)

// The short forms of options, as far as they matter here
// (https://www.home-assistant.io/integrations/mqtt/#supported-abbreviations-in-mqtt-discovery-messages).

func optionShort(key string) string {
	switch key {
	case "avty":
		return "availability"
	case "avty_mode":
		return "availability_mode"
	case "avty_t":
		return "availability_topic"
	case "avty_tpl":
		return "availability_template"
	case "cmps":
		return "components"
	case "dev":
		return "device"
	case "exp_aft":
		return "expire_after"
	case "migr_discvry":
		return "migrate_discovery"
	case "o":
		return "origin"
	case "p":
		return "platform"
	case "pl_avail":
		return "payload_available"
	case "pl_not_avail":
		return "payload_not_available"
	case "stat_t":
		return "state_topic"
	case "t":
		return "topic"
	case "uniq_id":
		return "unique_id"
	case "val_tpl":
		return "value_template"
	}
	return key
}

func deviceShort(key string) string {
	switch key {
	case "cns":
		return "connections"
	case "ids":
		return "identifiers"
	}
	return key
}

// originShort knows no short form that matters: the name has none.
func originShort(key string) string { return key }

// expand replaces the short forms of an entity's options. The short form wins, as in Home
// Assistant.
func expand(raw map[string]any) map[string]any { return object(raw, optionShort) }

// object returns an object with its keys in long form, or nil if v is not an object.
func object(v any, short func(string) string) map[string]any {
	raw, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	out := make(map[string]any, len(raw))
	for key, value := range raw {
		full := short(key)
		if _, both := raw[full]; both && full != key {
			out[full] = value
		} else if _, set := out[full]; !set || full != key {
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
