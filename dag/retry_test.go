package dag_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
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

// The timeout is that of an attempt, whatever that returns afterwards.
func TestTimeout(t *testing.T) {
	after := func(ctx context.Context, err error) error { <-ctx.Done(); return err }
	tests := []struct {
		name     string
		run      dag.Func[trace]
		attempts int
		is       error
		want     string
	}{
		{"context", func(ctx context.Context, _ *trace) error { <-ctx.Done(); return ctx.Err() }, 1, context.DeadlineExceeded, "not done within 1s: context deadline exceeded"},
		{
			"wrapped",
			func(ctx context.Context, _ *trace) error { <-ctx.Done(); return fmt.Errorf("probe: %w", ctx.Err()) },
			1, context.DeadlineExceeded, "not done within 1s: probe: context deadline exceeded",
		},
		{"retried", func(ctx context.Context, _ *trace) error { return after(ctx, context.Canceled) }, 3, context.Canceled, "not done within 1s: context deadline exceeded: context canceled"},
		{"cause", func(ctx context.Context, _ *trace) error { <-ctx.Done(); return context.Cause(ctx) }, 1, context.DeadlineExceeded, "not done within 1s: context deadline exceeded"},
		{"nil", func(ctx context.Context, _ *trace) error { return after(ctx, nil) }, 1, context.DeadlineExceeded, "not done within 1s: context deadline exceeded"},
		{"skips", func(ctx context.Context, _ *trace) error { return after(ctx, dag.ErrSkipped) }, 2, context.DeadlineExceeded, "not done within 1s: context deadline exceeded"},
		{"waits", func(ctx context.Context, _ *trace) error { return after(ctx, dag.ErrWaiting) }, 1, context.DeadlineExceeded, "not done within 1s: context deadline exceeded"},
		{"fails", func(ctx context.Context, _ *trace) error { return after(ctx, errBoom) }, 1, errBoom, "not done within 1s: context deadline exceeded: boom"},
		{"panics", func(ctx context.Context, _ *trace) error { <-ctx.Done(); panic("boom") }, 1, context.DeadlineExceeded, "not done within 1s: context deadline exceeded: panic: boom"},
		{"in time", func(context.Context, *trace) error { return context.DeadlineExceeded }, 1, context.DeadlineExceeded, "context deadline exceeded"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := build(t, dag.Config[trace]{}, dag.Node[trace]{
					Name: "a", Run: tt.run, Timeout: time.Second, Retry: dag.Retry{Attempts: tt.attempts, Pause: time.Nanosecond},
				})
				r, _ := g.Run(t.Context(), new(trace))
				n := r.Nodes[0]
				if n.Outcome != dag.Failed || n.Attempts != tt.attempts || !errors.Is(n.Err, tt.is) || !strings.HasSuffix(n.Err.Error(), ": "+tt.want) {
					t.Errorf("%v after %d attempts: %v, want %s", n.Outcome, n.Attempts, n.Err, tt.want)
				}
				if took, want := n.End.Sub(n.Start), time.Duration(tt.attempts)*time.Second; tt.name != "in time" && (took < want || took > want+time.Microsecond) {
					t.Errorf("%d attempts took %v", n.Attempts, took)
				}
				if g.Abandoned() != 0 {
					t.Errorf("%d attempts are abandoned", g.Abandoned())
				}
			})
		})
	}
}

// A node that ignores its context is left behind, with its worker free and the run over, and counted until it returns.
func TestAbandoned(t *testing.T) {
	for _, pooled := range []bool{false, true} {
		t.Run(fmt.Sprintf("pool=%v", pooled), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := dag.Config[trace]{Continue: true, Limit: 1}
				if pooled {
					cfg.Pool = startPool(t, 1)
				}
				release := make(chan struct{})
				deaf := func(ctx context.Context, _ *trace) error {
					<-release
					if err := dag.Pause(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("Pause of an abandoned attempt = %v", err)
					}
					return nil
				}
				g := build(
					t, cfg, dag.Node[trace]{Name: "deaf", Run: deaf, Timeout: time.Minute, Retry: dag.Retry{Attempts: 3}},
					node("a", nil), node("b", nil, "deaf"),
				)
				for left := 1; left <= 2; left++ {
					r, err := g.Run(t.Context(), new(trace))
					if want := "dag: node deaf: not done within 1m0s: context deadline exceeded, abandoned while it still runs"; err == nil || err.Error() != want {
						t.Errorf("Run = %v\n want %s", err, want)
					}
					if !errors.Is(err, dag.ErrAbandoned) || !errors.Is(err, context.DeadlineExceeded) || outcomes(r) != "deaf=failed a=done b=canceled" {
						t.Errorf("Run = %s, %v", outcomes(r), err)
					}
					if took := r.End.Sub(r.Start); took != 61*time.Second || r.Nodes[0].Attempts != 1 || g.Abandoned() != left {
						t.Errorf("it took %v, %d attempts, %d are abandoned, want 1m1s, 1, %d", took, r.Nodes[0].Attempts, g.Abandoned(), left)
					}
				}
				close(release)
				synctest.Wait()
				if g.Abandoned() != 0 {
					t.Errorf("%d attempts are abandoned after their end", g.Abandoned())
				}
			})
		})
	}
}

