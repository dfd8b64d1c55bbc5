package dag_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
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

// benchNodesOf returns n nodes of a shape, which do nothing.
func benchNodesOf(n int, before func(i int) []int) []dag.Node[none] {
	nodes := make([]dag.Node[none], n)
	for i := range nodes {
		nodes[i] = dag.Node[none]{Name: "n" + strconv.Itoa(i), Run: noop}
		for _, d := range before(i) {
			nodes[i].After = append(nodes[i].After, "n"+strconv.Itoa(d))
		}
	}
	return nodes
}

// levels groups the nodes by the length of the longest way to them.
func levels(n int, before func(i int) []int) [][]dag.Func[none] {
	level := make([]int, n)
	var groups [][]dag.Func[none]
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
				g := build(b, impl.cfg, benchNodesOf(benchNodes, before)...)
				measure(b, benchNodes, func(ctx context.Context, state *none) error {
					_, err := g.Run(ctx, state)
					return err
				})
			})
		}
		b.Run("shape="+shape+"/impl=errgroup", func(b *testing.B) {
			measure(b, benchNodes, runLevels(levels(benchNodes, before)))
		})
	}
}

// runLevels runs one level after the other, the nodes of each in an errgroup.
func runLevels(groups [][]dag.Func[none]) dag.Func[none] {
	return func(ctx context.Context, state *none) error {
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
	}
}

// largeNodes is the size of the graphs of the benchmarks of size.
const largeNodes = 100_000

// largeShapes are graphs of any size, as those of shapes.
func largeShapes(n int) map[string]func(i int) []int {
	return map[string]func(i int) []int{
		"fanin": func(i int) (before []int) { // one node after all others
			for d := 0; i == n-1 && d < i; d++ {
				before = append(before, d)
			}
			return before
		},
		"fanout": func(i int) []int { return []int{0}[:min(i, 1)] }, // all others after one node
		"chain":  func(i int) []int { return []int{i - 1}[:min(i, 1)] },
		"diamond": func(i int) []int { // one, two after it, one after both, and so on
			switch {
			case i == 0:
				return nil
			case i%3 == 0:
				return []int{i - 2, i - 1}
			}
			return []int{(i - 1) / 3 * 3}
		},
		"random": func(i int) []int { // up to four of those above
			at := rand.New(rand.NewPCG(1, uint64(i)))
			before := make(map[int]bool)
			for range min(i, 4) {
				before[at.IntN(i)] = true
			}
			return slices.Sorted(maps.Keys(before))
		},
	}
}

// BenchmarkBuild100000 measures New and the first Check of large graphs. The time grows with nodes and dependencies, whatever the
// shape: compare ns/item, where an item is a node or a dependency.
func BenchmarkBuild100000(b *testing.B) {
	for _, shape := range []string{"chain", "diamond", "fanin", "fanout", "random"} {
		b.Run("shape="+shape, func(b *testing.B) {
			nodes := benchNodesOf(largeNodes, largeShapes(largeNodes)[shape])
			items := len(nodes)
			for i := range nodes {
				items += len(nodes[i].After)
			}
			b.ReportAllocs()
			for b.Loop() {
				g, err := dag.New(dag.Config[none]{}, nodes...)
				if err != nil {
					b.Fatal(err)
				}
				if err := g.Check(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*items), "ns/item")
		})
	}
}

// BenchmarkRun100000 measures the run of large graphs of nodes that do nothing. impl=levels is an errgroup for each level, and
// impl=errgroup one goroutine for each node, which waits for the ends of those before it.
func BenchmarkRun100000(b *testing.B) {
	for _, shape := range []string{"chain", "diamond", "fanin", "fanout", "random"} {
		before := largeShapes(largeNodes)[shape]
		b.Run("shape="+shape+"/impl=dag", func(b *testing.B) {
			g := build(b, dag.Config[none]{}, benchNodesOf(largeNodes, before)...)
			measure(b, largeNodes, func(ctx context.Context, state *none) error {
				_, err := g.Run(ctx, state)
				return err
			})
		})
		b.Run("shape="+shape+"/impl=levels", func(b *testing.B) { measure(b, largeNodes, runLevels(levels(largeNodes, before))) })
		b.Run("shape="+shape+"/impl=errgroup", func(b *testing.B) { measure(b, largeNodes, runEach(largeNodes, before)) })
	}
}

// runEach runs each node in a goroutine that waits for the nodes before it.
func runEach(n int, before func(i int) []int) dag.Func[none] {
	needs := make([][]int, n)
	for i := range needs {
		needs[i] = before(i)
	}
	return func(ctx context.Context, state *none) error {
		done := make([]chan struct{}, n)
		for i := range done {
			done[i] = make(chan struct{})
		}
		eg, ctx := errgroup.WithContext(ctx)
		for i := range n {
			eg.Go(func() error {
				defer close(done[i])
				for _, d := range needs[i] {
					<-done[d]
				}
				return noop(ctx, state)
			})
		}
		return eg.Wait()
	}
}

func measure(b *testing.B, nodes int, run dag.Func[none]) {
	b.Helper()
	b.ReportAllocs()
	var state none
	for b.Loop() {
		if err := run(b.Context(), &state); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*nodes), "ns/node")
}
