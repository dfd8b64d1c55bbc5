package dag_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holter-iot/holter/dag"
)

// Alarm is the state of the examples: what is known of a device that has gone silent, and what was done.
type Alarm struct {
	Device   string
	Answered bool
	Done     []string
}

// Page is an action with a parameter of its own.
type Page struct{ Who string }

func (p Page) Run(_ context.Context, a *Alarm) error {
	a.Done = append(a.Done, "page "+p.Who+" about the "+a.Device)
	return nil
}

// note returns an action that only takes a note.
func note(text string) dag.Func[Alarm] {
	return func(_ context.Context, a *Alarm) error {
		a.Done = append(a.Done, text)
		return nil
	}
}

// A device is probed; if it answers the alarm is closed, else somebody is paged; then a note is taken, whatever it was.
func Example() {
	g, err := dag.New(dag.Config[Alarm]{}, []dag.Node[Alarm]{
		{Name: "probe", Run: func(_ context.Context, a *Alarm) error {
			a.Answered = a.Device == "boiler"
			return nil
		}},
		{Name: "close", Run: note("false alarm"), After: []string{"probe"}, When: func(a *Alarm) bool { return a.Answered }},
		{Name: "page", Run: Page{Who: "Kim"}.Run, After: []string{"probe"}, When: func(a *Alarm) bool { return !a.Answered }},
		{Name: "note", Run: note("noted"), After: []string{"close", "page"}},
	}...)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, device := range []string{"boiler", "pump"} {
		alarm := Alarm{Device: device}
		report, err := g.Run(context.Background(), &alarm)
		fmt.Printf("%q\n", alarm.Done)
		for _, n := range report.Nodes {
			fmt.Print(n.Name, " ", n.Outcome, ", ")
		}
		fmt.Println("error:", err)
	}
	// Output:
	// ["false alarm" "noted"]
	// probe done, close done, page skipped, note done, error: <nil>
	// ["page Kim about the pump" "noted"]
	// probe done, close skipped, page done, note done, error: <nil>
}

