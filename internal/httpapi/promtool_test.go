package httpapi_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/liveness"
)

// metricsText returns the metrics of a fleet to which something happened.
func metricsText(t *testing.T) (text []byte) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.beating(httpapi.Config{}).Handler()
		f.pulse()
		f.open("a")
		send(h, "POST", "/v1/beat/b", "")
		f.listen(91 * time.Second)
		text = get(h, "/metrics").Body.Bytes()
	})
	return text
}

// TestMetricsLint asks the rules of Prometheus, and promtool where there is one.
func TestMetricsLint(t *testing.T) {
	text := metricsText(t)
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	cmd := exec.CommandContext(t.Context(), testenv.Program(t, "promtool"), "check", "metrics")
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

func TestMetricsOfVerdicts(t *testing.T) {
	text := string(metricsText(t))
	for _, want := range []string{
		"holter_verdicts_total 1\n", `holter_detection_lag_seconds_bucket{le="0.001"} `, `holter_detection_lag_seconds_bucket{le="+Inf"} 1`,
		"holter_detection_lag_seconds_count 1\n", "holter_http_beats_total 1\n", "holter_outbox_stalled_seconds 0\n", "holter_events_total 3\n",
		`holter_source_held{source="http"} 0`, `holter_source_absent{source="line"} 0`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing from\n%s", want, text)
		}
	}
}
