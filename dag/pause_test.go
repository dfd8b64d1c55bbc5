package dag_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/dag"
)

// at notes when something happens to a node, in seconds from the beginning of a test.
func at(s *trace, begin time.Time, what string) {
	s.note(fmt.Sprintf("%s@%v", what, time.Since(begin).Seconds()))
}

func TestPause(t *testing.T) {
	tests := []struct {
		name  string
		limit int
		nodes func(busy, pause func(name string, seconds int, after ...string) dag.Node[trace]) []dag.Node[trace]
		want  string
	}{
		{
			name: "beside a node at work",
			nodes: func(busy, pause func(string, int, ...string) dag.Node[trace]) []dag.Node[trace] {
				return []dag.Node[trace]{busy("a", 15), pause("p", 5), busy("q", 1, "p")}
			},
			want: "p@5 q@6 a@15",
		},
		{
			name: "beside nodes that come one after the other",
			nodes: func(busy, pause func(string, int, ...string) dag.Node[trace]) []dag.Node[trace] {
				return []dag.Node[trace]{busy("a", 2), busy("b", 2, "a"), busy("c", 2, "b"), pause("p", 5), pause("r", 7)}
			},
			want: "a@2 b@4 p@5 c@6 r:waits@6",
		},
		{
			name: "alone",
			nodes: func(_, pause func(string, int, ...string) dag.Node[trace]) []dag.Node[trace] {
				return []dag.Node[trace]{pause("p", 3600)}
			},
			want: "p:waits@0",
		},
		{
			name: "no more worker", limit: 1,
			nodes: func(busy, pause func(string, int, ...string) dag.Node[trace]) []dag.Node[trace] {
				return []dag.Node[trace]{pause("p", 5), busy("a", 2)}
			},
			want: "p:waits@0 a@2",
		},
		{
			name: "another one fails",
			nodes: func(busy, pause func(string, int, ...string) dag.Node[trace]) []dag.Node[trace] {
				return []dag.Node[trace]{busy("fails", 2), busy("a", 9), pause("p", 5)}
			},
			want: "fails@2 p:canceled@2 a@9",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				busy := func(name string, seconds int, after ...string) dag.Node[trace] {
					return dag.Node[trace]{Name: name, After: after, Run: func(_ context.Context, s *trace) error {
						time.Sleep(time.Duration(seconds) * time.Second)
						at(s, begin, name)
						if name == "fails" {
							return errBoom
						}
						return nil
					}}
				}
				pause := func(name string, seconds int, after ...string) dag.Node[trace] {
					return dag.Node[trace]{Name: name, After: after, Run: func(ctx context.Context, s *trace) error {
						err := dag.Pause(ctx, time.Duration(seconds)*time.Second)
						switch {
						case errors.Is(err, dag.ErrWaiting):
							at(s, begin, name+":waits")
						case errors.Is(err, context.Canceled):
							at(s, begin, name+":canceled")
						default:
							at(s, begin, name)
						}
						return err
					}}
				}
				var s trace
				_, err := build(t, dag.Config[trace]{Limit: tt.limit}, tt.nodes(busy, pause)...).Run(t.Context(), &s)
				if got := strings.Join(s.ran, " "); got != tt.want {
					t.Errorf("it was %s, want %s", got, tt.want)
				}
				if waits := strings.Contains(tt.want, "waits"); waits != errors.Is(err, dag.ErrWaiting) {
					t.Errorf("Run: %v", err)
				}
			})
		})
	}
	if err := dag.Pause(t.Context(), time.Hour); err == nil || errors.Is(err, dag.ErrWaiting) {
		t.Errorf("outside of a run: %v", err)
	}
}
