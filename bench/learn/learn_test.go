package learn

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(run.TestMain(m, Command())) }

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"-only", "("}, {"-rounds", "0"}, {"-n", "0"}, {"-days", "3"}, {"-days", "366"}} {
		if err := run.Main(t.Context(), append([]string{name}, args...), nil, io.Discard, io.Discard, Command()); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// TestQuick simulates all groups for a short time.
func TestQuick(t *testing.T) {
	testenv.Check(t)
	var out bytes.Buffer
	dir := t.TempDir()
	if err := run.Main(t.Context(), []string{name, "-quick", "-svg", dir}, nil, &out, t.Output(), Command()); err != nil {
		t.Fatal(err)
	}
	for _, s := range streams() {
		if !strings.Contains(out.String(), "### "+s.name+": "+s.text+"\n") {
			t.Errorf("the report has no stream %s:\n%s", s.name, &out)
		}
	}
	for _, c := range contenders() { // once by itself, in each group, and in the three other tables of the group of all
		if got, want := strings.Count(out.String(), "\n| "+c.name+" | "), 1+len(streams())+4; got != want {
			t.Errorf("the report has %d rows of %q, want %d:\n%s", got, c.name, want, &out)
		}
	}
	for _, file := range []string{"learned-alarms.svg", "learned-detection.svg"} {
		if svg, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !bytes.Contains(svg, []byte(ourName(1))) {
			t.Errorf("%s: %v\n%s", file, err, svg)
		}
	}
}

// TestSameStreams checks that what happens to devices depends on the seed only, and not on who judges them.
func TestSameStreams(t *testing.T) {
	play := func(seed uint64, of ...contender) [][]tally {
		s := simulation{streams: streams(), devices: 2, outages: true, seed: seed, days: 5, contenders: of}
		tallies, err := s.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return tallies
	}
	all := contenders()
	first, again, other := play(1, all...), play(1, all...), play(2, all...)
	if !reflect.DeepEqual(first, again) {
		t.Error("the same seed gave something else")
	}
	if reflect.DeepEqual(first, other) {
		t.Error("another seed gave the same")
	}
	fixed := play(1, all[3])
	for i := range streams() {
		if !reflect.DeepEqual(fixed[0][i], first[3][i]) {
			t.Errorf("stream %d differs for %s alone", i, all[3].name)
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (simulation{streams: streams(), devices: 1, days: 5}).run(ctx); err == nil {
		t.Error("a simulation that was cancelled gave no error")
	}
}
