package cli

import (
	"slices"
	"testing"
	"time"

	"github.com/holter-iot/holter/dag"
	"github.com/holter-iot/holter/internal/httpapi"
)

// A picture of a run says of each step what the table does.
func TestRunDrawing(t *testing.T) {
	at := time.Date(2026, 11, 21, 14, 35, 22, 0, time.UTC)
	yes := true
	step := func(name, state string, after ...string) httpapi.RunStep {
		return httpapi.RunStep{PlaybookStep: httpapi.PlaybookStep{Name: name, After: after}, State: state}
	}
	still := step("still", "done", "tell")
	still.Started, still.Ended, still.Holds, still.Output = at, at.Add(time.Second), &yes, "offline"
	page := step("page", "waiting", "still")
	page.If, page.Started, page.Wake, page.Attempts, page.Error = "still", at, at.Add(time.Minute), 2, "exit status 1"
	pause := step("pause", "waiting", "still")
	pause.Started, pause.Wake = at, at.Add(time.Hour)
	d := runDrawing(&httpapi.RunDetails{
		Run:   httpapi.Run{Run: 7, Playbook: "escalate", Subject: "dev-1", State: "waiting", Started: at},
		Steps: []httpapi.RunStep{step("tell", "canceled"), still, page, pause},
	})
	if want := "Run 7 of playbook escalate about dev-1: waiting, started 2026-11-21T14:35:22.000Z"; d.Title != want {
		t.Errorf("the title is %q, want %q", d.Title, want)
	}
	want := []dag.DrawingNode{
		{Name: "tell", State: "canceled"},
		{Name: "still", After: []string{"tell"}, State: "done", Start: at, End: at.Add(time.Second), Note: "yes: it is offline"},
		{Name: "page", After: []string{"still"}, When: true, State: "waiting", Start: at, Note: "failed 2 times: exit status 1"},
		{Name: "pause", After: []string{"still"}, State: "waiting", Start: at, Note: "until 2026-11-21T15:35:22.000Z"},
	}
	for i, n := range d.Nodes {
		w := want[i]
		if n.Name != w.Name || !slices.Equal(n.After, w.After) || n.When != w.When || n.State != w.State || !n.Start.Equal(w.Start) || !n.End.Equal(w.End) || n.Note != w.Note {
			t.Errorf("step %d is %+v, want %+v", i, n, w)
		}
	}
	if d := runDrawing(&httpapi.RunDetails{}); len(d.Nodes) != 0 || d.Title == "" {
		t.Errorf("a run that has not started: %+v", d)
	}
}
