package prometheus_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testprogram"
	"github.com/holter-iot/holter/internal/test/testwait"
)

const example = "../../examples/prometheus"

// TestExample has promtool check the example without a database server and a broker, and plays it, with
// shorter times: a device falls silent, and the alert fires.
func TestExample(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	promtool := testenv.Program(t, "promtool")
	testenv.Program(t, "prometheus")
	if out, err := exec.CommandContext(t.Context(), promtool, "check", "config", filepath.Join(example, "prometheus.yml")).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
	replace := func(text string, pairs ...string) string {
		for i := 0; i < len(pairs); i += 2 {
			if !strings.Contains(text, pairs[i]) {
				t.Fatalf("%q is not in\n%s", pairs[i], text)
			}
		}
		return strings.NewReplacer(pairs...).Replace(text)
	}
	h := startHolter(t, replace(read(t, filepath.Join(example, "fleet.yaml")), "90s", "1s", "30s", "300ms"))
	rules := filepath.Join(t.TempDir(), "rules.yml")
	write(t, rules, replace(read(t, filepath.Join(example, "rules.yml")), "for: 30s", "for: 1s"))
	p := startPrometheus(t, replace(read(t, filepath.Join(example, "prometheus.yml")), "5s", "500ms", "127.0.0.1:8080", strings.TrimPrefix(h.api, "http://"), "rules.yml", rules))
	testprogram.Get(h.api + "/v1/beat/north%2Fpump-1")
	testwait.Until(t, "both alerts", func() bool {
		return len(p.query(t, `ALERTS{alertname=~"(Many)?DevicesOffline", alertstate="firing"}`)) == 2
	}, func() string { return fmt.Sprint(p.query(t, "ALERTS"), p.query(t, "holter_devices > 0")) })
	if found := p.query(t, `ALERTS{alertname!~".*Offline"}`); len(found) > 0 {
		t.Errorf("these fire, too: %v", found)
	}
}
