package dag_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/dag"
)

// plan is a random graph, and what its nodes do.
type plan struct {
	nodes   []planned
	order   []int // in which they are added
	limit   int
	workers int
	stop    bool // at the first failure
	around  bool // with an interceptor
}

type planned struct {
	before   []int // of lower numbers
	does     string
	sleep    time.Duration
	attempts int
}

func drawPlan(t *rapid.T) plan {
	n := rapid.IntRange(0, 25).Draw(t, "nodes")
	p := plan{
		order:   rapid.Permutation(numbers(n)).Draw(t, "order"),
		limit:   rapid.IntRange(0, 4).Draw(t, "limit"),
		workers: rapid.IntRange(0, 4).Draw(t, "workers"),
		stop:    rapid.Bool().Draw(t, "stop"),
		around:  rapid.Bool().Draw(t, "around"),
	}
	// Most nodes are done, so that something happens.
	does := []string{"done", "done", "done", "done", "done", "fail", "panic", "exit", "skip", "when", "wait", "flaky"}
	for i := range n {
		node := planned{
			does:     rapid.SampledFrom(does).Draw(t, "does"),
			sleep:    time.Duration(rapid.IntRange(0, 3).Draw(t, "sleep")) * time.Second,
			attempts: rapid.IntRange(1, 3).Draw(t, "attempts"),
		}
		if i > 0 {
			node.before = rapid.SliceOfNDistinct(rapid.IntRange(0, i-1), 0, min(i, 4), rapid.ID[int]).Draw(t, "before")
		}
		p.nodes = append(p.nodes, node)
	}
	return p
}

func numbers(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

// want is the outcome of node i, if its turn comes.
func (p planned) want() dag.Outcome {
	switch p.does {
	case "fail", "panic", "exit":
		return dag.Failed
	case "skip", "when":
		return dag.Skipped
	case "wait":
		return dag.Waiting
	case "flaky":
		if p.attempts == 1 {
			return dag.Failed
		}
	}
	return dag.Done
}

// calls is how often its Run is called, if its turn comes.
func (p planned) calls() int {
	switch p.does {
	case "when":
		return 0
	case "fail", "panic":
		return p.attempts
	case "flaky":
		return min(p.attempts, 2)
	}
	return 1
}

// observed is the state: what happened, by node.
type observed struct {
	ran, asked, wrapped []int // written by the node alone: the race detector sees whether two workers ever had one
	gauge               gauge
}

func (p plan) node(i int) dag.Node[observed] {
	do := p.nodes[i]
	n := dag.Node[observed]{Name: strconv.Itoa(i), Retry: dag.Retry{Attempts: do.attempts, Pause: time.Second}}
	for _, d := range do.before {
		n.After = append(n.After, strconv.Itoa(d))
	}
	if i%2 == 0 {
		n.Timeout = time.Hour
	}
	if i%3 == 0 || do.does == "when" {
		n.When = func(o *observed) bool { o.asked[i]++; return do.does != "when" }
	}
	n.Run = func(ctx context.Context, o *observed) error {
		o.gauge.enter()
		defer o.gauge.leave()
		o.ran[i]++
		select {
		case <-time.After(do.sleep):
		case <-ctx.Done():
			return ctx.Err()
		}
		switch do.does {
		case "fail":
			return errBoom
		case "panic":
			panic(errBoom)
		case "exit":
			new(testing.T).SkipNow()
		case "skip":
			return dag.ErrSkipped
		case "wait":
			return dag.ErrWaiting
		case "flaky":
			if o.ran[i] == 1 {
				return errBoom
			}
		}
		return nil
	}
	return n
}

func (p plan) graph(t *testing.T, pool *dag.Pool) *dag.Graph[observed] {
	t.Helper()
	cfg := dag.Config[observed]{Limit: p.limit, Continue: !p.stop, Pool: pool}
	if p.around {
		cfg.Interceptors = []dag.Interceptor[observed]{func(n dag.Node[observed], next dag.Func[observed]) dag.Func[observed] {
			i, err := strconv.Atoi(n.Name)
			if err != nil {
				t.Error(err)
			}
			return func(ctx context.Context, o *observed) error { o.wrapped[i]++; return next(ctx, o) }
		}}
	}
	g, err := dag.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range p.order {
		if err := g.Add(p.node(i)); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// problems are what a bubble found: to fail inside of one would end the search for a smaller case.
type problems []string

func (p *problems) Errorf(format string, args ...any) {
	*p = append(*p, fmt.Sprintf(format, args...))
}

// TestModel runs random graphs and compares each report with the rules of the package documentation, as a naive loop over the nodes.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt)
		var found problems
		synctest.Test(t, func(t *testing.T) {
			var pool *dag.Pool
			if p.workers > 0 {
				pool = startPool(t, p.workers)
			}
			g := p.graph(t, pool)
			for range 2 {
				p.run(&found, g)
			}
		})
		for _, problem := range found {
			rt.Error(problem)
		}
	})
}

