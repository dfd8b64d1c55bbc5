package dag

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Func is what a node does. The state is shared by all nodes of a run: what a node wrote is seen by the nodes after it, and nodes
// between which the graph sets no order must not touch the same part of the state, or guard it.
//
// A Func must return soon after ctx has ended; a run waits for it, for ever unless the node has a Timeout. It may return [ErrSkipped]
// or [ErrWaiting], wrapped or not, to say that there was nothing to do or that it waits for something outside of the run. It may run
// a graph itself, the same one too.
type Func[T any] func(ctx context.Context, state *T) error

// A Node is one action of a graph. Only Name and Run are required.
type Node[T any] struct {
	// Name is what other nodes, errors and reports call the node: any text but "", once in a graph.
	Name string
	// Run is the action. A struct with a method of this shape is one as well: Run: probe.Run.
	Run Func[T]
	// After names the nodes that come before this one; they may be added later. Default: none, the node is ready at once.
	After []string
	// When is asked once all nodes of After have settled and at least one of them was not skipped. If it returns false the node
	// is skipped, and so is what comes only after skipped nodes. It is asked inside of the interceptors, once in a run, and must be
	// quick: a question to the world belongs in a node, which leaves the answer in the state. Default: always.
	When func(state *T) bool
	// Timeout ends the context of one attempt. An attempt that has not returned by then has failed, whatever it returns, nil too. Its
	// worker waits for it a second longer. An attempt that has still not returned then is abandoned: the node fails with ErrAbandoned
	// and is not tried again, its worker and its place in Config.Limit are free, and the run ends without it. Its goroutine remains
	// until Run returns, see Graph.Abandoned, and may touch the state meanwhile. Attempts run on goroutines of their own then. Default
	// 0: the run waits for the node as long as it takes.
	Timeout time.Duration
	// Retry says how often Run is tried. Default: once.
	Retry Retry
}

// Retry says how often a node is tried, and how long it pauses in between. The pause before attempt n+1 is random, evenly spread
// from 0 to below the smaller of Max and Pause × 2^(n-1): "full jitter" of https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/.
//
// A pause ends when the run is canceled. Until then it holds the node's worker and its place in Config.Limit; what takes minutes
// should better return [ErrWaiting] and be run again.
type Retry struct {
	// Attempts is how often Run is called at most. A panic is an error as any other; a node is not tried again after ErrSkipped,
	// ErrWaiting, ErrGoexit and ErrAbandoned. Default 0: once, or with a Policy as often as that says.
	Attempts int
	// Pause bounds the first pause. Default: 100 ms.
	Pause time.Duration
	// Max bounds every pause. Default: 30 s, or Pause where that is longer.
	Max time.Duration
	// Policy reports whether Run is called again after an attempt has failed with err, and after which pause; 0 or less is none. The first
	// attempt is 1. It is called between two attempts, where these run, so it must be quick; a panic fails the node. Default: always, after
	// the pause that Backoff returns.
	Policy func(attempt int, err error) (pause time.Duration, again bool)
}

// Backoff returns a random pause to make after so many attempts, 1 or more, by Pause and Max. It is what a Policy returns that only
// decides whether to go on.
func (r Retry) Backoff(attempt int) time.Duration { return rand.N(r.withDefaults().bound(attempt)) }

// next is Policy with its default.
func (r Retry) next(attempt int, err error) (pause time.Duration, again bool) {
	if r.Policy != nil {
		return r.Policy(attempt, err)
	}
	return r.Backoff(attempt), true
}

const (
	defaultPause = 100 * time.Millisecond
	defaultMax   = 30 * time.Second
)

// An Interceptor stands around a node: around its condition, its attempts and the pauses between them. It is called once for each
// node, when that is added, and returns what to run in place of next. That is called once for each run in which the node's turn
// comes, by many runs at a time; it may look at the state, at values of ctx, and at the error of next, which is [ErrSkipped] where
// the condition did not hold. What it returns is what counts: nil without a call of next makes the node done, as for a step which
// an earlier run has completed. The context that it passes to next must come from its own, and it must not call next twice at
// a time or after it has returned.
//
// Interceptors see nothing of a node whose turn never comes, because it comes after skipped, failed, canceled or waiting ones only.
type Interceptor[T any] func(node Node[T], next Func[T]) Func[T]

// validate reports all that is wrong with the node itself.
func (n *Node[T]) validate() error {
	var errs []error
	reject := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("dag: node %s: %w", quote(n.Name), fmt.Errorf(format, args...)))
	}
	if n.Name == "" {
		reject("Name is empty, want a name to speak of")
	}
	if n.Run == nil {
		reject("Run is nil, want a func")
	}
	seen := make(map[string]bool, len(n.After))
	for _, name := range n.After {
		if seen[name] {
			errs = append(errs, &PathError{Err: ErrDuplicate, Path: []string{name, n.Name}})
		}
		seen[name] = true
	}
	if n.Timeout < 0 {
		reject("Timeout is %v, want 0 for none, or more", n.Timeout)
	}
	r := n.Retry
	if r.Attempts < 0 {
		reject("Retry.Attempts is %d, want 0 for one, or more", r.Attempts)
	}
	if r.Pause < 0 {
		reject("Retry.Pause is %v, want 0 for %v, or more", r.Pause, defaultPause)
	}
	if r.Max < 0 || (r.Max > 0 && r.Max < r.withDefaults().Pause) {
		reject("Retry.Max is %v, want 0 for %v, or at least Retry.Pause (%v)", r.Max, defaultMax, r.withDefaults().Pause)
	}
	return errors.Join(errs...)
}

func (r Retry) withDefaults() Retry {
	if r.Attempts == 0 {
		r.Attempts = 1
		if r.Policy != nil {
			r.Attempts = math.MaxInt
		}
	}
	if r.Pause == 0 {
		r.Pause = defaultPause
	}
	if r.Max == 0 {
		r.Max = max(defaultMax, r.Pause)
	}
	return r
}

// bound is what the pause after so many attempts is shorter than: more than 0.
func (r Retry) bound(attempts int) time.Duration {
	d := r.Pause
	for i := 1; i < attempts && d < r.Max; i++ {
		if d > r.Max/2 {
			return r.Max
		}
		d *= 2
	}
	return min(d, r.Max)
}
