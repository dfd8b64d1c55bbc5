// Package prometheus_test runs a real Prometheus, with the files of this directory, against a real Holter,
// and asks it all that the dashboard of deploy/grafana and the alert rules ask.
package prometheus_test

import (
	"os"
	"testing"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
