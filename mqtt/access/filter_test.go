package access_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/holter-iot/holter/mqtt/access"
)

// matches reports whether a filter matches a topic, by MQTT 5, 4.7.
func matches(filter, topic string) bool {
	if strings.HasPrefix(topic, "$") && (filter[0] == '#' || filter[0] == '+') {
		return false
	}
	return matchLevels(strings.Split(filter, "/"), strings.Split(topic, "/"))
}

func matchLevels(filter, topic []string) bool {
	switch {
	case len(filter) == 0:
		return len(topic) == 0
	case filter[0] == "#":
		return true
	case len(topic) == 0:
		return false
	}
	return (filter[0] == "+" || filter[0] == topic[0]) && matchLevels(filter[1:], topic[1:])
}

// paths returns all paths of at most some levels.
func paths(depth int, levels ...string) (all []string) {
	longest := []string{""}
	for i := range depth {
		var longer []string
		for _, p := range longest {
			for _, l := range levels {
				if i > 0 {
					l = p + "/" + l
				}
				longer = append(longer, l)
			}
		}
		all = append(all, longer...)
		longest = longer
	}
	return all
}

// everyFilter returns all valid filters of up to three levels over a small alphabet.
func everyFilter() []string {
	return slices.DeleteFunc(paths(3, "a", "b", "$a", "", "+", "#"), func(f string) bool { return access.CheckFilter(f) != nil })
}

// everyTopic returns all topics of up to four levels over the same alphabet, and a word that is in
// no filter: if filters of three levels differ, they differ in one of these. An empty topic is
// none, but as the parent of /# it counts as one: that refuses a little more.
func everyTopic() []string { return paths(4, "a", "b", "$a", "", "z") }

// TestDeepFilters compares filters of as many levels as there may be with deeper ones.
func TestDeepFilters(t *testing.T) {
	deep := func(levels int) string { return strings.Repeat("a/", levels-1) + "a" }
	tests := []struct {
		rule, other        string
		contains, overlaps bool
	}{
		{deep(32), deep(32), true, true},
		{deep(32), deep(31), false, false},
		{deep(32), deep(33), false, false},
		{deep(32), deep(40), false, false},
		{deep(32), deep(31) + "/#", false, true},
		{deep(32), deep(32) + "/#", false, true},
		{deep(32), deep(33) + "/#", false, false},
		{deep(32), deep(32) + "/+", false, false},
		{deep(32) + "/#", deep(31), false, false},
		{deep(32) + "/#", deep(32), true, true},
		{deep(32) + "/#", deep(40), true, true},
		{deep(32) + "/#", deep(31) + "/#", false, true},
		{deep(32) + "/#", deep(32) + "/#", true, true},
		{deep(32) + "/#", deep(33) + "/#", true, true},
		{deep(32) + "/#", deep(40) + "/#", true, true},
		{deep(32) + "/#", deep(40) + "/+/#", true, true},
		{deep(32) + "/#", "b/" + deep(40), false, false},
		{"a/#", deep(40) + "/#", true, true},
		{"a/a", deep(40) + "/#", false, false},
	}
	for _, tt := range tests {
		p, err := access.ParsePattern(tt.rule)
		if err != nil {
			t.Fatal(err)
		}
		if contains, overlaps := p.Contains(tt.other), p.Overlaps(tt.other); contains != tt.contains || overlaps != tt.overlaps {
			t.Errorf("filter %q contains %q: %v, overlaps: %v; want %v, %v", tt.rule, tt.other, contains, overlaps, tt.contains, tt.overlaps)
		}
	}
	if p, err := access.ParsePattern(deep(33) + "/#"); err == nil {
		t.Errorf("a filter of 33 levels is %v", p)
	}
}

// universe knows which topics each filter matches.
type universe struct {
	filters, topics []string
	matched         map[string][]bool // by filter, in the order of topics
}

func newUniverse() universe {
	u := universe{filters: everyFilter(), topics: everyTopic(), matched: make(map[string][]bool)}
	for _, f := range u.filters {
		for _, topic := range u.topics {
			u.matched[f] = append(u.matched[f], matches(f, topic))
		}
	}
	return u
}

// compare reports whether a filter matches all topics that another one matches, and whether it
// matches one of them.
func (u universe) compare(filter, other string) (contains, overlaps bool) {
	contains = true
	for i, is := range u.matched[other] {
		contains = contains && (!is || u.matched[filter][i])
		overlaps = overlaps || is && u.matched[filter][i]
	}
	return contains, overlaps
}

