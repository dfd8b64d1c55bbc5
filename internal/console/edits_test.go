package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/test/testenv"
)

// fillIn writes a text into a field, as if it were typed.
func fillIn(b *tab, field, text string) {
	b.t.Helper()
	eval[any](b, fmt.Sprintf(`void ((e) => { e.focus(); e.value = %s; e.dispatchEvent(new Event('input', {bubbles: true})) })(%s)`, quote(text), field))
}

// TestEditedRoute changes a route in two tabs: the second is told, keeps what was typed, and can go on.
func TestEditedRoute(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	s := startServer(t, "")
	s.ask(http.MethodPut, "/v1/endpoints/ops", map[string]any{"kind": "log", "target": "ops.jsonl"})
	s.ask(http.MethodPut, "/v1/routes/alerts", map[string]any{"endpoint": "ops"})
	one := newTab(t, look{})
	two := one.another()
	for _, b := range []*tab{one, two} {
		b.visit(s.url("/console/delivery/routes/alerts"))
		b.sees("Save the route alerts")
	}
	fillIn(one, `document.querySelector('#f-group')`, "berlin")
	one.clickText("Save the route")
	one.sees("The route alerts was set.")
	fillIn(two, `document.querySelector('#f-device')`, "site-7/*")
	two.clickText("Save the route")
	two.sees("has changed since it was read")
	two.clickText("Read it again")
	two.sees("This is stored now.")
	two.awaits("it shows what is stored", `document.querySelector('.snippet')?.innerText.includes('berlin')`)
	two.awaits("it keeps what was typed", `[...document.querySelectorAll('input')].some((e) => e.value === 'site-7/*')`)
	two.clickText("Save the route")
	two.sees("The route alerts was set.")
	if stored := string(s.ask(http.MethodGet, "/v1/routes/alerts", nil)); !strings.Contains(stored, "site-7/*") {
		t.Errorf("stored is %s", stored)
	}
	one.isClean(s)
	two.isClean(s)
}

// TestEditedPolicy changes the policy of a device in two tabs.
func TestEditedPolicy(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	s := startServer(t, "")
	s.beat(time.Hour, "pump-1")
	const exact = "3661500" // the form shows it exactly
	s.ask(http.MethodPut, "/v1/devices/pump-1/policy", map[string]any{"timeout_ms": json.Number(exact)})
	one := newTab(t, look{})
	two := one.another()
	for _, b := range []*tab{one, two} {
		b.visit(s.url("/console/devices/pump-1"))
		b.clickText("Policy…")
		b.awaits("the form is filled", `document.querySelector('dialog input[name=timeout_ms]')?.value === '1h1m1s500ms'`)
	}
	fillIn(one, `document.querySelector('input[name=interval_ms]')`, "30s")
	one.clickText("Set the policy")
	one.sees("The policy of pump-1 was set.")
	if stored := string(s.ask(http.MethodGet, "/v1/devices/pump-1/policy", nil)); !strings.Contains(stored, exact) || !strings.Contains(stored, "30000") {
		t.Errorf("stored is %s, want the timeout as it was, and the interval that was set", stored)
	}
	fillIn(two, `document.querySelector('input[name=close_grace_ms]')`, "7s")
	two.clickText("Set the policy")
	two.sees("has changed since it was read")
	two.sees("Interval 30s")
	two.awaits("it keeps what was typed", `document.querySelector('dialog[open] input[name=close_grace_ms]').value === '7s'`)
	two.clickText("Set the policy")
	two.sees("The policy of pump-1 was set.")
	if stored := string(s.ask(http.MethodGet, "/v1/devices/pump-1/policy", nil)); !strings.Contains(stored, "7000") {
		t.Errorf("stored is %s", stored)
	}
	one.isClean(s)
	two.isClean(s)
}

// TestEditedPlaybook changes a playbook in two tabs.
func TestEditedPlaybook(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	s := startServer(t, "")
	s.ask(http.MethodPut, "/v1/playbooks/escalate", map[string]any{"steps": []any{map[string]any{"name": "patience", "wait": "5m"}}})
	one := newTab(t, look{})
	two := one.another()
	const area = `document.querySelector('textarea')`
	for _, b := range []*tab{one, two} {
		b.visit(s.url("/console/playbooks/escalate?edit=true"))
		b.awaits("there is the form", area)
	}
	fillIn(one, area, `{"steps": [{"name": "patience", "wait": "6m"}]}`)
	one.clickText("Save")
	one.sees("The playbook was saved.")
	fillIn(two, area, `{"steps": [{"name": "patience", "wait": "7m"}]}`)
	two.clickText("Save")
	two.sees("has changed since it was read")
	two.clickText("Read it again")
	two.awaits("it shows what is stored", `document.querySelector('.trouble .snippet')?.innerText.includes('6m')`)
	two.awaits("it keeps what was typed", area+`.value.includes('7m')`)
	two.clickText("Save")
	two.sees("The playbook was saved.")
	if stored := string(s.ask(http.MethodGet, "/v1/playbooks/escalate", nil)); !strings.Contains(stored, "7m") {
		t.Errorf("stored is %s", stored)
	}
	one.isClean(s)
	two.isClean(s)
}
