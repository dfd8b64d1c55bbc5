package console_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/test/testenv"
)

// pictures says that the pictures in the documentation are to be taken anew.
var pictures = flag.Bool("pictures", false, "take the pictures in docs/img anew")

// screen is a page of the console, and what it shows when it is whole.
type screen struct {
	name, path, shows string
}

func screens(s *server) []screen {
	return []screen{
		{"fleet", "/console/", "berlin"},
		{"fleet-by-group", "/console/?by=group", "berlin"},
		{"devices", "/console/devices?state=offline&sort=since&order=desc", "berlin/meter-"},
		{"device", "/console/devices/" + url.PathEscape("berlin/meter-003"), "Nothing was heard of it"},
		{"device-online", "/console/devices/" + url.PathEscape("hamburg/pump-000"), "It was heard in time"},
		{"groups", "/console/groups", "hamburg"},
		{"sources", "/console/sources", "gateway"},
		{"events", "/console/events", "berlin/meter-"},
		{"delivery", "/console/delivery", "default"},
		{"delivery-endpoints", "/console/delivery/endpoints", "oncall"},
		{"delivery-routes", "/console/delivery/routes", "alerts"},
		{"playbooks", "/console/playbooks", "escalate"},
		{"playbook", "/console/playbooks/escalate", "patience"},
		{"runs", "/console/runs", "escalate"},
		{"run", "/console/runs/" + strconv.Itoa(firstRun(s)), "patience"},
		{"schedules", "/console/schedules", "nightly"},
		{"schedule", "/console/schedules/nightly", "Europe/Berlin"},
		{"schedule-new", "/console/schedules?new=1", "zone"},
		{"playbook-new", "/console/playbooks?new=1", "teps"},
		{"settings", "/console/settings", "Tokens"},
		{"settings-configuration", "/console/settings/configuration", "http_console"},
		{"settings-doctor", "/console/settings/doctor", "clock"},
	}
}

// firstRun returns the number of a run.
func firstRun(s *server) int {
	s.t.Helper()
	var page struct {
		Runs []struct {
			Run int `json:"run"`
		} `json:"runs"`
	}
	s.until("there is a run", "/v1/runs", func(body string) bool {
		return json.Unmarshal([]byte(body), &page) == nil && len(page.Runs) > 0
	})
	return page.Runs[len(page.Runs)-1].Run
}

// TestScreens opens each screen in a real browser, light, dark and narrow: nothing goes wrong in it, it can be used by everybody
// (axe finds nothing serious), it asks for nothing elsewhere, and it stays within its budgets.
func TestScreens(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	_, modules := testenv.Node(t, "axe-core")
	axe, err := os.ReadFile(filepath.Join(modules, "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	s := fixture(t)
	b := newTab(t, look{})
	for _, c := range screens(s) {
		b.appear(b.look)
		b.visit(s.url(c.path))
		b.sees(c.shows)
		b.awaits("it is calm", `!document.body.innerText.includes('Loading…')`)
		eval[any](b, "void (0, eval)("+quote(string(axe))+")")
		if n := eval[int](b, `document.querySelectorAll('*').length`); n > 2000 {
			t.Errorf("%s has %d nodes, want at most 2000", c.name, n)
		}
		for _, l := range []struct {
			name string
			look look
		}{
			{"light", b.look},
			{"dark", look{width: b.look.width, height: b.look.height, dark: true}},
			{"narrow", look{width: 360, height: 740}},
		} {
			b.appear(l.look)
			b.awaits("it is as wide as the window", fmt.Sprintf(`innerWidth === %d && document.documentElement.scrollWidth <= innerWidth`, l.look.width))
			for _, v := range violations(b, l.look.dark) {
				t.Errorf("%s, %s: %s", c.name, l.name, v)
			}
			if dir := os.Getenv("HOLTER_TEST_PICTURES"); dir != "" {
				b.picture(fmt.Sprintf("%s/%s-%s.png", dir, c.name, l.name))
			}
			if *pictures && l.name != "narrow" && !strings.Contains(c.name, "-") {
				b.picture(fmt.Sprintf("../../docs/img/console/%s-%s.png", c.name, l.name))
			}
		}
		b.isClean(s)
	}
}

// violations returns what axe finds serious in a page. Of a page that was looked at before only the colours are new.
func violations(b *tab, coloursOnly bool) []string {
	b.t.Helper()
	options := `{resultTypes: ['violations']}`
	if coloursOnly {
		options = `{resultTypes: ['violations'], runOnly: ['color-contrast', 'link-in-text-block']}`
	}
	return eval[[]string](b, `axe.run(`+options+`).then((r) => r.violations.filter((v) => ['serious', 'critical'].includes(v.impact))
		.map((v) => v.impact + ': ' + v.help + ': ' + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + ' ' + (n.any[0]?.message ?? '')).join(' | ')))`)
}
