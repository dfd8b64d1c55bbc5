package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// groups stores the list of groups and checks them against each other.
func groups(d *decoder, all *[]Group) setter {
	return func(path string, n ast.Node) {
		earlier := taken{names: map[string]string{}, patterns: map[string]string{}}
		for i, item := range d.items(path, n) {
			at := fmt.Sprintf("%s[%d]", path, i)
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
func (t *taken) check(d *decoder, path string, seen map[string]ast.Node, g Group) {
	if where := t.names[g.Name]; where != "" {
		d.fail(join(path, "name"), seen["name"], "%s is already the name of %s", quote(g.Name), where)
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
		d.fail(join(path, "match"), seen["match"], "no device gets here: the first match wins, and %s matches them all", where)
		return
	}
	t.patterns[g.Match] = path
	if strings.Trim(g.Match, "*") == "" {
		t.everything = path
	}
}

func group(d *decoder, path string, n ast.Node) (Group, map[string]ast.Node) {
	var g Group
	before := d.mistakes()
	seen := d.mapping(path, n, []field{
		{"name", value(d, &g.Name, parseName)},
		{"match", value(d, &g.Match, parsePattern)},
		{"policy", policy(d, &g.Policy, 0)},
		{"outage", outage(d, &g.Outage)},
	})
	if len(seen) == 0 && d.mistakes() > before {
		return g, seen // not even a mapping
	}
	for _, key := range []string{"name", "match"} {
		if seen[key] == nil {
			d.fail(path, n, "%s is missing; a group needs name and match", key)
		}
	}
	return g, seen
}

func outage(d *decoder, o *Outage) setter {
	fields := []field{
		{"share", plain(d, &o.Share, parseShare)},
		{"window", value(d, &o.Window, span{min: time.Second, max: 24 * time.Hour}.parse)},
		{"min_devices", plain(d, &o.MinDevices, count{min: 1, max: 100_000_000}.parse)},
	}
	return func(path string, n ast.Node) {
		seen := d.mapping(path, n, fields)
		if len(seen) > 0 && seen["share"] == nil {
			d.fail(path, n, "share is missing; without it there is no outage detection")
		}
	}
}
