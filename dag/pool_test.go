package dag_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/dag"
)

func TestStartPoolRejects(t *testing.T) {
	for _, workers := range []int{0, -1} {
		if _, err := dag.StartPool(workers); err == nil {
			t.Errorf("StartPool(%d) = nil error", workers)
		}
	}
}

// wide returns n nodes that do f, and one after all of them.
func wide(n int, f dag.Func[trace]) []dag.Node[trace] {
	end := node("end", nil)
	var nodes []dag.Node[trace]
	for i := range n {
		name := strconv.Itoa(i)
		nodes = append(nodes, dag.Node[trace]{Name: name, Run: f})
		end.After = append(end.After, name)
	}
	return append(nodes, end)
}

// Nodes that run a graph on the pool that they run on, as deep as one likes, never wait for a worker that waits for them.
func TestNestedRuns(t *testing.T) {
	for _, workers := range []int{1, 2, 5} {
		t.Run(fmt.Sprintf("workers=%d", workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := startPool(t, workers)
				var leaves atomic.Int32
				f := func(context.Context, *trace) error { leaves.Add(1); time.Sleep(time.Second); return nil }
				for range 4 {
					inner := build(t, dag.Config[trace]{Pool: pool}, wide(4, f)...)
					f = func(ctx context.Context, _ *trace) error { _, err := inner.Run(ctx, new(trace)); return err }
				}
				if err := f(t.Context(), nil); err != nil || leaves.Load() != 256 {
					t.Errorf("%d leaves, %v, want 256", leaves.Load(), err)
				}
			})
		})
	}
}

// A node that returns the error of a graph settles as that did.
func TestNestedOutcomes(t *testing.T) {
	for want, nodes := range map[dag.Outcome][]dag.Node[trace]{
		dag.Done:    {node("a", nil), node("b", dag.ErrSkipped)},
		dag.Waiting: {node("a", nil), node("b", dag.ErrWaiting)},
		dag.Failed:  {node("a", errBoom), node("b", dag.ErrWaiting)},
	} {
		inner := build(t, dag.Config[trace]{Continue: true}, nodes...)
		outer := build(t, dag.Config[trace]{}, dag.Node[trace]{Name: "inner", Run: func(ctx context.Context, s *trace) error {
			_, err := inner.Run(ctx, s)
			return err
		}})
		if r, err := outer.Run(t.Context(), new(trace)); r.Nodes[0].Outcome != want {
			t.Errorf("%v, %v, want %v", r.Nodes[0].Outcome, err, want)
		}
	}
}

// A run gets on while all workers are stuck, uses them once they are free, and leaves no request behind.
func TestBlockedPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := startPool(t, 2)
		release := make(chan struct{})
		stuck := build(t, dag.Config[trace]{Pool: pool}, wide(3, func(context.Context, *trace) error { <-release; return nil })...)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := stuck.Run(t.Context(), new(trace)); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait() // the caller and both workers are stuck

		sleep := func(context.Context, *trace) error { time.Sleep(time.Second); return nil }
		g := build(t, dag.Config[trace]{Pool: pool}, wide(10, sleep)...)
		for range 100 {
			if r, err := g.Run(t.Context(), new(trace)); err != nil || r.End.Sub(r.Start) != 10*time.Second {
				t.Fatalf("Run = %v in %v, want nil in 10s", err, r.End.Sub(r.Start))
			}
			if n := dag.Asking(pool); n != 0 {
				t.Fatalf("%d requests are left with the pool", n)
			}
		}
		time.AfterFunc(2500*time.Millisecond, func() { close(release) })
		if r, err := g.Run(t.Context(), new(trace)); err != nil || r.End.Sub(r.Start) != 5500*time.Millisecond { // two and a half alone
			t.Errorf("Run = %v in %v, want nil in 5.5s", err, r.End.Sub(r.Start))
		}
		wg.Wait()
	})
}

// Canceling a run that waits for a worker ends it.
func TestCancelWithBlockedPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := startPool(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		block := func(ctx context.Context, _ *trace) error { <-ctx.Done(); return ctx.Err() }
		g := build(t, dag.Config[trace]{Pool: pool}, wide(10, block)...)
		time.AfterFunc(time.Second, cancel)
		r, err := g.Run(ctx, new(trace))
		if !errors.Is(err, context.Canceled) || r.Count(dag.Canceled) != 11 || dag.Asking(pool) != 0 {
			t.Errorf("Run = %s, %v; asking %d", outcomes(r), err, dag.Asking(pool))
		}
	})
}

// No more nodes run at a time than the pool has workers, but one for each caller.
func TestPoolIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, runs = 5, 3
		pool := startPool(t, workers)
		var at gauge
		f := func(context.Context, *trace) error {
			at.enter()
			defer at.leave()
			time.Sleep(time.Second)
			return nil
		}
		var wg sync.WaitGroup
		for range runs {
			g := build(t, dag.Config[trace]{Pool: pool}, wide(16, f)...)
			wg.Go(func() {
				if _, err := g.Run(t.Context(), new(trace)); err != nil {
					t.Error(err)
				}
			})
		}
		start := time.Now()
		wg.Wait()
		// 48 nodes in 6 s, if each caller had something to do all the time; in 8 s where all workers help one run after the other.
		if took := time.Since(start); at.most.Load() != workers+runs || took < 6*time.Second || took > 8*time.Second {
			t.Errorf("%d nodes at a time, all in %v, want %d and 6s to 8s", at.most.Load(), took, workers+runs)
		}
	})
}

func TestClosePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool, err := dag.StartPool(4)
		if err != nil {
			t.Fatal(err)
		}
		sleep := func(context.Context, *trace) error { time.Sleep(time.Second); return nil }
		g := build(t, dag.Config[trace]{Pool: pool}, wide(20, sleep)...)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if r, err := g.Run(t.Context(), new(trace)); err != nil || r.Count(dag.Done) != 21 {
					t.Errorf("Run = %s, %v", outcomes(r), err)
				}
			})
		}
		time.Sleep(500 * time.Millisecond)
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := pool.Close(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close = %v while workers are busy, want DeadlineExceeded", err)
		}
		for range 2 {
			if err := pool.Close(t.Context()); err != nil {
				t.Errorf("Close = %v", err)
			}
		}
		wg.Wait()
		if r, err := g.Run(t.Context(), new(trace)); err != nil || r.End.Sub(r.Start) != 20*time.Second {
			t.Errorf("Run on a closed pool = %v in %v, want nil in 20s", err, r.End.Sub(r.Start))
		}
	})
}
