package dag

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A run is one run of a graph. Its workers are the goroutine that called Graph.Run, and helpers: goroutines of its own or of the
// pool. There is never more than one helper on its way, and it sends for the next one before it starts on a node. So nodes
// that end at once cost no goroutines, nodes that take their time get one each, and a run whose helper never comes goes on
// with the goroutine it has.
type run[T any] struct {
	graph   *Graph[T]
	start   time.Time
	plan    *plan[T]
	state   *T
	ctx     context.Context //nolint:containedctx // a run is one call of Graph.Run, and ends with it
	cancel  context.CancelCauseFunc
	nodes   []NodeReport   // each written by the worker of its node, then by whoever settles it, under mu
	helpers sync.WaitGroup // goroutines of the run
	request request        // to the pool

	mu       sync.Mutex // guards the fields below
	progress progress
	failures []error
	working  int  // workers that have a node or look for one
	coming   bool // a helper is on its way
	parked   bool // the caller waits for wake
	idle     idle
	added    []*node[T]       // by Extend
	names    map[string]int32 // of these

	wake chan struct{} // a signal for each time that parked went from true to false, so one at most
}

// Run runs the nodes, each as soon as all nodes before it have settled, and returns when all have settled and no goroutine of the run
// is left, other than those of abandoned attempts (see [ErrAbandoned]). The goroutine that calls Run works as well. The state is passed to every node and belongs to the run until it returns.
// A graph may run many times, and many times at once, each time with a state of its own.
//
// With targets, which are names of nodes, only these run and what they need: all that comes before them. Nothing else is in the report.
//
// The error is nil if each node is done or was skipped. Otherwise it is the *[NodeError] of each node that failed and, if ctx has ended
// before the nodes, the error and the cause of that, joined; without any of these it wraps [ErrWaiting], because nodes wait. The
// report has all nodes in it whatever the error, unless that is a *[PathError], or [ErrUnknown] for a target: then nothing has run.
func (g *Graph[T]) Run(ctx context.Context, state *T, targets ...string) (Report, error) {
	whole, err := g.seal()
	if err != nil {
		return Report{}, err
	}
	p, err := whole.part(targets)
	if err != nil {
		return Report{}, err
	}
	report := Report{Start: time.Now(), Nodes: make([]NodeReport, len(p.nodes))}
	for i, n := range p.nodes {
		report.Nodes[i] = n.report()
	}
	r := &run[T]{
		graph: g, start: report.Start, plan: p, state: state, nodes: report.Nodes,
		progress: newProgress(p.order, report.Nodes),
		working:  1,
		wake:     make(chan struct{}, 1),
	}
	r.request.help = r.help
	r.ctx, r.cancel = context.WithCancelCause(context.WithValue(ctx, runKey{}, sleeper(r)))
	defer r.cancel(nil)
	if g.cfg.Pool != nil {
		defer g.cfg.Pool.withdraw(&r.request)
	}
	defer r.helpers.Wait()
	r.work(true) //nolint:contextcheck // the run has a context of its own, which comes from ctx
	report.End, report.Nodes = r.now(), r.reports()
	return report, r.err(ctx)
}

// now reads only the monotonic clock, which takes half as long as time.Now.
func (r *run[T]) now() time.Time { return r.start.Add(time.Since(r.start)) }

// err sums up what the nodes came to. What waits counts only if nothing is worse, so that a node which runs a graph, and returns its
// error, settles as that graph did.
func (r *run[T]) err(ctx context.Context) error {
	errs := r.failures
	var waits error
	canceled := false
	for i := range r.nodes {
		switch r.nodes[i].Outcome {
		case Canceled:
			canceled = true
		case Waiting:
			if waits == nil {
				waits = fmt.Errorf("dag: node %s waits: %w", quote(r.nodes[i].Name), r.nodes[i].Err)
			}
		default:
		}
	}
	if canceled && ctx.Err() != nil {
		errs = append(errs, fmt.Errorf("dag: run canceled: %w", ended(ctx)))
	}
	switch len(errs) {
	case 0:
		return waits
	case 1:
		return errs[0]
	}
	return errors.Join(errs...)
}

