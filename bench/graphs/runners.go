package graphs

import (
	"context"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/dag"
)

// work is what all nodes of a run do: it gets the place of the node.
type work func(i int) error

// runner is one way to run a graph.
type runner struct {
	name string
	// prepare returns a func that builds what can be run, from nodes and the places of those before them. The time of prepare does
	// not count.
	prepare func(before [][]int) func() (plan, error)
}

// plan is a graph that was built. It can run many times.
type plan func(context.Context, work) error

func runners() []runner {
	return []runner{
		{"holter dag", prepareDAG},
		{"goroutine a node + errgroup", func(before [][]int) func() (plan, error) {
			return func() (plan, error) { return waiting(before), nil }
		}},
		{"level by level + errgroup", func(before [][]int) func() (plan, error) {
			return func() (plan, error) { return levels(before), nil }
		}},
	}
}

// prepareDAG names the nodes.
func prepareDAG(before [][]int) func() (plan, error) {
	names := make([]string, len(before))
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	nodes := make([]dag.Node[work], len(before))
	for i, all := range before {
		nodes[i] = dag.Node[work]{Name: names[i], Run: func(_ context.Context, do *work) error { return (*do)(i) }}
		for _, b := range all {
			nodes[i].After = append(nodes[i].After, names[b])
		}
	}
	return func() (plan, error) {
		g, err := dag.New(dag.Config[work]{}, nodes...)
		if err != nil {
			return nil, err
		}
		run := func(ctx context.Context, do work) error {
			_, err := g.Run(ctx, &do)
			return err
		}
		return run, g.Check()
	}
}

// waiting starts a goroutine for each node, which waits until the nodes before it have closed their channels.
func waiting(before [][]int) plan {
	return func(ctx context.Context, do work) error {
		done := make([]chan struct{}, len(before))
		for i := range done {
			done[i] = make(chan struct{})
		}
		all, ctx := errgroup.WithContext(ctx)
		for i := range before {
			all.Go(func() error {
				for _, b := range before[i] {
					select {
					case <-done[b]:
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				defer close(done[i])
				return do(i)
			})
		}
		return all.Wait()
	}
}

// levels starts a goroutine for each node of a level once all nodes of the level before have ended.
func levels(before [][]int) plan {
	level := make([]int, len(before))
	var all [][]int
	for i, earlier := range before {
		for _, b := range earlier {
			level[i] = max(level[i], level[b]+1)
		}
		for len(all) <= level[i] {
			all = append(all, nil)
		}
		all[level[i]] = append(all[level[i]], i)
	}
	return func(ctx context.Context, do work) error {
		for _, nodes := range all {
			if err := ctx.Err(); err != nil {
				return err
			}
			var group errgroup.Group
			for _, i := range nodes {
				group.Go(func() error { return do(i) })
			}
			if err := group.Wait(); err != nil {
				return err
			}
		}
		return nil
	}
}

// ordered is work that notes which nodes have run.
type ordered struct {
	before [][]int

	mu    sync.Mutex // guards the fields below
	ran   []bool
	count int
	early int // nodes that ran a second time, or before one that comes before them
}

func newOrdered(before [][]int) *ordered {
	return &ordered{before: before, ran: make([]bool, len(before))}
}

// do is the work of a node.
func (o *ordered) do(i int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	bad := o.ran[i]
	for _, b := range o.before[i] {
		bad = bad || !o.ran[b]
	}
	if bad {
		o.early++
	}
	o.ran[i] = true
	o.count++
	return nil
}
