package dag_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holter-iot/holter/dag"
)

// around notes what it sees.
func around(name string) dag.Interceptor[trace] {
	return func(n dag.Node[trace], next dag.Func[trace]) dag.Func[trace] {
		return func(ctx context.Context, s *trace) error {
			s.note(name + ">" + n.Name)
			err := next(ctx, s)
			s.note(fmt.Sprintf("%s<%s: %v", name, n.Name, err))
			return err
		}
	}
}

func TestInterceptors(t *testing.T) {
	flaky := dag.Node[trace]{Name: "flaky", Run: func(_ context.Context, s *trace) error {
		s.note("flaky")
		if s.flag = !s.flag; s.flag {
			return errBoom
		}
		return nil
	}, Retry: dag.Retry{Attempts: 2, Pause: 1}}
	g := build(
		t, dag.Config[trace]{Limit: 1, Interceptors: []dag.Interceptor[trace]{around("1"), around("2")}},
		flaky, when(false, node("off", nil)), node("behind", nil, "off"),
	)
	var s trace
	r, err := g.Run(t.Context(), &s)
	if err != nil || outcomes(r) != "flaky=done off=skipped behind=skipped" || r.Nodes[0].Attempts != 2 {
		t.Errorf("Run = %s, %v; attempts %d", outcomes(r), err, r.Nodes[0].Attempts)
	}
	want := "1>flaky, 2>flaky, flaky, flaky, 2<flaky: <nil>, 1<flaky: <nil>, 1>off, 2>off, 2<off: dag: node skipped, 1<off: dag: node skipped"
	if got := strings.Join(s.ran, ", "); got != want {
		t.Errorf("saw  %s\nwant %s", got, want)
	}
}

// What the interceptor returns is what counts.
func TestInterceptorDecides(t *testing.T) {
	other := errors.New("other")
	for _, tt := range []struct {
		name string
		do   dag.Func[trace] // in place of next, if not nil
		want string
	}{
		{"done before", func(context.Context, *trace) error { return nil }, "a=done"},
		{"skipped before", func(context.Context, *trace) error { return dag.ErrSkipped }, "a=skipped"},
		{"waits", func(context.Context, *trace) error { return dag.ErrWaiting }, "a=waiting"},
		{"fails", func(context.Context, *trace) error { return other }, "a=failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			instead := func(dag.Node[trace], dag.Func[trace]) dag.Func[trace] { return tt.do }
			g := build(t, dag.Config[trace]{Interceptors: []dag.Interceptor[trace]{instead}}, node("a", errBoom))
			var s trace
			r, err := g.Run(t.Context(), &s)
			if outcomes(r) != tt.want || s.sorted() != "" || r.Nodes[0].Attempts != 0 || (tt.name == "fails") != errors.Is(err, other) {
				t.Errorf("Run = %s, %v; ran %q", outcomes(r), err, s.sorted())
			}
		})
	}
}

func TestInterceptorContext(t *testing.T) {
	type key struct{}
	for _, tt := range []struct {
		name string
		ctx  func(context.Context) context.Context
		want string
	}{
		{"value", func(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, "v") }, "<nil>"},
		{"foreign", func(context.Context) context.Context { return context.Background() }, "dag: node a: an interceptor passed on a context that does not come from its own"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pass := func(_ dag.Node[trace], next dag.Func[trace]) dag.Func[trace] {
				return func(ctx context.Context, s *trace) error { return next(tt.ctx(ctx), s) }
			}
			g := build(t, dag.Config[trace]{Interceptors: []dag.Interceptor[trace]{pass}}, dag.Node[trace]{Name: "a", Run: func(ctx context.Context, _ *trace) error {
				if ctx.Value(key{}) != "v" {
					t.Error("the value is lost")
				}
				return nil
			}})
			if _, err := g.Run(t.Context(), new(trace)); fmt.Sprint(err) != tt.want {
				t.Errorf("Run = %v, want %s", err, tt.want)
			}
		})
	}
}
