package dag_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/holter-iot/holter/dag"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) // what runs by now are the goroutines of the ants package
}

var errBoom = errors.New("boom")

// trace is a state that notes the names of the nodes which ran.
type trace struct {
	mu  sync.Mutex // guards the field below
	ran []string

	flag bool
}

func (s *trace) note(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran = append(s.ran, name)
}

func (s *trace) sorted() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(slices.Sorted(slices.Values(s.ran)), " ")
}

// node notes its name and returns err.
func node(name string, err error, after ...string) dag.Node[trace] {
	return dag.Node[trace]{Name: name, After: after, Run: func(_ context.Context, s *trace) error {
		s.note(name)
		return err
	}}
}

func when(holds bool, n dag.Node[trace]) dag.Node[trace] {
	n.When = func(*trace) bool { return holds }
	return n
}

func build[T any](tb testing.TB, cfg dag.Config[T], nodes ...dag.Node[T]) *dag.Graph[T] {
	tb.Helper()
	g, err := dag.New(cfg, nodes...)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// startPool returns a pool that the test closes.
func startPool(t *testing.T, workers int) *dag.Pool {
	t.Helper()
	p, err := dag.StartPool(workers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// gauge counts what goes on at a time.
type gauge struct{ now, most atomic.Int32 }

func (g *gauge) enter() {
	n, m := g.now.Add(1), g.most.Load()
	for n > m && !g.most.CompareAndSwap(m, n) {
		m = g.most.Load()
	}
}

func (g *gauge) leave() { g.now.Add(-1) }

// outcomes returns "a=done b=failed".
func outcomes(r dag.Report) string {
	var words []string
	for _, n := range r.Nodes {
		words = append(words, fmt.Sprintf("%s=%v", n.Name, n.Outcome))
	}
	return strings.Join(words, " ")
}
