package prometheus_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testprogram"
)

func TestMain(m *testing.M) { testprogram.Main(m) }

// holter is a server that runs.
type holter struct{ program, dir, api string }

// startHolter starts holter serve with a configuration.
func startHolter(t *testing.T, config string) *holter {
	t.Helper()
	dir := t.TempDir()
	h := &holter{program: testprogram.Holter(t), dir: dir, api: "http://" + testenv.FreeAddress(t)}
	write(t, filepath.Join(dir, "fleet.yaml"), config)
	testprogram.Start(t, dir, h.api+"/readyz", h.program, "serve", "--config", "fleet.yaml", "--listen", "any://127.0.0.1:0,udp+any://127.0.0.1:0", "--mqtt", "127.0.0.1:0",
		"--link", "127.0.0.1:0", "--http", h.api[len("http://"):], "--log-format", "json")
	return h
}

// do runs a command of the program.
func (h *holter) do(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), h.program, append(args, "--api", h.api)...)
	cmd.Dir = h.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("holter %v: %v\n%s", args, err, out)
	}
}

// beatOn has a new device send one heartbeat every tenth of a second until the test ends: soon there are
// verdicts all the time.
func (h *holter) beatOn(t *testing.T) {
	t.Helper()
	ctx, done := t.Context(), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-tick.C:
				testprogram.Get(fmt.Sprintf("%s/v1/beat/dev-%d", h.api, n%50))
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { <-done })
}

// prometheus is a Prometheus that runs.
type prometheus struct{ url string }

// startPrometheus starts one with a configuration.
func startPrometheus(t *testing.T, config string) *prometheus {
	t.Helper()
	program, address, dir := testenv.Program(t, "prometheus"), testenv.FreeAddress(t), t.TempDir()
	write(t, filepath.Join(dir, "prometheus.yml"), config)
	p := &prometheus{url: "http://" + address}
	testprogram.Start(t, dir, p.url+"/-/ready", program, "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address="+address, "--log.level=warn")
	return p
}

// query returns the samples that an expression has now, without those that are not a number.
func (p *prometheus) query(t *testing.T, expr string) (found []map[string]string) {
	t.Helper()
	_, body := testprogram.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(expr))
	var answer struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Status != "success" || answer.Data.ResultType != "vector" {
		t.Fatalf("query %s: %v, %s", expr, err, body)
	}
	for _, r := range answer.Data.Result {
		if r.Value[1] != "NaN" {
			found = append(found, r.Metric)
		}
	}
	return found
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
