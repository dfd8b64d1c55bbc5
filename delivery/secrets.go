package delivery

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/holter-iot/holter/store"
)

// Hidden stands for a secret where settings are shown. Settings that have it are stored with the secret that was there before.
const Hidden = "(hidden)"

// secretSettings are the settings that are secrets, and headers, all of which may be.
func secretSettings() []string {
	return []string{"secret", "previous_secret", "password", "token", "seed", "credentials"}
}

// HideSecrets returns the settings of an endpoint as anyone may see them.
func HideSecrets(settings json.RawMessage) json.RawMessage {
	return eachSecret(settings, func(string, string) string { return Hidden })
}

// withSecrets gives the settings of an endpoint the secrets that are hidden in them, those that it has; without settings it keeps all. An
// endpoint that is to deliver to another place does not: who may change it could have them sent to himself. Errors: ErrBad.
func withSecrets(p, old *store.Endpoint) error {
	if p.Settings == nil {
		p.Settings = HideSecrets(old.Settings)
	}
	var known json.RawMessage
	moved := p.Kind != old.Kind || !strings.EqualFold(placeOf(p.Target), placeOf(old.Target))
	if !moved {
		known = old.Settings
	}
	kept, missing := keepSecrets(p.Settings, known)
	switch {
	case len(missing) == 0:
		p.Settings = kept
		return nil
	case moved && old.Name != "":
		return bad("secrets stay only while kind, and scheme, host and port of the target, do; give settings with new ones, or without them: %s", strings.Join(missing, ", "))
	}
	return bad("settings: %s stands for what was there before, and that is nothing; write out, or leave out: %s", Hidden, strings.Join(missing, ", "))
}

// placeOf returns scheme, hosts and ports of a target.
func placeOf(target string) string {
	scheme, rest, ok := strings.Cut(target, "://")
	if end := strings.IndexAny(rest, "/?#"); ok && end >= 0 {
		return scheme + "://" + rest[:end]
	}
	return target
}

// keepSecrets returns settings with the secrets of others where they are hidden, and which others there are not.
func keepSecrets(settings, before json.RawMessage) (kept json.RawMessage, missing []string) {
	known := make(map[string]string)
	eachSecret(before, func(name, secret string) string {
		known[name] = secret
		return secret
	})
	kept = eachSecret(settings, func(name, secret string) string {
		if secret != Hidden {
			return secret
		}
		old, ok := known[name]
		if !ok {
			missing = append(missing, name)
		}
		return old
	})
	slices.Sort(missing)
	return kept, missing
}

// eachSecret replaces each secret. Its name is the same in whatever case it is written, as it is for who reads the settings. What is no JSON
// object stays as it is.
func eachSecret(settings json.RawMessage, replace func(name, secret string) string) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(settings, &all) != nil || all == nil {
		return settings
	}
	text := func(name string, value json.RawMessage) json.RawMessage {
		var secret string
		if json.Unmarshal(value, &secret) != nil || secret == "" {
			return value
		}
		out, _ := json.Marshal(replace(name, secret)) // never fails for a text
		return out
	}
	for written, value := range all {
		for _, name := range secretSettings() {
			if strings.EqualFold(written, name) {
				all[written] = text(name, value)
			}
		}
		var headers map[string]json.RawMessage
		if !strings.EqualFold(written, "headers") || json.Unmarshal(value, &headers) != nil || headers == nil {
			continue
		}
		for header, value := range headers {
			headers[header] = text(fmt.Sprintf("header %.100q", http.CanonicalHeaderKey(header)), value)
		}
		all[written], _ = json.Marshal(headers) // they were read from JSON
	}
	out, err := json.Marshal(all)
	if err != nil {
		return settings
	}
	return out
}