// TestFilters compares filters with the sets of topics that they match.
func TestFilters(t *testing.T) {
	u := newUniverse()
	for _, rule := range u.filters {
		p, err := access.ParsePattern(rule)
		if err != nil {
			t.Fatal(err)
		}
		for i, topic := range u.topics {
			if got, want := p.Contains(topic), u.matched[rule][i]; got != want {
				t.Errorf("filter %q matches topic %q: %v, want %v", rule, topic, got, want)
			}
		}
		for _, f := range u.filters {
			contains, overlaps := u.compare(rule, f)
			if got := p.Contains(f); got != contains {
				t.Errorf("filter %q contains %q: %v, want %v", rule, f, got, contains)
			}
			if got := p.Overlaps(f); got != overlaps {
				t.Errorf("filter %q overlaps %q: %v, want %v", rule, f, got, overlaps)
			}
		}
	}
	t.Logf("%d filters, %d topics", len(u.filters), len(u.topics))
}

// TestDecisions compares what random rules allow with a naive reading of them.
func TestDecisions(t *testing.T) {
	u := newUniverse()
	random := rand.New(rand.NewPCG(1, 2))
	some := func() (list []string) {
		for range 1 + random.IntN(3) {
			list = append(list, u.filters[random.IntN(len(u.filters))])
		}
		return list
	}
	for range 100 {
		allow, deny := some(), some()
		rules := fmt.Sprintf("rules: [{everyone: true, publish: %s, subscribe: %[1]s}, {users: [u], deny_publish: %s, deny_subscribe: %[2]s}]", quoted(allow), quoted(deny))
		g, err := access.ParseRules(rules, "u", "c")
		if err != nil {
			t.Fatal(err)
		}
		permitted := make([]bool, len(u.topics))
		for i, topic := range u.topics {
			is := func(f string) bool { return u.matched[f][i] }
			permitted[i] = slices.ContainsFunc(allow, is) && !slices.ContainsFunc(deny, is)
			if got := g.MayPublish(topic); got != permitted[i] {
				t.Errorf("%s\nMayPublish(%q) = %v, want %v", rules, topic, got, permitted[i])
			}
		}
		for _, f := range u.filters {
			contained := func(a string) bool { contains, _ := u.compare(a, f); return contains }
			denied := func(d string) bool { _, overlaps := u.compare(d, f); return overlaps }
			got := g.MaySubscribe(f)
			if want := slices.ContainsFunc(allow, contained) && !slices.ContainsFunc(deny, denied); got != want {
				t.Errorf("%s\nMaySubscribe(%q) = %v, want %v", rules, f, got, want)
			}
			for i, is := range u.matched[f] {
				if got && is && !permitted[i] {
					t.Errorf("%s\nMaySubscribe(%q) although topic %q is not permitted", rules, f, u.topics[i])
				}
			}
		}
	}
}

func quoted(texts []string) string {
	return "[" + strings.Join(strings.Split(fmt.Sprintf("%q", texts), " "), ", ")[1:]
}

func FuzzFilter(f *testing.F) {
	f.Add("a/+/#", "a/b/#", "a/b/c")
	f.Add("+/#", "#", "$SYS/x")
	f.Add("$SYS/+", "$SYS/#", "/")
	f.Add("a/#", "a", "a")
	f.Fuzz(func(t *testing.T, rule, filter, topic string) {
		p, err := access.ParsePattern(rule)
		if err != nil || access.CheckFilter(filter) != nil || strings.HasPrefix(rule, "$share/") || strings.ContainsAny(topic, "+#") || strings.Contains(rule, "%") {
			t.Skip("no filters, or no topic")
		}
		byRule, byFilter := matches(rule, topic), matches(filter, topic)
		if got := p.Contains(topic); got != byRule {
			t.Errorf("filter %q matches topic %q: %v, want %v", rule, topic, got, byRule)
		}
		if byFilter && !byRule && p.Contains(filter) {
			t.Errorf("filter %q contains %q, but does not match topic %q", rule, filter, topic)
		}
		if byFilter && byRule && !p.Overlaps(filter) {
			t.Errorf("filter %q does not overlap %q, but both match topic %q", rule, filter, topic)
		}
	})
}
