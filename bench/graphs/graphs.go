// Package graphs measures package dag beside two plain ways to run a graph with golang.org/x/sync/errgroup: a goroutine for each node,
// which waits on a channel for each node before it, and one level of the graph after the other.
//
// Each measurement is made in a process of its own, which may use all cores. Linux only.
package graphs

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
)

const (
	name  = "graphs" // the first argument of its processes
	times = 5        // how often a process builds and runs the graph; the medians count
)

// shape is a kind of graph. The nodes before a node have smaller places.
type shape struct {
	name, text string
	before     func(i, n int) []int // the places before node i of n
}

func shapes() []shape {
	const width = 100
	return []shape{
		{"fan-out", "one node, and all others after it", func(i, _ int) []int {
			if i == 0 {
				return nil
			}
			return []int{0}
		}},
		{"fan-in", "one node after all others", func(i, n int) (all []int) {
			for b := 0; i == n-1 && b < i; b++ {
				all = append(all, b)
			}
			return all
		}},
		{"chain", "one node after the other", func(i, _ int) []int {
			if i == 0 {
				return nil
			}
			return []int{i - 1}
		}},
		{"diamonds", "a node, two side by side, the next one after both, and so on", func(i, _ int) []int {
			switch {
			case i == 0:
				return nil
			case i%3 == 0:
				return []int{i - 2, i - 1}
			default:
				return []int{i - i%3}
			}
		}},
		{"layers", "100 nodes side by side, each after two of the 100 before", func(i, _ int) []int {
			if i < width {
				return nil
			}
			start := i/width*width - width
			return []int{start + i%width, start + (i+1)%width}
		}},
	}
}

// edges returns the places before each of n nodes.
func (s shape) edges(n int) [][]int {
	all := make([][]int, n)
	for i := range all {
		all[i] = s.before(i, n)
	}
	return all
}

// result is what one process has found, for each node.
type result struct {
	New, NewAllocs float64 // in nanoseconds; allocations
	Run, RunAllocs float64
}

// Command returns the benchmark.
func Command() run.Command {
	nodes := 100_000
	return run.Command{
		Name: name, Help: "package dag beside errgroup and a runner of levels", Rounds: 7,
		Names: "fan-out, fan-in, chain, diamonds or layers, / and the name of a runner",
		Quick: func() { nodes = 1000 },
		Flags: func(f *flag.FlagSet) { f.IntVar(&nodes, "n", nodes, "nodes of a graph") },
		Run: func(ctx context.Context, r *run.Run) error {
			if nodes < 1 {
				return fmt.Errorf("-n %d: want 1 or more", nodes)
			}
			results, stalls, err := measure(ctx, r, nodes)
			if err != nil {
				return err
			}
			return r.Publish(ctx, "Graphs", name, report(r, nodes, results, stalls))
		},
		Child: child,
	}
}

// measure makes all rounds. The results are by shape, and then by runner.
func measure(ctx context.Context, r *run.Run, nodes int) (map[string]map[string][]result, []float64, error) {
	results, stalls := make(map[string]map[string][]result), []float64(nil)
	for _, s := range shapes() {
		results[s.name] = make(map[string][]result)
		for round := range r.Rounds {
			err := run.Turns(round, runners(), func(of runner) error {
				if !r.Wanted(s.name, of.name) {
					return nil
				}
				var found result
				stall, err := cores.Witness(func() error {
					return measured.Call(ctx, measured.Anywhere, &found, name, s.name, of.name, strconv.Itoa(nodes))
				})
				if err != nil {
					return fmt.Errorf("%s/%s: %w", s.name, of.name, err)
				}
				r.Progress("%-10s %-28s %+v; the machine stalled for %v", s.name, of.name, found, stall.Round(time.Millisecond))
				stalls = append(stalls, figures.Millis(stall))
				results[s.name][of.name] = append(results[s.name][of.name], found)
				return nil
			})
			if err != nil {
				return nil, nil, err
			}
		}
	}
	return results, stalls, nil
}

