package cli

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

// playbooksCommand manages playbooks and runs them.
type playbooksCommand struct {
	List   plainList             `cmd:"" default:"withargs" help:"List the playbooks."`
	Get    playbookGetCommand    `cmd:"" help:"Show the steps of a playbook."`
	Set    playbookSetCommand    `cmd:"" help:"Create or change a playbook."`
	Delete changeCommand         `cmd:"" help:"Delete a playbook. Its open runs wait until there is one with its name, or are canceled."`
	Check  playbookCheckCommand  `cmd:"" help:"Report the mistakes of a playbook's file."`
	DryRun playbookDryRunCommand `cmd:"" help:"Show what a playbook would do after an event."`
	Run    playbookRunCommand    `cmd:"" help:"Run a playbook for a device, whatever happened."`
}

func playbooks() list {
	return list{
		columns: []string{"PLAYBOOK", "STATE", "EVENTS,least=16", "GROUP", "DEVICE,least=8", "RECOVERY", "STEPS", "ORIGIN,spare"},
		row: rowOf(func(p *httpapi.Playbook) []any {
			state, events, group, device := terminal.Cell{Text: "by hand"}, "", "", ""
			if t := p.When; t != nil {
				state, events, group, device = activity(p.Paused), eventsText(t.Types, t.Reasons, t.All), cmp.Or(t.Group, "*"), cmp.Or(t.Device, "*")
			} else if p.Paused {
				state = activity(true)
			}
			return []any{p.Name, state, events, group, device, p.OnRecover, len(p.Steps) + len(p.Recovered), strings.TrimPrefix(p.Origin, "file")}
		}),
	}
}

type playbookGetCommand struct {
	apiFlags
	jsonFlag

	Name    string `arg:"" help:"Name of the playbook."`
	Mermaid bool   `help:"Print a flowchart in the language of Mermaid, for a page or an editor that draws it."`
}

// Run shows the playbook.
func (c *playbookGetCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	return ask(ctx, api, out, c.JSON, http.MethodGet, pathOf("playbooks", c.Name), nil, func(p *httpapi.Playbook) error {
		if c.Mermaid {
			_, err := io.WriteString(out.stdout, p.Mermaid)
			return err
		}
		table := terminal.NewTable(terminal.ScreenOf(out.stdout), "STEP", "DOES,least=16,spare", "AFTER", "IF")
		if len(p.Recovered) > 0 && len(p.Recovered[0].After) == 0 {
			p.Recovered[0].After = []string{"a recovery"}
		}
		for _, s := range slices.Concat(p.Steps, p.Recovered) {
			table.Add(s.Name, s.Does, strings.Join(s.After, " "), s.If)
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
func (c *playbookRunCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	body := map[string]string{"device": c.Device}
	return ask(ctx, api, out, c.JSON, http.MethodPost, pathOf("playbooks", c.Name)+"/run", body, func(made *struct{ Run uint64 }) error {
		return say(out.stdout, "run %d; \"holter runs get %d\" shows its progress", made.Run, made.Run)
	})
}
