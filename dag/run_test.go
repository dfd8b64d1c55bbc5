package dag_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/dag"
)

// The rules of the package documentation, each with the graph goes-on and stops-at-a-failure where that makes a difference. With
// Limit 1 the order is that in which nodes became ready.
func TestOutcomes(t *testing.T) {
	tests := []struct {
		name  string
		stop  bool // rather than continue
		nodes []dag.Node[trace]
		want  string
		err   string
	}{
		{name: "one", nodes: []dag.Node[trace]{node("a", nil)}, want: "a=done"},
		{
			name:  "else branch",
			nodes: []dag.Node[trace]{node("a", nil), when(false, node("yes", nil, "a")), when(true, node("no", nil, "a")), node("end", nil, "yes", "no")},
			want:  "a=done yes=skipped no=done end=done",
		},
		{
			name:  "only skipped before",
			nodes: []dag.Node[trace]{when(false, node("a", nil)), when(false, node("b", nil)), node("c", nil, "a", "b"), node("d", nil, "c")},
			want:  "a=skipped b=skipped c=skipped d=skipped",
		},
		{
			name:  "one done before",
			nodes: []dag.Node[trace]{when(false, node("a", nil)), node("b", nil), node("c", nil, "a", "b"), node("d", nil, "c", "a")},
			want:  "a=skipped b=done c=done d=done",
		},
		{
			name:  "skips itself",
			nodes: []dag.Node[trace]{node("a", fmt.Errorf("nothing there: %w", dag.ErrSkipped)), node("b", nil, "a")},
			want:  "a=skipped b=skipped",
		},
		{
			name:  "failure, and go on",
			nodes: []dag.Node[trace]{node("a", errBoom), node("b", nil), node("c", nil, "a", "b"), node("d", nil, "b"), node("e", nil, "c")},
			want:  "a=failed b=done c=canceled d=done e=canceled",
			err:   "dag: node a: boom",
		},
		{
			name: "failure, and stop", stop: true,
			nodes: []dag.Node[trace]{node("a", nil), node("b", errBoom), node("c", nil), node("d", nil, "a"), when(false, node("e", nil, "a"))},
			want:  "a=done b=failed c=canceled d=canceled e=canceled",
			err:   "dag: node b: boom",
		},
		{
			name: "skipped even after the stop", stop: true,
			nodes: []dag.Node[trace]{when(false, node("a", nil)), node("b", errBoom), node("c", nil, "a"), node("d", nil, "a", "c")},
			want:  "a=skipped b=failed c=skipped d=skipped",
			err:   "dag: node b: boom",
		},
		{
			name:  "two failures",
			nodes: []dag.Node[trace]{node("a", errBoom), node("b", dag.ErrGoexit)},
			want:  "a=failed b=failed",
			err:   "dag: node a: boom\ndag: node b: dag: node called runtime.Goexit",
		},
		{
			name:  "waits, and the rest goes on",
			nodes: []dag.Node[trace]{node("a", dag.ErrWaiting), node("b", nil), node("c", nil, "a", "b"), node("d", nil, "b")},
			want:  "a=waiting b=done c=waiting d=done",
			err:   "dag: node a waits: dag: node waits for something outside of the run",
		},
		{
			name:  "a failure goes before waiting, before skipping",
			nodes: []dag.Node[trace]{node("w", dag.ErrWaiting), node("f", errBoom), when(false, node("s", nil)), node("x", nil, "w", "f", "s"), node("y", nil, "w", "s")},
			want:  "w=waiting f=failed s=skipped x=canceled y=waiting",
			err:   "dag: node f: boom",
		},
		{
			name: "waiting does not stop", stop: true,
			nodes: []dag.Node[trace]{node("a", dag.ErrWaiting), node("b", nil)},
			want:  "a=waiting b=done",
			err:   "dag: node a waits: dag: node waits for something outside of the run",
		},
		{
			name:  "an error of a context that has not ended",
			nodes: []dag.Node[trace]{node("a", context.Canceled)},
			want:  "a=failed",
			err:   "dag: node a: context canceled",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := build(t, dag.Config[trace]{Continue: !tt.stop, Limit: 1}, tt.nodes...)
			var s trace
			r, err := g.Run(t.Context(), &s)
			if got := outcomes(r); got != tt.want {
				t.Errorf("outcomes %s\n    want %s", got, tt.want)
			}
			if got := fmt.Sprint(err); (err != nil || tt.err != "") && got != tt.err {
				t.Errorf("error %s\n want %s", got, tt.err)
			}
		})
	}
}

