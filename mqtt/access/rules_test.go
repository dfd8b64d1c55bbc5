package access_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holter-iot/holter/mqtt/access"
)

// TestTopics looks at what rules allow.
func TestTopics(t *testing.T) {
	const rules = `
groups:
  technicians: [anna, ben]
  nobody: [carl]
rules:
  - users: [meter-gateway]
    publish: ["site/%c/#", "100%%/%u-%c/+"]
    subscribe: ["cmd/%c/#", "$share/workers/jobs/#", "$share/%u/own", "events/+"]
    deny_publish: ["site/%c/secret"]
    deny_subscribe: ["cmd/%c/secret", "$share/workers/jobs/private"]
  - groups: [technicians]
    users: [eve]
    subscribe: ["site/#", "$SYS/#"]
    publish: ["%u/#", "#"]
  - users: [ben]
    deny_subscribe: ["site/1/secret"]
  - everyone: true
    publish: ["hello"]
    deny_publish: ["site/+/all/none"]
  - anonymous: true
    publish: ["guests/%c", "guests/%u/x"]
`
	tests := []struct {
		user, client string
		publish      string // topics; ! before those that are not allowed
		subscribe    string // filters, likewise
	}{
		{
			"meter-gateway", "m1",
			"site/m1 site/m1/a !site/m1/secret site/m1/secret/x !site/m2/a !site/m1/all/none 100%/meter-gateway-m1/x !100%/meter-gateway-m1/x/y !100%/meter-gateway-m2/x hello !hello/ !jobs/1 !cmd/m1",
			"cmd/m1 !cmd/m1/# !cmd/m1/+ !cmd/m1/secret cmd/m1/x/# !cmd/m2/x !cmd/+ !cmd/# $share/any/cmd/m1/x " +
				"!jobs/# $share/workers/jobs/1 !$share/workers/jobs/# !$share/workers/jobs/private !$share/other/jobs/1 " +
				"$share/meter-gateway/own !$share/workers/own !own events/+ events/1 !events/# !events/+/x !hello " +
				"!$share/workers !$share//x !$share/+/jobs/1 !$share/workers/ !# !+ !a# !#/a",
		},
		{"anna", "x", "anna/x anna ben/x !$SYS/x hello !site/1/all/none", "site/# site/1/secret $SYS/# $SYS/a/+ !# !+/# !+ !$other $share/g/site/#"},
		{"ben", "x", "ben/x", "!site/# !site/+/secret !site/1/# !site/1/+ site/1/other site/2/# site/+ site/+/other $SYS/#"},
		{"eve", "x", "x !$/x", "site/#"},
		{"carl", "x", "hello !x", "!x !hello !#"},
		{"$SYS", "$SYS", "hello !$SYS/x", "!$SYS/x"},
		{"", "m1", "guests/m1 !guests/m2 !guests//x hello", "!guests/m1"},
		{"", "m/1", "!guests/m/1 !guests/m hello", ""},
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, rules)
	a := start(t, access.Config{Rules: path, Anonymous: access.Anyone})
	for _, tt := range tests {
		t.Run(tt.user+" as "+tt.client, func(t *testing.T) {
			g, _, err := a.Decide(access.Login{ClientID: tt.client, Certificate: tt.user})
			if err != nil {
				t.Fatal(err)
			}
			for topic := range strings.FieldsSeq(tt.publish) {
				topic, no := strings.CutPrefix(topic, "!")
				if got := g.MayPublish(topic); got == no {
					t.Errorf("MayPublish(%q) = %v, want %v", topic, got, !no)
				}
			}
			for filter := range strings.FieldsSeq(tt.subscribe) {
				filter, no := strings.CutPrefix(filter, "!")
				if got := g.MaySubscribe(filter); got == no {
					t.Errorf("MaySubscribe(%q) = %v, want %v", filter, got, !no)
				}
			}
		})
	}
}

