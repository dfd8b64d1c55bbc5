package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/crontab"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

type scheduleImportCommand struct {
	apiFlags
	jsonFlag

	File    string `arg:"" help:"Crontab, as \"crontab -l\" prints it; - for the standard input."`
	User    string `placeholder:"NAME" help:"The file has a column of users, as /etc/crontab has: import the lines of this one, which should be the user that the server runs as."`
	Zone    string `placeholder:"ZONE" help:"Time zone of the lines, such as Europe/Berlin, until the file sets CRON_TZ. Default: that of this machine."`
	Prefix  string `placeholder:"TEXT" help:"What the names of the schedules begin with."`
	DryRun  bool   `help:"Show the schedules, and create none; this needs no server."`
	SkipBad bool   `help:"Leave out the lines that cannot be imported. Otherwise nothing is imported if there is one."`
}

// Help is the text below the usage line.
func (*scheduleImportCommand) Help() string {
	return `Each line becomes a schedule of kind command, named after its program, which does what cron does: it
starts at each time even if the run before has not ended, makes up for no time that was missed, is not
run again after a crash, and has 24 hours to end. "holter schedules set" changes that. The commands are
run by the server, on its machine and as its user, and commands must be allowed where it is started:
HOLTER_DELIVERY_ALLOW_COMMANDS=true. A line that is imported already stays as it is.

Remove the lines from the crontab afterwards, or everything is run twice.

Examples:

    crontab -l | holter schedules import - --dry-run
    holter schedules import /etc/crontab --user root --zone Europe/Berlin`
}

// Run imports the file.
func (c *scheduleImportCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	if c.File == "-" {
		return c.run(ctx, api, os.Stdin, out)
	}
	if path, err := filepath.Abs(c.File); err == nil && c.User == "" && (path == "/etc/crontab" || filepath.Dir(path) == "/etc/cron.d") {
		return usageError{fmt.Errorf("%s has a column of users; say with --user whose lines to import", c.File)}
	}
	file, err := os.Open(c.File)
	if err != nil {
		return err
	}
	return errors.Join(c.run(ctx, api, file, out), file.Close())
}

func (c *scheduleImportCommand) run(ctx context.Context, api *apiclient.Client, in io.Reader, out output) error {
	file, err := c.read(in, out)
	if err != nil {
		return err
	}
	imports := make([]scheduleImport, len(file.Entries))
	for i := range file.Entries {
		if imports[i], err = importOf(&file.Entries[i]); err != nil {
			return err
		}
		if c.DryRun {
			continue
		}
		if err := imports[i].compare(ctx, api); err != nil {
			return fmt.Errorf("%s:%d: %w; nothing was imported", c.File, imports[i].Line, err)
		}
	}
	rows := newPrinter(out.stdout, c.JSON, "LINE", "SCHEDULE", "RESULT", "WHEN,least=12", "ZONE", "NEXT", "COMMAND,least=16")
	for i := range imports {
		im := &imports[i]
		if !c.DryRun && im.result != unchanged {
			err = im.create(ctx, api)
		}
		if err != nil {
			err = fmt.Errorf("%s:%d: %w; the lines above it are imported, this one and those below are not", c.File, im.Line, allowing(err))
			break
		}
		if err = im.print(rows); err != nil {
			break
		}
	}
	if len(imports) == 0 && !c.JSON {
		return say(out.stdout, "no lines to import")
	}
	return errors.Join(rows.flush(), err)
}

// read reads the file, and says on the standard error what of it is left out.
func (c *scheduleImportCommand) read(in io.Reader, out output) (*crontab.File, error) {
	zone := c.Zone
	if zone == "" {
		var err error
		if zone, err = localZone(os.LookupEnv, "/etc/localtime"); err != nil {
			return nil, usageError{err}
		}
	}
	file, err := crontab.Read(in, crontab.Options{User: c.User, Zone: zone, Prefix: c.Prefix}, time.Now())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.File, err)
	}
	mistakes := make([]error, len(file.Errors))
	for i, err := range file.Errors {
		mistakes[i] = fmt.Errorf("%s:%w", c.File, err)
	}
	if len(mistakes) > 0 && !c.SkipBad {
		return nil, usageError{fmt.Errorf("nothing was imported; --skip-bad leaves these lines out:\n%w", errors.Join(mistakes...))}
	}
	for _, err := range mistakes {
		_, _ = fmt.Fprintf(out.stderr, "left out: %v\n", err)
	}
	if file.Others > 0 {
		_, _ = fmt.Fprintf(out.stderr, "left out: %d lines of other users\n", file.Others)
	}
	if file.Mails {
		_, _ = fmt.Fprintln(out.stderr, "MAILTO sends no mail here: \"holter schedules history\" shows the output of commands")
	}
	return file, nil
}

