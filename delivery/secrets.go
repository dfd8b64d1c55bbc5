package delivery

import (
	"encoding/json"
	"slices"
	"strings"
)

// Hidden stands for a secret where settings are shown. Settings that have it are stored with the secret that was there before.
const Hidden = "(hidden)"

// secretSettings are the settings that are secrets, and headers, all of which may be.
func secretSettings() []string {
	return []string{"secret", "previous_secret", "password", "token", "seed", "credentials"}
}

// HideSecrets returns the settings of an endpoint as anyone may see them.
func HideSecrets(settings json.RawMessage) json.RawMessage {
	return eachSecret(settings, func([]string, string) string { return Hidden })
}

// keepSecrets returns settings with the secrets of others where they are hidden.
func keepSecrets(settings, before json.RawMessage) json.RawMessage {
	known := make(map[string]string)
	eachSecret(before, func(path []string, secret string) string {
		known[keyOf(path)] = secret
		return secret
	})
	return eachSecret(settings, func(path []string, secret string) string {
		if old, ok := known[keyOf(path)]; ok && secret == Hidden {
			return old
		}
		return secret
	})
}

func keyOf(path []string) string {
	text, _ := json.Marshal(path) // never fails for texts
	return string(text)
}

// eachSecret replaces each secret. What is no JSON object stays as it is.
func eachSecret(settings json.RawMessage, replace func(path []string, secret string) string) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(settings, &all) != nil || all == nil {
		return settings
	}
	text := func(path []string, value json.RawMessage) json.RawMessage {
		var secret string
		if json.Unmarshal(value, &secret) != nil || secret == "" {
			return value
		}
		out, _ := json.Marshal(replace(path, secret)) // never fails for a text
		return out
	}
	for name, value := range all { // who decodes them cares as little about upper and lower case
		if slices.ContainsFunc(secretSettings(), func(secret string) bool { return strings.EqualFold(name, secret) }) {
			all[name] = text([]string{name}, value)
		}
		var headers map[string]json.RawMessage
		if !strings.EqualFold(name, "headers") || json.Unmarshal(value, &headers) != nil || headers == nil {
			continue
		}
		for header, value := range headers {
			headers[header] = text([]string{name, header}, value)
		}
		all[name], _ = json.Marshal(headers) // they were read from JSON
	}
	out, err := json.Marshal(all)
	if err != nil {
		return settings
	}
	return out
}
