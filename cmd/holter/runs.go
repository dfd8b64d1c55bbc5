package main

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
	return asked(&c.apiFlags, func(api *client) error {
		var answer struct{ Playbooks []httpapi.Playbook }
		if err := api.get(ctx, "/v1/playbooks", nil, &answer); err != nil {
			return err
		}
		g := newGrid(screenOf(out.stdout), column{name: "PLAYBOOK"}, column{name: "STATE"}, column{name: "EVENTS", least: 16}, column{name: "GROUP"},
			column{name: "DEVICE", least: 8}, column{name: "RECOVERY"}, column{name: "STEPS", right: true})
		for _, p := range answer.Playbooks {
			if c.JSON {
				if err := encodeJSON(out.stdout, p); err != nil {
					return err
				}
				continue
			}
			state, events, group, device := cell{text: "by hand"}, "", "", ""
			if p.When != nil {
				state = cell{"at work", green}
				events, group, device = triggerEvents(p.When), cmp.Or(p.When.Group, "*"), cmp.Or(p.When.Device, "*")
			}
			if p.Paused {
				state = cell{"paused", yellow}
			}
			g.add(cell{text: p.Name}, state, cell{text: events}, cell{text: group}, cell{text: device}, cell{text: p.OnRecover},
				cell{text: strconv.Itoa(len(p.Steps) + len(p.Recovered))})
		}
		return g.flush(out.stdout)
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
	return asked(&c.apiFlags, func(api *client) error {
		var p httpapi.Playbook
		if err := api.get(ctx, pathOf("playbooks", c.Name), nil, &p); err != nil {
			return err
		}
		switch {
		case c.Mermaid:
			_, err := fmt.Fprint(out.stdout, p.Mermaid)
			return err
		case c.JSON:
			return encodeJSON(out.stdout, p)
		}
		g := newGrid(screenOf(out.stdout), column{name: "STEP"}, column{name: "DOES", least: 16, spare: true}, column{name: "AFTER"}, column{name: "IF"})
		for _, s := range p.Steps {
			g.add(cell{text: s.Name}, cell{text: s.Does}, cell{text: strings.Join(s.After, " ")}, cell{text: s.If})
		}
		for i, s := range p.Recovered {
			after := strings.Join(s.After, " ")
			if i == 0 {
				after = cmp.Or(after, "a recovery")
			}
			g.add(cell{text: s.Name}, cell{text: s.Does}, cell{text: after}, cell{text: s.If})
		}
		return g.flush(out.stdout)
	})
}

type playbookRunCommand struct {
	apiFlags

	Name   string `arg:"" help:"Name of the playbook."`
	Device string `arg:"" help:"Id of the device that it is about."`
}

// Run begins a run.
func (c *playbookRunCommand) Run(ctx context.Context, out output) error {
	return asked(&c.apiFlags, func(api *client) error {
		var answer struct{ Run uint64 }
		if err := api.ask(ctx, http.MethodPost, pathOf("playbooks", c.Name)+"/run", map[string]string{"device": c.Device}, &answer); err != nil {
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
	g := newGrid(screenOf(out.stdout), column{name: "RUN", right: true}, column{name: "PLAYBOOK"}, column{name: "SUBJECT", least: 12}, column{name: "STATE"},
		column{name: "STARTED"}, column{name: "UNTIL", spare: true}, column{name: "ERROR", least: 16, spare: true})
	return asked(&c.apiFlags, func(api *client) error {
		return pagedBy(ctx, api, "/v1/runs", "before", query, c.Limit, func(raw json.RawMessage) (int, uint64, error) {
			var page struct {
				Runs []httpapi.Run
				Next uint64
			}
			if err := json.Unmarshal(raw, &page); err != nil {
				return 0, 0, errNotOurs(api)
			}
			for _, r := range page.Runs {
				if c.JSON {
					if err := encodeJSON(out.stdout, r); err != nil {
						return 0, 0, err
					}
					continue
				}
				g.add(cell{text: strconv.FormatUint(r.Run, 10)}, cell{text: r.Playbook}, cell{text: r.Subject}, playState(r.State), cell{text: stamp(r.Started)},
					cell{text: whenText(cmp.Or(r.Ended, r.Wake))}, cell{text: r.Error})
			}
			return len(page.Runs), page.Next, g.flush(out.stdout)
		})
	})
}

// playState shows the state of a run or a step.
func playState(state string) cell {
	switch state {
	case "done", "recovered":
		return cell{state, green}
	case "failed":
		return cell{state, red}
	case "running", "waiting":
		return cell{state, yellow}
	}
	return cell{state, faint}
}

func whenText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return stamp(t)
}

type runShowCommand struct {
	apiFlags

	ID   uint64 `arg:"" name:"run" help:"Number of the run."`
	JSON bool   `name:"json" help:"As JSON."`
}

// Run shows a run.
func (c *runShowCommand) Run(ctx context.Context, out output) error {
	return asked(&c.apiFlags, func(api *client) error {
		var r httpapi.RunDetails
		if err := api.get(ctx, "/v1/runs/"+strconv.FormatUint(c.ID, 10), nil, &r); err != nil {
			return err
		}
		if c.JSON {
			return encodeJSON(out.stdout, r)
		}
		s := screenOf(out.stdout)
		state := playState(r.State)
		text := fmt.Sprintf("run %d of playbook %s about %s: %s", r.Run.Run, printable(r.Playbook), printable(r.Subject), s.in(state.paint, state.text))
		switch {
		case !r.Ended.IsZero():
			text += ", from " + stamp(r.Started) + " to " + stamp(r.Ended)
		case !r.Wake.IsZero():
			text += " until " + stamp(r.Wake) + ", begun " + stamp(r.Started)
		case !r.Started.IsZero():
			text += ", begun " + stamp(r.Started)
		}
		if r.Error != "" {
			text += "\n" + printable(r.Error)
		}
		g := newGrid(s, column{name: "STEP"}, column{name: "STATE"}, column{name: "BEGUN", spare: true}, column{name: "ENDED, OR UNTIL", spare: true},
			column{name: "WHAT CAME OF IT", least: 20})
		for _, step := range r.Steps {
			g.add(cell{text: step.Name}, playState(step.State), cell{text: whenText(step.Started)}, cell{text: whenText(cmp.Or(step.Ended, step.Wake))},
				cell{text: stepText(&step)})
		}
		_, err := fmt.Fprintln(out.stdout, text)
		return errors.Join(err, g.flush(out.stdout))
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
