package chaos

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holter-iot/holter/bench/internal/run"
)

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"-ttl", "x"}, {"-ttl", "1ms"}, {"-only", "no such fault"}, {"-database", "oracle"}, {"-for", "-1s"}, {"-devices", "2"}, {"-balancer", "-devices", "70000"}} {
		if err := run.Main(t.Context(), append([]string{"chaos", "-program", "none"}, args...), nil, io.Discard, io.Discard, Command()); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// TestFinish publishes reports in place of running chaos.
func TestFinish(t *testing.T) {
	file := filepath.Join(t.TempDir(), "reliability.md")
	finish := func(report *Report, args ...string) (string, error) {
		var log strings.Builder
		c := Command()
		c.Run = func(ctx context.Context, r *run.Run) error {
			err := publish(ctx, r, report)
			if r.Keep == report.Clean() {
				t.Errorf("clean is %v, and logs are kept is %v", report.Clean(), r.Keep)
			}
			r.Keep = false
			return err
		}
		err := run.Main(t.Context(), append([]string{"chaos", "-program", "none"}, args...), nil, io.Discard, &log, c)
		return log.String(), err
	}
	if _, err := finish(&Report{Config: Config{Database: SQLite}, Evidence: &newWorld().Evidence}, "-seed", "1", "-md", file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "| missed offline | 0 |") || !strings.Contains(string(text), "go run . chaos -program none -seed 1") {
		t.Errorf("the section is %s, %v", text, err)
	}
	bad := &Report{Evidence: &newWorld().Evidence}
	bad.Violations = []Violation{{Kind: LostEvent, Subject: "dev-1", Offset: 7, Detail: "gone"}}
	if out, err := finish(bad); !errors.Is(err, errViolated) || !strings.Contains(out, "dev-1 offset 7: gone") {
		t.Errorf("finish = %v, %s", err, out)
	}
}