// localZone returns the name of this machine's time zone.
func localZone(getenv func(string) (string, bool), link string) (string, error) {
	name, ok := getenv("TZ")
	if name = strings.TrimPrefix(name, ":"); !ok {
		target, err := filepath.EvalSymlinks(link)
		if errors.Is(err, os.ErrNotExist) {
			return "UTC", nil
		}
		_, name, _ = strings.Cut(target, "/zoneinfo/")
		if name == "" {
			return "", errors.New("--zone: the name of this machine's time zone is not known; give it, such as Europe/Berlin")
		}
	}
	if name == "" {
		return "UTC", nil
	}
	if _, err := time.LoadLocation(name); err != nil {
		return "", fmt.Errorf("--zone: this machine's time zone %q has no name of the IANA database; give one, such as Europe/Berlin", name)
	}
	return name, nil
}

// Results of a line of a crontab.
const (
	created   = "new"
	unchanged = "unchanged"
)

// scheduleImport is a schedule that is made of a line of a crontab.
type scheduleImport struct {
	*crontab.Entry

	settings httpapi.ScheduleSettings
	result   string
}

// importOf makes a schedule that does what cron does at an entry.
func importOf(e *crontab.Entry) (scheduleImport, error) {
	settings := map[string]any{"command": e.Command, "shell": true, "timeout_ms": terminal.Milliseconds(24 * time.Hour)}
	if len(e.Env) > 0 {
		delete(settings, "shell")
		settings["command"], settings["args"] = "env", append(slices.Clip(e.Env), e.Shell, "-c", e.Command)
	}
	if e.Dir != "" {
		settings["dir"] = e.Dir
	}
	text, err := json.Marshal(settings)
	return scheduleImport{e, httpapi.ScheduleSettings{
		Kind: "command", When: e.When, Zone: e.Zone, Settings: text, Overlap: "allow", Misfire: "skip", Jitter: terminal.Milliseconds(e.Delay), Once: true,
	}, created}, err
}

// compare looks for a schedule with the same name: it is unchanged if it has the same times and settings, and else in the way.
func (im *scheduleImport) compare(ctx context.Context, api *apiclient.Client) error {
	found, err := find(ctx, api, "schedules", im.Name)
	if err != nil || found == nil {
		return err
	}
	var is httpapi.Schedule
	if err := found.Decode(&is); err != nil {
		return err
	}
	var has, wants any
	if json.Unmarshal(is.Settings, &has) != nil || json.Unmarshal(im.settings.Settings, &wants) != nil ||
		is.Kind != im.settings.Kind || is.When != im.When || is.Zone != im.Zone || !reflect.DeepEqual(has, wants) {
		return fmt.Errorf("there is another schedule %q; delete it, or choose other names with --prefix", im.Name)
	}
	im.result = unchanged
	return nil
}

func (im *scheduleImport) create(ctx context.Context, api *apiclient.Client) error {
	return api.AskIf(ctx, http.MethodPut, pathOf("schedules", im.Name), map[string]string{"If-None-Match": "*"}, im.settings, nil)
}

func (im *scheduleImport) print(rows *printer) error {
	raw, err := json.Marshal(struct {
		httpapi.ScheduleSettings

		Line   int       `json:"line"`
		Name   string    `json:"name"`
		Result string    `json:"result"`
		Next   time.Time `json:"next"`
	}{im.settings, im.Line, im.Name, im.result, im.Next.UTC()})
	if err != nil {
		return err
	}
	return rows.add(raw, im.Line, im.Name, im.result, im.When, im.Zone, im.Next, im.Command)
}

// allowing adds to the error of a server that runs no commands how it does.
func allowing(err error) error {
	if strings.Contains(err.Error(), "not configured to run commands") {
		return fmt.Errorf("%w (start it with %s=true)", err, sink.CommandsEnv)
	}
	return err
}
