package access

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/internal/strictyaml"
)

// maxRulesFile is the largest rules file, in bytes.
const maxRulesFile = 4 << 20

func format() strictyaml.Format {
	return strictyaml.Format{
		MaxSize: maxRulesFile,
		MaxKeys: 60_000,
		Empty:   "write at least one rule, as in rules: [{everyone: true, publish: [site/#]}]",
	}
}

// rules is what a rules file says. It never changes.
type rules struct {
	byKey     map[ruleKey]*rule
	byUser    map[string]*role // for those that a rule names
	others    *role            // for other users
	anonymous *role
}

// rule is what one rule allows and denies. It is the same one for as long as it stands in the file
// in these words, whoever it is for.
type rule struct {
	clientIDs                  []idPattern
	publish, subscribe         []filter
	denyPublish, denySubscribe []filter
	needs                      placeholders // of the filters
}

// ruleKey is the hash of all that a rule says.
type ruleKey [sha256.Size]byte

// whom says whom a rule is for.
type whom struct {
	users, groups       []string
	anonymous, everyone bool
}

// role returns the rules that apply to a user, or to a client that has proved nothing; nil if there
// is no file.
func (r *rules) role(user string, proved bool) *role {
	switch {
	case r == nil:
		return nil
	case !proved:
		return r.anonymous
	case r.byUser[user] != nil:
		return r.byUser[user]
	}
	return r.others
}

// parseRules reads the text of a rules file. Rules that stand there as before are taken from
// before, which may be nil.
func parseRules(path, text string, before *rules) (*rules, error) {
	d, root, err := format().Parse(path, text)
	if err != nil {
		return nil, fmt.Errorf("access: rules file %w", err)
	}
	p := &rulesParser{Reader: d, groups: make(map[string][]string), own: make(map[string][]*rule)}
	p.rules = rules{byKey: make(map[ruleKey]*rule), byUser: make(map[string]*role)}
	if before != nil {
		p.before = before.byKey
	}
	var list ast.Node
	seen := d.Mapping("", root, []strictyaml.Field{
		{Key: "groups", Set: strictyaml.Setter{Read: p.readGroups}},
		{Key: "rules", Need: "a rules file needs at least one", Set: strictyaml.Setter{Read: func(_ *strictyaml.Reader, _ string, n ast.Node) { list = n }}},
	})
	if seen["rules"] != nil {
		p.readRules("rules", list)
	}
	if err := errors.Join(d.Errs()...); err != nil {
		return nil, fmt.Errorf("access: rules file %w", err)
	}
	return p.finish(), nil
}

type rulesParser struct {
	*strictyaml.Reader

	before              map[ruleKey]*rule
	groups              map[string][]string
	everyone, anonymous []*rule            // that apply to all, and to anonymous clients
	own                 map[string][]*rule // by user, without those for everyone
	rules               rules
}

func (p *rulesParser) readGroups(d *strictyaml.Reader, path string, n ast.Node) {
	for _, g := range d.Pairs(path, n) {
		var members []string
		strictyaml.List(&members, "write a user", parseName).Read(d, strictyaml.Join(path, g.Key), g.Value)
		p.groups[g.Key] = members
	}
}

func (p *rulesParser) readRules(path string, n ast.Node) {
	for i, item := range p.Items(path, n, "write a rule") {
		p.readRule(strictyaml.Element(path, i), item)
	}
}

func (p *rulesParser) readRule(path string, n ast.Node) {
	var r rule
	var w whom
	before := p.Mistakes()
	p.Mapping(path, n, []strictyaml.Field{
		{Key: "users", Set: strictyaml.List(&w.users, "write a user", parseName)},
		{Key: "groups", Set: strictyaml.List(&w.groups, "write a group", p.parseGroup)},
		{Key: "anonymous", Set: strictyaml.Flag(&w.anonymous)},
		{Key: "everyone", Set: strictyaml.Flag(&w.everyone)},
		{Key: "client_ids", Set: strictyaml.List(&r.clientIDs, "write a client id", parseIDPattern)},
		{Key: "publish", Set: strictyaml.List(&r.publish, "write a topic filter", parseTopics)},
		{Key: "subscribe", Set: strictyaml.List(&r.subscribe, "write a topic filter", parseFilter)},
		{Key: "deny_publish", Set: strictyaml.List(&r.denyPublish, "write a topic filter", parseTopics)},
		{Key: "deny_subscribe", Set: strictyaml.List(&r.denySubscribe, "write a topic filter", parseFilter)},
	})
	switch {
	case p.Mistakes() > before: // that was said
	case !w.anonymous && !w.everyone && len(w.users)+len(w.groups) == 0:
		p.Fail(path, n, "the rule is for nobody; write users, groups, anonymous: true or everyone: true")
	case len(r.clientIDs)+len(r.publish)+len(r.subscribe)+len(r.denyPublish)+len(r.denySubscribe) == 0:
		p.Fail(path, n, "the rule says nothing; write client_ids, publish, subscribe, deny_publish or deny_subscribe")
	default:
		p.add(w, p.unchanged(&r))
	}
}

func parseName(name string) (string, error) {
	if name == "" {
		return "", errors.New("is empty; write the name of a user")
	}
	return name, nil
}

func (p *rulesParser) parseGroup(name string) (string, error) {
	if _, ok := p.groups[name]; ok {
		return name, nil
	}
	all := slices.Sorted(maps.Keys(p.groups))
	return "", fmt.Errorf("there is no group %s%s", strictyaml.Quote(name), strictyaml.DidYouMean(name, all))
}

// unchanged returns a rule, or the one that says the same and was there before.
func (p *rulesParser) unchanged(r *rule) *rule {
	for _, filters := range [][]filter{r.publish, r.subscribe, r.denyPublish, r.denySubscribe} {
		for _, f := range filters {
			r.needs |= f.needs
		}
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%#v", *r))
	for _, known := range []map[ruleKey]*rule{p.before, p.rules.byKey} {
		if known[key] != nil {
			r = known[key]
		}
	}
	p.rules.byKey[key] = r
	return r
}

// add lets a rule apply to those it is for.
func (p *rulesParser) add(w whom, r *rule) {
	if w.everyone || w.anonymous {
		p.anonymous = append(p.anonymous, r)
	}
	if w.everyone {
		p.everyone = append(p.everyone, r)
		return
	}
	members := w.users
	for _, g := range w.groups {
		members = append(members, p.groups[g]...)
	}
	for _, user := range members {
		p.own[user] = append(p.own[user], r)
	}
}

// finish makes the roles. Users with the same rules share one.
func (p *rulesParser) finish() *rules {
	common, none := newBundle(p.everyone), &bundle{}
	p.rules.others = &role{common, none}
	p.rules.anonymous = &role{newBundle(p.anonymous), none}
	shared := make(map[string]*role)
	for user, own := range p.own {
		key := fmt.Sprint(own) // of pointers
		if shared[key] == nil {
			shared[key] = &role{common, newBundle(own)}
		}
		p.rules.byUser[user] = shared[key]
	}
	return &p.rules
}
