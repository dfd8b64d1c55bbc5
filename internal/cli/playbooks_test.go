package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holter-iot/holter/internal/server"
)

const escalation = `playbooks:
  - name: escalate
    when: {types: [device.offline], reasons: [bye]}
    on_recover:
      - {name: resolve, webhook: {url: "HOOKS/back"}}
    steps:
      - {name: tell, webhook: {url: "HOOKS/gone"}}
      - {name: patience, wait: 1h}
      - {name: page, command: {argv: [false]}}
  - name: slow
    steps:
      - {name: patience, wait: 1h}
  - name: by-hand
    steps:
      - {name: fails, attempts: 1, command: {argv: [sh, -c, "echo no such luck; exit 3"]}}
`

// An operator sees what playbooks do, also after a crash.
func TestPlaybooks(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	data := t.TempDir()
	file := filepath.Join(data, "holter.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(escalation, "HOOKS", h.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startServe(t, server.PrivateEnv+"=127.0.0.1", "--data", data, "--config", file)
	holter := func(want string, args ...string) string { t.Helper(); return p.operate(want, args...) }
	until := func(want string, args ...string) string {
		t.Helper()
		for range 1000 {
			if out := holter("", args...); strings.Contains(out, want) {
				return out
			}
		}
		t.Fatalf("holter %s never shows %q:\n%s", strings.Join(args, " "), want, holter("", args...))
		return ""
	}
	holter("device.offline for bye", "playbooks", "list")
	holter("a recovery", "playbooks", "get", "escalate")
	holter("flowchart", "playbooks", "get", "escalate", "--mermaid")
	holter("there is no playbook", "playbooks", "get", "nothing")
	holter("there is no device", "playbooks", "run", "by-hand", "a")

	p.do(http.MethodPost, "/v1/beat/a", "")
	p.do(http.MethodPost, "/v1/beat/a/bye", "")
	h.until(t, "it was told", func(came []string) bool { return len(came) == 1 })
	out := until("waiting", "runs", "list", "--playbook", "escalate", "--subject", "a", "--state", "waiting")
	run := strings.Fields(strings.Split(out, "\n")[1])[0]
	if err := p.stop(syscall.SIGKILL); err == nil {
		t.Error("it was killed and ended well")
	}
	p = startServe(t, server.PrivateEnv+"=127.0.0.1", "--data", data, "--config", file)
	holter("about a: waiting until", "runs", "get", run)
	p.do(http.MethodPost, "/v1/beat/a", "")
	h.until(t, "it was told again", func(came []string) bool { return len(came) == 2 })
	shown := until(": recovered", "runs", "get", run)
	for _, want := range []string{"tell      done", "patience  canceled", "page      canceled", "resolve   done"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is missing in\n%s", want, shown)
		}
	}
	holter(`["patience<br/>canceled`, "runs", "graph", run)
	holter(`label="patience\ncanceled`, "runs", "graph", run, "--dot")
	holter("has ended already", "runs", "cancel", run)
	holter("run ", "playbooks", "run", "by-hand", "a")
	failed := until("failed", "runs", "list", "--state", "failed")
	holter("no such luck", "runs", "get", strings.Fields(strings.Split(failed, "\n")[1])[0], "--json")
	holter("there is no run", "runs", "get", "999999")
	holter("there is no run", "runs", "graph", "999999")
	p.untilGet("/metrics", 200, `holter_playbook_runs_total{playbook="escalate",state="recovered"} 1`)
	holter("run ", "playbooks", "run", "slow", "a")
	until("waiting", "runs", "list", "--playbook", "slow")
	second := strings.TrimSuffix(strings.Fields(holter("run ", "playbooks", "run", "slow", "a"))[1], ";")
	holter("of playbook slow about a: waiting\nit waits for its turn", "runs", "get", second)
	holter("canceled", "runs", "cancel", second)
	holter(": canceled, from", "runs", "get", second)
	p.do(http.MethodPost, "/v1/beat/a/bye", "")
	out = until("waiting", "runs", "list", "--playbook", "escalate", "--state", "waiting", "--json")
	holter("canceled", "runs", "cancel", strings.TrimSuffix(strings.TrimPrefix(strings.SplitN(out, ",", 2)[0], `{"run":`), "\n"))
}

// A configuration that makes no sense is refused with the place of each mistake.
func TestPlaybookMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "holter.yaml")
	text := `playbooks:
  - name: one
    when: {types: [device.ofline]}
    steps:
      - {name: a, after: [c], note: x}
      - {name: b, note: "${devise}"}
      - {name: c, command: {argv: [no-such-program-here]}}
  - name: two
    steps:
      - {name: a, after: [x], note: x}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := command(t, "serve", "--config", file, "--data", t.TempDir()).CombinedOutput()
	if err == nil {
		t.Fatal("it started")
	}
	for _, want := range []string{
		`holter.yaml:3:11: playbooks[0].when: there is no type of event "device.ofline"`,
		`holter.yaml:5:26: playbooks[0].steps[0].after: the steps come after each other in a circle: a → b → c → a`,
		"holter.yaml:6:25: playbooks[0].steps[1].note: ${devise} stands for nothing",
		`holter.yaml:7:28: playbooks[0].steps[2].command: exec: "no-such-program-here": executable file not found`,
		`holter.yaml:10:26: playbooks[1].steps[0].after: there is no step "x"`,
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}
