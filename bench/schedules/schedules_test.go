package schedules

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/test/testcron"
	"github.com/holter-iot/holter/internal/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(run.TestMain(m, Command())) }

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"-only", "("}, {"-rounds", "0"}, {"-n", "0"}, {"-expressions", "0"}, {"-instants", "0"}} {
		if err := run.Main(t.Context(), append([]string{name}, args...), nil, io.Discard, io.Discard, Command()); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// TestQuick makes every measurement on a small scale. It fails if package schedule differs from the model.
func TestQuick(t *testing.T) {
	testenv.Check(t)
	var out bytes.Buffer
	if err := run.Main(t.Context(), []string{name, "-quick", "-expressions", "1"}, nil, &out, t.Output(), Command()); err != nil {
		t.Fatal(err)
	}
	want := []string{"\n| holter | ", "\n| robfig | "}
	for _, text := range usual() {
		want = append(want, "\n| `"+text+"` | ")
	}
	for _, z := range zones() {
		want = append(want, "\n| "+z.name+" | ")
	}
	for _, row := range want {
		if !strings.Contains(out.String(), row) {
			t.Errorf("the report has no %q:\n%s", row, &out)
		}
	}
}

// TestKind checks that differences are told apart, at the changes of Berlin's clock.
func TestKind(t *testing.T) {
	loc, err := time.LoadLocation(berlin)
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	k := comparison{loc: loc, changes: changesOf(loc, from, from.AddDate(1, 0, 0))}
	if len(k.changes) != 2 {
		t.Fatalf("the changes are %v, want two", k.changes)
	}
	spring, autumn := k.changes[0].at, k.changes[1].at
	tests := []struct {
		name      string
		x         testcron.Expression
		got, want time.Time
		kind      string
	}{
		{"left out", testcron.Daily(30, 2), spring.Add(24*time.Hour + 30*time.Minute), spring, skipped},
		{"not at all", testcron.Daily(30, 2), time.Time{}, spring, skipped},
		{"due right after the gap, and left out", testcron.Daily(0, 3), spring.Add(24 * time.Hour), spring, sameDay},
		{"twice", testcron.Daily(30, 2), autumn.Add(30 * time.Minute), autumn.Add(24 * time.Hour), twice},
		{"the second time only", testcron.Daily(30, 2), autumn.Add(30 * time.Minute), autumn.Add(-30 * time.Minute), twice},
		{"in summer", testcron.Daily(30, 2), spring.Add(1000 * time.Hour), spring.Add(1024 * time.Hour), others},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := k.kind(tt.x, tt.got, tt.want); got != tt.kind {
				t.Errorf("kind(%q, %v, %v) = %q, want %q", tt.x.Text, tt.got, tt.want, got, tt.kind)
			}
		})
	}
}
