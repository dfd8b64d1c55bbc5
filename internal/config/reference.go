package config

import (
	"strings"

	"github.com/holter-iot/holter/internal/playbook"
	"github.com/holter-iot/holter/internal/strictyaml"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// Row is a key in the reference.
type Row struct {
	Key     string // below the mapping that the table is about, or in full
	Default string // in words; "" where there is nothing to say
	Text    string // what may be written and what it is, in Markdown
	Restart bool   // a change of it needs a restart
}

// Reference returns the tables of docs/reference/configuration.md by their names.
func Reference() map[string][]Row {
	playbooks, steps := playbook.Keys()
	all := map[string][]Row{
		"listen":    rows(0, listenerFields(&written{})),
		"policies":  rows(0, policyFields(&liveness.Policy{})),
		"groups":    rows(0, groupFields(&liveness.GroupConfig{})),
		"bridges":   rows(0, bridgeFields(&Bridge{})),
		"rules":     rows(0, ruleFields(&convention.Rule{})),
		"cases":     rows(0, caseFields(&convention.Case{})),
		"playbooks": rows(0, playbooks),
		"steps":     rows(0, steps),
	}
	for _, t := range tables(&Config{}) {
		if t.name == "" { // what is in it has a table of its own
			continue
		}
		for _, s := range t.settings {
			all[t.name] = append(all[t.name], rows(s.effect, []strictyaml.Field{s.Field})...)
		}
	}
	return all
}

// rows returns the rows of keys that come in force in a way.
func rows(effect Effect, fields []strictyaml.Field) (all []Row) {
	for _, f := range fields {
		text := strings.TrimPrefix(f.Set.Form+": "+f.Doc, ": ")
		all = append(all, Row{f.Key, f.Default, text, effect != Live})
	}
	return all
}
