package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/strictyaml"
	"github.com/holter-iot/holter/internal/version"
)

const description = `Holter watches the heartbeats of a fleet of devices and reports for each of them whether it is alive, and why.

Example: ` + example + `

Commands that ask a server find it by --api or HOLTER_API, by default at http://127.0.0.1:8080, and show it the token of --token or HOLTER_API_TOKEN. Those that print data take --json. Durations are written as they are printed: 500ms, 90s, 1h30m, 7d.

Exit status: 0 done, 1 failed, 2 a mistake on the command line or in the configuration, 130 interrupted.`

// commandLine is what a user may type.
type commandLine struct {
	Serve   serveCommand   `cmd:"" group:"Server" help:"Accept device connections, judge every device, serve the API."`
	Monitor monitorCommand `cmd:"" group:"Server" help:"Watch the devices of an MQTT broker, judge every device, serve the API."`
	Ear     earCommand     `cmd:"" group:"Server" help:"Hold device connections for a judge elsewhere."`
	Config  configCommand  `cmd:"" group:"Server" help:"Check a configuration file, or show the settings in force."`
	Reload  reloadCommand  `cmd:"" group:"Server" help:"Have a running server read its configuration file again."`
	Health  healthCommand  `cmd:"" group:"Server" help:"Ask whether a running holter is alive."`
	Doctor  doctorCommand  `cmd:"" group:"Server" help:"Check this machine, the data and the API for problems."`

	Backup  backupCommand  `cmd:"" group:"Data" help:"Back up the whole fleet into a file, while the server goes on; verify a backup."`
	Restore restoreCommand `cmd:"" group:"Data" help:"Put a backup into a database."`
	Migrate migrateCommand `cmd:"" group:"Data" help:"Move the fleet to another database."`

	Devices      devicesCommand       `cmd:"" group:"Fleet" help:"List devices, and administer them."`
	Availability availabilityCommand  `cmd:"" group:"Fleet" help:"Show for which share of a window a device, or a group, was online."`
	Explain      explainDeviceCommand `cmd:"" group:"Fleet" help:"Explain why a device is in its state."`
	Events       eventsCommand        `cmd:"" group:"Fleet" help:"List events, or follow them as they happen."`
	Replay       replayCommand        `cmd:"" group:"Fleet" help:"Judge the recorded silences again: which timeout would have given how many false alarms."`
	Send         sendCommand          `cmd:"" group:"Fleet" help:"Send a message to a connected device."`
	Nodes        nodesCommand         `cmd:"" group:"Fleet" help:"List the servers of the fleet: the judge, those that stand by, and ears; end ears."`
	Sources      sourcesCommand       `cmd:"" group:"Fleet" help:"List the sources of heartbeats, and retire those that will not come back."`
	Learn        learnCommand         `cmd:"" group:"Fleet" help:"List which timeout fits each device, as learned from its heartbeats, and put it in force."`
	Stats        statsCommand         `cmd:"" group:"Fleet" help:"Show devices by state, events, and the health of the server."`

	Endpoints   endpointsCommand   `cmd:"" group:"Delivery" help:"Manage the endpoints that jobs are delivered to."`
	Routes      routesCommand      `cmd:"" group:"Delivery" help:"Manage the routes from events to endpoints."`
	Queues      queuesCommand      `cmd:"" group:"Delivery" help:"Manage the queues of jobs."`
	JobRoutes   jobRoutesCommand   `cmd:"" group:"Delivery" help:"Manage where jobs go by their names."`
	Jobs        jobsCommand        `cmd:"" group:"Delivery" help:"List, show, add, reschedule, move and delete jobs."`
	DeadLetters deadLettersCommand `cmd:"" group:"Delivery" help:"List, retry and delete jobs that could not be delivered."`
	Schedules   schedulesCommand   `cmd:"" group:"Delivery" help:"Manage what runs at set times: webhooks, commands, reports, maintenance windows."`
	Playbooks   playbooksCommand   `cmd:"" group:"Delivery" help:"Manage playbooks, try them, and run them for a device."`
	Runs        runsCommand        `cmd:"" group:"Delivery" help:"List and cancel the runs of playbooks."`

	Run    runCommand    `cmd:"" group:"Jobs" help:"Run a command, such as a cron job, and report its start and its end."`
	Import importCommand `cmd:"" group:"Jobs" help:"Take over what Healthchecks, Uptime Kuma or Opsgenie watch."`

	Tokens   tokensCommand   `cmd:"" group:"Access" help:"Create, list and delete tokens for the API."`
	Password passwordCommand `cmd:"" group:"Access" help:"Create a line for the file of the MQTT broker's users."`

	Loadgen        loadgenCommand    `cmd:"" group:"Tools" help:"Simulate a fleet of devices, and check the verdicts of a server against the truth."`
	Completion     completionCommand `cmd:"" group:"Tools" help:"Print a completion script for a shell."`
	Help           helpCommand       `cmd:"" group:"Tools" help:"Show the help of a command."`
	VersionCommand versionCommand    `cmd:"" name:"version" group:"Tools" help:"Print the version."`

	LoadgenWorker   loadgenWorkerCommand   `cmd:"" hidden:"" help:"Started by holter loadgen."`
	CompletionWords completionWordsCommand `cmd:"" hidden:"" help:"Started by completion scripts."`
	Manual          manualCommand          `cmd:"" hidden:"" help:"Write the manual pages."`

	Version kong.VersionFlag `help:"Print the version."`
}

// output is where a command writes.
type output struct{ stdout, stderr io.Writer }

// usageError is a mistake in the command line or the configuration.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// ExitStatus implements [failure].
func (usageError) ExitStatus() int { return exitUsage }

// newParser returns a parser that stores what was typed in c.
func newParser(c *commandLine, options ...kong.Option) (*kong.Kong, error) {
	k, err := kong.New(c, append([]kong.Option{
		kong.Name("holter"),
		kong.Description(description),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(decodeDuration)),
		kong.TypeMapper(reflect.TypeFor[milliseconds](), kong.MapperFunc(decodeDuration)),
	}, options...)...)
	if err != nil {
		return nil, err
	}
	hideAbsent(k.Model.Node)
	return k, nil
}

// decodeDuration reads durations with days: 1d12h.
func decodeDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := strictyaml.Duration(text, "30s")
	if err == nil {
		target.SetInt(int64(d))
	}
	return err
}

// helpCommand shows the help of a command; run replaces it by --help.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"The command, such as devices list. Default: all."`
}

// versionCommand does what --version does.
type versionCommand struct{}

// Run prints the version.
func (versionCommand) Run(_ context.Context, out output) error {
	return say(out.stdout, "%s", version.Text())
}

// secretFlag is a text that no message of kong repeats.
type secretFlag string

// Decode implements kong.MapperValue.
func (s *secretFlag) Decode(ctx *kong.DecodeContext) error {
	if !ctx.Scan.Peek().IsValue() {
		return errors.New("needs a value; one that begins with - is written --token=SECRET")
	}
	*s = secretFlag(fmt.Sprint(ctx.Scan.Pop().Value))
	return nil
}
