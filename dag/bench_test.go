package dag_test

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/dag"
)

const benchNodes = 1000

// shapes are graphs of benchNodes nodes, each a list of the nodes before each node; nodes only come after those of lower numbers.
func shapes() map[string]func(i int) []int {
	return map[string]func(i int) []int{
		"chain": func(i int) []int {
			if i == 0 {
				return nil
			}
			return []int{i - 1}
		},
		"fanout": func(i int) []int { // one node, 998 after it, one after all of them
			switch i {
			case 0:
				return nil
			case benchNodes - 1:
				all := make([]int, 0, benchNodes)
				for d := 1; d < i; d++ {
					all = append(all, d)
				}
				return all
			}
			return []int{0}
		},
		"independent": func(int) []int { return nil },
		"layered": func(i int) []int { // ten layers of a hundred, each node after three of the layer above
			if i < 100 {
				return nil
			}
			above := i/100*100 - 100
			return []int{above + i%100, above + (i+1)%100, above + (i+37)%100}
		},
		"dense": func(i int) (before []int) { // ten layers of a hundred, each node after all of the layer above
			for d := i/100*100 - 100; d >= 0 && d < i/100*100; d++ {
				before = append(before, d)
			}
			return before
		},
	}
}

type none struct{}

func noop(context.Context, *none) error { return nil }

func benchGraph(b *testing.B, cfg dag.Config[none], before func(i int) []int) *dag.Graph[none] {
	b.Helper()
	nodes := make([]dag.Node[none], benchNodes)
	for i := range nodes {
		nodes[i] = dag.Node[none]{Name: fmt.Sprint("n", i), Run: noop}
		for _, d := range before(i) {
			nodes[i].After = append(nodes[i].After, fmt.Sprint("n", d))
		}
	}
	g, err := dag.New(cfg, nodes...)
	if err != nil {
		b.Fatal(err)
	}
	return g
}

// levels groups the nodes by the length of the longest way to them.
func levels(before func(i int) []int) [][]func(context.Context, *none) error {
	level := make([]int, benchNodes)
	var groups [][]func(context.Context, *none) error
	for i := range level {
		for _, d := range before(i) {
			level[i] = max(level[i], level[d]+1)
		}
		if level[i] == len(groups) {
			groups = append(groups, nil)
		}
		groups[level[i]] = append(groups[level[i]], noop)
	}
	return groups
}

// BenchmarkNoop1000 measures what a graph costs beside its nodes. impl=errgroup is what one would write by hand: one
// errgroup for each level of the graph, without report, retry or recovery.
func BenchmarkNoop1000(b *testing.B) {
	pool, err := dag.StartPool(8)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := pool.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	pass := func(_ dag.Node[none], next dag.Func[none]) dag.Func[none] { return next }
	for _, shape := range []string{"chain", "fanout", "independent", "layered", "dense"} {
		before := shapes()[shape]
		for _, impl := range []struct {
			name string
			cfg  dag.Config[none]
		}{
			{"dag", dag.Config[none]{}},
			{"dag-pool", dag.Config[none]{Pool: pool}},
			{"dag-limit1", dag.Config[none]{Limit: 1}},
			{"dag-interceptor", dag.Config[none]{Interceptors: []dag.Interceptor[none]{pass}}},
		} {
			b.Run("shape="+shape+"/impl="+impl.name, func(b *testing.B) {
				g := benchGraph(b, impl.cfg, before)
				measure(b, func(ctx context.Context, state *none) error {
					_, err := g.Run(ctx, state)
					return err
				})
			})
		}
		b.Run("shape="+shape+"/impl=errgroup", func(b *testing.B) {
			groups := levels(before)
			measure(b, func(ctx context.Context, state *none) error {
				for _, funcs := range groups {
					eg, ctx := errgroup.WithContext(ctx)
					for _, f := range funcs {
						eg.Go(func() error { return f(ctx, state) })
					}
					if err := eg.Wait(); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

func measure(b *testing.B, run dag.Func[none]) {
	b.Helper()
	b.ReportAllocs()
	var state none
	for b.Loop() {
		if err := run(b.Context(), &state); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*benchNodes), "ns/node")
}
