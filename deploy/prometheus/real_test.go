package prometheus_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testprogram"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// fleet is a configuration in which a source hears nothing, for want of its broker, and verdicts come soon.
const fleet = `
policy: {timeout: 1s, interval: 300ms}
bridges: [{name: site, url: "mqtt://127.0.0.1:9", presets: [raw]}]
`

// TestPrometheus asks a Prometheus that scrapes a server, with the configuration of this directory, each
// query of the dashboard and of the alerts. Each query of the dashboard must find something, and some
// alerts must fire.
func TestPrometheus(t *testing.T) {
	testenv.Check(t)
	testenv.Program(t, "prometheus")
	t.Setenv("HOLTER_DELIVERY_ALLOW_PRIVATE", "127.0.0.1") // for the endpoint that is down
	h := startHolter(t, fleet)
	h.do(t, "endpoints", "set", "ops", "--kind", "log", "--target", "ops.jsonl")
	h.do(t, "endpoints", "set", "away", "--kind", "webhook", "--target", "http://127.0.0.1:9/", "--settings", `{"break_after":1,"break_over_ms":1}`)
	h.do(t, "routes", "set", "all", "--endpoint", "ops")
	h.do(t, "routes", "set", "away", "--endpoint", "away")
	h.beatOn(t)
	p := startPrometheus(t, ourConfig(t, h))

	d := readDashboard(t)
	queries := d.queries(t)
	alerts := readRules(t, rulesFile)
	all := maps.Clone(queries)
	for _, a := range d.Annotations.List {
		all["annotations "+a.Name] = plain(a.Expr)
	}
	for _, r := range alerts {
		all[r.Alert] = r.Expr
		p.query(t, r.Expr)
	}
	namesExist(t, h, all)

	missing := slices.Sorted(maps.Keys(queries))
	testwait.Until(t, "an answer to each query of the dashboard", func() bool {
		for len(missing) > 0 && len(p.query(t, queries[missing[0]])) > 0 {
			missing = missing[1:]
		}
		return len(missing) == 0
	}, func() string { return "nothing is found for " + missing[0] })
	testwait.Until(t, "alerts for what is wrong here", func() bool {
		found := p.query(t, `ALERTS{alertname="HolterDeaf", source="site"} or ALERTS{alertname="HolterEndpointDown", endpoint="away"} or ALERTS{alertname="HolterWatchdog", alertstate="firing"}`)
		return len(found) == 3
	}, func() string { return fmt.Sprint(p.query(t, "ALERTS")) })
	rulesHealthy(t, p)
}

// ourConfig returns the configuration of this directory, with the server, and scraped more often.
func ourConfig(t *testing.T, h *holter) string {
	t.Helper()
	rules, err := filepath.Abs("rules")
	if err != nil {
		t.Fatal(err)
	}
	config := read(t, "prometheus.yml")
	for old, to := range map[string]string{
		"holter:8080": strings.TrimPrefix(h.api, "http://"), "rules/*.yml": rules + "/*.yml",
		"scrape_interval: 15s": "scrape_interval: 250ms", "evaluation_interval: 15s": "evaluation_interval: 500ms",
	} {
		if !strings.Contains(config, old) {
			t.Fatalf("prometheus.yml has no %s", old)
		}
		config = strings.ReplaceAll(config, old, to)
	}
	return config
}

// namesExist wants each metric that is named in a query to be one of the server, or one of the tables of
// metrics that only an ear has.
func namesExist(t *testing.T, h *holter, queries map[string]string) {
	t.Helper()
	_, body := testprogram.Get(h.api + "/metrics")
	known := string(body) + read(t, "../../docs/reference/metrics.md") + read(t, "../../docs/run/cluster.md")
	names := regexp.MustCompile(`\b(?:holter|process|go)_[a-z0-9_]+`)
	for name, query := range queries {
		for _, metric := range names.FindAllString(query, -1) {
			metric = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(metric, "")
			if !regexp.MustCompile(`(?m)(^# TYPE |^\| .)` + metric + `\b`).MatchString(known) {
				t.Errorf("%s: there is no metric %s", name, metric)
			}
		}
	}
}

// rulesHealthy wants Prometheus to have evaluated all rules without an error.
func rulesHealthy(t *testing.T, p *prometheus) {
	t.Helper()
	code, body := testprogram.Get(p.url + "/api/v1/rules")
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || code != http.StatusOK || len(answer.Data.Groups) == 0 {
		t.Fatalf("rules: %d, %v", code, err)
	}
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			if r.Health == "err" {
				t.Errorf("%s: %s", r.Name, r.LastError)
			}
		}
	}
}