// TestInjection: no name makes a filter stand for more than it says.
func TestInjection(t *testing.T) {
	const rules = `
rules:
  - everyone: true
    publish: ["%u/%c/#", "open/#"]
    subscribe: ["%u/%c/#", "open/#"]
  - users: ["d/enied", "d"]
    deny_publish: ["open/%u/%c"]
    deny_subscribe: ["open/%u/%c"]
`
	tests := []struct {
		user, client string
		own, open    bool
	}{
		{"u", "c", true, true},
		{"u", "c+", false, true},
		{"u", "#", false, true},
		{"+", "c", false, true},
		{"a/b", "c", false, true},
		{"u", "c/d", false, true},
		{"$SYS", "c", false, true},
		{"u", "", false, true},
		{"u%c", "c", true, true},
		{"d", "c", true, true},
		{"d", "c/d", false, false},
		{"d/enied", "c", false, false},
	}
	for _, tt := range tests {
		g, err := access.ParseRules(rules, tt.user, tt.client)
		if err != nil {
			t.Fatal(err)
		}
		own := tt.user + "/" + tt.client + "/x"
		if got := g.MayPublish(own); got != tt.own {
			t.Errorf("user %q, client %q: MayPublish(%q) = %v, want %v", tt.user, tt.client, own, got, tt.own)
		}
		if got := g.MaySubscribe(own); got != tt.own {
			t.Errorf("user %q, client %q: MaySubscribe(%q) = %v, want %v", tt.user, tt.client, own, got, tt.own)
		}
		for _, topic := range []string{"open/x", "open/x/y/z"} {
			if got := g.MayPublish(topic); got != tt.open {
				t.Errorf("user %q, client %q: MayPublish(%q) = %v, want %v", tt.user, tt.client, topic, got, tt.open)
			}
			if got := g.MaySubscribe(topic); got != tt.open {
				t.Errorf("user %q, client %q: MaySubscribe(%q) = %v, want %v", tt.user, tt.client, topic, got, tt.open)
			}
		}
		for _, topic := range []string{"c/x", "a/x", "x/c/y", "$SYS/x", "/x", "//x"} {
			if g.MayPublish(topic) || g.MaySubscribe(topic) {
				t.Errorf("user %q, client %q may use %q", tt.user, tt.client, topic)
			}
		}
		if g.MaySubscribe("#") || g.MaySubscribe("+/+/#") || g.MaySubscribe("+/c/#") || g.MaySubscribe("u/+/#") {
			t.Errorf("user %q, client %q may subscribe to more than its own", tt.user, tt.client)
		}
	}
	g, err := access.ParseRules(rules, "d", "c")
	if err != nil || g.MayPublish("open/d/c") || !g.MayPublish("open/d/x") || g.MaySubscribe("open/d/+") {
		t.Errorf("a deny with names does not hold: %v", err)
	}
}

// TestNoUser: the filters of users are nothing to anonymous clients.
func TestNoUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, "rules: [{everyone: true, publish: ['%u/#', 'x%u'], subscribe: ['%u/#', '$share/%u/x']}]")
	g, _, err := start(t, access.Config{Rules: path, Anonymous: access.Anyone}).Decide(access.Login{ClientID: "c"})
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"/", "/x", "x"} {
		if g.MayPublish(topic) || g.MaySubscribe(topic) {
			t.Errorf("an anonymous client may use %q", topic)
		}
	}
}

func TestClientIDs(t *testing.T) {
	const rules = `
rules:
  - users: [gateway, bound, we/ird, "%"]
    client_ids: ["%u", "%u-*"]
  - users: [bound]
    client_ids: ["x%%y"]
  - users: [free]
    publish: ["#"]
  - users: [any]
    client_ids: ["*"]
  - anonymous: true
    client_ids: ["guest-*", "%u*"]
`
	tests := []struct {
		user, client string
		want         bool
	}{
		{"gateway", "gateway", true},
		{"gateway", "gateway-1", true},
		{"gateway", "gateway-", true},
		{"gateway", "gateway1", false},
		{"gateway", "x%y", false},
		{"gateway", "", false},
		{"bound", "bound-1", true},
		{"bound", "x%y", true},
		{"bound", "x%yz", false},
		{"we/ird", "we/ird-1", true},
		{"we/ird", "we", false},
		{"%", "%", true},
		{"%", "%u", false},
		{"free", "gateway", true},
		{"unnamed", "gateway", true},
		{"any", "", true},
		{"any", "x", true},
		{"", "guest-1", true},
		{"", "gateway", false},
		{"", "", false},
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, rules)
	a := start(t, access.Config{Rules: path, Anonymous: access.Anyone})
	for _, tt := range tests {
		g, ok, err := a.Decide(access.Login{ClientID: tt.client, Certificate: tt.user})
		if !ok || (err == nil) != tt.want || !tt.want && !errors.Is(err, access.ErrClientID) || (g == nil) != (err != nil) {
			t.Errorf("user %q as %q: %v, want it to be right: %v", tt.user, tt.client, err, tt.want)
		}
	}
}

