package dag_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/dag"
)

// extending is a node that adds nodes, and then returns err.
func extending(t *testing.T, name string, err error, added ...dag.Node[trace]) dag.Node[trace] {
	t.Helper()
	return dag.Node[trace]{Name: name, Run: func(ctx context.Context, s *trace) error {
		s.note(name)
		if err := dag.Extend(ctx, added...); err != nil {
			t.Errorf("Extend = %v", err)
		}
		return err
	}}
}

// Nodes that are added settle by the same rules as all others, whether those before them have settled or not.
func TestExtend(t *testing.T) {
	tests := []struct {
		name  string
		nodes []dag.Node[trace]
		want  string
	}{
		{
			"one for each, and one after all",
			[]dag.Node[trace]{extending(t, "list", nil, node("1", nil, "list"), node("2", nil, "list"), node("all", nil, "1", "2")), node("b", nil, "list")},
			"list=done b=done 1=done 2=done all=done",
		},
		{"nothing before", []dag.Node[trace]{extending(t, "x", nil, node("1", nil))}, "x=done 1=done"},
		{"none", []dag.Node[trace]{extending(t, "x", nil)}, "x=done"},
		{
			"after those that have settled",
			[]dag.Node[trace]{
				node("done", nil), when(false, node("off", nil)), node("fails", errBoom), node("waits", dag.ErrWaiting),
				extending(t, "x", nil, node("1", nil, "done"), node("2", nil, "off"), node("3", nil, "done", "fails"), node("4", nil, "waits", "done"), node("5", nil, "4", "3"), node("6", nil, "off", "1")),
			},
			"done=done off=skipped fails=failed waits=waiting x=done 1=done 2=skipped 3=canceled 4=waiting 5=canceled 6=done",
		},
		{
			"after those that have not",
			[]dag.Node[trace]{
				extending(t, "x", nil, node("1", nil, "done"), node("2", nil, "off"), node("3", nil, "done", "fails"), node("4", nil, "waits")),
				node("done", nil), when(false, node("off", nil)), node("fails", errBoom), node("waits", dag.ErrWaiting),
			},
			"x=done done=done off=skipped fails=failed waits=waiting 1=done 2=skipped 3=canceled 4=waiting",
		},
		{"by one that fails", []dag.Node[trace]{extending(t, "x", errBoom, node("1", nil, "x"), node("2", nil))}, "x=failed 1=canceled 2=done"},
		{"conditions", []dag.Node[trace]{extending(t, "x", nil, when(false, node("1", nil, "x")), node("2", errBoom, "x"))}, "x=done 1=skipped 2=failed"},
		{
			"by one that was added",
			[]dag.Node[trace]{extending(t, "x", nil, extending(t, "y", nil, extending(t, "z", nil, node("end", nil, "x", "y", "z"))))},
			"x=done y=done z=done end=done",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := build(t, dag.Config[trace]{Continue: true, Limit: 1}, tt.nodes...)
			for range 2 { // the graph stays as it was
				var s trace
				r, err := g.Run(t.Context(), &s)
				if outcomes(r) != tt.want || (err != nil) != (r.Count(dag.Done)+r.Count(dag.Skipped) < len(r.Nodes)) {
					t.Errorf("Run = %s, %v\nwant  %s", outcomes(r), err, tt.want)
				}
				for _, n := range r.Nodes {
					if n.Outcome == dag.Canceled && !errors.Is(n.Err, errBoom) || n.Outcome == dag.Waiting && !errors.Is(n.Err, dag.ErrWaiting) {
						t.Errorf("the reason of %s is %v", n.Name, n.Err)
					}
				}
			}
		})
	}
}