// What is in the way of a node is the failure, not what merely waits, and not how the run ended.
func TestReasons(t *testing.T) {
	g := build(
		t, dag.Config[trace]{Continue: true, Limit: 1},
		node("w", dag.ErrWaiting), node("f", errBoom), node("x", nil, "w", "f"), node("y", nil, "x"), node("z", nil, "w"),
		when(false, node("s", nil)), node("t", nil, "s"), node("d", nil),
	)
	r, _ := g.Run(t.Context(), new(trace))
	want := map[string]error{"w": dag.ErrWaiting, "f": errBoom, "x": errBoom, "y": errBoom, "z": dag.ErrWaiting, "s": dag.ErrSkipped, "t": nil, "d": nil}
	for name, want := range want {
		if n, ok := r.Node(name); !ok || !errors.Is(n.Err, want) {
			t.Errorf("Node(%s).Err = %v, want %v", name, n.Err, want)
		}
	}
	if n, ok := r.Node("nobody"); ok || n.Name != "" {
		t.Errorf("Node of a name that is none = %+v, %v", n, ok)
	}
	if failed, ok := errors.AsType[*dag.NodeError](r.Nodes[3].Err); !ok || failed.Node != "f" {
		t.Errorf("the reason of y is %v, want node f", r.Nodes[3].Err)
	}
}

// A node starts when its own dependencies are done, not when a level is.
func TestNoLevels(t *testing.T) {
	for _, pooled := range []bool{false, true} {
		t.Run(fmt.Sprintf("pool=%v", pooled), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := dag.Config[trace]{}
				if pooled {
					cfg.Pool = startPool(t, 8)
				}
				sleep := func(name string, d time.Duration, after ...string) dag.Node[trace] {
					return dag.Node[trace]{Name: name, After: after, Run: func(context.Context, *trace) error { time.Sleep(d); return nil }}
				}
				g := build(
					t, cfg,
					sleep("slow", 10*time.Second), sleep("fast", time.Second),
					sleep("fast 2", time.Second, "fast"), sleep("fast 3", time.Second, "fast 2"), sleep("fast 3b", 2*time.Second, "fast 2"),
					sleep("end", time.Second, "slow", "fast 3"),
				)
				start := time.Now()
				r, err := g.Run(t.Context(), new(trace))
				if err != nil {
					t.Fatal(err)
				}
				want := map[string][2]int{"slow": {0, 10}, "fast": {0, 1}, "fast 2": {1, 2}, "fast 3": {2, 3}, "fast 3b": {2, 4}, "end": {10, 11}}
				for _, n := range r.Nodes {
					got := [2]int{int(n.Start.Sub(start).Seconds()), int(n.End.Sub(start).Seconds())}
					if got != want[n.Name] || n.Attempts != 1 {
						t.Errorf("%s ran from and to second %v, want %v; attempts %d", n.Name, got, want[n.Name], n.Attempts)
					}
				}
				if d := r.End.Sub(r.Start); d != 11*time.Second || !r.Start.Equal(start) {
					t.Errorf("the run took %v", d)
				}
			})
		})
	}
}

