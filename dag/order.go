package dag

import (
	"errors"
	"fmt"
	"slices"
)

// A plan is a graph that is sealed, or a part of it.
type plan[T any] struct {
	*order

	nodes []*node[T]
	index map[string]int32
}

// An order says which node comes after which. Nodes are numbered as they were added.
type order struct {
	needs, follow links
}

// links are lists of nodes, one for each node.
type links struct {
	first []int32 // the list of node i is nodes[first[i]:first[i+1]]
	nodes []int32
}

func (l *links) of(i int32) []int32 { return l.nodes[l.first[i]:l.first[i+1]] }

// before returns the nodes that come right before node i.
func (o *order) before(i int32) []int32 { return o.needs.of(i) }

// after returns the nodes that come right after node i.
func (o *order) after(i int32) []int32 { return o.follow.of(i) }

// count returns how many nodes there are.
func (o *order) count() int { return len(o.needs.first) - 1 }

// pending returns how many nodes come right before node i.
func (o *order) pending(i int32) int32 { return o.needs.first[i+1] - o.needs.first[i] }

// newOrder returns the order of nodes of which is known what comes before them.
func newOrder(needs links) *order {
	n := len(needs.first) - 1
	follow := links{first: make([]int32, n+1), nodes: make([]int32, len(needs.nodes))}
	for _, d := range needs.nodes {
		follow.first[d+1]++
	}
	for i := range n {
		follow.first[i+1] += follow.first[i]
	}
	place := slices.Clone(follow.first)
	for i := range int32(n) {
		for _, d := range needs.of(i) {
			follow.nodes[place[d]] = i
			place[d]++
		}
	}
	return &order{needs, follow}
}

// linkLocked returns the order of the nodes that the graph has. The error says which ones are missing.
func (g *Graph[T]) linkLocked() (*order, error) {
	needs := links{first: make([]int32, 1, len(g.nodes)+1)}
	var errs []error
	for _, n := range g.nodes {
		for _, name := range n.After {
			d, ok := g.index[name]
			if !ok {
				errs = append(errs, &PathError{Err: ErrMissing, Path: []string{name, n.Name}})
				continue
			}
			needs.nodes = append(needs.nodes, d)
		}
		needs.first = append(needs.first, int32(len(needs.nodes)))
	}
	return newOrder(needs), errors.Join(errs...)
}

// orderLocked returns the order of the graph, or what is wrong with it.
func (g *Graph[T]) orderLocked() (*order, error) {
	o, err := g.linkLocked()
	if err != nil {
		return nil, err
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

// part returns what the nodes of these names need, and themselves, in time proportional to that. Without names it is all.
func (p *plan[T]) part(names []string) (*plan[T], error) {
	if len(names) == 0 {
		return p, nil
	}
	var errs []error
	number := make(map[int32]int32) // in the part, by that in the graph
	var nodes []int32               // of the part, by their number in the graph
	add := func(i int32) {
		if _, known := number[i]; !known {
			number[i] = none
			nodes = append(nodes, i)
		}
	}
	for _, name := range names {
		i, ok := p.index[name]
		if !ok {
			errs = append(errs, fmt.Errorf("%w: %s", ErrUnknown, quote(name)))
			continue
		}
		add(i)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for at := 0; at < len(nodes); at++ {
		for _, d := range p.before(nodes[at]) {
			add(d)
		}
	}
	slices.Sort(nodes)
	part := &plan[T]{nodes: make([]*node[T], len(nodes)), index: make(map[string]int32, len(nodes))}
	for at, i := range nodes {
		number[i] = int32(at)
		part.nodes[at], part.index[p.nodes[i].Name] = p.nodes[i], int32(at)
	}
	needs := links{first: make([]int32, 1, len(nodes)+1)}
	for _, i := range nodes {
		for _, d := range p.before(i) {
			needs.nodes = append(needs.nodes, number[d])
		}
		needs.first = append(needs.first, int32(len(needs.nodes)))
	}
	part.order = newOrder(needs)
	return part, nil
}

// cycle returns a cycle, first and last node the same, or nil if there is none. It takes away the nodes that have none before them,
// until there are none of those (Kahn, Topological sorting of large networks, CACM 1962). Each node that is left comes after
// another one that is left, so the way back from any of them ends in a circle.
func (o *order) cycle() []int32 {
	pending := make([]int32, o.count())
	var free []int32
	for i := range pending {
		if pending[i] = o.pending(int32(i)); pending[i] == 0 {
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
