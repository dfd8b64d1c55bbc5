package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/duration"
	"github.com/holter-iot/holter/internal/exports"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
	"github.com/holter-iot/holter/liveness"
)

// importCommand takes over what other tools watch.
type importCommand struct {
	Healthchecks importFileCommand `cmd:"" help:"Take over the checks of Healthchecks."`
	UptimeKuma   importFileCommand `cmd:"" help:"Take over the push monitors of Uptime Kuma."`
	Opsgenie     importFileCommand `cmd:"" help:"Take over the heartbeats of Opsgenie."`
}

// importFileCommand makes devices of a file that another tool exported.
type importFileCommand struct {
	apiFlags
	jsonFlag

	File   string `arg:"" help:"What the tool exported; - for the standard input."`
	Prefix string `placeholder:"TEXT" help:"What the ids of the devices begin with."`
	Map    string `placeholder:"FILE" help:"File to write old and new URLs to, a pair on each line with a tab between. Both may be secrets."`
	DryRun bool   `help:"Show what becomes of each, and change nothing; this needs no server."`
}

// Help is the text below the usage line.
func (*importFileCommand) Help() string {
	return `Each becomes a device with a policy of its own, which is never_seen until its first heartbeat. A device that has this policy already stays as it is, so the same file can be imported again. One that has another policy of its own stays as it is, too, and counts as not imported.

One that is paused until somebody resumes it becomes a device in maintenance: "holter devices maintenance ID off" ends that. What polls is not imported, because Holter polls nothing.

What is wrong in the file is said, and the rest imported. The exit status is 1 if something was wrong.

Examples:

    curl -H "X-Api-Key: $KEY" https://healthchecks.io/api/v3/checks/ > checks.json
    holter import healthchecks checks.json --dry-run

    sqlite3 -json kuma.db "SELECT * FROM monitor" | holter import uptime-kuma - --prefix kuma/

    curl -H "Authorization: GenieKey $KEY" https://api.opsgenie.com/v2/heartbeats | holter import opsgenie - --map urls.tsv`
}

// Run imports the file.
func (c *importFileCommand) Run(ctx context.Context, command *kong.Context, api *apiclient.Client, out output) error {
	_, tool := wordsOf(command)
	if c.File == "-" {
		return c.run(ctx, tool, api, os.Stdin, out)
	}
	file, err := os.Open(c.File)
	if err != nil {
		return err
	}
	return errors.Join(c.run(ctx, tool, api, file, out), file.Close())
}

func (c *importFileCommand) run(ctx context.Context, tool string, api *apiclient.Client, in io.Reader, out output) error {
	text, err := io.ReadAll(io.LimitReader(in, exports.MaxFile+1))
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	read := map[string]func([]byte) ([]exports.Check, error){
		"healthchecks": exports.Healthchecks, "uptime-kuma": exports.UptimeKuma, "opsgenie": exports.Opsgenie,
	}[tool]
	checks, err := read(text)
	if err != nil {
		return fmt.Errorf("%s: %w; nothing was imported", c.File, err)
	}
	rows := newPrinter(out.stdout, c.JSON, "NAME,least=8", "DEVICE,least=8", "RESULT", "OFFLINE AFTER,least=12", "REPORT TO,least=16", "NOT CARRIED OVER,least=12")
	wrong, done := 0, 0
	for i := range checks {
		im := checkImport{Check: &checks[i], id: c.Prefix + checks[i].ID}
		im.to = api.Base + pathOf("beat", im.id)
		if err = im.bring(ctx, api, c.DryRun); err != nil {
			err = fmt.Errorf("%s: %s (%q): %w; those above it are imported, this one and those below are not", c.File, im.Where, im.Name, err)
			break
		}
		if im.Err != nil {
			wrong++
			_, _ = fmt.Fprintf(out.stderr, "not imported: %s: %s (%q): %v\n", c.File, im.Where, im.Name, im.Err)
		} else if im.Skip == "" {
			done++
		}
		if err = im.print(rows); err != nil {
			break
		}
	}
	if err = errors.Join(rows.flush(), err, c.writeMap(api, checks)); err != nil {
		return err
	}
	return c.conclude(len(checks), done, wrong, out)
}