// All that may run does run at a time, and no more than Limit.
func TestParallelism(t *testing.T) {
	const n = 100
	for _, tt := range []struct{ limit, workers, want int }{{0, 0, n}, {1, 0, 1}, {7, 0, 7}, {n + 1, 0, n}, {0, 1, 2}, {0, 9, 10}, {3, 9, 3}, {0, 500, n}} {
		t.Run(fmt.Sprintf("limit=%d/workers=%d", tt.limit, tt.workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := dag.Config[trace]{Limit: tt.limit}
				if tt.workers > 0 {
					cfg.Pool = startPool(t, tt.workers)
				}
				release := make(chan struct{})
				var now atomic.Int32
				g := build(t, cfg, node("first", nil))
				for i := range n {
					err := g.Add(dag.Node[trace]{Name: strconv.Itoa(i), After: []string{"first"}, Run: func(context.Context, *trace) error {
						now.Add(1)
						defer now.Add(-1)
						<-release
						return nil
					}})
					if err != nil {
						t.Fatal(err)
					}
				}
				done := make(chan error)
				go func() {
					_, err := g.Run(t.Context(), new(trace))
					done <- err
				}()
				for range n - tt.want {
					synctest.Wait()
					if got := int(now.Load()); got != tt.want {
						t.Errorf("%d nodes run at a time, want %d", got, tt.want)
					}
					release <- struct{}{}
				}
				synctest.Wait()
				if got := int(now.Load()); got != tt.want {
					t.Errorf("%d nodes run at a time at the end, want %d", got, tt.want)
				}
				close(release)
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// One graph runs many times at once, each run with its own state.
func TestConcurrentRuns(t *testing.T) {
	for name, pool := range map[string]*dag.Pool{"goroutines": nil, "pool": startPool(t, 3)} {
		t.Run(name, func(t *testing.T) {
			add := func(_ context.Context, s *int) error { *s++; return nil }
			g := build(t, dag.Config[int]{Pool: pool})
			for i := range 20 {
				n := dag.Node[int]{Name: strconv.Itoa(i), Run: add}
				if i > 0 {
					n.After = []string{strconv.Itoa(i - 1)}
				}
				if err := g.Add(n); err != nil {
					t.Fatal(err)
				}
			}
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					for range 20 {
						var s int
						if r, err := g.Run(t.Context(), &s); err != nil || s != 20 || r.Count(dag.Done) != 20 {
							t.Errorf("Run = %v, state %d, want 20", err, s)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("recovered")
		ctx, cancel := context.WithCancelCause(t.Context())
		block := func(ctx context.Context, _ *trace) error { <-ctx.Done(); return fmt.Errorf("probe: %w", ctx.Err()) }
		deaf := func(context.Context, *trace) error { time.Sleep(time.Hour); return nil }
		g := build(
			t, dag.Config[trace]{Continue: true}, node("a", nil),
			dag.Node[trace]{Name: "blocked", Run: block, After: []string{"a"}, Timeout: time.Minute, Retry: dag.Retry{Attempts: 3}},
			dag.Node[trace]{Name: "deaf", Run: deaf, After: []string{"a"}},
			node("c", nil, "deaf"), node("d", nil, "blocked"),
		)
		time.AfterFunc(time.Second, func() { cancel(cause) })
		r, err := g.Run(ctx, new(trace))
		if want := "a=done blocked=canceled deaf=done c=canceled d=canceled"; outcomes(r) != want {
			t.Errorf("outcomes %s\n    want %s", outcomes(r), want)
		}
		if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || err.Error() != "dag: run canceled: context canceled: recovered" {
			t.Errorf("error %v", err)
		}
		if n, _ := r.Node("c"); !errors.Is(n.Err, cause) || !n.Start.IsZero() || !n.End.IsZero() {
			t.Errorf("c: %+v, want the cause and no times", n)
		}
		if n, _ := r.Node("blocked"); n.Attempts != 1 {
			t.Errorf("blocked was tried %d times, want once", n.Attempts)
		}
	})
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wait := func(ctx context.Context, _ *trace) error { <-ctx.Done(); return ctx.Err() }
		g := build(t, dag.Config[trace]{}, dag.Node[trace]{Name: "a", Run: wait, Timeout: time.Minute}, node("b", nil, "a"))
		r, err := g.Run(ctx, new(trace))
		if !errors.Is(err, context.DeadlineExceeded) || outcomes(r) != "a=canceled b=canceled" {
			t.Errorf("Run = %s, %v", outcomes(r), err)
		}
		r, err = g.Run(ctx, new(trace))
		if !errors.Is(err, context.DeadlineExceeded) || outcomes(r) != "a=canceled b=canceled" || r.Nodes[0].Attempts != 0 {
			t.Errorf("Run with a context that has ended = %s, %v", outcomes(r), err)
		}
	})
}

// A context that ends after the last node is no error.
func TestCancelAtTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := build(t, dag.Config[trace]{}, dag.Node[trace]{Name: "a", Run: func(context.Context, *trace) error { cancel(); return nil }})
	if r, err := g.Run(ctx, new(trace)); err != nil || outcomes(r) != "a=done" {
		t.Errorf("Run = %s, %v", outcomes(r), err)
	}
}

// The first failure ends the context of the others, with itself as the cause.
func TestFailFastCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := func(ctx context.Context, _ *trace) error { <-ctx.Done(); return context.Cause(ctx) }
		fail := func(context.Context, *trace) error { time.Sleep(time.Second); return errBoom }
		pausing := dag.Node[trace]{
			Name: "p", Run: func(context.Context, *trace) error { return errors.New("flaky") },
			Retry: dag.Retry{Attempts: 1000, Pause: time.Hour, Max: 24 * time.Hour},
		}
		g := build(t, dag.Config[trace]{}, dag.Node[trace]{Name: "b", Run: block}, dag.Node[trace]{Name: "f", Run: fail}, pausing)
		r, err := g.Run(t.Context(), new(trace))
		if outcomes(r) != "b=canceled f=failed p=canceled" || err.Error() != "dag: node f: boom" || r.End.Sub(r.Start) != time.Second {
			t.Errorf("Run = %s, %v after %v", outcomes(r), err, r.End.Sub(r.Start))
		}
		if got := fmt.Sprint(r.Nodes[2].Err); !strings.HasSuffix(got, "before the node was tried again after: flaky") {
			t.Errorf("the error of p is %s", got)
		}
	})
}

func TestPanics(t *testing.T) {
	fail := func(context.Context, *trace) error { panic(fmt.Errorf("bad: %w", errBoom)) }
	inside := func(_ dag.Node[trace], next dag.Func[trace]) dag.Func[trace] {
		return func(ctx context.Context, s *trace) error {
			if s.flag {
				panic("interceptor")
			}
			return next(ctx, s)
		}
	}
	tests := []struct {
		name     string
		cfg      dag.Config[trace]
		node     dag.Node[trace]
		flag     bool
		attempts int
		want     string
	}{
		{"run", dag.Config[trace]{}, dag.Node[trace]{Name: "a", Run: fail}, false, 1, "dag: node a: panic: bad: boom"},
		{
			"each attempt",
			dag.Config[trace]{},
			dag.Node[trace]{Name: "a", Run: fail, Retry: dag.Retry{Attempts: 3, Pause: 1}},
			false, 3, "dag: node a: attempt 3: panic: bad: boom",
		},
		{"condition", dag.Config[trace]{}, dag.Node[trace]{Name: "a", Run: fail, When: func(*trace) bool { panic("when") }}, false, 0, "dag: node a: panic: when"},
		{"interceptor", dag.Config[trace]{Interceptors: []dag.Interceptor[trace]{inside}}, node("a", nil), true, 0, "dag: node a: panic: interceptor"},
		{"error", dag.Config[trace]{}, node("a", (*broken)(nil)), false, 1, "dag: node a: panic: broken error"},
		{
			"error, intercepted",
			dag.Config[trace]{Interceptors: []dag.Interceptor[trace]{inside}},
			node("a", (*broken)(nil)), false, 1, "dag: node a: panic: broken error",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := build(t, tt.cfg, tt.node, node("b", nil, "a"))
			r, err := g.Run(t.Context(), &trace{flag: tt.flag})
			if err == nil || err.Error() != tt.want || outcomes(r) != "a=failed b=canceled" || r.Nodes[0].Attempts != tt.attempts {
				t.Fatalf("Run = %s, %d attempts, %v\nwant %s", outcomes(r), r.Nodes[0].Attempts, err, tt.want)
			}
			p, ok := errors.AsType[*dag.PanicError](err)
			if !ok || !strings.Contains(string(p.Stack), "run_test.go") {
				t.Errorf("the panic's stack is %s", p.Stack)
			}
			if tt.name == "run" && !errors.Is(err, errBoom) {
				t.Error("the error that it panicked with is lost")
			}
		})
	}
}