// A run that was canceled waits for a node that ignores that as long as its timeout allows, and takes what it returns within.
func TestTimeoutAfterCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sleep := func(d time.Duration) dag.Func[trace] {
			return func(context.Context, *trace) error { time.Sleep(d); return nil }
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g := build(
			t, dag.Config[trace]{}, dag.Node[trace]{Name: "in time", Run: sleep(10 * time.Second), Timeout: time.Minute},
			dag.Node[trace]{Name: "late", Run: sleep(time.Hour), Timeout: time.Minute},
			dag.Node[trace]{Name: "ever", Run: sleep(30 * time.Second), Timeout: math.MaxInt64},
		)
		r, err := g.Run(ctx, new(trace))
		if outcomes(r) != "in time=done late=failed ever=done" || !errors.Is(err, dag.ErrAbandoned) || r.End.Sub(r.Start) != 61*time.Second {
			t.Errorf("Run = %s, %v after %v", outcomes(r), err, r.End.Sub(r.Start))
		}
		time.Sleep(time.Hour) // "late" returns
	})
}

// A policy decides by the error and the attempt whether to go on, and after which pause.
func TestRetryPolicy(t *testing.T) {
	permanent := errors.New("permanent")
	steps := func(attempt int, err error) (time.Duration, bool) {
		return time.Duration(attempt) * time.Second, !errors.Is(err, permanent)
	}
	tests := []struct {
		name     string
		retry    dag.Retry
		errs     []error // of the attempts; nil afterwards
		outcome  dag.Outcome
		attempts int
		took     time.Duration
	}{
		{"until it is done", dag.Retry{Policy: steps}, []error{errBoom, errBoom, errBoom}, dag.Done, 4, 6 * time.Second},
		{"not again", dag.Retry{Policy: steps}, []error{errBoom, permanent}, dag.Failed, 2, time.Second},
		{"bounded", dag.Retry{Attempts: 3, Policy: steps}, []error{errBoom, errBoom, errBoom}, dag.Failed, 3, 3 * time.Second},
		{"not asked", dag.Retry{Policy: steps}, []error{dag.ErrWaiting}, dag.Waiting, 1, 0},
		{"negative", dag.Retry{Policy: func(int, error) (time.Duration, bool) { return -1, true }}, []error{errBoom}, dag.Done, 2, 0},
		{"panics", dag.Retry{Policy: func(int, error) (time.Duration, bool) { panic("policy") }}, []error{errBoom}, dag.Failed, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				g := build(t, dag.Config[trace]{}, dag.Node[trace]{Name: "a", Retry: tt.retry, Run: func(context.Context, *trace) error {
					if calls++; calls <= len(tt.errs) {
						return tt.errs[calls-1]
					}
					return nil
				}})
				r, err := g.Run(t.Context(), new(trace))
				n := r.Nodes[0]
				if n.Outcome != tt.outcome || n.Attempts != tt.attempts || n.End.Sub(n.Start) != tt.took {
					t.Errorf("%v after %d attempts in %v: %v; want %v, %d, %v", n.Outcome, n.Attempts, n.End.Sub(n.Start), err, tt.outcome, tt.attempts, tt.took)
				}
			})
		})
	}
	retry := dag.Retry{Pause: time.Second, Max: 3 * time.Second}
	for range 100 {
		if d := retry.Backoff(1); d < 0 || d >= time.Second {
			t.Errorf("Backoff(1) = %v", d)
		}
		if d := retry.Backoff(9); d < 0 || d >= 3*time.Second {
			t.Errorf("Backoff(9) = %v", d)
		}
	}
}