func TestRulesFile(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"empty", "\n", `access: rules file rules.yaml: is empty; write at least one rule, as in rules: [{everyone: true, publish: [site/#]}]`},
		{"no YAML", "rules: [", `access: rules file rules.yaml:1:8: is not valid YAML: sequence end token ']' not found`},
		{"no rules", "groups: {a: [b]}\n", `access: rules file rules.yaml:1:1: rules is missing; a rules file needs at least one`},
		{"no rule", "rules: []\n", `access: rules file rules.yaml:1:8: rules: the list is empty; write a rule, or remove it`},
		{"unknown key", "rules:\n  - everyone: true\n    publsh: [a]\n", `access: rules file rules.yaml:3:5: rules[0]: unknown key "publsh"; did you mean "publish"? (allowed here: anonymous, client_ids, deny_publish, deny_subscribe, everyone, groups, publish, subscribe, users)`},
		{"for nobody", "rules:\n  - publish: [a]\n", `access: rules file rules.yaml:2:5: rules[0]: the rule is for nobody; write users, groups, anonymous: true or everyone: true`},
		{"says nothing", "rules:\n  - users: [a]\n", `access: rules file rules.yaml:2:5: rules[0]: the rule says nothing; write client_ids, publish, subscribe, deny_publish or deny_subscribe`},
		{"no such group", "groups: {technicians: [a]}\nrules:\n  - {groups: [technician], publish: [a]}\n", `access: rules file rules.yaml:3:15: rules[0].groups[0]: there is no group "technician"; did you mean "technicians"?`},
		{"empty group", "groups: {a: []}\nrules: [{groups: [a], publish: [a]}]\n", `access: rules file rules.yaml:1:13: groups.a: the list is empty; write a user, or remove it`},
		{"empty name", "rules: [{users: [''], publish: [a]}]\n", `access: rules file rules.yaml:1:18: rules[0].users[0]: is empty; write the name of a user`},
		{"not a list", "rules: [{users: a, publish: [a]}]\n", `access: rules file rules.yaml:1:17: rules[0].users: must be a list ([a, b], or one entry a line after -)`},
		{"not a boolean", "rules: [{everyone: 'true', publish: [a]}]\n", `access: rules file rules.yaml:1:20: rules[0].everyone: is a text; write the value without quotes`},
		{"empty filter", "rules: [{everyone: true, publish: ['']}]\n", `access: rules file rules.yaml:1:36: rules[0].publish[0]: is empty; write a topic filter, as in site/%c/#`},
		{"# in the middle", "rules: [{everyone: true, publish: ['a/#/b']}]\n", `access: rules file rules.yaml:1:36: rules[0].publish[0]: a # may stand at the end only`},
		{"# in a level", "rules: [{everyone: true, subscribe: ['a/b#']}]\n", `access: rules file rules.yaml:1:38: rules[0].subscribe[0]: a # stands for whole levels, as in site/#`},
		{"+ in a level", "rules: [{everyone: true, deny_publish: ['a/b+']}]\n", `access: rules file rules.yaml:1:41: rules[0].deny_publish[0]: a + stands for a whole level, as in site/+/state`},
		{"a NUL", "rules: [{everyone: true, deny_subscribe: [\"a\\0b\"]}]\n", `access: rules file rules.yaml:1:43: rules[0].deny_subscribe[0]: contains a NUL character`},
		{"too long", "rules: [{everyone: true, publish: [" + strings.Repeat("a", 65536) + "]}]\n", `access: rules file rules.yaml:1:36: rules[0].publish[0]: has 65536 bytes, want at most 65535`},
		{"too deep", "rules: [{everyone: true, publish: ['" + strings.Repeat("a/", 32) + "a']}]\n", `access: rules file rules.yaml:1:36: rules[0].publish[0]: has more than 32 levels`},
		{"placeholder", "rules: [{everyone: true, publish: ['a/%d']}]\n", `access: rules file rules.yaml:1:36: rules[0].publish[0]: a % is followed by u (the user), c (the client id), or another % that stands for itself`},
		{"placeholder of a group", "rules: [{everyone: true, subscribe: ['$share/%/a']}]\n", `access: rules file rules.yaml:1:38: rules[0].subscribe[0]: a % is followed by u (the user), c (the client id), or another % that stands for itself`},
		{"shared, published", "rules: [{everyone: true, publish: ['$share/g/a']}]\n", `access: rules file rules.yaml:1:36: rules[0].publish[0]: nobody publishes to a shared subscription; write its topic filter`},
		{"shared, not whole", "rules: [{everyone: true, subscribe: ['$share/g']}]\n", `access: rules file rules.yaml:1:38: rules[0].subscribe[0]: want $share/GROUP/FILTER, the group without wildcards`},
		{"client id", "rules: [{everyone: true, client_ids: ['a*b']}]\n", `access: rules file rules.yaml:1:39: rules[0].client_ids[0]: a * may stand at the end only`},
		{"empty client id", "rules: [{everyone: true, client_ids: ['']}]\n", `access: rules file rules.yaml:1:39: rules[0].client_ids[0]: is empty; write a client id, or the beginning of some with a * behind it, as in "%u-*"`},
		{"client id of itself", "rules: [{everyone: true, client_ids: ['%c']}]\n", `access: rules file rules.yaml:1:39: rules[0].client_ids[0]: %c stands for the client id itself; write %u, the user`},
		{"several", "rules:\n  - publish: ['#a']\n  - users: ['']\n", "access: rules file rules.yaml:2:15: rules[0].publish[0]: a # stands for whole levels, as in site/#\nrules.yaml:3:13: rules[1].users[0]: is empty; write the name of a user"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := access.ParseRules(tt.file, "", "")
			if err == nil {
				t.Fatal("there is no error")
			}
			var lines []string
			for line := range strings.Lines(err.Error()) {
				if !strings.Contains(line, " | ") && strings.TrimSpace(line) != "" && strings.TrimSpace(line) != "^" { // the line itself, and a mark
					lines = append(lines, strings.TrimRight(line, "\n"))
				}
			}
			if got := strings.Join(lines, "\n"); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if _, err := access.New(access.Config{Rules: path}); !errors.Is(err, os.ErrNotExist) || err.Error() != "access: rules file "+path+": no such file or directory" {
		t.Errorf("New = %v, want ErrNotExist", err)
	}
	write(t, path, strings.Repeat("#", 5<<20))
	if _, err := access.New(access.Config{Rules: path}); err == nil || err.Error() != "access: rules file "+path+": it has more than 4194304 bytes" {
		t.Errorf("New = %v, want too many bytes", err)
	}
}

func FuzzRules(f *testing.F) {
	f.Add("groups: {g: [u]}\nrules: [{groups: [g], client_ids: ['%u*'], publish: ['%u/%c/#'], subscribe: [$share/g/a]}]", "u", "c", "u/c/+")
	f.Add("rules: [{everyone: true, publish: [a, +/#], deny_publish: ['%%/+'], subscribe: ['#'], deny_subscribe: ['%c']}]", "", "", "#")
	f.Add("rules: [{anonymous: true, publish: [\"\\0\"]}]", "$u", "/", "$share/g/+")
	f.Fuzz(func(t *testing.T, text, user, client, filter string) {
		g, err := access.ParseRules(text, user, client)
		if err != nil {
			return
		}
		may := g.MaySubscribe(filter)
		if topic := strings.NewReplacer("+", "x", "#", "x/y").Replace(filter); may && !strings.HasPrefix(filter, "$share/") && !g.MaySubscribe(topic) {
			t.Errorf("%s\nuser %q, client %q may subscribe to %q, but not to %q in it", text, user, client, filter, topic)
		}
		g.MayPublish(filter)
		if !g.Valid() {
			t.Error("a new grant is not valid")
		}
	})
}