// What cannot be added is refused as a whole, and the run goes on without it.
func TestExtendRejects(t *testing.T) {
	ctxs := make(chan context.Context, 1)
	run := func(nodes ...dag.Node[trace]) error {
		var got error
		g := build(t, dag.Config[trace]{Continue: true}, node("there", nil), dag.Node[trace]{Name: "x", Run: func(ctx context.Context, _ *trace) error {
			got = dag.Extend(ctx, nodes...)
			select {
			case <-ctxs:
			default:
			}
			ctxs <- ctx
			return nil
		}})
		if r, err := g.Run(t.Context(), new(trace)); err != nil || outcomes(r) != "there=done x=done" {
			t.Errorf("Run = %s, %v", outcomes(r), err)
		}
		return got
	}
	for want, nodes := range map[string][]dag.Node[trace]{
		"dag: duplicate name: there: the graph has a node of this name":                                   {node("1", nil), node("there", nil)},
		"dag: duplicate name: 1: the graph has a node of this name":                                       {node("1", nil), node("1", nil)},
		"dag: missing dependency: 2 -> 1: the graph has no node 2":                                        {node("1", nil, "2"), node("2", nil)}, // or there could be a cycle
		"dag: missing dependency: 1 -> 1: the graph has no node 1":                                        {node("1", nil, "1")},
		"dag: node 1: Run is nil, want a func\ndag: duplicate name: x: the graph has a node of this name": {{Name: "1"}, node("x", nil)},
	} {
		if err := run(nodes...); err == nil || err.Error() != want {
			t.Errorf("Extend = %v, want %s", err, want)
		}
	}
	ctx := context.WithoutCancel(<-ctxs)
	if err := dag.Extend(ctx, node("late", nil)); err == nil || err.Error() != "dag: Extend: the run has ended" {
		t.Errorf("Extend after the run = %v", err)
	}
	for _, err := range []error{dag.Extend(t.Context(), node("1", nil)), dag.Extend(ctx, dag.Node[int]{})} {
		if err == nil || !strings.Contains(err.Error(), "with the context that it was given") {
			t.Errorf("Extend with a foreign context = %v", err)
		}
	}
}

// A run that is canceled takes no more nodes, and cancels those that are not ready.
func TestExtendCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := build(t, dag.Config[trace]{}, dag.Node[trace]{Name: "x", Run: func(ctx context.Context, _ *trace) error {
		if err := dag.Extend(ctx, node("1", nil, "x")); err != nil {
			t.Error(err)
		}
		cancel()
		if err := dag.Extend(ctx, node("2", nil)); !errors.Is(err, context.Canceled) {
			t.Errorf("Extend of a canceled run = %v", err)
		}
		return nil
	}})
	if r, err := g.Run(ctx, new(trace)); outcomes(r) != "x=done 1=canceled" || !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %s, %v", outcomes(r), err)
	}
}

// Interceptors, retries, timeouts and panics are the same for nodes that are added.
func TestExtendedNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := build(t, dag.Config[trace]{Continue: true, Limit: 1, Interceptors: []dag.Interceptor[trace]{around("i")}})
		flaky := dag.Node[trace]{Name: "flaky", Retry: dag.Retry{Attempts: 2}, Run: func(_ context.Context, s *trace) error {
			if s.flag = !s.flag; s.flag {
				return errBoom
			}
			return nil
		}}
		late := dag.Node[trace]{Name: "late", Timeout: time.Second, Run: func(context.Context, *trace) error { time.Sleep(time.Hour); return nil }}
		panics := dag.Node[trace]{Name: "panics", Run: func(context.Context, *trace) error { panic("boom") }}
		if err := g.Add(extending(t, "x", nil, flaky, late, node("behind", nil, "late"), panics)); err != nil {
			t.Fatal(err)
		}
		var s trace
		r, err := g.Run(t.Context(), &s)
		if want := "x=done flaky=done late=failed behind=canceled panics=failed"; outcomes(r) != want || r.Nodes[1].Attempts != 2 || !errors.Is(err, dag.ErrAbandoned) {
			t.Errorf("Run = %s, %v\nwant %s", outcomes(r), err, want)
		}
		if got := s.sorted(); !strings.Contains(got, "i>flaky") || !strings.Contains(got, "i<late") || strings.Contains(got, "behind") {
			t.Errorf("the interceptor saw %s", got)
		}
		time.Sleep(time.Hour)
	})
}