// broken is an error that cannot be asked what it is, as many a nil pointer.
type broken struct{}

func (*broken) Error() string   { return "broken" }
func (*broken) Is(_ error) bool { panic("broken error") }

// An error that panics fails its node also on a goroutine that the run or the pool has started, and nobody waits for ever.
func TestPanickingErrorOfHelpers(t *testing.T) {
	for _, pool := range []*dag.Pool{nil, startPool(t, 2)} {
		g := build(t, dag.Config[trace]{Pool: pool, Continue: true}, node("a", (*broken)(nil)), node("b", (*broken)(nil)), node("c", (*broken)(nil)), node("d", nil))
		if r, err := g.Run(t.Context(), new(trace)); err == nil || outcomes(r) != "a=failed b=failed c=failed d=done" {
			t.Errorf("Run = %s, %v", outcomes(r), err)
		}
	}
}

// runtime.Goexit fails the node. On the goroutine that called Run it ends that too, but only after the run.
func TestGoexit(t *testing.T) {
	for name, workers := range map[string]int{"goroutines": 0, "pool": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := dag.Config[trace]{Continue: true}
				if workers > 0 {
					cfg.Pool = startPool(t, workers)
				}
				exit := func(sleep time.Duration) dag.Func[trace] {
					return func(context.Context, *trace) error {
						time.Sleep(sleep)
						fatal := new(testing.T)
						fatal.SkipNow() // it calls runtime.Goexit
						return nil
					}
				}
				helper := build(
					t, cfg, dag.Node[trace]{Name: "sleep", Run: func(context.Context, *trace) error { time.Sleep(time.Hour); return nil }},
					dag.Node[trace]{Name: "exit", Run: exit(time.Second)}, node("a", nil, "exit"), node("b", nil), node("c", nil, "sleep"),
				)
				r, err := helper.Run(t.Context(), new(trace))
				if !errors.Is(err, dag.ErrGoexit) || outcomes(r) != "sleep=done exit=failed a=canceled b=done c=done" {
					t.Errorf("Run = %s, %v", outcomes(r), err)
				}

				caller := build(
					t, cfg, dag.Node[trace]{Name: "exit", Run: exit(0)}, node("a", nil), node("b", nil, "a"),
					dag.Node[trace]{Name: "exit 2", Run: exit(time.Second), After: []string{"b"}}, node("c", nil, "b"),
				)
				var s trace
				returned := true
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					returned = false
					_, _ = caller.Run(t.Context(), &s)
					returned = true
				}()
				<-ended
				if returned || s.sorted() != "a b c" {
					t.Errorf("Run returned: %v; ran: %s, want a b c", returned, s.sorted())
				}
			})
		})
	}
}

func TestOutcomeText(t *testing.T) {
	want := map[dag.Outcome]string{dag.Done: "done", dag.Failed: "failed", dag.Skipped: "skipped", dag.Canceled: "canceled", dag.Waiting: "waiting", 0: "invalid"}
	for o, want := range want {
		if text, err := o.MarshalText(); string(text) != want || err != nil {
			t.Errorf("MarshalText = %s, %v, want %s", text, err, want)
		}
	}
}
