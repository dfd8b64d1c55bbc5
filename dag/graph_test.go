package dag_test

import (
	"context"
	"errors"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/holter-iot/holter/dag"
)

func TestAddRejects(t *testing.T) {
	run := func(context.Context, *trace) error { return nil }
	tests := []struct {
		name string
		node dag.Node[trace]
		want string
	}{
		{"empty name", dag.Node[trace]{Run: run}, `dag: node "": Name is empty, want a name to speak of`},
		{"no func", dag.Node[trace]{Name: "a"}, `dag: node a: Run is nil, want a func`},
		{"odd name", dag.Node[trace]{Name: "100%s\n"}, `dag: node "100%s\n": Run is nil, want a func`},
		{"taken name", dag.Node[trace]{Name: "there", Run: run}, `dag: duplicate name: there: the graph has a node of this name`},
		{"twice after", dag.Node[trace]{Name: "a", Run: run, After: []string{"x", "y", "x"}}, `dag: duplicate name: x -> a: After names the node twice`},
		{"timeout", dag.Node[trace]{Name: "a", Run: run, Timeout: -1}, `dag: node a: Timeout is -1ns, want 0 for none, or more`},
		{"attempts", dag.Node[trace]{Name: "a", Run: run, Retry: dag.Retry{Attempts: -1}}, `dag: node a: Retry.Attempts is -1, want 0 for one, or more`},
		{"pause", dag.Node[trace]{Name: "a", Run: run, Retry: dag.Retry{Pause: -1}}, `dag: node a: Retry.Pause is -1ns, want 0 for 100ms, or more`},
		{
			"max",
			dag.Node[trace]{Name: "a", Run: run, Retry: dag.Retry{Max: time.Millisecond}},
			`dag: node a: Retry.Max is 1ms, want 0 for 30s, or at least Retry.Pause (100ms)`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := build(t, dag.Config[trace]{}, node("there", nil))
			err := g.Add(node("good", nil), tt.node)
			if err == nil || err.Error() != tt.want {
				t.Errorf("Add = %v, want %s", err, tt.want)
			}
			if r, err := g.Run(t.Context(), new(trace)); err != nil || outcomes(r) != "there=done" {
				t.Errorf("Run = %s, %v, want only the node that was there", outcomes(r), err)
			}
		})
	}
}

func TestAddSaysAllThatIsWrong(t *testing.T) {
	_, err := dag.New(dag.Config[trace]{}, node("a", nil), dag.Node[trace]{Name: "b", Timeout: -1}, node("a", nil), node("", nil))
	want := `dag: node b: Run is nil, want a func
dag: node b: Timeout is -1ns, want 0 for none, or more
dag: node "": Name is empty, want a name to speak of
dag: duplicate name: a: the graph has a node of this name`
	if err == nil || err.Error() != want {
		t.Errorf("New = %v\nwant %s", err, want)
	}
}

func TestNewRejects(t *testing.T) {
	_, err := dag.New(dag.Config[trace]{Limit: -1, Interceptors: []dag.Interceptor[trace]{nil}})
	want := "dag: Limit is -1, want 0 for no limit, or more\ndag: Interceptors[0] is nil, want a func"
	if err == nil || err.Error() != want {
		t.Errorf("New = %v, want %s", err, want)
	}
	none := func(dag.Node[trace], dag.Func[trace]) dag.Func[trace] { return nil }
	_, err = dag.New(dag.Config[trace]{Interceptors: []dag.Interceptor[trace]{none}}, node("a", nil))
	if want := "dag: node a: Interceptors[0] returned nil, want a func"; err == nil || err.Error() != want {
		t.Errorf("New = %v, want %s", err, want)
	}
}

