package dag

import (
	"iter"
	"slices"
)

// DepthFirst walks from nodes to those after them: it yields each node of from and all that comes after it, each node once and a
// branch to its end before the next one. Nodes side by side come in the order in which they were added. Without from it
// starts at the nodes that have none before them; it passes over names that the graph does not have, and dependencies that are
// missing. What nodes share with the graph, such as After, is not to be changed.
func (g *Graph[T]) DepthFirst(from ...string) iter.Seq[Node[T]] {
	return func(yield func(Node[T]) bool) {
		p, stack := g.snapshot(from)
		seen := make([]bool, len(p.nodes))
		slices.Reverse(stack)
		for len(stack) > 0 {
			i := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if seen[i] {
				continue
			}
			seen[i] = true
			if !yield(p.nodes[i].Node) {
				return
			}
			for _, s := range slices.Backward(p.after(i)) {
				if !seen[s] {
					stack = append(stack, s)
				}
			}
		}
	}
}

// BreadthFirst walks the graph as [Graph.DepthFirst] does, but the nodes that are fewer dependencies away from where it starts come
// before those that are more.
func (g *Graph[T]) BreadthFirst(from ...string) iter.Seq[Node[T]] {
	return func(yield func(Node[T]) bool) {
		p, starts := g.snapshot(from)
		seen := make([]bool, len(p.nodes))
		var queue []int32
		add := func(list []int32) {
			for _, i := range list {
				if !seen[i] {
					seen[i] = true
					queue = append(queue, i)
				}
			}
		}
		add(starts)
		for at := 0; at < len(queue); at++ {
			if !yield(p.nodes[queue[at]].Node) {
				return
			}
			add(p.after(queue[at]))
		}
	}
}

// snapshot returns the graph as it is now, and where a walk starts.
func (g *Graph[T]) snapshot(from []string) (*plan[T], []int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.plan.Load()
	if p == nil {
		o, _ := g.linkLocked() // the error is about what is missing
		p = &plan[T]{order: o, nodes: g.nodes, index: g.index}
	}
	return p, p.starts(from)
}

// starts returns the numbers of these nodes, or without names of those that have none before them.
func (p *plan[T]) starts(names []string) (list []int32) {
	for _, name := range names {
		if i, ok := p.index[name]; ok {
			list = append(list, i)
		}
	}
	if len(names) > 0 {
		return list
	}
	for i := range p.nodes {
		if p.pending(int32(i)) == 0 {
			list = append(list, int32(i))
		}
	}
	return list
}
