package dag_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/dag"
)

// A part of a graph is its targets and what they need.
func TestRunTargets(t *testing.T) {
	g := build(
		t, dag.Config[trace]{Continue: true, Limit: 1},
		node("ship", nil, "test", "pack"), node("fetch", nil), node("test", nil, "build"), node("build", nil, "fetch"),
		node("docs", errBoom, "fetch"), node("pack", nil, "build", "docs"), node("lint", nil),
	)
	tests := []struct {
		targets string
		want    string
		err     error
	}{
		{"fetch", "fetch=done", nil},
		{"test", "fetch=done test=done build=done", nil},
		{"lint test lint", "fetch=done test=done build=done lint=done", nil},
		{"test build", "fetch=done test=done build=done", nil},
		{"pack", "fetch=done build=done docs=failed pack=canceled", errBoom},
		{"", "ship=canceled fetch=done test=done build=done docs=failed pack=canceled lint=done", errBoom},
	}
	for _, tt := range tests {
		t.Run(tt.targets, func(t *testing.T) {
			var s trace
			r, err := g.Run(t.Context(), &s, strings.Fields(tt.targets)...)
			if outcomes(r) != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("Run = %s, %v\nwant  %s, %v", outcomes(r), err, tt.want, tt.err)
			}
			if got, want := len(strings.Fields(s.sorted())), r.Count(dag.Done)+r.Count(dag.Failed); got != want {
				t.Errorf("%d nodes ran: %s, want %d", got, s.sorted(), want)
			}
		})
	}
	r, err := g.Run(t.Context(), new(trace), "fetch", "x", "y z")
	if !errors.Is(err, dag.ErrUnknown) || err.Error() != "dag: unknown node: x\ndag: unknown node: \"y z\"" || len(r.Nodes) > 0 {
		t.Errorf("Run = %s, %v", outcomes(r), err)
	}
}

// walk returns the names of a walk, up to the one at which it stops.
func walk(g *dag.Graph[trace], depthFirst bool, last string, from ...string) string {
	var names []string
	nodes := g.BreadthFirst(from...)
	if depthFirst {
		nodes = g.DepthFirst(from...)
	}
	for n := range nodes {
		names = append(names, n.Name)
		if n.Name == last {
			break
		}
	}
	return strings.Join(names, " ")
}

func TestWalk(t *testing.T) {
	g := build(t, dag.Config[trace]{})
	both := func(depth, breadth, last string, from ...string) {
		t.Helper()
		if got := walk(g, true, last, from...); got != depth {
			t.Errorf("DepthFirst(%q) = %s, want %s", from, got, depth)
		}
		if got := walk(g, false, last, from...); got != breadth {
			t.Errorf("BreadthFirst(%q) = %s, want %s", from, got, breadth)
		}
	}
	both("", "", "")
	if err := g.Add(node("d", nil, "b", "c", "missing"), node("a", nil), node("b", nil, "a"), node("c", nil, "a"), node("e", nil)); err != nil {
		t.Fatal(err)
	}
	both("a b d c e", "a e b c d", "")
	both("a b", "a e b", "b")
	both("d", "d", "", "d", "d", "missing")
	both("e a b d c", "e a b c d", "", "e", "a")
	both("", "", "", "missing")
	if err := g.Add(node("missing", nil)); err != nil {
		t.Fatal(err)
	}
	both("a b d c e missing", "a e missing b c d", "")
	if _, err := g.Run(t.Context(), new(trace)); err != nil {
		t.Fatal(err)
	}
	both("a b d c e missing", "a e missing b c d", "")
}

// TestWalkAndPartModel compares walks and parts of random graphs, also with cycles, with naive ones.
func TestWalkAndPartModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(rt, "nodes")
		after := make([][]string, n)
		g := build(t, dag.Config[trace]{})
		for i := range n {
			for _, d := range rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 0, min(n, 3), rapid.ID[int]).Draw(rt, "before") {
				if cyclic := i%7 == 6; cyclic || d < i {
					after[i] = append(after[i], strconv.Itoa(d))
				}
			}
			if err := g.Add(node(strconv.Itoa(i), nil, after[i]...)); err != nil {
				rt.Fatal(err)
			}
		}
		start := rapid.IntRange(0, n-1).Draw(rt, "start")
		var depth []string
		var visit func(i int)
		visit = func(i int) {
			if slices.Contains(depth, strconv.Itoa(i)) {
				return
			}
			depth = append(depth, strconv.Itoa(i))
			for s := range n {
				if slices.Contains(after[s], strconv.Itoa(i)) {
					visit(s)
				}
			}
		}
		visit(start)
		if got, want := walk(g, true, "", strconv.Itoa(start)), strings.Join(depth, " "); got != want {
			rt.Errorf("DepthFirst = %s, want %s", got, want)
		}
		breadth := []string{strconv.Itoa(start)}
		for k := 0; k < len(breadth); k++ {
			for s := range n {
				if slices.Contains(after[s], breadth[k]) && !slices.Contains(breadth, strconv.Itoa(s)) {
					breadth = append(breadth, strconv.Itoa(s))
				}
			}
		}
		if got, want := walk(g, false, "", strconv.Itoa(start)), strings.Join(breadth, " "); got != want {
			rt.Errorf("BreadthFirst = %s, want %s", got, want)
		}
		if g.Check() != nil {
			return
		}
		need := map[string]bool{strconv.Itoa(start): true}
		for range n {
			for name := range need {
				i, err := strconv.Atoi(name)
				if err != nil {
					rt.Fatal(err)
				}
				for _, d := range after[i] {
					need[d] = true
				}
			}
		}
		r, err := g.Run(t.Context(), new(trace), strconv.Itoa(start))
		if err != nil || r.Count(dag.Done) != len(need) || len(r.Nodes) != len(need) {
			rt.Errorf("Run = %s, %v, want %v", outcomes(r), err, fmt.Sprint(need))
		}
	})
}
