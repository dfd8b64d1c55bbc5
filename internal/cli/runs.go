package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/terminal"
)

// runsCommand shows the runs of playbooks, and cancels them.
type runsCommand struct {
	List   runsListCommand `cmd:"" default:"withargs" help:"List the runs of playbooks, the latest first."`
	Get    runGetCommand   `cmd:"" help:"Show a run, with its steps."`
	Cancel changeCommand   `cmd:"" help:"Cancel a run, by its number."`
}

type runsListCommand struct {
	apiFlags
	limitFlag
	jsonFlag

	Playbook string `placeholder:"NAME" help:"Only of this playbook."`
	Subject  string `placeholder:"ID" help:"Only about this device, group or source."`
	State    string `enum:",running,waiting,done,failed,recovered,canceled" default:"" placeholder:"STATE" help:"Only runs in this state: running, waiting, done, failed, recovered or canceled."`
}

type runRow struct {
	Run      uint64        `table:"RUN"`
	Playbook string        `table:"PLAYBOOK"`
	Subject  string        `table:"SUBJECT,least=12,inner"`
	State    terminal.Cell `table:"STATE"`
	Started  time.Time     `table:"STARTED"`
	Due      time.Time     `table:"ENDED/DUE,spare"`
	Error    string        `table:"ERROR,least=16,spare"`
}

// Run lists the runs.
func (c *runsListCommand) Run(ctx context.Context, out output) error {
	query := queryOf(map[string]string{"playbook": c.Playbook, "subject": c.Subject, "state": c.State})
	l := list{path: "runs", query: query, page: "before", limit: c.Limit, row: rowOf(func(r *httpapi.Run) any {
		return runRow{r.Run, r.Playbook, r.Subject, outcome(r.State), r.Started, cmp.Or(r.Ended, r.Wake), r.Error}
	})}
	return l.run(ctx, &c.apiFlags, c.JSON, out)
}

type runGetCommand struct {
	apiFlags
	jsonFlag

	ID uint64 `arg:"" name:"run" help:"Number of the run."`
}

type runStepRow struct {
	Step    string        `table:"STEP"`
	State   terminal.Cell `table:"STATE"`
	Started time.Time     `table:"STARTED,spare"`
	Due     time.Time     `table:"ENDED/DUE,spare"`
	Result  string        `table:"RESULT,least=20"`
}

// Run shows the run.
func (c *runGetCommand) Run(ctx context.Context, out output) error {
	return c.with(func(api *apiclient.Client) error {
		var r httpapi.RunDetails
		done, err := getOrPrint(ctx, api, pathOf("runs", strconv.FormatUint(c.ID, 10)), out.stdout, c.JSON, &r)
		if done || err != nil {
			return err
		}
		screen := terminal.ScreenOf(out.stdout)
		if err := say(out.stdout, "%s", runText(&r, screen)); err != nil {
			return err
		}
		table := terminal.NewTable(screen)
		for _, s := range r.Steps {
			table.Add(runStepRow{s.Name, outcome(s.State), s.Started, cmp.Or(s.Ended, s.Wake), stepResult(&s)})
		}
		return table.Flush(out.stdout)
	})
}

// runText describes a run in a line, with its error below.
func runText(r *httpapi.RunDetails, s terminal.Screen) string {
	state := outcome(r.State)
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
