package dag

import (
	"context"
	"errors"
	"fmt"
)

// Extend adds nodes to the run of the node that ctx was given to, all of them or, if it returns an error, none. They run in this run only,
// as if the graph had always had them: interceptors stand around them, Config.Limit counts them, and the report has them last. Where
// what is to be done becomes known on the way, such as the files of a folder, a node adds one for each, and one that comes after these.
//
// A new node may come after any node of the run, such as the one that adds it, whether that has settled or not, and after those that
// stand before it in the same call. So there are no cycles. The run does not end before it; nodes that the graph had do not wait for it.
//
// Errors: a *[PathError] for a name that is taken or missing, others for invalid nodes; that of ctx after its end; and one for a ctx
// that is none of a run of a Graph[T], or of one that has ended. It may be called by many goroutines at a time, until the node
// returns, and does not block.
func Extend[T any](ctx context.Context, nodes ...Node[T]) error {
	r, ok := ctx.Value(runKey{}).(*run[T])
	if !ok {
		return fmt.Errorf("dag: Extend is for a node of a Graph[%T], with the context that it was given", *new(T))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	added, err := r.graph.prepare(nodes)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.progress.left == 0 {
		return errors.New("dag: Extend: the run has ended")
	}
	before, unfit := r.placesLocked(nodes)
	if err := errors.Join(err, unfit); err != nil {
		return err
	}
	for i := range added {
		n := &added[i]
		r.names[n.Name] = int32(r.progress.count())
		r.added = append(r.added, n)
		r.progress.add(n.report(), before[i])
	}
	r.send(r.sendLocked())
	r.wakeIdleLocked()
	return nil
}

// placesLocked returns the numbers of the nodes before each of these.
func (r *run[T]) placesLocked(nodes []Node[T]) ([][]int32, error) {
	var errs []error
	if r.progress.count()+len(nodes) > maxNodes {
		errs = append(errs, fmt.Errorf("dag: more than %d nodes", maxNodes))
	}
	if r.names == nil {
		r.names = make(map[string]int32)
	}
	fresh := make(map[string]int32, len(nodes))
	number := func(name string) (int32, bool) {
		for _, names := range []map[string]int32{r.plan.index, r.names, fresh} {
			if i, ok := names[name]; ok {
				return i, true
			}
		}
		return none, false
	}
	before := make([][]int32, len(nodes))
	for at, n := range nodes {
		for _, name := range n.After {
			d, ok := number(name)
			if !ok {
				errs = append(errs, &PathError{Err: ErrMissing, Path: []string{name, n.Name}})
			}
			before[at] = append(before[at], d)
		}
		if _, taken := number(n.Name); taken {
			errs = append(errs, &PathError{Err: ErrDuplicate, Path: []string{n.Name}})
		}
		fresh[n.Name] = int32(r.progress.count() + at)
	}
	return before, errors.Join(errs...)
}

// at returns node i and its report.
func (r *run[T]) at(i int32) (*node[T], *NodeReport) {
	if int(i) < len(r.plan.nodes) {
		return r.plan.nodes[i], &r.nodes[i]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.added[int(i)-len(r.plan.nodes)], r.progress.report(i)
}

// reports returns the reports of all nodes, after the run.
func (r *run[T]) reports() []NodeReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.progress.more {
		r.nodes = append(r.nodes, *n)
	}
	return r.nodes
}
