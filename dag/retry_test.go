package dag_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/dag"
)

// flaky fails so many times in a run of its own.
func flaky(failures int, times *[]time.Time) dag.Func[trace] {
	return func(context.Context, *trace) error {
		*times = append(*times, time.Now())
		if len(*times) <= failures {
			return errBoom
		}
		return nil
	}
}

func TestRetry(t *testing.T) {
	tests := []struct {
		name     string
		retry    dag.Retry
		failures int
		attempts int
		outcome  dag.Outcome
		bounds   []time.Duration // of the pauses
	}{
		{"none", dag.Retry{}, 1, 1, dag.Failed, nil},
		{"not needed", dag.Retry{Attempts: 5}, 0, 1, dag.Done, nil},
		{"defaults", dag.Retry{Attempts: 4}, 2, 3, dag.Done, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}},
		{
			"exhausted",
			dag.Retry{Attempts: 5, Pause: time.Second, Max: 3 * time.Second},
			9, 5, dag.Failed,
			[]time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second},
		},
		{"long pause", dag.Retry{Attempts: 3, Pause: time.Hour}, 2, 3, dag.Done, []time.Duration{time.Hour, time.Hour}},
		{"largest", dag.Retry{Attempts: 3, Pause: 1<<62 + 1, Max: 1<<63 - 1}, 0, 1, dag.Done, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var times []time.Time
				g := build(t, dag.Config[trace]{}, dag.Node[trace]{Name: "a", Run: flaky(tt.failures, &times), Retry: tt.retry})
				longest := make([]time.Duration, len(tt.bounds))
				for range 200 {
					times = nil
					r, err := g.Run(t.Context(), new(trace))
					n := r.Nodes[0]
					if n.Outcome != tt.outcome || n.Attempts != tt.attempts || len(times) != tt.attempts || (tt.outcome == dag.Failed) != errors.Is(err, errBoom) {
						t.Fatalf("%v after %d attempts (%d calls), %v", n.Outcome, n.Attempts, len(times), err)
					}
					for i, bound := range tt.bounds {
						pause := times[i+1].Sub(times[i])
						if pause < 0 || pause > bound {
							t.Fatalf("pause %d is %v, want at most %v", i+1, pause, bound)
						}
						longest[i] = max(longest[i], pause)
					}
				}
				for i, bound := range tt.bounds { // of 200 pauses, all below 0.8 of the bound once in 10^19 times
					if longest[i] < bound/10*8 {
						t.Errorf("the longest pause %d is %v, want up to %v", i+1, longest[i], bound)
					}
				}
			})
		})
	}
}

// The longest pause that there is can be drawn, and ends with the run.
func TestLongestPause(t *testing.T) {
	for _, retry := range []dag.Retry{
		{Attempts: 2, Pause: math.MaxInt64},
		{Attempts: math.MaxInt, Pause: math.MaxInt64/2 + 1, Max: math.MaxInt64},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			n := node("a", errBoom)
			n.Retry = retry
			r, _ := build(t, dag.Config[trace]{}, n).Run(ctx, new(trace))
			if got := r.Nodes[0]; got.Outcome != dag.Canceled || !errors.Is(got.Err, errBoom) {
				t.Errorf("%+v: %v, %v", retry, got.Outcome, got.Err)
			}
		})
	}
}

// What a node says of itself is no reason to try again.
func TestNotRetried(t *testing.T) {
	for want, err := range map[dag.Outcome]error{dag.Skipped: dag.ErrSkipped, dag.Waiting: dag.ErrWaiting} {
		n := node("a", err)
		n.Retry.Attempts = 5
		r, _ := build(t, dag.Config[trace]{}, n).Run(t.Context(), new(trace))
		if got := r.Nodes[0]; got.Outcome != want || got.Attempts != 1 {
			t.Errorf("%v: %v after %d attempts", err, got.Outcome, got.Attempts)
		}
	}
}

// The timeout is that of an attempt, and reaches only nodes that look at their context.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := func(ctx context.Context, _ *trace) error { <-ctx.Done(); return ctx.Err() }
		deaf := func(context.Context, *trace) error { time.Sleep(time.Minute); return nil }
		g := build(
			t, dag.Config[trace]{Continue: true},
			dag.Node[trace]{Name: "wait", Run: wait, Timeout: time.Second, Retry: dag.Retry{Attempts: 3, Pause: time.Nanosecond}},
			dag.Node[trace]{Name: "deaf", Run: deaf, Timeout: time.Second},
			dag.Node[trace]{Name: "own", Run: func(context.Context, *trace) error { return context.DeadlineExceeded }, Timeout: time.Second},
		)
		r, err := g.Run(t.Context(), new(trace))
		if outcomes(r) != "wait=failed deaf=done own=failed" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run = %s, %v", outcomes(r), err)
		}
		n := r.Nodes[0]
		if took := n.End.Sub(n.Start); n.Attempts != 3 || took < 3*time.Second || took > 3*time.Second+time.Microsecond {
			t.Errorf("%d attempts took %v, want 3 in 3s", n.Attempts, took)
		}
		if got, want := n.Err.Error(), "dag: node wait: attempt 3: not done within 1s: context deadline exceeded"; got != want {
			t.Errorf("error %s, want %s", got, want)
		}
		if got, want := r.Nodes[2].Err.Error(), "dag: node own: context deadline exceeded"; got != want {
			t.Errorf("error %s, want %s", got, want)
		}
	})
}
