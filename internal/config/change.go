package config

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/holter-iot/holter/internal/playbook"
)

// Change is a setting that differs between two configurations.
type Change struct {
	Key    string
	Effect Effect
	// Before and After are what differs, as [Config.InForce] shows it: the value, or values with their keys if
	// these say more; *** for a secret.
	Before, After string
}

// Again reads the configuration again: the same file, with the same settings from elsewhere. Its errors are
// those of Resolve.
func (c *Config) Again() (Config, error) {
	if c.again == nil {
		return Config{}, errors.New("there is no configuration to read again")
	}
	return c.again()
}

// Compare returns the settings in which after differs from c, in the order of the reference.
func (c *Config) Compare(after *Config) (all []Change) {
	others := settings(after)
	for i, s := range settings(c) {
		if same(s, others[i]) {
			continue
		}
		change := Change{Key: s.Key, Effect: s.effect}
		if s.live != nil && !s.live(c, after) {
			change.Effect = Rebuilt
		}
		change.Before, change.After = differing(s.Key, c.inForce.of(s.Key), after.inForce.of(s.Key))
		all = append(all, change)
	}
	return all
}

// Keeping returns c with the settings that before has of some keys.
func (c *Config) Keeping(before *Config, keys []string) Config {
	out := *c
	if out.inForce != nil {
		shown := *out.inForce
		shown.all = slices.Clone(shown.all)
		out.inForce = &shown
	}
	others := settings(before)
	for i, s := range settings(&out) {
		if slices.Contains(keys, s.Key) {
			reflect.ValueOf(s.Set.To).Elem().Set(reflect.ValueOf(others[i].Set.To).Elem())
			out.inForce.replace(s.Key, before.inForce.of(s.Key))
		}
	}
	return out
}

// same reports whether two configurations agree in a setting, wherever it was written.
func same(a, b setting) bool {
	switch was := a.Set.To.(type) {
	case *[]Listener:
		return slices.EqualFunc(*was, *b.Set.To.(*[]Listener), sameListener)
	case *[]Bridge:
		return slices.EqualFunc(*was, *b.Set.To.(*[]Bridge), func(a, b Bridge) bool {
			a.at, b.at = spot{}, spot{}
			return reflect.DeepEqual(a, b)
		})
	case *[]playbook.Playbook:
		return slices.EqualFunc(*was, *b.Set.To.(*[]playbook.Playbook), func(a, b playbook.Playbook) bool {
			a.Place, b.Place = "", ""
			return reflect.DeepEqual(a, b)
		})
	}
	return reflect.DeepEqual(a.Set.To, b.Set.To)
}

func sameListener(a, b Listener) bool {
	a.at, b.at = spot{}, spot{}
	return reflect.DeepEqual(a, b)
}

// onlyLimits reports whether the device ports differ in how many devices may come in there, and in nothing else.
// A port that counts its devices goes on to count them, and no other begins to.
func onlyLimits(before, after *Config) bool {
	return slices.EqualFunc(before.Listen, after.Listen, func(a, b Listener) bool {
		if (a.MaxDevices > 0) != (b.MaxDevices > 0) {
			return false
		}
		a.MaxDevices = b.MaxDevices
		return sameListener(a, b)
	})
}

// sameAccess reports whether nothing else changes about who is let in, which would have to change together with
// the token: otherwise a port would be open in between.
func sameAccess(before, after *Config) bool {
	others := settings(after)
	for i, s := range settings(before) {
		switch s.Key {
		case "listen", "devices_file", "open", "mqtt.users", "mqtt.anonymous", "mqtt.listen":
			if !same(s, others[i]) && (s.live == nil || !s.live(before, after)) {
				return false
			}
		}
	}
	return before.DevicesFile == "" && before.Token.IsSet() == after.Token.IsSet()
}

// of returns the settings of a key.
func (f *inForce) of(key string) (all []InForce) {
	if f == nil {
		return nil
	}
	for _, s := range f.all {
		if belongs(s.Key, key) {
			all = append(all, s)
		}
	}
	return all
}

// replace replaces the settings of a key.
func (f *inForce) replace(key string, by []InForce) {
	if f == nil {
		return
	}
	at := slices.IndexFunc(f.all, func(s InForce) bool { return belongs(s.Key, key) })
	rest := slices.DeleteFunc(f.all, func(s InForce) bool { return belongs(s.Key, key) })
	f.all = slices.Insert(rest, max(min(at, len(rest)), 0), by...)
}

// belongs reports whether a setting that is shown is one of a key of the reference.
func belongs(shown, key string) bool {
	rest, ok := strings.CutPrefix(shown, key)
	return ok && (rest == "" || rest[0] == '[' || rest[0] == '.')
}

// differing returns what is in only one of two lists, as texts.
func differing(key string, before, after []InForce) (was, is string) {
	only := func(of, other []InForce) []InForce {
		return slices.DeleteFunc(slices.Clone(of), func(a InForce) bool {
			return slices.ContainsFunc(other, func(b InForce) bool { return a.Key == b.Key && a.Value == b.Value })
		})
	}
	a, b := only(before, after), only(after, before)
	if len(a)+len(b) == 0 { // a secret, or what is only counted
		a, b = before, after
	}
	return textOf(key, a), textOf(key, b)
}

// textOf writes settings of a key in a line, with their own keys where these say more.
func textOf(key string, all []InForce) string {
	var out strings.Builder
	for i, s := range all {
		if i > 0 {
			out.WriteString("; ")
		}
		if out.Len() > maxShown {
			out.WriteString("…")
			break
		}
		if s.Key != key {
			out.WriteString(s.Key + " ")
		}
		out.WriteString(s.Value)
	}
	return out.String()
}