func (p plan) run(t *problems, g *dag.Graph[observed]) {
	n := len(p.nodes)
	o := &observed{ran: make([]int, n), asked: make([]int, n), wrapped: make([]int, n)}
	var r dag.Report
	var err error
	returned := make(chan bool)
	go func() { // which a node may end
		ok := false
		defer func() { returned <- ok }()
		r, err = g.Run(context.Background(), o)
		ok = true
	}()
	if <-returned {
		p.check(t, r, err, o)
	}
	if o.gauge.now.Load() != 0 {
		t.Errorf("Run has ended, and nodes run")
	}
}

func (p plan) check(t *problems, r dag.Report, err error, o *observed) {
	if len(r.Nodes) != len(p.nodes) {
		t.Errorf("%d nodes in the report, want %d", len(r.Nodes), len(p.nodes))
		return
	}
	reports := make([]dag.NodeReport, len(p.nodes))
	for at, i := range p.order {
		reports[i] = r.Nodes[at]
	}
	failed := r.Count(dag.Failed) > 0
	for i := range reports {
		p.checkNode(t, i, reports, failed && p.stop, o)
	}
	if failed != (errors.Is(err, errBoom) || errors.Is(err, dag.ErrGoexit)) || (r.Count(dag.Waiting) > 0 && !failed) != errors.Is(err, dag.ErrWaiting) || (err == nil) != (r.Count(dag.Done)+r.Count(dag.Skipped) == len(p.nodes)) {
		t.Errorf("the error is %v, of %s", err, outcomes(r))
	}
	if p.stop && len(p.nodes) > 0 && !failed && r.Count(dag.Canceled) > 0 {
		t.Errorf("canceled without a failure: %s", outcomes(r))
	}
	most, bound := int(o.gauge.most.Load()), p.workers+1
	for _, n := range p.nodes {
		if n.does == "exit" { // a goroutine of the run takes the place of a worker that ends
			bound++
		}
	}
	if (p.limit > 0 && most > p.limit) || (p.workers > 0 && most > bound) {
		t.Errorf("%d nodes at a time, Limit %d, workers %d", most, p.limit, p.workers)
	}
}

// checkNode compares the report of node i with those of the nodes before it.
func (p plan) checkNode(t *problems, i int, reports []dag.NodeReport, stopped bool, o *observed) {
	do, got := p.nodes[i], reports[i]
	count := make(map[dag.Outcome]int)
	for _, d := range do.before {
		count[reports[d].Outcome]++
		if got.Outcome != 0 && !got.Start.IsZero() && got.Start.Before(reports[d].End) {
			t.Errorf("node %d started before node %d had ended", i, d)
		}
	}
	want, turn := do.want(), false
	switch {
	case count[dag.Failed]+count[dag.Canceled] > 0:
		want = dag.Canceled
	case count[dag.Waiting] > 0:
		want = dag.Waiting
	case len(do.before) > 0 && count[dag.Skipped] == len(do.before):
		want = dag.Skipped
	case stopped && got.Outcome == dag.Canceled:
		want = dag.Canceled
		turn = !got.Start.IsZero()
	default:
		turn = true
	}
	calls := got.Attempts
	if turn && want != dag.Canceled && !stopped {
		calls = do.calls()
	}
	if got.Outcome != want || got.Attempts != calls || o.ran[i] != calls || turn != !got.Start.IsZero() || turn != !got.End.IsZero() || got.End.Before(got.Start) {
		t.Errorf("node %d, which would %s: %+v, want %v, its turn %v; called %d times, want %d", i, do.does, got, want, turn, o.ran[i], calls)
	}
	if (!turn && o.asked[i]+o.wrapped[i]+o.ran[i] > 0) || o.asked[i] > 1 || o.wrapped[i] > 1 || p.around && turn && o.wrapped[i] != 1 {
		t.Errorf("node %d, its turn %v: asked %d times, wrapped %d times, ran %d times", i, turn, o.asked[i], o.wrapped[i], o.ran[i])
	}
	lost := want == dag.Failed || want == dag.Canceled || want == dag.Waiting
	if lost != (got.Err != nil) && want != dag.Skipped {
		t.Errorf("node %d is %v with error %v", i, want, got.Err)
	}
}