// conclude says what came of the file.
func (c *importFileCommand) conclude(all, done, wrong int, out output) error {
	if !c.JSON {
		what := "imported"
		if c.DryRun {
			what = "to import"
		}
		text := fmt.Sprintf("%s of %d %s", terminal.Grouped(done), all, what)
		if done > 0 {
			text = "\n" + text + "; a cron job reports with: holter run --device DEVICE -- COMMAND"
		}
		if err := say(out.stdout, "%s", text); err != nil {
			return err
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%s: %s not imported", c.File, terminal.Plural(wrong, "entry was", "entries were"))
	}
	return nil
}

// writeMap writes the old URLs with the new ones.
func (c *importFileCommand) writeMap(api *apiclient.Client, checks []exports.Check) error {
	if c.Map == "" {
		return nil
	}
	var text strings.Builder
	for i := range checks {
		if from := checks[i].OldURL; from != "" && checks[i].Usable() {
			text.WriteString(terminal.Printable(from) + "\t" + api.Base + pathOf("beat", c.Prefix+checks[i].ID) + "\n")
		}
	}
	return os.WriteFile(c.Map, []byte(text.String()), 0o600)
}

// Results of a check beside created and unchanged.
const (
	importable  = "to import"
	changed     = "new policy"
	notImported = "not imported"
)

// checkImport is a check that becomes a device.
type checkImport struct {
	*exports.Check

	id     string
	to     string // URL
	result string
}

// policy is what the API is sent.
func (im *checkImport) policy() httpapi.PolicyChange {
	p := im.Policy
	return httpapi.PolicyChange{
		Interval: terminal.Milliseconds(p.Interval), Timeout: terminal.Milliseconds(p.Timeout), LateAfter: terminal.Milliseconds(p.LateAfter), Expect: p.Expect,
	}
}

// bring makes the device. What is wrong with this one alone becomes its error; the error that is
// returned ends the import.
func (im *checkImport) bring(ctx context.Context, api *apiclient.Client, dryRun bool) error {
	im.result = notImported
	if im.Usable() {
		im.Err = liveness.ValidateID(im.id)
	}
	switch {
	case !im.Usable():
		return nil
	case dryRun:
		im.result = importable
		return nil
	}
	err := im.put(ctx, api)
	if refused, ok := errors.AsType[*apiclient.Error](err); ok && refused.Status == http.StatusUnprocessableEntity {
		im.Err, err = err, nil
	}
	return err
}

// put gives the device its policy, unless it has one of its own.
func (im *checkImport) put(ctx context.Context, api *apiclient.Client) error {
	path := pathOf("devices", im.id)
	var found apiclient.Answer
	err := api.Get(ctx, path+"/policy", nil, &found)
	result, unchangedSince := changed, map[string]string{"If-Match": found.ETag}
	switch {
	case apiclient.StatusOf(err) == http.StatusNotFound:
		result, unchangedSince = created, map[string]string{"If-None-Match": "*"}
	case err != nil:
		return err
	default:
		var has httpapi.PolicyChange
		if err := found.Decode(&has); err != nil {
			return err
		}
		if reflect.DeepEqual(has, im.policy()) {
			im.result = unchanged
			return nil
		}
		if !reflect.DeepEqual(has, httpapi.PolicyChange{}) {
			im.Err = fmt.Errorf("the device %q has another policy of its own; \"holter devices policy %s --clear\" takes it away, or choose other ids with --prefix", im.id, im.id)
			return nil
		}
	}
	if err := api.AskIf(ctx, http.MethodPut, path+"/policy", unchangedSince, im.policy(), nil); err != nil {
		return err
	}
	im.result = result
	if im.Paused {
		return api.Ask(ctx, http.MethodPut, path+"/maintenance", nil, nil)
	}
	return nil
}

// judged says when the device will be offline.
func (im *checkImport) judged() string {
	p := im.Policy
	text := duration.String(p.Timeout)
	if p.Expect != "" {
		text += " after " + p.Expect
	}
	if im.Paused {
		text += ", in maintenance"
	}
	return text
}

func (im *checkImport) print(rows *printer) error {
	row := struct {
		Where  string                `json:"where"`
		Name   string                `json:"name"`
		Result string                `json:"result"`
		Device string                `json:"device,omitempty"`
		Policy *httpapi.PolicyChange `json:"policy,omitempty"`
		Paused bool                  `json:"maintenance,omitempty"`
		From   string                `json:"old_url,omitempty"`
		To     string                `json:"new_url,omitempty"`
		Lost   []string              `json:"not_carried_over,omitempty"`
		Reason string                `json:"reason,omitempty"`
	}{Where: im.Where, Name: im.Name, Result: im.result, Lost: im.Lost, Reason: im.Skip}
	if im.Err != nil {
		row.Reason = im.Err.Error()
	}
	lost, device, judged := strings.Join(im.Lost, "; "), "", ""
	if im.Usable() {
		p := im.policy()
		row.Device, row.Policy, row.Paused, row.From, row.To = im.id, &p, im.Paused, im.OldURL, im.to
		device, judged = im.id, im.judged()
	} else {
		lost = row.Reason
	}
	raw, err := json.Marshal(row)
	if err != nil {
		return err
	}
	return rows.add(raw, im.Name, device, im.result, judged, row.To, lost)
}
