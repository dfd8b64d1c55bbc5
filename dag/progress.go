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

	more   []*NodeReport     // of the nodes that were added
	follow map[int32][]int32 // of these, those that come right after a node which had not settled by then
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
	for i := range p.need {
		pending := o.pending(int32(i))
		p.need[i].pending = pending
		if pending == 0 {
			p.queue = append(p.queue, int32(i))
		}
	}
	return p
}

// count returns how many nodes there are.
func (p *progress) count() int { return len(p.need) }

// report returns the report of node i.
func (p *progress) report(i int32) *NodeReport {
	if int(i) < len(p.nodes) {
		return &p.nodes[i]
	}
	return p.more[int(i)-len(p.nodes)]
}

// add adds a node after those of before.
func (p *progress) add(report NodeReport, before []int32) {
	i := int32(p.count())
	p.more, p.need = append(p.more, &report), append(p.need, need{pending: int32(len(before))})
	p.left++
	if len(before) == 0 {
		p.turn(i)
	}
	for _, d := range before {
		if b := p.report(d); b.Outcome != 0 {
			p.oneLess([]int32{i}, b.Outcome, b.Err)
			continue
		}
		if p.follow == nil {
			p.follow = make(map[int32][]int32)
		}
		p.follow[d] = append(p.follow[d], i)
	}
	p.settleStack()
}

// ready is how many nodes may be taken.
func (p *progress) ready() int { return len(p.queue) - p.taken }

// takeNode returns the next node that is ready.
func (p *progress) takeNode() int32 {
	p.taken++
	return p.queue[p.taken-1]
}

// settle records the outcome of node i and its consequences for the nodes after it: each becomes
// ready with its last dependency, or settles too.
func (p *progress) settle(i int32, o Outcome, err error) {
	p.note(i, o, err)
	p.settleStack()
}

func (p *progress) settleStack() {
	for len(p.stack) > 0 {
		i := p.stack[len(p.stack)-1]
		p.stack = p.stack[:len(p.stack)-1]
		p.note(i, p.need[i].seen.outcome(), p.report(i).Err)
	}
}

func (p *progress) note(i int32, o Outcome, err error) {
	p.left--
	report := p.report(i)
	report.Outcome, report.Err = o, err
	if int(i) < len(p.nodes) {
		p.oneLess(p.order.after(i), o, err)
	}
	if p.follow != nil {
		p.oneLess(p.follow[i], o, err)
	}
}

// oneLess notes that each of these nodes waits for one node less, which has settled so.
func (p *progress) oneLess(nodes []int32, o Outcome, err error) {
	for _, i := range nodes {
		n := &p.need[i]
		if o != Done && o != Skipped {
			if report := p.report(i); report.Err == nil || (o != Waiting && !n.seen.lost()) {
				report.Err = err // why it cannot run
			}
		}
		n.seen |= 1 << o
		if n.pending--; n.pending == 0 {
			p.turn(i)
		}
	}
}

// turn makes node i ready, or lets it settle: all nodes before it have.
func (p *progress) turn(i int32) {
	if p.need[i].seen.outcome() == Done {
		p.queue = append(p.queue, i)
	} else {
		p.stack = append(p.stack, i)
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
