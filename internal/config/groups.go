package config

import (
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/internal/strictyaml"
	"github.com/holter-iot/holter/liveness"
)

// groupFields lists the keys of a group.
func groupFields(g *liveness.GroupConfig) []strictyaml.Field {
	const need = "a group needs name and match"
	o := &g.Outage
	return []strictyaml.Field{
		strictyaml.Key("name", strictyaml.Text(&g.Name, "name", 128), "required", "up to 128 bytes, unique").Needed(need),
		strictyaml.Key("match", strictyaml.Value(&g.Match, strictyaml.Pattern), "required", "[pattern](#groups) of device ids, up to 256 bytes").Needed(need),
		strictyaml.Key("policy", policy(&g.Policy), "nothing of its own", "mapping with the keys of [`policy`](#policy)"),
		strictyaml.Key("outage.share", strictyaml.Plain(&o.Share, parseShare), "off", "share of the members that must fall silent, 0 to 1; 0: off"),
		strictyaml.Key("outage.window", strictyaml.Span(&o.Window, time.Second, 24*time.Hour), "60s", "time within which they fall silent"),
		strictyaml.Key("outage.min_devices", strictyaml.Number(&o.MinDevices, 1, 100_000_000), "10", "least number of devices in a group that can have outages"),
	}
}

// groups stores the list of groups and checks them against each other.
func groups(all *[]liveness.GroupConfig) strictyaml.Setter {
	return strictyaml.Setter{To: all, Read: func(d *strictyaml.Reader, path string, n ast.Node) {
		earlier := taken{names: map[string]string{}, patterns: map[string]string{}}
		strictyaml.Entries(all, "", func(d *strictyaml.Reader, path string, n ast.Node) (g liveness.GroupConfig) {
			d.Mapping(path, n, groupFields(&g))
			needShare(d, strictyaml.Join(path, "outage"))
			earlier.check(d, path, g)
			return g
		}).Read(d, path, n)
	}}
}

// needShare rejects an outage that says something, but not what share of the group is one.
func needShare(d *strictyaml.Reader, path string) {
	given := func(key string) bool { return d.Has(strictyaml.Join(path, key)) }
	if (given("window") || given("min_devices")) && !given("share") {
		d.FailAt(path, "share is missing; without it there is no outage detection")
	}
}

// taken is what the groups so far have used up, each with the path of its group.
type taken struct {
	names, patterns map[string]string
	everything      string // the group that matches every device
}

// check reports what makes a group ambiguous or useless after the earlier ones.
func (t *taken) check(d *strictyaml.Reader, path string, g liveness.GroupConfig) {
	if where := t.names[g.Name]; where != "" {
		d.FailAt(strictyaml.Join(path, "name"), strictyaml.Quote(g.Name)+" is already the name of "+where)
	} else if g.Name != "" {
		t.names[g.Name] = path
	}
	if g.Match == "" {
		return
	}
	where := t.everything
	if where == "" {
		where = t.patterns[g.Match]
	}
	if where != "" {
		d.FailAt(strictyaml.Join(path, "match"), "no device gets here: the first match wins, and "+where+" matches them all")
		return
	}
	t.patterns[g.Match] = path
	if strings.Trim(g.Match, "*") == "" {
		t.everything = path
	}
}
