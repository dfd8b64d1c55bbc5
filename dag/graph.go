package dag

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Config is the configuration of a graph. The zero Config is valid.
type Config[T any] struct {
	// Pool runs nodes, besides the goroutine that calls Run. Default nil: each run starts
	// goroutines as it needs them.
	Pool *Pool
	// Limit is the largest number of nodes of one run that run at a time. Default 0: no limit.
	Limit int
	// Continue goes on after a node has failed, with all that does not come after it. Default: the first failure cancels the
	// context of the nodes that run, and no other node is started.
	Continue bool
	// Interceptors stand around every node, the first one outermost.
	Interceptors []Interceptor[T]
}

// A Graph is a set of named actions and the order between them. Its methods may be called by many goroutines at a time.
type Graph[T any] struct {
	cfg  Config[T]
	plan atomic.Pointer[plan[T]] // set by the first run, under mu

	abandoned atomic.Int64 // attempts that nobody waits for and that have not returned

	mu    sync.Mutex // guards the fields below
	nodes []*node[T]
	index map[string]int32
}

// node is a Node with its defaults.
type node[T any] struct {
	Node[T]

	retry     Retry         // with its defaults
	wrapped   Func[T]       // the interceptors around the node, nil for none
	late      error         // that of an attempt which outlives the timeout
	abandoned *atomic.Int64 // of the graph
}

// report returns the report of a node that has not settled.
func (n *node[T]) report() NodeReport {
	return NodeReport{Name: n.Name, After: n.After, When: n.When != nil}
}

// maxNodes is the largest number of nodes.
const maxNodes = 1 << 30

// New returns a graph with these nodes; [Graph.Add] takes more. It starts nothing.
func New[T any](cfg Config[T], nodes ...Node[T]) (*Graph[T], error) {
	cfg.Interceptors = slices.Clone(cfg.Interceptors)
	var errs []error
	if cfg.Limit < 0 {
		errs = append(errs, fmt.Errorf("dag: Limit is %d, want 0 for no limit, or more", cfg.Limit))
	}
	for i, interceptor := range cfg.Interceptors {
		if interceptor == nil {
			errs = append(errs, fmt.Errorf("dag: Interceptors[%d] is nil, want a func", i))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	g := &Graph[T]{cfg: cfg, index: make(map[string]int32, len(nodes))}
	if err := g.Add(nodes...); err != nil {
		return nil, err
	}
	return g, nil
}

// Add adds nodes, all of them or, if it returns an error, none. The error says all that is wrong with the nodes; a *[PathError] is
// among it for a name that is taken. Dependencies may name nodes that are added later. Add returns [ErrSealed] once the graph
// has run. It calls the interceptors.
func (g *Graph[T]) Add(nodes ...Node[T]) error {
	added, err := g.prepare(nodes)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.plan.Load() != nil {
		return ErrSealed
	}
	errs := []error{err, g.duplicatesLocked(nodes)}
	if len(g.nodes)+len(nodes) > maxNodes {
		errs = append(errs, fmt.Errorf("dag: more than %d nodes", maxNodes))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i := range added {
		g.index[added[i].Name] = int32(len(g.nodes))
		g.nodes = append(g.nodes, &added[i])
	}
	return nil
}

// prepare returns nodes that are valid on their own, with defaults and interceptors.
func (g *Graph[T]) prepare(nodes []Node[T]) ([]node[T], error) {
	added := make([]node[T], len(nodes))
	var errs []error
	for i, n := range nodes {
		if err := n.validate(); err != nil {
			errs = append(errs, err)
			continue
		}
		n.After = slices.Clone(n.After)
		added[i] = node[T]{Node: n, retry: n.Retry.withDefaults(), abandoned: &g.abandoned}
		if n.Timeout > 0 {
			added[i].late = fmt.Errorf("not done within %v: %w", n.Timeout, context.DeadlineExceeded)
		}
		errs = append(errs, g.wrap(&added[i]))
	}
	return added, errors.Join(errs...)
}

// wrap puts the interceptors around n.
func (g *Graph[T]) wrap(n *node[T]) error {
	if len(g.cfg.Interceptors) == 0 {
		return nil
	}
	f := n.intercepted
	for i, interceptor := range slices.Backward(g.cfg.Interceptors) {
		if f = interceptor(n.Node, f); f == nil {
			return fmt.Errorf("dag: node %s: Interceptors[%d] returned nil, want a func", quote(n.Name), i)
		}
	}
	n.wrapped = f
	return nil
}

func (g *Graph[T]) duplicatesLocked(nodes []Node[T]) error {
	var errs []error
	seen := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		if _, taken := g.index[n.Name]; taken || seen[n.Name] {
			errs = append(errs, &PathError{Err: ErrDuplicate, Path: []string{n.Name}})
		}
		seen[n.Name] = true
	}
	return errors.Join(errs...)
}

// Check returns nil if the graph can run. Otherwise the error names each missing dependency or, if there is none, one cycle; they are
// of type *[PathError]. It takes time in proportion to nodes and dependencies.
func (g *Graph[T]) Check() error {
	if g.plan.Load() != nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	_, err := g.orderLocked()
	return err
}

// Abandoned returns how many attempts of all runs have outlived their timeout and the second after it, and have not returned
// yet. Each of them holds a goroutine.
func (g *Graph[T]) Abandoned() int { return int(g.abandoned.Load()) }

// seal returns the plan of the graph, which has no more nodes from then on.
func (g *Graph[T]) seal() (*plan[T], error) {
	if p := g.plan.Load(); p != nil {
		return p, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.plan.Load(); p != nil {
		return p, nil
	}
	o, err := g.orderLocked()
	if err != nil {
		return nil, err
	}
	p := &plan[T]{order: o, nodes: g.nodes, index: g.index}
	g.plan.Store(p)
	return p, nil
}