// A graph that cannot run says where it is wrong.
func ExampleGraph_Check() {
	g, err := dag.New(
		dag.Config[Alarm]{},
		dag.Node[Alarm]{Name: "probe", Run: note(""), After: []string{"page"}},
		dag.Node[Alarm]{Name: "wait", Run: note(""), After: []string{"probe"}},
		dag.Node[Alarm]{Name: "page", Run: note(""), After: []string{"wait"}},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = g.Check()
	fmt.Println(err)
	fmt.Println(errors.Is(err, dag.ErrCycle))
	// Output:
	// dag: cycle: probe -> wait -> page -> probe
	// true
}

func ExampleDrawing_Mermaid() {
	g, err := dag.New(
		dag.Config[Alarm]{},
		dag.Node[Alarm]{Name: "probe", Run: note("")},
		dag.Node[Alarm]{Name: "page", Run: note(""), After: []string{"probe"}, When: func(a *Alarm) bool { return !a.Answered }},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(g.Drawing().Mermaid())
	// Output:
	// flowchart TD
	//     n0["probe"]
	//     n1{"page"}
	//     n0 --> n1
}

// What is to be done becomes known on the way: one page for each person on duty, and a note after all of them.
func ExampleExtend() {
	g, err := dag.New(dag.Config[Alarm]{Limit: 1}, dag.Node[Alarm]{Name: "who", Run: func(ctx context.Context, _ *Alarm) error {
		done := dag.Node[Alarm]{Name: "note", Run: note("noted")}
		var pages []dag.Node[Alarm]
		for _, who := range []string{"Kim", "Sam"} {
			pages = append(pages, dag.Node[Alarm]{Name: who, Run: Page{Who: who}.Run, After: []string{"who"}})
			done.After = append(done.After, who)
		}
		return dag.Extend(ctx, append(pages, done)...)
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	alarm := Alarm{Device: "pump"}
	report, err := g.Run(context.Background(), &alarm)
	fmt.Printf("%q\n%d nodes, error: %v\n", alarm.Done, len(report.Nodes), err)
	// Output:
	// ["page Kim about the pump" "page Sam about the pump" "noted"]
	// 4 nodes, error: <nil>
}

// What a server says of an error decides whether to ask it again.
func ExampleRetry_policy() {
	gone := errors.New("410 Gone")
	retry := dag.Retry{Attempts: 5, Pause: time.Millisecond}
	retry.Policy = func(attempt int, err error) (time.Duration, bool) {
		return retry.Backoff(attempt), !errors.Is(err, gone)
	}
	g, err := dag.New(dag.Config[Alarm]{}, dag.Node[Alarm]{Name: "webhook", Run: func(context.Context, *Alarm) error { return gone }, Retry: retry})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = g.Run(context.Background(), new(Alarm))
	fmt.Println(err)
	// Output:
	// dag: node webhook: 410 Gone
}

// What comes after an action is what a change of it affects.
func ExampleGraph_DepthFirst() {
	g, err := dag.New(
		dag.Config[Alarm]{},
		dag.Node[Alarm]{Name: "probe", Run: note("")},
		dag.Node[Alarm]{Name: "page", Run: note(""), After: []string{"probe"}},
		dag.Node[Alarm]{Name: "report", Run: note("")},
		dag.Node[Alarm]{Name: "close", Run: note(""), After: []string{"page", "report"}},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	for n := range g.DepthFirst("probe") {
		fmt.Println(n.Name)
	}
	// Output:
	// probe
	// page
	// close
}

// A webhook that fails now and then is tried again; what does not need it goes on meanwhile.
func ExampleRetry() {
	calls := 0
	g, err := dag.New(
		dag.Config[Alarm]{Continue: true},
		dag.Node[Alarm]{
			Name: "webhook",
			Run: func(context.Context, *Alarm) error {
				if calls++; calls < 3 {
					return errors.New("503 Service Unavailable")
				}
				return nil
			},
			Timeout: 10 * time.Second,
			Retry:   dag.Retry{Attempts: 5, Pause: time.Millisecond},
		},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := g.Run(context.Background(), new(Alarm))
	fmt.Println(report.Nodes[0].Outcome, "after", report.Nodes[0].Attempts, "attempts, error:", err)
	// Output:
	// done after 3 attempts, error: <nil>
}

// Steps that outlive the process: an interceptor stores which nodes are done, here in a map, and passes over them in the next run.
// A node that waits for something outside ends the run without holding a goroutine.
func ExampleInterceptor() {
	var mu sync.Mutex // guards stored
	stored := make(map[string]error)
	durable := func(n dag.Node[Alarm], next dag.Func[Alarm]) dag.Func[Alarm] {
		return func(ctx context.Context, a *Alarm) error {
			mu.Lock()
			err, known := stored[n.Name]
			mu.Unlock()
			if known {
				return err
			}
			err = next(ctx, a)
			if err == nil || errors.Is(err, dag.ErrSkipped) {
				mu.Lock()
				stored[n.Name] = err
				mu.Unlock()
			}
			return err
		}
	}
	over := false
	g, err := dag.New(dag.Config[Alarm]{Interceptors: []dag.Interceptor[Alarm]{durable}}, []dag.Node[Alarm]{
		{Name: "webhook", Run: note("webhook")},
		{Name: "wait", After: []string{"webhook"}, Run: func(context.Context, *Alarm) error {
			if !over {
				return fmt.Errorf("10 minutes: %w", dag.ErrWaiting)
			}
			return nil
		}},
		{Name: "page", Run: Page{Who: "Kim"}.Run, After: []string{"wait"}},
	}...)
	if err != nil {
		fmt.Println(err)
		return
	}
	first := Alarm{Device: "pump"}
	_, err = g.Run(context.Background(), &first)
	fmt.Println(first.Done, err, errors.Is(err, dag.ErrWaiting))

	over = true // ten minutes later, maybe in another process
	second := Alarm{Device: "pump"}
	_, err = g.Run(context.Background(), &second)
	fmt.Println(second.Done, err)
	// Output:
	// [webhook] dag: node wait waits: 10 minutes: dag: node waits for something outside of the run true
	// [page Kim about the pump] <nil>
}

// Logs, metrics and traces are interceptors too: one for all nodes, which sees the name and the error of each.
func ExampleConfig() {
	traced := func(n dag.Node[Alarm], next dag.Func[Alarm]) dag.Func[Alarm] {
		return func(ctx context.Context, a *Alarm) error {
			start := time.Now()
			err := next(ctx, a)
			fmt.Printf("%s of the %s: error %v, took less than a minute: %v\n", n.Name, a.Device, err, time.Since(start) < time.Minute)
			return err
		}
	}
	g, err := dag.New(dag.Config[Alarm]{Interceptors: []dag.Interceptor[Alarm]{traced}}, []dag.Node[Alarm]{
		{Name: "probe", Run: note("probed")},
		{Name: "page", Run: Page{Who: "Kim"}.Run, After: []string{"probe"}, When: func(a *Alarm) bool { return !a.Answered }},
	}...)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = g.Run(context.Background(), &Alarm{Device: "pump", Answered: true})
	fmt.Println(err)
	// Output:
	// probe of the pump: error <nil>, took less than a minute: true
	// page of the pump: error dag: node skipped, took less than a minute: true
	// <nil>
}

// Graphs share the workers of a pool, and may run inside of each other's nodes.
func ExamplePool() {
	pool, err := dag.StartPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := dag.Config[Alarm]{Pool: pool}
	inner, err := dag.New(cfg, dag.Node[Alarm]{Name: "page", Run: Page{Who: "Kim"}.Run})
	if err != nil {
		fmt.Println(err)
		return
	}
	outer, err := dag.New(cfg, dag.Node[Alarm]{Name: "escalate", Run: func(ctx context.Context, a *Alarm) error {
		_, err := inner.Run(ctx, a)
		return err
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	alarm := Alarm{Device: "pump"}
	_, err = outer.Run(context.Background(), &alarm)
	fmt.Println(alarm.Done, err)
	fmt.Println("closed:", pool.Close(context.Background()))
	// Output:
	// [page Kim about the pump] <nil>
	// closed: <nil>
}