func TestPathErrors(t *testing.T) {
	tests := []struct {
		name  string
		nodes []dag.Node[trace]
		is    error
		want  string
	}{
		{"itself", []dag.Node[trace]{node("a", nil, "a")}, dag.ErrCycle, "dag: cycle: a -> a"},
		{"two", []dag.Node[trace]{node("a", nil, "b"), node("b", nil, "a")}, dag.ErrCycle, "dag: cycle: a -> b -> a"},
		{
			"three among others",
			[]dag.Node[trace]{
				node("start", nil), node("c", nil, "b", "start"), node("a", nil, "start", "c"),
				node("b", nil, "a"), node("end", nil, "c"), node("end 2", nil, "end"),
			},
			dag.ErrCycle, "dag: cycle: c -> a -> b -> c",
		},
		{
			"behind the cycle",
			[]dag.Node[trace]{node("end", nil, "b"), node("b", nil, "a"), node("a", nil, "b")},
			dag.ErrCycle, "dag: cycle: b -> a -> b",
		},
		{"odd names", []dag.Node[trace]{node("a -> b", nil, "a -> b")}, dag.ErrCycle, `dag: cycle: "a -> b" -> "a -> b"`},
		{
			"missing",
			[]dag.Node[trace]{node("a", nil, "x"), node("b", nil, "a", "y z")},
			dag.ErrMissing, "dag: missing dependency: x -> a: the graph has no node x\n" + `dag: missing dependency: "y z" -> b: the graph has no node "y z"`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := build(t, dag.Config[trace]{}, tt.nodes...)
			check := g.Check()
			report, run := g.Run(t.Context(), new(trace))
			if len(report.Nodes) > 0 {
				t.Errorf("something ran: %s", outcomes(report))
			}
			for _, err := range []error{check, run} {
				var path *dag.PathError
				if err == nil || err.Error() != tt.want || !errors.Is(err, tt.is) || !errors.As(err, &path) || len(path.Path) < 2 {
					t.Errorf("error = %v, want %s", err, tt.want)
				}
			}
		})
	}
}

// A long cycle is named by its first nodes; the path has all of them.
func TestLongCycle(t *testing.T) {
	for n, want := range map[int]string{
		19:  "dag: cycle: 0 -> 1 -> 2 -> 3 -> 4 -> 5 -> 6 -> 7 -> 8 -> 9 -> 10 -> 11 -> 12 -> 13 -> 14 -> 15 -> 16 -> 17 -> 18 -> 0",
		20:  "dag: cycle: 0 -> 1 -> 2 -> 3 -> 4 -> 5 -> 6 -> 7 -> 8 -> 9 -> 10 -> 11 -> 12 -> 13 -> 14 -> 15 -> 16 -> 17 -> 18 -> 19 -> 0",
		100: "dag: cycle: 0 -> 1 -> 2 -> 3 -> 4 -> 5 -> 6 -> 7 -> 8 -> 9 -> 10 -> 11 -> 12 -> 13 -> 14 -> 15 -> 16 -> 17 -> 18 -> 19 -> (80 more) -> 0",
	} {
		g := build(t, dag.Config[trace]{})
		for i := range n {
			if err := g.Add(node(strconv.Itoa(i), nil, strconv.Itoa((i+n-1)%n))); err != nil {
				t.Fatal(err)
			}
		}
		var path *dag.PathError
		if err := g.Check(); err == nil || err.Error() != want || !errors.As(err, &path) || len(path.Path) != n+1 {
			t.Errorf("Check = %v\nwant %s", err, want)
		}
	}
}

// A dependency may come later, until the graph has run; a run of a graph that cannot run does not seal it.
func TestSealed(t *testing.T) {
	g := build(t, dag.Config[trace]{}, node("b", nil, "a"))
	if _, err := g.Run(t.Context(), new(trace)); !errors.Is(err, dag.ErrMissing) {
		t.Errorf("Run = %v, want ErrMissing", err)
	}
	if err := g.Add(node("a", nil)); err != nil {
		t.Fatal(err)
	}
	if err := g.Check(); err != nil {
		t.Errorf("Check = %v", err)
	}
	if err := g.Add(node("c", nil)); err != nil {
		t.Errorf("Add after Check = %v", err)
	}
	var s trace
	if _, err := g.Run(t.Context(), &s); err != nil || s.sorted() != "a b c" {
		t.Errorf("Run = %v, ran %s", err, s.sorted())
	}
	if err := g.Add(node("d", nil)); !errors.Is(err, dag.ErrSealed) {
		t.Errorf("Add after Run = %v, want ErrSealed", err)
	}
	if err := g.Check(); err != nil {
		t.Errorf("Check after Run = %v", err)
	}
}

