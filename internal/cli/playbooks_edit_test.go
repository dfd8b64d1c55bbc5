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

const ownPlaybook = `name: own
when: {types: device.offline, reasons: bye}
on_recover:
  - {name: resolve, note: "${device} is back"}
steps:
  - {name: tell, webhook: {url: "HOOKS/gone"}}
  - {name: patience, wait: 1h}
  - {name: still, condition: offline}
  - {name: page, if: still, note: "${device} of ${group}"}
`

// A playbook that was set is there after the server was killed.
func TestPlaybookEdits(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	data := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(data, name)
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "HOOKS", h.URL)), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	config := write("holter.yaml", "playbooks:\n- {name: of-file, steps: [{name: note, note: x}]}\n")
	own, asJSON := write("own.yaml", ownPlaybook), write("own.json", `{"steps":[{"name":"note","note":"as JSON"}]}`)
	p := startServe(t, server.PrivateEnv+"=127.0.0.1", "--data", data, "--config", config)
	holter := func(want string, args ...string) string { t.Helper(); return p.operate(want, args...) }
	holter("is fine", "playbooks", "check", own)
	holter("no playbook", "playbooks", "get", "own")
	holter("playbook own set", "playbooks", "set", "own", own)
	holter("api", "playbooks", "list")
	holter(`"origin":"api"`, "playbooks", "get", "own", "--json")
	p.do(http.MethodPost, "/v1/beat/a", "")
	p.do(http.MethodPost, "/v1/beat/a/bye", "")
	h.until(t, "it was told", func(came []string) bool { return len(came) == 1 })

	holter("event 2 would start a run", "playbooks", "dry-run", "own", "--event", "2")
	holter("event 1 would start no run: its type is device.online", "playbooks", "dry-run", own, "--event", "1")
	shown := holter("STEP", "playbooks", "dry-run", own, "--event", "2")
	for _, want := range []string{"patience             0s", "page                 1h  still", "note: a of", "recovery + 0s", "note: a is back", h.URL + "/gone"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is missing in\n%s", want, shown)
		}
	}
	holter("there is no event 99", "playbooks", "dry-run", "own", "--event", "99")
	holter(`no playbook "nobody"`, "playbooks", "dry-run", "nobody", "--event", "2")
	holter(`"starts":true`, "playbooks", "dry-run", "own", "--event", "2", "--json")

	if err := p.stop(syscall.SIGKILL); err == nil {
		t.Error("it was killed and ended well")
	}
	p = startServe(t, server.PrivateEnv+"=127.0.0.1", "--data", data, "--config", config)
	holter("patience", "playbooks", "get", "own")
	p.do(http.MethodPost, "/v1/beat/b", "")
	p.do(http.MethodPost, "/v1/beat/b/bye", "")
	h.until(t, "it was told again", func(came []string) bool { return len(came) == 2 })

	holter("playbook own set", "playbooks", "set", "own", asJSON)
	holter("as JSON", "playbooks", "get", "own")
	holter("playbook own deleted", "playbooks", "delete", "own")
	holter("no playbook", "playbooks", "delete", "own")
	holter("holter.yaml:2", "playbooks", "set", "of-file", asJSON)
	holter("holter.yaml:2", "playbooks", "delete", "of-file")

	mistaken := write("bad.yaml", "name: bad\nsteps:\n- {name: a, wait: 1ms}\n- {name: b, nte: x}\n")
	holter("bad.yaml:3:19: steps[0].wait: 1ms is out of range", "playbooks", "check", mistaken)
	holter("bad.yaml:4:", "playbooks", "set", "bad", mistaken)
	holter("it is \"own\" here", "playbooks", "set", "other", own)
	holter("name is missing", "playbooks", "check", asJSON)
	holter("no such file", "playbooks", "set", "x", filepath.Join(data, "none"))
	senseless := write("sense.yaml", "name: x\nsteps:\n- {name: a, if: b, command: {argv: [true]}}\n- {name: t, deliver: {endpoint: none}}\n")
	code, out := p.holter("playbooks", "check", senseless)
	for _, want := range []string{`warning: step "t", deliver: there is no endpoint "none"`, `step "a", if: there is no step "b"`, `step "a", command: this server is not configured`} {
		if code == 0 || !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}
