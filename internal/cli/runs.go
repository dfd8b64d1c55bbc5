package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/terminal"
)

// playbooksCommand shows playbooks.
type playbooksCommand struct {
	List playbooksListCommand `cmd:"" help:"List the playbooks of the server's configuration."`
	Show playbookShowCommand  `cmd:"" help:"Show the steps of a playbook."`
	Run  playbookRunCommand   `cmd:"" help:"Run a playbook for a device, whatever happened."`
}

type playbooksListCommand struct {
	apiFlags

	JSON bool `name:"json" help:"One JSON object a line."`
}

// Run lists the playbooks.
func (c *playbooksListCommand) Run(ctx context.Context, out output) error {
	return asked(&c.apiFlags, func(api *apiclient.Client) error {
		var answer struct{ Playbooks []httpapi.Playbook }
		if err := api.Get(ctx, "/v1/playbooks", nil, &answer); err != nil {
			return err
		}
		g := terminal.NewGrid(terminal.ScreenOf(out.stdout), terminal.Column{Name: "PLAYBOOK"}, terminal.Column{Name: "STATE"}, terminal.Column{Name: "EVENTS", Least: 16}, terminal.Column{Name: "GROUP"},
			terminal.Column{Name: "DEVICE", Least: 8}, terminal.Column{Name: "RECOVERY"}, terminal.Column{Name: "STEPS", Right: true})
		for _, p := range answer.Playbooks {
			if c.JSON {
				if err := terminal.EncodeJSON(out.stdout, p); err != nil {
					return err
				}
				continue
			}
			state, events, group, device := terminal.Cell{Text: "by hand"}, "", "", ""
			if p.When != nil {
				state = terminal.Cell{Text: "at work", Paint: terminal.Green}
				events, group, device = triggerEvents(p.When), cmp.Or(p.When.Group, "*"), cmp.Or(p.When.Device, "*")
			}
			if p.Paused {
				state = terminal.Cell{Text: "paused", Paint: terminal.Yellow}
			}
			g.Add(terminal.Cell{Text: p.Name}, state, terminal.Cell{Text: events}, terminal.Cell{Text: group}, terminal.Cell{Text: device}, terminal.Cell{Text: p.OnRecover},
				terminal.Cell{Text: strconv.Itoa(len(p.Steps) + len(p.Recovered))})
		}
		return g.Flush(out.stdout)
	})
}

func triggerEvents(t *httpapi.PlaybookTrigger) string {
	return routeEvents(&httpapi.Route{RouteSettings: httpapi.RouteSettings{Types: t.Types, Reasons: t.Reasons, All: t.All}})
}

type playbookShowCommand struct {
	apiFlags

	Name    string `arg:"" help:"Name of the playbook."`
	Mermaid bool   `help:"As a flowchart in the language of Mermaid, for a page or an editor that draws it."`
	JSON    bool   `name:"json" help:"As JSON."`
}

// Run shows a playbook.
func (c *playbookShowCommand) Run(ctx context.Context, out output) error {
	return asked(&c.apiFlags, func(api *apiclient.Client) error {
		var p httpapi.Playbook
		if err := api.Get(ctx, pathOf("playbooks", c.Name), nil, &p); err != nil {
			return err
		}
		switch {
		case c.Mermaid:
			_, err := fmt.Fprint(out.stdout, p.Mermaid)
			return err
		case c.JSON:
			return terminal.EncodeJSON(out.stdout, p)
		}
		g := terminal.NewGrid(terminal.ScreenOf(out.stdout), terminal.Column{Name: "STEP"}, terminal.Column{Name: "DOES", Least: 16, Spare: true}, terminal.Column{Name: "AFTER"}, terminal.Column{Name: "IF"})
		for _, s := range p.Steps {
			g.Add(terminal.Cell{Text: s.Name}, terminal.Cell{Text: s.Does}, terminal.Cell{Text: strings.Join(s.After, " ")}, terminal.Cell{Text: s.If})
		}
		for i, s := range p.Recovered {
			after := strings.Join(s.After, " ")
			if i == 0 {
				after = cmp.Or(after, "a recovery")
			}
			g.Add(terminal.Cell{Text: s.Name}, terminal.Cell{Text: s.Does}, terminal.Cell{Text: after}, terminal.Cell{Text: s.If})
		}
		return g.Flush(out.stdout)
	})
}

type playbookRunCommand struct {
	apiFlags

	Name   string `arg:"" help:"Name of the playbook."`
	Device string `arg:"" help:"Id of the device that it is about."`
}

// Run begins a run.
func (c *playbookRunCommand) Run(ctx context.Context, out output) error {
	return asked(&c.apiFlags, func(api *apiclient.Client) error {
		var answer struct{ Run uint64 }
		if err := api.Ask(ctx, http.MethodPost, pathOf("playbooks", c.Name)+"/run", map[string]string{"device": c.Device}, &answer); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out.stdout, "run %d; \"holter runs show %d\" says how far it is\n", answer.Run, answer.Run)
		return err
	})
}

// runsCommand shows the runs of playbooks.
type runsCommand struct {
	List   runsListCommand  `cmd:"" help:"List the runs of playbooks, the latest first."`
	Show   runShowCommand   `cmd:"" help:"Show a run, with its steps."`
	Cancel runCancelCommand `cmd:"" help:"Cancel a run."`
}

