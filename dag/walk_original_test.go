package dag_test

import (
	"strings"
	"testing"

	"github.com/holter-iot/holter/dag"
)

// edges builds a graph of the nodes 1 to n and of edges such as "1>2", from a node to one after it.
func edges(t *testing.T, n int, list string) *dag.Graph[trace] {
	t.Helper()
	after := make(map[string][]string)
	for edge := range strings.FieldsSeq(list) {
		from, to, _ := strings.Cut(edge, ">")
		after[to] = append(after[to], from)
	}
	g := build(t, dag.Config[trace]{})
	for _, name := range strings.Split("1234567", "")[:n] {
		if err := g.Add(node(name, nil, after[name]...)); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// The walks that the tests of github.com/heimdalr/dag (visitor_test.go) expect of five small graphs, from all nodes without one before.
func TestWalksOfHeimdalr(t *testing.T) {
	for list, want := range map[string][2]string{
		"1>2 2>3 2>4 4>5": {"1 2 3 4 5", "1 2 3 4 5"},
		"1>3 2>3 3>5 4>5": {"1 3 5 2 4", "1 2 4 3 5"},
		"1>3 2>3 4>5":     {"1 3 2 4 5", "1 2 4 3 5"},
		"1>2 2>3 3>5 2>4": {"1 2 3 5 4", "1 2 3 4 5"},
		"1>3 2>4 4>3 3>5": {"1 3 5 2 4", "1 2 3 4 5"},
	} {
		g := edges(t, 5, list)
		if depth, breadth := walk(g, true, ""), walk(g, false, ""); depth != want[0] || breadth != want[1] {
			t.Errorf("%s: depth first %s, breadth first %s, want %s and %s", list, depth, breadth, want[0], want[1])
		}
	}
}

// The walks that the tests of github.com/dominikbraun/graph (traversal_test.go) expect from node 1, also through a cycle, and up to a node.
func TestWalksOfDominikbraun(t *testing.T) {
	for _, tt := range []struct {
		nodes      int
		list, last string
		depthFirst bool
		want       string
	}{
		{3, "1>2 1>3", "", true, "1 2 3"},
		{3, "1>2 2>3 3>1", "", true, "1 2 3"},
		{3, "1>2 2>3 3>1", "2", true, "1 2"},
		{4, "1>2 3>4", "", true, "1 2"},
		{3, "1>2 1>3", "", false, "1 2 3"},
		{6, "1>2 1>3 2>4 2>5 3>6", "4", false, "1 2 3 4"},
		{4, "1>2 3>4", "", false, "1 2"},
	} {
		if got := walk(edges(t, tt.nodes, tt.list), tt.depthFirst, tt.last, "1"); got != tt.want {
			t.Errorf("%s up to %q: %s, want %s", tt.list, tt.last, got, tt.want)
		}
	}
}
