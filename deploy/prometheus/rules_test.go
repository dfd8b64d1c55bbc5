package prometheus_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/holter-iot/holter/internal/test/testenv"
)

const (
	rulesFile = "rules/holter.yml"
	runbook   = "https://github.com/holter-iot/holter/blob/main/docs/run/runbook.md#"
)

type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func readRules(t *testing.T, name string) (all []rule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal([]byte(read(t, name)), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatalf("%s has no rules", name)
	}
	return all
}

// TestRules wants each alert to say what it is, how bad it is and what to do, and its tests to have it
// fire.
func TestRules(t *testing.T) {
	anchors := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (\w+)$`).FindAllStringSubmatch(read(t, "../../docs/run/runbook.md"), -1) {
		anchors[strings.ToLower(m[1])] = true
	}
	tests, err := filepath.Glob("tests/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	var tested strings.Builder
	for _, name := range tests {
		tested.WriteString(read(t, name))
	}
	seen := map[string]bool{}
	for _, r := range readRules(t, rulesFile) {
		if seen[r.Alert] {
			t.Errorf("%s is there twice", r.Alert)
		}
		seen[r.Alert] = true
		if !slices.Contains([]string{"critical", "warning", "none"}, r.Labels["severity"]) {
			t.Errorf("%s: severity %q, want critical, warning or none", r.Alert, r.Labels["severity"])
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s has no summary or no description", r.Alert)
		}
		anchor, ok := strings.CutPrefix(r.Annotations["runbook_url"], runbook)
		if !ok || anchor != strings.ToLower(r.Alert) || !anchors[anchor] {
			t.Errorf("%s: runbook_url %q, want %s%s and such a heading there", r.Alert, r.Annotations["runbook_url"], runbook, strings.ToLower(r.Alert))
		}
		fires := regexp.MustCompile(`alertname="` + r.Alert + `"[^\n]*(?:\n[^\n]*eval_time[^\n]*)?(?:\n[^\n]*)?value: [1-9]`)
		if !fires.MatchString(tested.String()) {
			t.Errorf("%s: no test has it fire", r.Alert)
		}
	}
	for anchor := range anchors {
		if strings.HasPrefix(anchor, "holter") && !slices.ContainsFunc(readRules(t, rulesFile), func(r rule) bool { return strings.ToLower(r.Alert) == anchor }) {
			t.Errorf("the runbook has a heading %s, and there is no such alert", anchor)
		}
	}
}

// TestPromtool has promtool check the configuration and the rules, and run the tests of the rules.
func TestPromtool(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	promtool := testenv.Program(t, "promtool")
	tests, err := filepath.Glob("tests/*.yml")
	if err != nil || len(tests) == 0 {
		t.Fatalf("tests: %v, %v", tests, err)
	}
	for _, args := range [][]string{
		{"check", "config", "prometheus.yml"},
		append([]string{"test", "rules"}, tests...),
	} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