// child prepares a measurement.
func child(ctx context.Context, args []string) (measured.Subject, error) {
	if len(args) != 3 {
		return measured.Subject{}, fmt.Errorf("want a shape, a runner and a number of nodes, not %q", args)
	}
	n, err := strconv.Atoi(args[2])
	for _, s := range shapes() {
		for _, of := range runners() {
			if s.name == args[0] && of.name == args[1] {
				return measured.Subject{Answer: func(string) (any, error) { return of.measure(ctx, s.edges(n)) }}, err
			}
		}
	}
	return measured.Subject{}, fmt.Errorf("there is no %q", args)
}

// measure builds and runs a graph, after it was checked that its nodes run once each, and in order.
func (of runner) measure(ctx context.Context, before [][]int) (result, error) {
	build := of.prepare(before)
	if err := check(ctx, build, before); err != nil {
		return result{}, err
	}
	found := make([]result, times)
	for i := range found {
		r := &found[i]
		var p plan
		var err error
		r.New, r.NewAllocs = used(func() { p, err = build() }, len(before))
		if err != nil {
			return result{}, err
		}
		r.Run, r.RunAllocs = used(func() { err = p(ctx, func(int) error { return nil }) }, len(before))
		if err != nil {
			return result{}, err
		}
	}
	middle := func(of func(result) float64) float64 { return figures.Median(figures.Each(found, of)) }
	return result{
		New: middle(func(r result) float64 { return r.New }), NewAllocs: middle(func(r result) float64 { return r.NewAllocs }),
		Run: middle(func(r result) float64 { return r.Run }), RunAllocs: middle(func(r result) float64 { return r.RunAllocs }),
	}, nil
}

// check runs a graph once with work that notes the order.
func check(ctx context.Context, build func() (plan, error), before [][]int) error {
	p, err := build()
	if err != nil {
		return err
	}
	o := newOrdered(before)
	if err := p(ctx, o.do); err != nil {
		return err
	}
	if o.count != len(before) || o.early > 0 {
		return fmt.Errorf("%d of %d nodes ran, %d of them too early or twice", o.count, len(before), o.early)
	}
	return nil
}

// used returns the nanoseconds and the allocations of do for each of n nodes. It begins with a collection of garbage.
func used(do func(), n int) (nanos, allocs float64) {
	var first, last runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&first)
	start := time.Now()
	do()
	took := time.Since(start)
	runtime.ReadMemStats(&last)
	return float64(took.Nanoseconds()) / float64(n), float64(last.Mallocs-first.Mallocs) / float64(n)
}

// report returns all tables.
func report(r *run.Run, nodes int, results map[string]map[string][]result, stalls []float64) string {
	var w strings.Builder
	fmt.Fprintf(&w, "Graphs of %s nodes that do nothing; each measurement in a process of its own that may use all cores; %d rounds in turns. "+
		"Figures are for each node: medians, least and most in parentheses. New is what builds and checks a graph, or sorts it into levels; "+
		"names of nodes are made before. A goroutine a node needs no such step; dag alone finds cycles, reports each node and retries. "+
		"The longest stalls of the machine meanwhile: %s ms.\n", figures.Grouped(nodes), r.Rounds, figures.Spread(figures.Fixed(1), stalls))
	var names []string
	for _, of := range runners() {
		names = append(names, of.name)
	}
	column := func(title string, digits int, of func(result) float64) figures.Column[result] {
		c := figures.Col(title, digits, of)
		c.Best = func(string) bool { return strings.HasPrefix(title, "Run") }
		return c
	}
	for _, s := range shapes() {
		table := figures.Table("", names, results[s.name],
			column("New, ns", 0, func(r result) float64 { return r.New }), column("New, allocations", 2, func(r result) float64 { return r.NewAllocs }),
			column("Run, ns", 0, func(r result) float64 { return r.Run }), column("Run, allocations", 2, func(r result) float64 { return r.RunAllocs }))
		if table != "" {
			fmt.Fprintf(&w, "\n### %s: %s\n\n%s", strings.ToUpper(s.name[:1])+s.name[1:], s.text, table)
		}
	}
	return w.String()
}
