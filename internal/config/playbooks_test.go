package config_test

import (
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/config"
)

// What package playbook finds is told with the place where it was written.
func TestCheckPlaybooks(t *testing.T) {
	const text = "playbooks:\n- name: a b\n  steps:\n  - {name: x, if: z, note: hi}\n  - name: y\n    after: [nobody]\n    note: hi\n" +
		"- name: c\n  when: {types: [nothing]}\n  on_recover:\n  - {name: r, command: {argv: [/no/such/program]}}\n  steps: [{name: x, note: hi}]\n" +
		"- {name: d, steps: [{name: x, note: hi}]}\n- {name: d, steps: [{name: x, note: hi}]}\n"
	cfg, err := config.ParseText("fleet.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	if err := cfg.CheckPlaybooks(); err != nil {
		got = err.Error()
	}
	for _, want := range []string{
		"fleet.yaml:2:9: playbooks[0].name: ", "fleet.yaml:4:19: playbooks[0].steps[0].if: there is no step", "fleet.yaml:6:12: playbooks[0].steps[1].after: ",
		"fleet.yaml:11:24: playbooks[1].on_recover[0].command: ", "fleet.yaml:9:9: playbooks[1].when: there is no type", "fleet.yaml:14:10: playbooks[3].name: two playbooks have this name",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing from\n%s", want, got)
		}
	}
}
