package config

import (
	"fmt"
	"slices"
	"strings"
)

// InForce is a setting as it is in force.
type InForce struct {
	Key   string // as in the file, with a dot where it nests and a number in brackets for an entry of a list
	Value string // as it was written, or the default in words; *** for a secret
	From  string // default, file, or the option or the variable: --http, HOLTER_HTTP
	At    string // FILE:LINE, if it is from the file
}

const (
	// maxInForce is how many settings are shown.
	maxInForce = 2000
	// maxShown bounds a value that is shown, in characters.
	maxShown = 500
	hidden   = "***"
)

// inForce is what InForce returns.
type inForce struct {
	file    string
	all     []InForce
	leftOut int
}

// InForce returns the name of the file, or "", and the settings in the
// order of docs/reference/configuration.md. Policies of single devices and playbooks are only counted.
// leftOut is how many settings of the file there are beyond the first 2,000.
func (c *Config) InForce() (file string, all []InForce, leftOut int) {
	if c.inForce == nil {
		return "", nil, 0
	}
	return c.inForce.file, slices.Clone(c.inForce.all), c.inForce.leftOut
}

// noteInForce notes what is in force, and where it is from.
func (r *resolver) noteInForce() {
	file := r.written()
	f := &inForce{file: r.fileName}
	r.cfg.inForce = f
	for _, setting := range settings(&r.cfg) {
		key := setting.Key
		if !r.has(key) {
			continue
		}
		some, replaced := r.fromOptions(key)
		if !replaced {
			some = append(file[key], some...)
		}
		if len(some) == 0 {
			value := setting.Default
			if key == "http" && r.ear {
				value = DefaultEarHTTP
			}
			some = []InForce{{key, value, "default", ""}}
		}
		for _, s := range some {
			if len(f.all) >= maxInForce {
				f.leftOut++
				continue
			}
			if s.From != "default" {
				s.Value = shown(s.Key, s.Value)
			}
			f.all = append(f.all, s)
		}
	}
}

// has reports whether the command has a key of the reference.
func (r *resolver) has(key string) bool {
	section, _, _ := strings.Cut(key, ".")
	switch {
	case r.ear:
		return slices.Contains(ofEars(), section) && key != notOfEars
	case r.monitor && slices.Contains([]string{"listen", "link", "mqtt", "drain"}, section):
		return false
	}
	return section != "judges"
}

// written returns what the file has, by the key of the setting that it belongs to.
func (r *resolver) written() map[string][]InForce {
	all := make(map[string][]InForce)
	if r.document == nil {
		return all
	}
	for key, n := range map[string]int{"devices": len(r.cfg.Fleet.Devices), "playbooks": len(r.cfg.Playbooks)} {
		if at, found := r.cfg.file.At(key); n > 0 && found {
			all[key] = []InForce{{key, fmt.Sprintf("%d, see the file", n), "file", at.String()}}
		}
	}
	counted := func(path string) bool { return path == "devices" || path == "playbooks" }
	r.cfg.file.Flat("", r.document, counted, func(path, text string, at spot) {
		key, _, _ := strings.Cut(path, "[")
		all[key] = append(all[key], InForce{path, text, "file", at.String()})
	})
	return all
}

// fromOptions returns what options and variables have for a key, and reports whether it replaces what
// the file has.
func (r *resolver) fromOptions(key string) (all []InForce, replaced bool) {
	add := func(as, option string) {
		var values []string
		from := ""
		for _, s := range r.options[option] {
			if key != "listen" && option != "bridge.url" && option != "bridge.preset" {
				values = nil // the last one counts
			}
			values, from = append(values, s.Value), s.Origin
		}
		if text := strings.Join(values, ", "); text != "" {
			all = append(all, InForce{as, text, from, ""})
		}
	}
	switch key {
	case "bridges":
		for _, name := range []string{"url", "preset", "username", "password", "password_file", "tls.ca", "tls.cert", "tls.key", "share"} {
			add("bridges."+name, "bridge."+name)
		}
		return all, len(r.options["bridge.url"]) > 0
	case "report.to":
		add(key, "bridge.report")
		if len(all) > 0 {
			all[0].Value = r.cfg.Report.To
		}
	case "report.home_assistant":
		add(key, "bridge.home_assistant")
	default:
		add(key, key)
	}
	return all, len(all) > 0
}

// shown returns a value as it may be shown.
func shown(key, value string) string {
	switch key {
	case "token", "bridges.password":
		return hidden
	case "database":
		if scheme, _, _ := strings.Cut(value, ":"); scheme != "sqlite" { // which has no password
			return scheme + ":" + hidden
		}
	}
	if runes := []rune(value); len(runes) > maxShown {
		return string(runes[:maxShown]) + "…"
	}
	return value
}
