package queues

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(run.TestMain(m, Command())) }

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"-only", "("}, {"-rounds", "0"}, {"-workers", "0"}, {"-workers", "10001"}, {"-backlog", "-1"}, {"-conns", "1"}, {"-conns", "51"}} {
		if err := run.Main(t.Context(), append([]string{name}, args...), nil, io.Discard, io.Discard, Command()); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// TestQuick makes measurements of all kinds on a small scale. One fails unless each job is stored once, and worked once.
func TestQuick(t *testing.T) {
	testenv.Check(t)
	testdb.Need(t, "postgres")
	only := []string{
		"enqueue/holter", "enqueue/river", "bulk/river-copy", "work/holter", "work/river-2000", "latency-1000/holter", "latency-1000/river",
		"backlog/holter", "backlog/river-2000",
	}
	var out bytes.Buffer
	args := []string{name, "-quick", "-backlog", "2000", "-only", "^(" + strings.Join(only, "|") + ")$"}
	if err := run.Main(t.Context(), args, nil, &out, t.Output(), Command()); err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(out.String(), "\n### ")
	want := make(map[string]int)
	for _, m := range only {
		_, of, _ := strings.Cut(m, "/")
		want[of]++
	}
	for _, s := range subjects(1, 2) {
		if got := strings.Count(tables, "\n| "+s.name+" | "); got != want[s.name] {
			t.Errorf("the report has %d rows of %q, want %d:\n%s", got, s.name, want[s.name], &out)
		}
	}
}

// TestTally checks that jobs that were begun twice, or not at all, are found.
func TestTally(t *testing.T) {
	tests := []struct {
		name  string
		begun []int
		left  int
		fails bool
	}{
		{"each once", []int{2, 0, 1}, 0, false},
		{"one is left", []int{2, 0}, 1, false},
		{"one is missing", []int{2, 0}, 0, true},
		{"one twice", []int{2, 0, 1, 2}, 0, true},
		{"one is none", []int{2, 0, 3}, 1, true},
		{"none below zero", []int{2, 0, -1}, 1, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all := newTally(3, false)
			for _, n := range tt.begun {
				all.begin(n)
			}
			if err := all.check(tt.left); (err != nil) != tt.fails {
				t.Errorf("check(%d) after %v = %v", tt.left, tt.begun, err)
			}
		})
	}
}
