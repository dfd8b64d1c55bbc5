package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/holter-iot/holter/dag"
	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

// runsCommand shows the runs of playbooks, and cancels them.
type runsCommand struct {
	List   runsListCommand `cmd:"" default:"withargs" help:"List the runs of playbooks, the latest first."`
	Get    runGetCommand   `cmd:"" help:"Show a run, with its steps."`
	Graph  runGraphCommand `cmd:"" help:"Draw the steps of a run, for Mermaid or Graphviz."`
	Cancel changeCommand   `cmd:"" help:"Cancel a run, by its number."`
}

type runsListCommand struct {
	apiFlags
	limitFlag
	listCommand

	Playbook string `query:"playbook" placeholder:"NAME" help:"Only of this playbook."`
	Subject  string `query:"subject" placeholder:"ID" help:"Only about this device, group or source."`
	State    string `query:"state" enum:",running,waiting,done,failed,recovered,canceled" default:"" placeholder:"STATE" help:"Only runs in this state: running, waiting, done, failed, recovered or canceled."`
}

func runs() list {
	return list{
		page: "before", columns: []string{"RUN", "PLAYBOOK", "SUBJECT,least=12,inner", "STATE", "STARTED", "ENDED/DUE,spare", "ERROR,least=16,spare"},
		row: rowOf(func(r *httpapi.Run) []any {
			return []any{r.Run, r.Playbook, r.Subject, painted(r.State), r.Started, cmp.Or(r.Ended, r.Wake), r.Error}
		}),
	}
}

type runGetCommand struct {
	apiFlags
	jsonFlag

	ID uint64 `arg:"" name:"run" help:"Number of the run."`
}

// Run shows the run.
func (c *runGetCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	path := pathOf("runs", strconv.FormatUint(c.ID, 10))
	return ask(ctx, api, out, c.JSON, http.MethodGet, path, nil, func(r *httpapi.RunDetails) error {
		screen := terminal.ScreenOf(out.stdout)
		if err := say(out.stdout, "%s", runText(r, screen)); err != nil {
			return err
		}
		table := terminal.NewTable(screen, "STEP", "STATE", "STARTED,spare", "ENDED/DUE,spare", "RESULT,least=20")
		for _, s := range r.Steps {
			table.Add(s.Name, painted(s.State), s.Started, cmp.Or(s.Ended, s.Wake), stepResult(&s))
		}
		return table.Flush(out.stdout)
	})
}

type runGraphCommand struct {
	apiFlags

	ID  uint64 `arg:"" name:"run" help:"Number of the run."`
	DOT bool   `name:"dot" help:"Print a graph in the language of Graphviz, with results and errors as tooltips."`
}

// Help is the text below the usage line.
func (*runGraphCommand) Help() string {
	return `Print the steps of a run, with states and times, as a flowchart in the language of Mermaid, which many pages and editors show.

Examples:

    holter runs graph 7
    holter runs graph 7 --dot | dot -Tsvg > run.svg`
}

// Run draws the run.
func (c *runGraphCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	path := pathOf("runs", strconv.FormatUint(c.ID, 10))
	return ask(ctx, api, out, false, http.MethodGet, path, nil, func(r *httpapi.RunDetails) error {
		picture := runDrawing(r)
		text := picture.Mermaid()
		if c.DOT {
			text = picture.DOT()
		}
		_, err := io.WriteString(out.stdout, text)
		return err
	})
}

// runDrawing returns the picture of a run.
func runDrawing(r *httpapi.RunDetails) dag.Drawing {
	title := fmt.Sprintf("Run %d of playbook %s about %s: %s", r.Run.Run, r.Playbook, r.Subject, r.State)
	if !r.Started.IsZero() {
		title += ", started " + terminal.Stamp(r.Started)
	}
	d := dag.Drawing{Title: title}
	for _, s := range r.Steps {
		n := dag.DrawingNode{Name: s.Name, After: s.After, When: s.If != "", State: s.State, Start: s.Started, End: s.Ended, Note: stepResult(&s)}
		if n.Note == "" && !s.Wake.IsZero() {
			n.Note = "until " + terminal.Stamp(s.Wake)
		}
		d.Nodes = append(d.Nodes, n)
	}
	return d
}

// runText describes a run in a line, with its error below.
func runText(r *httpapi.RunDetails, s terminal.Screen) string {
	state := painted(r.State)
	text := fmt.Sprintf("run %d of playbook %s about %s: %s", r.Run.Run, terminal.Printable(r.Playbook), terminal.Printable(r.Subject), s.In(state.Paint, state.Text))
	switch {
	case !r.Ended.IsZero():
		text += ", from " + terminal.Stamp(r.Started) + " to " + terminal.Stamp(r.Ended)
	case !r.Wake.IsZero():
		text += " until " + terminal.Stamp(r.Wake) + ", started " + terminal.Stamp(r.Started)
	case !r.Started.IsZero():
		text += ", started " + terminal.Stamp(r.Started)
	}
	if r.Error != "" {
		text += "\n" + terminal.Printable(r.Error)
	}
	return text
}

// stepResult describes the result of a step.
func stepResult(s *httpapi.RunStep) string {
	switch {
	case s.Error != "" && s.State == "waiting":
		return fmt.Sprintf("failed %d times: %s", s.Attempts, s.Error)
	case s.Error != "":
		return s.Error
	case s.Holds != nil && *s.Holds:
		return "yes: it is " + s.Output
	case s.Holds != nil:
		return "no: it is " + s.Output
	}
	return strings.TrimSpace(s.Output)
}
