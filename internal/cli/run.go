package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/duration"
	"github.com/holter-iot/holter/internal/wrap"
)

// runName is the name of the command that leaves signals to the command that it runs.
const runName = "run"

// runCommand is holter run.
type runCommand struct {
	apiFlags

	Device   string        `required:"" placeholder:"ID" help:"Id of the job, which is a device to Holter."`
	Expect   string        `placeholder:"CRON" help:"When the job starts, as in its crontab: \"30 2 * * *\". Default: what the server knows of it."`
	Zone     string        `placeholder:"ZONE" help:"Time zone of --expect, such as Europe/Berlin. Default: UTC."`
	Grace    time.Duration `placeholder:"DURATION" help:"With --expect: how long after that time it must have ended. Default: 1h."`
	TTL      time.Duration `name:"ttl" placeholder:"DURATION" help:"Instead of --expect: how long after its end the next run must have ended."`
	NoOutput bool          `help:"Send none of the output, and do not touch it: the command has the terminal, or what there is, to itself."`
	Command  []string      `arg:"" passthrough:"" help:"The command and its arguments; begin with --."`
}

// Help is the text below the usage line.
func (*runCommand) Help() string {
	return `The exit status is that of the command: 128 + n if signal n ended it, 127 if there is no such command, 126 if it cannot be executed. Signals are passed on to it. It starts at once and runs to its end whether Holter can be reached or not.

Reported are its start, and its end with exit status, duration and the last 10 KiB of its output. The start is tried once, for at most 5 seconds, beside the command. The end is tried for a minute; if that is in vain, a line on the standard error says so, and the exit status stays. A signal ends these tries.

The output is passed on as it comes, through pipes: a command that looks whether it writes to a terminal finds none, and one that leaves programs running should redirect their output. --no-output leaves all that as it is.

A token needs the role beat; HOLTER_API_TOKEN holds it, or the name of a file as credential:NAME.

Examples:

    30 2 * * *  holter run --device web1/backup --expect "30 2 * * *" --zone Europe/Berlin --grace 2h -- backup.sh --full

    holter run --device web1/sync --ttl 15m -- rsync -a /srv/ backup:/srv/`
}

// statusError is the status of a command that ran. It is no failure of holter, and nothing is said of it.
type statusError int

func (e statusError) Error() string { return "exit status " + strconv.Itoa(int(e)) }

// keptOutput is how many bytes of a command's output are reported.
const keptOutput = 10 << 10

// Run runs the command. Whatever is wrong with the report is said, and hinders nothing.
func (c *runCommand) Run(ctx context.Context, out output) error {
	signals, stop := wrap.Signals()
	defer stop()
	if c.Command[0] == "--" {
		c.Command = c.Command[1:]
	} else if strings.HasPrefix(c.Command[0], "-") {
		return usageError{fmt.Errorf("unknown option %s; the command begins after --", c.Command[0])}
	}
	if c.Device == "" {
		return usageError{errors.New("--device: the id is empty")}
	}
	if len(c.Command) == 0 || c.Command[0] == "" {
		return usageError{errors.New("say what to run, after --")}
	}
	report := c.report(out.stderr)
	started := report.begin(ctx)
	command := wrap.Command{Argv: c.Command, Stdout: out.stdout, Stderr: out.stderr, Keep: keptOutput}
	if c.NoOutput {
		command.Keep = 0
	}
	result := wrap.Run(command, signals) //nolint:contextcheck // signals end it; it outlives the request of ctx
	if result.Err != nil {
		_, _ = fmt.Fprintf(out.stderr, "holter: %s: %v\n", c.Command[0], result.Err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-signals: // the command has ended, so it is for the report
			cancel()
		case <-ctx.Done():
		}
	}()
	report.finish(ctx, &result, started)
	if result.Status == 0 {
		return nil
	}
	return statusError(result.Status)
}

// report returns where to report to.
func (c *runCommand) report(stderr io.Writer) *runReport {
	query := url.Values{}
	for name, value := range map[string]string{"expect": c.Expect, "zone": c.Zone, "grace": durationText(c.Grace), "ttl": durationText(c.TTL)} {
		if value != "" {
			query.Set(name, value)
		}
	}
	r := &runReport{device: c.Device, query: query.Encode(), stderr: stderr, attempt: 10 * time.Second, longest: time.Minute, pause: time.Second}
	r.api, r.wrong = c.ProvideClient()
	return r
}

// durationText returns a duration as the API reads it; nothing if there is none.
func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return duration.String(d)
}
