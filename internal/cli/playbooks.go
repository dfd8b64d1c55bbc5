package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/terminal"
)

// playbooksCommand shows playbooks and runs them.
type playbooksCommand struct {
	List listCommand        `cmd:"" default:"withargs" help:"List the playbooks of the server's configuration."`
	Get  playbookGetCommand `cmd:"" help:"Show the steps of a playbook."`
	Run  playbookRunCommand `cmd:"" help:"Run a playbook for a device, whatever happened."`
}

type playbookRow struct {
	Playbook string        `table:"PLAYBOOK"`
	State    terminal.Cell `table:"STATE"`
	Events   string        `table:"EVENTS,least=16"`
	Group    string        `table:"GROUP"`
	Device   string        `table:"DEVICE,least=8"`
	Recovery string        `table:"RECOVERY"`
	Steps    int           `table:"STEPS"`
}

func playbookRowOf(p *httpapi.Playbook) any {
	r := playbookRow{Playbook: p.Name, State: terminal.Cell{Text: "by hand"}, Recovery: p.OnRecover, Steps: len(p.Steps) + len(p.Recovered)}
	if t := p.When; t != nil {
		r.State, r.Events, r.Group, r.Device = activity(p.Paused), eventsText(t.Types, t.Reasons, t.All), cmp.Or(t.Group, "*"), cmp.Or(t.Device, "*")
	} else if p.Paused {
		r.State = activity(true)
	}
	return r
}

type playbookGetCommand struct {
	apiFlags
	jsonFlag

	Name    string `arg:"" help:"Name of the playbook."`
	Mermaid bool   `help:"Print a flowchart in the language of Mermaid, for a page or an editor that draws it."`
}

type playbookStepRow struct {
	Step  string `table:"STEP"`
	Does  string `table:"DOES,least=16,spare"`
	After string `table:"AFTER"`
	If    string `table:"IF"`
}

// Run shows the playbook.
func (c *playbookGetCommand) Run(ctx context.Context, out output) error {
	return c.with(func(api *apiclient.Client) error {
		var p httpapi.Playbook
		done, err := getOrPrint(ctx, api, pathOf("playbooks", c.Name), out.stdout, c.JSON, &p)
		if done || err != nil {
			return err
		}
		if c.Mermaid {
			_, err := io.WriteString(out.stdout, p.Mermaid)
			return err
		}
		table := terminal.NewTable(terminal.ScreenOf(out.stdout))
		for _, s := range p.Steps {
			table.Add(playbookStepRow{s.Name, s.Does, strings.Join(s.After, " "), s.If})
		}
		for i, s := range p.Recovered {
			after := strings.Join(s.After, " ")
			if i == 0 {
				after = cmp.Or(after, "a recovery")
			}
			table.Add(playbookStepRow{s.Name, s.Does, after, s.If})
		}
		return table.Flush(out.stdout)
	})
}

type playbookRunCommand struct {
	apiFlags
	jsonFlag

	Name   string `arg:"" help:"Name of the playbook."`
	Device string `arg:"" help:"Id of the device that the run is about."`
}

// Run starts a run.
func (c *playbookRunCommand) Run(ctx context.Context, out output) error {
	return c.with(func(api *apiclient.Client) error {
		var answer struct{ Run uint64 }
		return create(ctx, api, out, c.JSON, pathOf("playbooks", c.Name)+"/run", map[string]string{"device": c.Device}, &answer, func() string {
			return fmt.Sprintf("run %d; \"holter runs get %d\" shows its progress", answer.Run, answer.Run)
		})
	})
}
