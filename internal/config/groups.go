package config

import (
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/internal/strictyaml"
	"github.com/holter-iot/holter/liveness"
)

// groups stores the list of groups and checks them against each other.
func groups(d *strictyaml.Reader, all *[]liveness.GroupConfig) strictyaml.Setter {
	return func(path string, n ast.Node) {
		earlier := taken{names: map[string]string{}, patterns: map[string]string{}}
		for i, item := range d.Items(path, n) {
			at := strictyaml.Element(path, i)
			g, seen := group(d, at, item)
			earlier.check(d, at, seen, g)
			*all = append(*all, g)
		}
	}
}

// taken is what the groups so far have used up, each with the path of its group.
type taken struct {
	names, patterns map[string]string
	everything      string // the group that matches every device
}

// check reports what makes a group ambiguous or useless after the earlier ones.
func (t *taken) check(d *strictyaml.Reader, path string, seen map[string]ast.Node, g liveness.GroupConfig) {
	if where := t.names[g.Name]; where != "" {
		d.Fail(strictyaml.Join(path, "name"), seen["name"], "%s is already the name of %s", strictyaml.Quote(g.Name), where)
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
		d.Fail(strictyaml.Join(path, "match"), seen["match"], "no device gets here: the first match wins, and %s matches them all", where)
		return
	}
	t.patterns[g.Match] = path
	if strings.Trim(g.Match, "*") == "" {
		t.everything = path
	}
}

func group(d *strictyaml.Reader, path string, n ast.Node) (g liveness.GroupConfig, seen map[string]ast.Node) {
	const need = "a group needs name and match"
	seen = d.Mapping(path, n, []strictyaml.Field{
		{Key: "name", Need: need, Set: strictyaml.Value(d, &g.Name, parseName)},
		{Key: "match", Need: need, Set: strictyaml.Value(d, &g.Match, parsePattern)},
		{Key: "policy", Set: policy(d, &g.Policy, 0)},
		{Key: "outage", Set: outage(d, &g.Outage)},
	})
	return g, seen
}

func outage(d *strictyaml.Reader, o *liveness.OutageConfig) strictyaml.Setter {
	fields := []strictyaml.Field{
		{Key: "share", Set: strictyaml.Plain(d, &o.Share, parseShare)},
		{Key: "window", Set: strictyaml.Value(d, &o.Window, span{min: time.Second, max: 24 * time.Hour}.parse)},
		{Key: "min_devices", Set: strictyaml.Plain(d, &o.MinDevices, count{min: 1, max: 100_000_000}.parse)},
	}
	return func(path string, n ast.Node) {
		seen := d.Mapping(path, n, fields)
		if len(seen) > 0 && seen["share"] == nil {
			d.Fail(path, n, "share is missing; without it there is no outage detection")
		}
	}
}
