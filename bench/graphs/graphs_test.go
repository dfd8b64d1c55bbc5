package graphs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(run.TestMain(m, Command())) }

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"-only", "("}, {"-rounds", "0"}, {"-n", "0"}} {
		if err := run.Main(t.Context(), append([]string{"graphs"}, args...), nil, io.Discard, io.Discard, Command()); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// TestQuick makes every measurement on a small scale. A measurement fails unless each node runs once, and after those before it.
func TestQuick(t *testing.T) {
	testenv.Check(t)
	var out bytes.Buffer
	if err := run.Main(t.Context(), []string{"graphs", "-quick", "-n", "200"}, nil, &out, t.Output(), Command()); err != nil {
		t.Fatal(err)
	}
	for _, s := range shapes() {
		if !strings.Contains(out.String(), ": "+s.text+"\n") {
			t.Errorf("the report has no %q:\n%s", s.text, &out)
		}
	}
	for _, of := range runners() {
		if got := strings.Count(out.String(), "\n| "+of.name+" | "); got != len(shapes()) {
			t.Errorf("the report has %d rows of %q, want %d:\n%s", got, of.name, len(shapes()), &out)
		}
	}
}

// TestErrors checks that runners pass errors on, and that check finds nodes that run in a wrong order.
func TestErrors(t *testing.T) {
	before := shapes()[0].edges(10)
	bad := errors.New("bad")
	for _, of := range runners() {
		p, err := of.prepare(before)()
		if err != nil {
			t.Fatal(err)
		}
		if err := p(t.Context(), func(int) error { return bad }); !errors.Is(err, bad) {
			t.Errorf("%s: %v, want %v", of.name, err, bad)
		}
	}
	backwards := func() (plan, error) {
		return func(_ context.Context, do work) error {
			for i := range before {
				if err := do(len(before) - 1 - i); err != nil {
					return err
				}
			}
			return nil
		}, nil
	}
	if err := check(t.Context(), backwards, before); err == nil {
		t.Error("a run backwards passes the check")
	}
}
