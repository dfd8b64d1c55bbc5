package delivery

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(run.TestMain(m, Command())) }

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"-only", "("}, {"-rounds", "0"}} {
		if err := run.Main(t.Context(), append([]string{"delivery"}, args...), nil, io.Discard, io.Discard, Command()); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// TestQuick makes every measurement on a small scale. A measurement fails unless each event arrives once.
func TestQuick(t *testing.T) {
	testenv.Check(t)
	var out bytes.Buffer
	if err := run.Main(t.Context(), []string{"delivery", "-quick"}, nil, &out, t.Output(), Command()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n| silence | ", "\n| webhooks/bare | ", "\n| webhooks/1 | ", "\n| webhooks/100 | ", "\n| latency | ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report has no %q:\n%s", want, &out)
		}
	}
}
