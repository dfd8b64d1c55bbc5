package delivery

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/jobs"
)

// Hidden replaces secrets where settings are shown. In settings that are stored it stands for the
// secret that the endpoint has.
const Hidden = "(hidden)"

// secretSettings returns the names of settings that are secrets. Those in headers may be secrets, too.
func secretSettings() []string {
	return []string{"secret", "previous_secret", "password", "token", "seed", "credentials", "routing_key", "api_key"}
}

// secretTargets returns the kinds whose target is a secret: whoever knows it can send to it, or read there.
func secretTargets() []string { return []string{"slack", "teams", "discord", "ntfy"} }

// secretPaths returns the hosts whose webhooks have a secret in their path, for those who make them
// endpoints of the kind webhook, or have jobs with a URL.
func secretPaths() []string {
	return []string{
		"api.telegram.org", "discord.com", "discordapp.com", "hc-ping.com", "hooks.slack.com", "hooks.zapier.com", "maker.ifttt.com", "webhook.office.com",
	}
}

// HideTarget returns the target of an endpoint as it is shown: of one that is a secret scheme and host,
// and [Hidden]; of another that of [HideURL]. The name of a credential is shown.
func HideTarget(kind, target string) string {
	if sink.IsCredential(target) {
		return target
	}
	if !slices.Contains(secretTargets(), kind) {
		return HideURL(target)
	}
	return hidePath(target)
}

// HideURL returns a URL as it is shown: [Hidden] stands for its query, which may hold a token, and for
// the path at services that have one there. What is no URL is returned as it is.
func HideURL(target string) string {
	place := placeOf(target)
	u, err := url.Parse(place)
	if err != nil || u.Host == "" {
		return target
	}
	host := "." + strings.ToLower(u.Hostname())
	if slices.ContainsFunc(secretPaths(), func(name string) bool { return strings.HasSuffix(host, "."+name) }) {
		return hidePath(target)
	}
	if before, query, ok := strings.Cut(target, "?"); ok && query != "" {
		return before + "?" + Hidden
	}
	return target
}

// hidePath hides all behind the host.
func hidePath(target string) string {
	place := placeOf(target)
	if place == target { // there is no path
		return target
	}
	return place + "/" + Hidden
}

// withTarget replaces a target that is hidden by the one that the endpoint has. Errors: jobs.ErrBad.
func withTarget(p, old *jobs.Endpoint) error {
	if !strings.HasSuffix(p.Target, "/"+Hidden) && !strings.HasSuffix(p.Target, "?"+Hidden) {
		return nil
	}
	if p.Kind != old.Kind || p.Target != HideTarget(old.Kind, old.Target) {
		return bad("target: %s stands for what was there before, of an endpoint of this kind, host and path; write it out", Hidden)
	}
	p.Target = old.Target
	return nil
}

// resolve replaces the credentials that target and settings of an endpoint name by what they are.
// Errors: jobs.ErrBad, for one that cannot be read.
func resolve(p *jobs.Endpoint) error {
	var failed error
	read := func(name, value string) string {
		text, err := sink.Secret(value)
		if err != nil {
			failed = errors.Join(failed, bad("%s: %w", name, err))
		}
		return text
	}
	if slices.Contains(secretTargets(), p.Kind) {
		p.Target = read("target", p.Target)
	}
	p.Settings = eachSecret(p.Settings, func(name, value string) string { return read("settings: "+name, value) })
	return failed
}

// HideSecrets returns the settings of an endpoint with [Hidden] in place of secrets. The name of a
// credential is shown.
func HideSecrets(settings json.RawMessage) json.RawMessage {
	return eachSecret(settings, func(_, secret string) string {
		if sink.IsCredential(secret) {
			return secret // the name of one
		}
		return Hidden
	})
}

// withSecrets replaces hidden secrets in the settings of an endpoint by those that it has; without
// settings it keeps all. An endpoint that is to deliver elsewhere keeps none: who may change endpoints
// could have them sent to a server of his own. Errors: jobs.ErrBad.
func withSecrets(p, old *jobs.Endpoint) error {
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

// placeOf returns the scheme, hosts and ports of a target.
func placeOf(target string) string {
	scheme, rest, ok := strings.Cut(target, "://")
	if end := strings.IndexAny(rest, "/?#"); ok && end >= 0 {
		return scheme + "://" + rest[:end]
	}
	return target
}

// keepSecrets replaces hidden secrets in settings by those in others, and returns the names of the
// secrets that the others lack.
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

// eachSecret replaces each secret in settings. Names of settings are compared without regard to case,
// as encoding/json does. What is no JSON object stays as it is.
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
