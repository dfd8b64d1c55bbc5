package dag

import (
	"errors"
	"slices"
)

// A plan is a graph that is sealed.
type plan[T any] struct {
	*order

	nodes []node[T]
}

// An order says which node comes after which. Nodes are numbered as they were added.
type order struct {
	first   []int32 // the nodes after node i are next[first[i]:first[i+1]]
	next    []int32
	pending []int32 // how many nodes come before node i
}

// after returns the nodes that come right after node i.
func (o *order) after(i int32) []int32 { return o.next[o.first[i]:o.first[i+1]] }

// orderLocked returns the order of the graph, or what is wrong with it.
func (g *Graph[T]) orderLocked() (*order, error) {
	n := len(g.nodes)
	o := &order{first: make([]int32, n+1), pending: make([]int32, n)}
	var before []int32 // of all nodes, one after the other
	var errs []error
	for i := range g.nodes {
		for _, name := range g.nodes[i].After {
			d, ok := g.index[name]
			if !ok {
				errs = append(errs, &PathError{Err: ErrMissing, Path: []string{name, g.nodes[i].Name}})
				continue
			}
			before = append(before, d)
			o.first[d+1]++
			o.pending[i]++
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for i := range n {
		o.first[i+1] += o.first[i]
	}
	o.next = make([]int32, len(before))
	place := slices.Clone(o.first)
	for i, count := range o.pending {
		for _, d := range before[:count] {
			o.next[place[d]] = int32(i)
			place[d]++
		}
		before = before[count:]
	}
	if cycle := o.cycle(); cycle != nil {
		path := make([]string, len(cycle))
		for i, c := range cycle {
			path[i] = g.nodes[c].Name
		}
		return nil, &PathError{Err: ErrCycle, Path: path}
	}
	return o, nil
}

// cycle returns a cycle, first and last node the same, or nil if there is none. It takes away the nodes that have none before them,
// until there are none of those (Kahn, Topological sorting of large networks, CACM 1962). Each node that is left comes after
// another one that is left, so the way back from any of them ends in a circle.
func (o *order) cycle() []int32 {
	pending := slices.Clone(o.pending)
	var free []int32
	for i, n := range pending {
		if n == 0 {
			free = append(free, int32(i))
		}
	}
	for done := 0; done < len(free); done++ {
		for _, s := range o.after(free[done]) {
			if pending[s]--; pending[s] == 0 {
				free = append(free, s)
			}
		}
	}
	if len(free) == len(pending) {
		return nil
	}
	back := make([]int32, len(pending)) // a node before this one that is left
	for i, n := range pending {
		if n > 0 {
			for _, s := range o.after(int32(i)) {
				back[s] = int32(i)
			}
		}
	}
	at := int32(slices.IndexFunc(pending, func(n int32) bool { return n > 0 }))
	for seen := make([]bool, len(pending)); !seen[at]; at = back[at] {
		seen[at] = true
	}
	path := []int32{at}
	for i := back[at]; i != at; i = back[i] {
		path = append(path, i)
	}
	path = append(path, at)
	slices.Reverse(path)
	return path
}