type runsListCommand struct {
	apiFlags

	Playbook string `placeholder:"NAME" help:"Only of this playbook."`
	Subject  string `placeholder:"ID" help:"Only about this device, group or source."`
	State    string `enum:",running,waiting,done,failed,recovered,canceled" default:"" placeholder:"STATE" help:"Only those that are running, waiting, done, failed, recovered or canceled."`
	Limit    int    `default:"100" placeholder:"N" help:"The most runs to show; 0 for all. Default: 100."`
	JSON     bool   `name:"json" help:"One JSON object a line."`
}

// Run lists the runs.
func (c *runsListCommand) Run(ctx context.Context, out output) error {
	if c.Limit < 0 {
		return orUsage("--limit: it is negative; write 0 for all")
	}
	query := url.Values{}
	for name, value := range map[string]string{"playbook": c.Playbook, "subject": c.Subject, "state": c.State} {
		if value != "" {
			query.Set(name, value)
		}
	}
	g := terminal.NewGrid(terminal.ScreenOf(out.stdout), terminal.Column{Name: "RUN", Right: true}, terminal.Column{Name: "PLAYBOOK"}, terminal.Column{Name: "SUBJECT", Least: 12}, terminal.Column{Name: "STATE"},
		terminal.Column{Name: "STARTED"}, terminal.Column{Name: "UNTIL", Spare: true}, terminal.Column{Name: "ERROR", Least: 16, Spare: true})
	return asked(&c.apiFlags, func(api *apiclient.Client) error {
		return pagedBy(ctx, api, "/v1/runs", "before", query, c.Limit, func(raw json.RawMessage) (int, uint64, error) {
			var page struct {
				Runs []httpapi.Run
				Next uint64
			}
			if err := json.Unmarshal(raw, &page); err != nil {
				return 0, 0, apiclient.NotOurs(api)
			}
			for _, r := range page.Runs {
				if c.JSON {
					if err := terminal.EncodeJSON(out.stdout, r); err != nil {
						return 0, 0, err
					}
					continue
				}
				g.Add(terminal.Cell{Text: strconv.FormatUint(r.Run, 10)}, terminal.Cell{Text: r.Playbook}, terminal.Cell{Text: r.Subject}, playState(r.State), terminal.Cell{Text: terminal.Stamp(r.Started)},
					terminal.Cell{Text: whenText(cmp.Or(r.Ended, r.Wake))}, terminal.Cell{Text: r.Error})
			}
			return len(page.Runs), page.Next, g.Flush(out.stdout)
		})
	})
}

// playState shows the state of a run or a step.
func playState(state string) terminal.Cell {
	switch state {
	case "done", "recovered":
		return terminal.Cell{Text: state, Paint: terminal.Green}
	case "failed":
		return terminal.Cell{Text: state, Paint: terminal.Red}
	case "running", "waiting":
		return terminal.Cell{Text: state, Paint: terminal.Yellow}
	}
	return terminal.Cell{Text: state, Paint: terminal.Faint}
}

func whenText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return terminal.Stamp(t)
}

type runShowCommand struct {
	apiFlags

	ID   uint64 `arg:"" name:"run" help:"Number of the run."`
	JSON bool   `name:"json" help:"As JSON."`
}

// Run shows a run.
func (c *runShowCommand) Run(ctx context.Context, out output) error {
	return asked(&c.apiFlags, func(api *apiclient.Client) error {
		var r httpapi.RunDetails
		if err := api.Get(ctx, "/v1/runs/"+strconv.FormatUint(c.ID, 10), nil, &r); err != nil {
			return err
		}
		if c.JSON {
			return terminal.EncodeJSON(out.stdout, r)
		}
		s := terminal.ScreenOf(out.stdout)
		state := playState(r.State)
		text := fmt.Sprintf("run %d of playbook %s about %s: %s", r.Run.Run, terminal.Printable(r.Playbook), terminal.Printable(r.Subject), s.In(state.Paint, state.Text))
		switch {
		case !r.Ended.IsZero():
			text += ", from " + terminal.Stamp(r.Started) + " to " + terminal.Stamp(r.Ended)
		case !r.Wake.IsZero():
			text += " until " + terminal.Stamp(r.Wake) + ", begun " + terminal.Stamp(r.Started)
		case !r.Started.IsZero():
			text += ", begun " + terminal.Stamp(r.Started)
		}
		if r.Error != "" {
			text += "\n" + terminal.Printable(r.Error)
		}
		g := terminal.NewGrid(s, terminal.Column{Name: "STEP"}, terminal.Column{Name: "STATE"}, terminal.Column{Name: "BEGUN", Spare: true}, terminal.Column{Name: "ENDED, OR UNTIL", Spare: true},
			terminal.Column{Name: "WHAT CAME OF IT", Least: 20})
		for _, step := range r.Steps {
			g.Add(terminal.Cell{Text: step.Name}, playState(step.State), terminal.Cell{Text: whenText(step.Started)}, terminal.Cell{Text: whenText(cmp.Or(step.Ended, step.Wake))},
				terminal.Cell{Text: stepText(&step)})
		}
		_, err := fmt.Fprintln(out.stdout, text)
		return errors.Join(err, g.Flush(out.stdout))
	})
}

// stepText says what came of a step.
func stepText(s *httpapi.RunStep) string {
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

type runCancelCommand struct {
	apiFlags

	ID uint64 `arg:"" name:"run" help:"Number of the run."`
}

// Run cancels a run.
func (c *runCancelCommand) Run(ctx context.Context, out output) error {
	id := strconv.FormatUint(c.ID, 10)
	return told(ctx, out, &c.apiFlags, http.MethodDelete, "/v1/runs/"+id, "run "+id+" is canceled")
}
