package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/playbook"
	"github.com/holter-iot/holter/internal/terminal"
)

type playbookSetCommand struct {
	apiFlags

	Name string `arg:"" help:"Name of the playbook."`
	File string `arg:"" help:"YAML or JSON file with its definition; - for the standard input."`
}

// Help is the text below the usage line.
func (*playbookSetCommand) Help() string {
	return `The file has the fields of a playbook in the configuration file; the name may be left out. The server stores
it in its database, and it takes effect at once, also for open runs. Playbooks of the configuration file are
changed there.

Steps with a command must be allowed where the server is started: HOLTER_DELIVERY_ALLOW_COMMANDS=true.

Example:

    holter playbooks set escalate escalate.yaml`
}

// Run stores the playbook.
func (c *playbookSetCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	p, err := readPlaybook(c.Name, c.File)
	if err != nil {
		return err
	}
	return tell(ctx, api, out, "playbooks", c.Name, http.MethodPut, "", p.Definition(), "set")
}

// readPlaybook reads a file with a definition. name is that of the playbook; empty: the file has it. Its
// errors are mistakes of the user.
func readPlaybook(name, file string) (playbook.Playbook, error) {
	var text []byte
	var err error
	if file == "-" {
		file = "standard input"
		text, err = io.ReadAll(io.LimitReader(os.Stdin, 1<<20))
	} else {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return playbook.Playbook{}, usageError{err}
	}
	p, err := playbook.ParseFile(name, file, string(text))
	if err != nil {
		return p, usageError{fmt.Errorf("%s has mistakes:\n%w", file, err)}
	}
	return p, nil
}

type playbookCheckCommand struct {
	apiFlags
	jsonFlag

	File string `arg:"" help:"YAML or JSON file with the definition of a playbook; - for the standard input."`
}

// Help is the text below the usage line.
func (*playbookCheckCommand) Help() string {
	return `The server is asked, because it knows which endpoints and programs there are. Nothing is stored. It exits with
2 if there are mistakes.

Example:

    holter playbooks check escalate.yaml`
}

// Run checks the file.
func (c *playbookCheckCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	p, err := readPlaybook("", c.File)
	if err != nil {
		return err
	}
	return ask(ctx, api, out, c.JSON, http.MethodPost, "/v1/playbooks/check", p.Definition(), func(check *httpapi.PlaybookCheck) error {
		if err := warnAbout(out, check.Warnings); err != nil {
			return err
		}
		if check.OK {
			return say(out.stdout, "%s is fine", c.File)
		}
		lines := make([]string, len(check.Mistakes))
		for i := range check.Mistakes {
			lines[i] = mistakeText(&check.Mistakes[i])
		}
		return usageError{fmt.Errorf("%s has mistakes:\n%s", c.File, strings.Join(lines, "\n"))}
	})
}

// warnAbout prints warnings.
func warnAbout(out output, warnings []httpapi.PlaybookMistake) error {
	for i := range warnings {
		if err := say(out.stdout, "warning: %s", mistakeText(&warnings[i])); err != nil {
			return err
		}
	}
	return nil
}

// mistakeText returns a mistake with its place.
func mistakeText(m *httpapi.PlaybookMistake) string {
	var where []string
	if m.Step != "" {
		where = append(where, fmt.Sprintf("step %q", m.Step))
	}
	if m.Key != "" {
		where = append(where, m.Key)
	}
	if len(where) == 0 {
		return terminal.Printable(m.Message)
	}
	return terminal.Printable(strings.Join(where, ", ") + ": " + m.Message)
}

type playbookDryRunCommand struct {
	apiFlags
	jsonFlag

	Playbook string `arg:"" help:"YAML or JSON file with a definition, - for the standard input, or the name of a playbook of the server."`
	Event    uint64 `required:"" placeholder:"OFFSET" help:"Offset of the event, as \"holter events list\" shows it."`
}

// Help is the text below the usage line.
func (*playbookDryRunCommand) Help() string {
	return `Nothing is executed, and nothing is stored. All steps are shown, whatever the conditions would be.

Examples:

    holter playbooks dry-run escalate --event 4711
    holter playbooks dry-run ./escalate.yaml --event 4711`
}

// Run shows what the playbook would do.
func (c *playbookDryRunCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	body := map[string]any{"event": c.Event}
	if _, err := os.Stat(c.Playbook); errors.Is(err, fs.ErrNotExist) && c.Playbook != "-" && !strings.Contains(c.Playbook, "/") {
		body["name"] = c.Playbook
	} else {
		p, err := readPlaybook("", c.Playbook)
		if err != nil {
			return err
		}
		body["playbook"] = p.Definition()
	}
	return ask(ctx, api, out, c.JSON, http.MethodPost, "/v1/playbooks/dry-run", body, func(d *httpapi.PlaybookDryRun) error { return showDryRun(out, c.Event, d) })
}

func showDryRun(out output, event uint64, d *httpapi.PlaybookDryRun) error {
	starts := fmt.Sprintf("event %d would start a run", event)
	if !d.Starts {
		starts = fmt.Sprintf("event %d would start no run: %s", event, d.Why)
	}
	if err := errors.Join(say(out.stdout, "%s", terminal.Printable(starts)), warnAbout(out, d.Warnings)); err != nil {
		return err
	}
	table := terminal.NewTable(terminal.ScreenOf(out.stdout), "STEP", "EARLIEST,right", "IF", "WOULD,least=16")
	add := func(steps []httpapi.PlaybookDryStep, since string) {
		for i := range steps {
			s := &steps[i]
			table.Add(s.Name, since+terminal.Span(s.At), s.If, s.Would)
		}
	}
	add(d.Steps, "")
	add(d.Recovered, "recovery + ")
	return table.Flush(out.stdout)
}
