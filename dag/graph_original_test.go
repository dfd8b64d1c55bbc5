package dag_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holter-iot/holter/dag"
)

// order builds a graph of nodes and of edges such as "a>b", from a node to one after it.
func order(t *testing.T, cfg dag.Config[trace], nodes, list string, fail ...string) *dag.Graph[trace] {
	t.Helper()
	after := make(map[string][]string)
	for edge := range strings.FieldsSeq(list) {
		from, to, _ := strings.Cut(edge, ">")
		after[to] = append(after[to], from)
	}
	g := build(t, cfg)
	for name := range strings.FieldsSeq(nodes) {
		var err error
		if slices.Contains(fail, name) {
			err = errBoom
		}
		if err := g.Add(node(name, err, after[name]...)); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// inOrder checks that a run called each of some nodes once, each after all that come before it.
func inOrder(t *testing.T, s *trace, nodes, list string) {
	t.Helper()
	want := strings.Fields(nodes)
	slices.Sort(want)
	if got := s.sorted(); got != strings.Join(want, " ") {
		t.Errorf("ran %s, want %s", got, strings.Join(want, " "))
	}
	for edge := range strings.FieldsSeq(list) {
		from, to, _ := strings.Cut(edge, ">")
		if at := slices.Index(s.ran, to); at >= 0 && slices.Index(s.ran, from) > at {
			t.Errorf("%s ran before %s: %v", to, from, s.ran)
		}
	}
}

// The graph of which the tests of github.com/heimdalr/dag (dag_test.go) ask descendants and ancestors.
const (
	heimdalrNodes = "1 2 3 4 5 6 7 8 9"
	heimdalrEdges = "1>2 2>3 2>4 3>5 4>5 5>6 6>7 6>8"
)

// The descendants of a node are a walk from there, each once though there are two ways to it; a name that the graph does not have has
// none, and no name at all is all of them.
func TestDescendantsOfHeimdalr(t *testing.T) {
	g := order(t, dag.Config[trace]{}, heimdalrNodes, heimdalrEdges)
	for _, tt := range []struct{ from, depth, breadth string }{
		{"1", "1 2 3 5 6 7 8 4", "1 2 3 4 5 6 7 8"},
		{"2", "2 3 5 6 7 8 4", "2 3 4 5 6 7 8"},
		{"5", "5 6 7 8", "5 6 7 8"},
		{"6", "6 7 8", "6 7 8"},
		{"8", "8", "8"},
		{"9", "9", "9"},
		{"7 6", "7 6 8", "7 6 8"},
		{"foo", "", ""},
		{"foo 8", "8", "8"},
		{"", "1 2 3 5 6 7 8 4 9", "1 9 2 3 4 5 6 7 8"},
	} {
		from := strings.Fields(tt.from)
		if depth, breadth := walk(g, true, "", from...), walk(g, false, "", from...); depth != tt.depth || breadth != tt.breadth {
			t.Errorf("from %q: depth first %s, breadth first %s, want %s and %s", tt.from, depth, breadth, tt.depth, tt.breadth)
		}
	}
}

// The ancestors of a node are what runs when it is the target, in an order that the graph allows.
func TestAncestorsOfHeimdalr(t *testing.T) {
	for _, limit := range []int{0, 1} {
		g := order(t, dag.Config[trace]{Limit: limit}, heimdalrNodes, heimdalrEdges)
		for target, want := range map[string]string{
			"1": "1", "2": "1 2", "4": "1 2 4", "5": "1 2 3 4 5", "7": "1 2 3 4 5 6 7", "8": "1 2 3 4 5 6 8", "9": "9", "9 3": "1 2 3 9", "": heimdalrNodes,
		} {
			t.Run(fmt.Sprintf("limit=%d/%s", limit, target), func(t *testing.T) {
				var s trace
				r, err := g.Run(t.Context(), &s, strings.Fields(target)...)
				if err != nil || len(r.Nodes) != len(strings.Fields(want)) {
					t.Errorf("Run = %s, %v, want %s", outcomes(r), err, want)
				}
				inOrder(t, &s, want, heimdalrEdges)
			})
		}
		for _, target := range []string{"foo", ""} {
			var s trace
			if r, err := g.Run(t.Context(), &s, "9", target); !errors.Is(err, dag.ErrUnknown) || len(r.Nodes) != 0 || len(s.ran) != 0 {
				t.Errorf("Run to %q = %v, and ran %v, want ErrUnknown", target, err, s.ran)
			}
		}
	}
}

// An edge that others imply (TestDAG_ReduceTransitively of heimdalr) takes nothing from the order, and no node runs
// or is walked to twice for it.
func TestImpliedEdges(t *testing.T) {
	const (
		nodes = "account project network contact auth mail"
		list  = "account>project account>network account>contact account>auth account>mail project>mail network>mail contact>mail auth>mail"
	)
	for _, limit := range []int{0, 1} {
		g := order(t, dag.Config[trace]{Limit: limit}, nodes, list)
		if got, want := walk(g, true, "", "account"), "account project mail network contact auth"; got != want {
			t.Errorf("DepthFirst = %s, want %s", got, want)
		}
		var s trace
		if _, err := g.Run(t.Context(), &s); err != nil {
			t.Error(err)
		}
		inOrder(t, &s, nodes, list)
	}
}

// Each of 200 nodes comes after all those before it: there is only one order (TestAyclicGraphTransReduction_fullyConnected of terraform).
func TestFullyConnected(t *testing.T) {
	const n = 200
	var names []string
	g := build(t, dag.Config[trace]{})
	for i := range n {
		names = append(names, strconv.Itoa(i))
	}
	for i := n - 1; i >= 0; i-- { // the last one first
		if err := g.Add(node(names[i], nil, names[:i]...)); err != nil {
			t.Fatal(err)
		}
	}
	var s trace
	if _, err := g.Run(t.Context(), &s); err != nil || !slices.Equal(s.ran, names) {
		t.Errorf("Run = %v, ran %v", err, s.ran)
	}
	if err := build(t, dag.Config[trace]{}, node("a", nil, "b", "c"), node("b", nil, "c", "a"), node("c", nil, "a", "b")).Check(); !errors.Is(err, dag.ErrCycle) {
		t.Errorf("Check of nodes that all come after each other = %v, want ErrCycle", err)
	}
}

// The graph of TestAcyclicGraphWalkOrder of github.com/hashicorp/terraform (internal/dag/dag_test.go).
const (
	terraformNodes = "1 2 3 4 5 6 7 8 9 10 11"
	terraformEdges = "1>3 1>4 2>4 2>5 3>6 4>7 5>7 7>8 7>9 7>10 8>11 9>11 10>11"
)

// Its walks down, with nodes side by side in the order in which they were added, and its order from the other end: what a target needs.
func TestWalksOfTerraform(t *testing.T) {
	g := order(t, dag.Config[trace]{}, terraformNodes, terraformEdges)
	for from, want := range map[string][2]string{
		"":    {"1 3 6 4 7 8 11 9 10 2 5", "1 2 3 4 5 6 7 8 9 10 11"},
		"2 1": {"2 4 7 8 11 9 10 5 1 3 6", "2 1 4 5 3 7 6 8 9 10 11"},
		"7":   {"7 8 11 9 10", "7 8 9 10 11"},
	} {
		start := strings.Fields(from)
		if depth, breadth := walk(g, true, "", start...), walk(g, false, "", start...); depth != want[0] || breadth != want[1] {
			t.Errorf("from %q: depth first %s, breadth first %s, want %s and %s", from, depth, breadth, want[0], want[1])
		}
	}
	for target, want := range map[string]string{"": terraformNodes, "11": "1 2 4 5 7 8 9 10 11", "6": "1 3 6", "6 11": terraformNodes} {
		for range 50 { // what runs side by side is another each time
			var s trace
			if _, err := g.Run(t.Context(), &s, strings.Fields(target)...); err != nil {
				t.Error(err)
			}
			inOrder(t, &s, want, terraformEdges)
		}
	}
}

// What comes after a node that failed does not run (TestWalker_error of internal/dag/walk_test.go), and what does not come after it runs,
// if the run goes on.
func TestErrorsOfTerraform(t *testing.T) {
	for _, tt := range []struct{ fail, want string }{
		{"2", "1=done 2=failed 3=done 4=canceled 5=canceled 6=done 7=canceled 8=canceled 9=canceled 10=canceled 11=canceled"},
		{"7", "1=done 2=done 3=done 4=done 5=done 6=done 7=failed 8=canceled 9=canceled 10=canceled 11=canceled"},
		{"9", "1=done 2=done 3=done 4=done 5=done 6=done 7=done 8=done 9=failed 10=done 11=canceled"},
		{"6", "1=done 2=done 3=done 4=done 5=done 6=failed 7=done 8=done 9=done 10=done 11=done"},
	} {
		g := order(t, dag.Config[trace]{Continue: true}, terraformNodes, terraformEdges, tt.fail)
		var s trace
		r, err := g.Run(t.Context(), &s)
		if failed, ok := errors.AsType[*dag.NodeError](err); outcomes(r) != tt.want || !ok || failed.Node != tt.fail {
			t.Errorf("%s fails: Run = %s, %v\nwant %s", tt.fail, outcomes(r), err, tt.want)
		}
		for _, n := range r.Nodes {
			if n.Outcome == dag.Canceled && (slices.Contains(s.ran, n.Name) || !errors.Is(n.Err, errBoom)) {
				t.Errorf("%s fails: %s is canceled by %v, and ran: %v", tt.fail, n.Name, n.Err, s.ran)
			}
		}
	}
}