// ended returns the error of a context that has ended, with its cause if that says more.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// none stands for no node.
const none int32 = -1

// work is what a worker does: the caller until all nodes have settled, a helper until none is ready.
func (r *run[T]) work(caller bool) {
	i := none
	returned := false
	defer func() {
		if !returned { // a node has called runtime.Goexit
			r.replace(i, caller)
		}
	}()
	var o Outcome
	var err error
	for i = r.next(none, o, nil, caller); i != none; i = r.next(i, o, err, caller) {
		o, err = r.perform(i)
	}
	returned = true
}

// help is the work of a helper.
func (r *run[T]) help() {
	r.mu.Lock()
	r.coming = false
	stays := r.progress.ready() > 0 && r.roomLocked()
	if stays {
		r.working++
	}
	r.mu.Unlock()
	if stays {
		r.work(false)
	}
}

// replace starts another worker in place of one whose goroutine ends in node i. The caller waits
// for it.
func (r *run[T]) replace(i int32, caller bool) {
	goOn := func() {
		o, err := r.settled(i, ErrGoexit)
		_, report := r.at(i)
		report.End = r.now()
		r.mu.Lock()
		r.settleLocked(i, o, err)
		r.mu.Unlock()
		r.work(caller)
	}
	if !caller {
		r.helpers.Go(goOn)
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		goOn()
	}()
	<-ended
}

// next settles node done, unless that is none, and returns the next node for this worker, or none if it is to end.
func (r *run[T]) next(done int32, o Outcome, err error, caller bool) int32 {
	r.mu.Lock()
	if done != none {
		r.settleLocked(done, o, err)
	}
	for {
		i := r.takeLocked()
		send := r.sendLocked()
		end := i != none || r.progress.left == 0 || !caller
		switch {
		case i != none:
		case end:
			r.working--
		default:
			r.working--
			r.parked = true
		}
		r.wakeIdleLocked()
		r.mu.Unlock()
		r.send(send)
		if end {
			return i
		}
		<-r.wake
		r.mu.Lock()
	}
}

// settleLocked notes the outcome of a node.
func (r *run[T]) settleLocked(i int32, o Outcome, err error) {
	r.progress.settle(i, o, err)
	if o == Failed {
		r.failures = append(r.failures, err)
	}
}

// takeLocked returns a node that is ready. Once the run is canceled, it settles all that are ready, and returns none.
func (r *run[T]) takeLocked() int32 {
	if r.progress.ready() == 0 {
		return none
	}
	if r.ctx.Err() == nil {
		return r.progress.takeNode()
	}
	why := context.Cause(r.ctx)
	for r.progress.ready() > 0 {
		r.progress.settle(r.progress.takeNode(), Canceled, why)
	}
	return none
}

// roomLocked reports whether one more worker may have a node.
func (r *run[T]) roomLocked() bool {
	return r.graph.cfg.Limit == 0 || r.working < r.graph.cfg.Limit
}

// Whom a worker wakes when there is more to do than it does itself.
type sending uint8

const (
	nobody sending = iota
	theCaller
	aHelper
)

// sendLocked returns whom to wake.
func (r *run[T]) sendLocked() sending {
	switch {
	case r.parked && (r.progress.left == 0 || (r.progress.ready() > 0 && r.roomLocked())):
		r.parked = false
		r.working++
		return theCaller
	case !r.coming && r.progress.ready() > 0 && r.roomLocked():
		r.coming = true
		return aHelper
	}
	return nobody
}

// send wakes or starts a worker. The run cannot end meanwhile: the caller has a node that is not settled, or the lock. It never blocks.
func (r *run[T]) send(whom sending) {
	switch {
	case whom == theCaller:
		r.wake <- struct{}{}
	case whom == aHelper && r.graph.cfg.Pool != nil:
		r.graph.cfg.Pool.ask(&r.request)
	case whom == aHelper:
		r.helpers.Go(r.help)
	}
}