// What the caller does with its slices afterwards is no matter.
func TestSlicesAreCopied(t *testing.T) {
	after := []string{"a"}
	pass := func(_ dag.Node[trace], next dag.Func[trace]) dag.Func[trace] { return next }
	interceptors := []dag.Interceptor[trace]{pass}
	g := build(t, dag.Config[trace]{Interceptors: interceptors}, node("a", nil), node("b", nil, after...))
	after[0], interceptors[0] = "x", nil
	if err := g.Add(node("c", nil)); err != nil {
		t.Error(err)
	}
	if err := g.Check(); err != nil {
		t.Error(err)
	}
}

func TestEmptyGraph(t *testing.T) {
	g := build[trace](t, dag.Config[trace]{})
	r, err := g.Run(t.Context(), nil)
	if err != nil || len(r.Nodes) != 0 || r.Start.IsZero() || r.End.Before(r.Start) {
		t.Errorf("Run = %+v, %v", r, err)
	}
}

// What a node comes after is compared in linear time: pair by pair, this test would take half a minute.
func TestManyDependencies(t *testing.T) {
	nodes := wide(100_000, func(context.Context, *trace) error { return nil })
	r, err := build(t, dag.Config[trace]{Limit: 1}, nodes...).Run(t.Context(), new(trace))
	if err != nil || r.Count(dag.Done) != len(nodes) {
		t.Errorf("Run = %v, %d nodes done, want %d", err, r.Count(dag.Done), len(nodes))
	}
	last := &nodes[len(nodes)-1]
	last.After = append(last.After, "7")
	if _, err := dag.New(dag.Config[trace]{}, nodes...); !errors.Is(err, dag.ErrDuplicate) {
		t.Errorf("New = %v, want ErrDuplicate", err)
	}
}

// Chains are followed without recursion: a stack that grew with them would be too large.
func TestLongChain(t *testing.T) {
	const n = 20_000
	defer debug.SetMaxStack(debug.SetMaxStack(512 << 10))
	for name, fail := range map[string]error{"done": nil, "skipped": dag.ErrSkipped, "failed": errBoom, "waiting": dag.ErrWaiting} {
		t.Run(name, func(t *testing.T) {
			g := build(t, dag.Config[none]{Continue: true})
			nodes := []dag.Node[none]{{Name: "0", Run: func(context.Context, *none) error { return fail }}}
			for i := 1; i < n; i++ {
				nodes = append(nodes, dag.Node[none]{Name: strconv.Itoa(i), After: []string{strconv.Itoa(i - 1)}, Run: noop})
			}
			if err := g.Add(nodes...); err != nil {
				t.Fatal(err)
			}
			r, err := g.Run(t.Context(), nil)
			last := r.Nodes[n-1]
			switch {
			case fail == nil && (err != nil || r.Count(dag.Done) != n),
				name == "skipped" && (err != nil || r.Count(dag.Skipped) != n || last.Err != nil),
				name == "failed" && (!errors.Is(err, errBoom) || r.Count(dag.Canceled) != n-1 || !errors.Is(last.Err, errBoom)),
				name == "waiting" && (!errors.Is(err, dag.ErrWaiting) || r.Count(dag.Waiting) != n || !errors.Is(last.Err, dag.ErrWaiting)):
				t.Errorf("error %v, last node %+v", err, last)
			}
		})
	}
}
