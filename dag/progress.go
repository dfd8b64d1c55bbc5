package dag

// progress is the progress of a run. It is not safe for concurrent use.
type progress struct {
	order *order
	nodes []NodeReport
	need  []need
	queue []int32 // the nodes that are ready, in the order in which they became it; each node enters once at most
	taken int     // how many of the queue have been taken
	left  int     // how many nodes have not settled
	stack []int32 // nodes that settle with another one
}

// need is what a node still waits for.
type need struct {
	pending int32
	seen    outcomes // of those before it that have settled
}

// outcomes is a set of them.
type outcomes uint8

func (s outcomes) has(o Outcome) bool { return s&(1<<o) != 0 }

const onlySkipped outcomes = 1 << Skipped

func newProgress(o *order, nodes []NodeReport) progress {
	n := len(nodes)
	p := progress{order: o, nodes: nodes, need: make([]need, n), queue: make([]int32, 0, n), left: n}
	for i, pending := range o.pending() {
		p.need[i].pending = pending
		if pending == 0 {
			p.queue = append(p.queue, int32(i))
		}
	}
	return p
}

// ready is how many nodes may be taken.
func (p *progress) ready() int { return len(p.queue) - p.taken }

// take returns the next node that is ready.
func (p *progress) take() int32 {
	p.taken++
	return p.queue[p.taken-1]
}

// settle records the outcome of node i and its consequences for the nodes after it: each becomes
// ready with its last dependency, or settles too.
func (p *progress) settle(i int32, o Outcome, err error) {
	p.note(i, o, err)
	for len(p.stack) > 0 {
		i = p.stack[len(p.stack)-1]
		p.stack = p.stack[:len(p.stack)-1]
		p.note(i, p.need[i].seen.outcome(), p.nodes[i].Err)
	}
}

func (p *progress) note(i int32, o Outcome, err error) {
	p.left--
	p.nodes[i].Outcome, p.nodes[i].Err = o, err
	for _, s := range p.order.after(i) {
		n := &p.need[s]
		if o != Done && o != Skipped && (p.nodes[s].Err == nil || (o != Waiting && !n.seen.lost())) {
			p.nodes[s].Err = err // why it cannot run
		}
		n.seen |= 1 << o
		if n.pending--; n.pending > 0 {
			continue
		}
		if n.seen.outcome() == Done {
			p.queue = append(p.queue, s)
		} else {
			p.stack = append(p.stack, s)
		}
	}
}

// lost reports whether a node after these can no more run.
func (s outcomes) lost() bool { return s.has(Failed) || s.has(Canceled) }

// outcome returns the outcome of a node after these, or Done if it is to run. This is the whole
// rule: see the package documentation.
func (s outcomes) outcome() Outcome {
	switch {
	case s.lost():
		return Canceled
	case s.has(Waiting):
		return Waiting
	case s == onlySkipped:
		return Skipped
	}
	return Done
}