// Nodes that are added run beside each other, also when the only goroutine left waits for one that is at work.
func TestExtendParallel(t *testing.T) {
	for _, pooled := range []bool{false, true} {
		t.Run(fmt.Sprintf("pool=%v", pooled), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := dag.Config[trace]{}
				if pooled {
					cfg.Pool = startPool(t, 20)
				}
				sleep := func(context.Context, *trace) error { time.Sleep(time.Second); return nil }
				g := build(
					t, cfg, dag.Node[trace]{Name: "short", Run: func(context.Context, *trace) error { return nil }},
					dag.Node[trace]{Name: "x", Run: func(ctx context.Context, s *trace) error {
						_ = sleep(ctx, s) // by now, nobody else has something to do
						if err := dag.Extend(ctx, wide(10, sleep)...); err != nil {
							t.Error(err)
						}
						return sleep(ctx, s)
					}},
				)
				r, err := g.Run(t.Context(), new(trace))
				if err != nil || r.Count(dag.Done) != 13 || r.End.Sub(r.Start) != 2*time.Second {
					t.Errorf("Run = %s, %v after %v, want 13 nodes done in 2s", outcomes(r), err, r.End.Sub(r.Start))
				}
			})
		})
	}
}

// Chains that add their next node are followed without recursion, and many nodes add at once.
func TestExtendMany(t *testing.T) {
	const chains, length = 20, 500
	for name, pool := range map[string]*dag.Pool{"goroutines": nil, "pool": startPool(t, 3)} {
		t.Run(name, func(t *testing.T) {
			var step func(chain, k int) dag.Node[trace]
			step = func(chain, k int) dag.Node[trace] {
				n := dag.Node[trace]{Name: fmt.Sprint(chain, ".", k)}
				if k > 0 {
					n.After = []string{fmt.Sprint(chain, ".", k-1)}
				}
				n.Run = func(ctx context.Context, _ *trace) error {
					if k == length {
						return nil
					}
					return dag.Extend(ctx, step(chain, k+1))
				}
				return n
			}
			g := build(t, dag.Config[trace]{Pool: pool})
			for chain := range chains {
				if err := g.Add(step(chain, 0)); err != nil {
					t.Fatal(err)
				}
			}
			r, err := g.Run(t.Context(), new(trace))
			if err != nil || r.Count(dag.Done) != chains*(length+1) {
				t.Errorf("Run = %v, %d nodes done, want %d", err, r.Count(dag.Done), chains*(length+1))
			}
		})
	}
}

// TestExtendModel adds the nodes of random graphs on the way, each by the one with the number before it, and compares the outcomes
// with those of the same graph that has them from the beginning.
func TestExtendModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(rt, "nodes")
		errs := rapid.SliceOfN(rapid.SampledFrom([]error{nil, nil, nil, errBoom, dag.ErrSkipped, dag.ErrWaiting}), n, n).Draw(rt, "errors")
		first := rapid.IntRange(1, n).Draw(rt, "first")
		limit := rapid.IntRange(0, 3).Draw(rt, "limit")
		var nodes []dag.Node[trace]
		for i := range n {
			var after []string
			for _, d := range rapid.SliceOfNDistinct(rapid.IntRange(0, max(i-1, 0)), 0, min(i, 3), rapid.ID[int]).Draw(rt, "before") {
				after = append(after, strconv.Itoa(d))
			}
			nodes = append(nodes, node(strconv.Itoa(i), errs[i], after...))
		}
		var seed dag.Node[trace]
		seed.Name = "seed"
		seed.Run = func(ctx context.Context, _ *trace) error {
			for i := first; i < n; i++ {
				if err := dag.Extend(ctx, nodes[i]); err != nil {
					return err
				}
			}
			return nil
		}
		cfg := dag.Config[trace]{Continue: true, Limit: limit}
		static, err := dag.New(cfg, append([]dag.Node[trace]{node("seed", nil)}, nodes...)...)
		if err != nil {
			rt.Fatal(err)
		}
		grown, err := dag.New(cfg, append([]dag.Node[trace]{seed}, nodes[:first]...)...)
		if err != nil {
			rt.Fatal(err)
		}
		want, _ := static.Run(t.Context(), new(trace))
		got, _ := grown.Run(t.Context(), new(trace))
		if outcomes(got) != outcomes(want) {
			rt.Errorf("added on the way: %s\nfrom the beginning: %s", outcomes(got), outcomes(want))
		}
	})
}
