package config

import (
	"github.com/holter-iot/holter/internal/playbook"
	"github.com/holter-iot/holter/internal/strictyaml"
)

// setting is a key of the file: how it is read, where it is in a Config, its default, what the reference says,
// and how a change of it comes in force. All that follows from it: the reading of files, options and
// variables, the settings that are shown, what a reload does, and the tables of the reference.
type setting struct {
	strictyaml.Field

	effect Effect
	live   func(before, after *Config) bool // narrows Live down: otherwise it is Rebuilt; nil: always
}

// Effect says how a setting comes in force that has changed in the file.
type Effect uint8

const (
	// Live: at once, by a reload.
	Live Effect = iota
	// Rebuilt: a standby takes it by a reload, for when it judges; any other process needs a restart.
	Rebuilt
	// Fixed: every process needs a restart.
	Fixed
)

func live(key string, set strictyaml.Setter, byDefault, doc string) setting {
	return setting{strictyaml.Key(key, set, byDefault, doc), Live, nil}
}

func rebuilt(key string, set strictyaml.Setter, byDefault, doc string) setting {
	return setting{strictyaml.Key(key, set, byDefault, doc), Rebuilt, nil}
}

func fixed(key string, set strictyaml.Setter, byDefault, doc string) setting {
	return setting{strictyaml.Key(key, set, byDefault, doc), Fixed, nil}
}

// when narrows Live down.
func (s setting) when(live func(before, after *Config) bool) setting {
	s.live = live
	return s
}

// under returns the settings of a mapping that all come in force alike.
func under(key string, effect Effect, fields []strictyaml.Field) (all []setting) {
	for _, f := range strictyaml.Below(key, fields) {
		all = append(all, setting{f, effect, nil})
	}
	return all
}

// table is a part of the reference, and settings that stand below each other there.
type table struct {
	name     string // "": it has none
	settings []setting
}

// tables lists all settings of a configuration, in the order of the reference. A new one gets its line in one
// of these, and nowhere else.
func tables(c *Config) []table {
	return []table{
		{"addresses", serverSettings(c)},
		{"log", under("log", Live, logFields(&c.Log))},
		{"", under("policy", Live, policyFields(&c.Fleet.Policy))},
		{"", []setting{
			live("groups", groups(&c.Fleet.Groups), "none", ""),
			live("devices", devices(&c.Fleet.Devices), "none", ""),
		}},
		{"flapping", under("flapping", Live, flappingFields(&c.Fleet.Flapping))},
		{"source", under("source", Rebuilt, sourceFields(&c.Source))},
		{"gateway", gatewaySettings(c)},
		{"drain", under("drain", Live, drainFields(&c.Drain))},
		{"link", under("link", Fixed, linkFields(&c.Link))},
		{"mqtt", under("mqtt", Rebuilt, mqttFields(c))},
		{"", []setting{rebuilt("bridges", bridges(&c.Bridges), "none", "")}},
		{"report", under("report", Rebuilt, reportFields(&c.Report))},
		{"events", under("events", Live, eventsFields(&c.Store))},
		{"gaps", under("gaps", Live, gapsFields(&c.Store))},
		{"jobs", under("jobs", Live, jobsFields(&c.Jobs))},
		{"", []setting{live("playbooks", strictyaml.Entries(&c.Playbooks, "", playbook.Read), "none", "")}},
		{"judges", []setting{judgesSetting(c)}},
	}
}

// settings lists all settings of a configuration.
func settings(c *Config) (all []setting) {
	for _, t := range tables(c) {
		all = append(all, t.settings...)
	}
	return all
}

// fields are the keys of the file.
func fields(c *Config) (all []strictyaml.Field) {
	for _, s := range settings(c) {
		all = append(all, s.Field)
	}
	return all
}
