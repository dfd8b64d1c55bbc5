package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/credential"
	"github.com/holter-iot/holter/internal/doctor"
	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/report"
	"github.com/holter-iot/holter/internal/loadgen/scenario"
	"github.com/holter-iot/holter/internal/loadgen/score"
	"github.com/holter-iot/holter/internal/version"
	"github.com/holter-iot/holter/loadgen"
)

// loadgenCommand is holter loadgen. A flag that overrides a value of the scenario has no default.
type loadgenCommand struct {
	Target   []string   `placeholder:"ADDRESS" help:"Where the devices connect, as HOST:PORT or tcp://HOST:PORT; may be repeated, the devices are then spread over all."`
	Protocol string     `placeholder:"NAME" help:"What they speak: line, frame, jt808, gt06, teltonika, mqtt (3.1.1) or mqtt5. Default: line."`
	Token    secretFlag `env:"HOLTER_TOKEN" placeholder:"SECRET" help:"Token of the devices; with mqtt the password. Other users of this machine see command lines: prefer the environment."`
	User     string     `placeholder:"NAME" help:"User name of the devices, with mqtt."`

	Connections int           `notnegative:"" placeholder:"N" help:"How many devices there are. Default: 1000."`
	Scenario    string        `default:"steady" placeholder:"NAME|FILE" help:"What happens to them: the name of a ready scenario, or a YAML file. Default: ${default}."`
	Interval    time.Duration `notnegative:"" placeholder:"TIME" help:"Time between two heartbeats of a device. Default: 30s."`
	Duration    time.Duration `notnegative:"" placeholder:"TIME" help:"How long it takes after the ramp; the phases of the scenario are stretched to it. Default: what the scenario says."`
	Timeout     time.Duration `notnegative:"" placeholder:"TIME" help:"Timeout that the devices announce. Default: three intervals."`
	Grace       time.Duration `notnegative:"" placeholder:"TIME" help:"How long after the end of a connection the gateway judges a device. Default: half the timeout, 10s at most."`
	Ramp        string        `placeholder:"RATE" help:"How many connections a second are begun, as 20000/s. Default: 5000/s."`
	Source      []string      `placeholder:"ADDRESSES" help:"Addresses to connect from, as 127.0.0.2-127.0.0.40 or 10.1.0.0/24; may be repeated. Default: as many of 127.0.0.0/8 as are needed for targets on this machine, else the machine's own."`
	Seed        uint64        `placeholder:"N" help:"The same seed gives the same fleet the same fate. Default: 0."`
	IDFormat    string        `name:"id-format" placeholder:"FORMAT" help:"Ids of the devices, with a number in it. Default: dev-%07d."`
	GroupSize   int           `notnegative:"" placeholder:"N" help:"How many devices make a group that can fail together. Default: 100."`
	Publish     string        `placeholder:"TOPIC" help:"With mqtt, topic to publish heartbeats to, with {device} in it. Default: a heartbeat is a ping."`
	QoS         uint8         `name:"qos" placeholder:"N" help:"With --publish, the QoS of heartbeats: 0 or 1. Default: 0."`
	WillTopic   string        `placeholder:"TOPIC" help:"With mqtt, topic that each device keeps its state in, retained, with {device} in it: online, and offline by its last will."`

	Verify      []string   `placeholder:"URL" help:"API of a holter that judges the devices; its verdicts are compared with the truth. May be repeated, once for each server. Or mqtt://HOST:PORT for the states of --will-topic at a broker, emqx://HOST:PORT for what EMQX says of its clients."`
	VerifyToken secretFlag `env:"HOLTER_API_TOKEN" placeholder:"SECRET" help:"Token for it, made with \"holter tokens create\"."`

	MaxFalseOffline  int           `default:"0" placeholder:"N" help:"How many live devices may be called offline; -1: any number. Default: ${default}. The same for the next ones."`
	MaxMissedOffline int           `default:"0" placeholder:"N" help:"How many devices that are gone may have no verdict."`
	MaxWrongReason   int           `default:"0" placeholder:"N" help:"How many verdicts may give a wrong reason."`
	MaxGaps          int           `default:"0" placeholder:"N" help:"How many events may be missing."`
	MaxLatencyP99    time.Duration `name:"max-latency-p99" placeholder:"TIME" help:"How long after their deadlines 99% of the verdicts must be here. Default: each within 5s, of a holter."`

	MaxDeaf   *time.Duration `placeholder:"TIME" help:"For how long altogether it may say that it was deaf: then it judges nobody. A negative time: for any. Default: not at all; where the scenario stops or restarts something, for as long as that is away and 30s each time."`
	ClockSkew *time.Duration `placeholder:"TIME" help:"How far the clock that verdicts are stamped with is ahead of the one here; behind if negative. Default: it is measured."`

	Report   string `placeholder:"DIR" help:"Write report.json, report.html and summary.txt there."`
	JSON     bool   `name:"json" help:"Print JSON: an object each second, and the result at the end."`
	Workers  int    `placeholder:"N" help:"How many processes share the fleet. Default: as many as the limit on open files asks for."`
	Pipeline int    `placeholder:"N" help:"How many heartbeats a device sends together. Default: 1."`

	OnSignal string `placeholder:"COMMAND" help:"What the shell is to do at a signal of the scenario, such as to restart the gateway. SIGNAL_BACK has after how many seconds that should be back."`

	ListScenarios bool   `help:"Print the ready scenarios, and what they are for."`
	ShowScenario  string `placeholder:"NAME" help:"Print a ready scenario as YAML, to be copied into a file and changed."`
}

// Help is the text below the usage line.
func (*loadgenCommand) Help() string {
	return `It plays a fleet of devices against any gateway that speaks the protocol, or any MQTT broker, and knows the true state of each device. With --verify it reads what a holter says of them, and tells where that was wrong.

Examples:

    # 10,000 devices for five minutes; does the gateway hold them?
    holter loadgen --target 127.0.0.1:7700 --connections 10000

    # a tenth of them falls silent: is each of them, and nobody else, called offline, and how soon?
    holter loadgen --target 127.0.0.1:7700 --verify http://127.0.0.1:8080 --scenario silent-10pct --connections 10000 --report out

    # an MQTT broker, with a scenario of one's own
    holter loadgen --target broker.example:1883 --protocol mqtt --scenario ./storm.yaml --ramp 1000/s

Exit status: 0 if all that was checked holds, 1 if something does not or a worker died, 2 for a mistake in the command line or the scenario, 3 if the fleet could not be connected or the verdicts not be read, 130 if it was interrupted. What is known by then is written in each case.

An interrupt (SIGINT or SIGTERM) ends it in order; a second one at once.`
}

// Run simulates the fleet.
func (c *loadgenCommand) Run(ctx context.Context, command *kong.Context, out output) error {
	typed := typedFlags(command)
	switch {
	case c.ListScenarios:
		return listScenarios(out.stdout)
	case typed["show-scenario"]:
		return showScenario(out.stdout, c.ShowScenario)
	}
	p, err := c.plan(command)
	if err != nil {
		return usageError{err}
	}
	followers, err := c.followers(p)
	if err != nil {
		return usageError{err}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to start workers: %w", err)
	}
	if err := c.warn(p, out.stderr); err != nil {
		return err
	}
	var view report.View
	final, err := loadgen.Run(ctx, loadgen.Config{
		Plan: p, Workers: c.Workers, Command: []string{self, workerCommand}, Pipeline: c.Pipeline, Followers: followers, Limits: c.limits(p),
		View: func(r report.Run) report.View {
			view = c.view(r, out.stdout)
			return view
		},
		OnSignal: c.onSignal(), Tool: version.Text(), CommandLine: commandText(os.Args),
	})
	if final == nil {
		return err
	}
	var shown error
	if c.JSON || len(final.Samples) > 0 { // else the error says all
		shown = view.End(final)
	}
	return errors.Join(err, shown, c.write(final, out.stderr))
}

// onSignal returns the action for signals of the scenario; nil if there is none.
func (c *loadgenCommand) onSignal() func(context.Context, plan.Step) error {
	if c.OnSignal == "" {
		return nil
	}
	return func(ctx context.Context, step plan.Step) error {
		cmd := exec.CommandContext(ctx, "sh", "-c", c.OnSignal)
		cmd.Env = append(os.Environ(), "SIGNAL_BACK="+strconv.FormatFloat(max(step.Back-step.At, 0).Seconds(), 'f', -1, 64))
		cmd.WaitDelay = time.Second // its children may keep its output open
		text, err := cmd.CombinedOutput()
		if err != nil && len(text) > 0 {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(text))
		}
		return err
	}
}

// warn prints the problems that a plan may meet on this machine. It returns an error if the plan
// cannot work.
func (c *loadgenCommand) warn(p *plan.Plan, stderr io.Writer) error {
	for _, note := range p.Notes() {
		_, _ = fmt.Fprintf(stderr, "note: %s\n", note)
	}
	var fatal []string
	for _, f := range doctor.CheckLoad(p.Devices, p.Sources, p.Targets) {
		text := f.Check + ": " + f.Text + "; " + strings.ReplaceAll(f.Help, "\n", ". ")
		switch f.Level {
		case doctor.LevelWarn:
			_, _ = fmt.Fprintf(stderr, "warning: %s\n", text)
		case doctor.LevelFail:
			fatal = append(fatal, text)
		case doctor.LevelOK:
		}
	}
	if len(fatal) > 0 {
		return &loadgen.Error{Status: loadgen.StatusNotRun, Reasons: fatal}
	}
	return nil
}

// followers returns the readers of the verdicts.
func (c *loadgenCommand) followers(p *plan.Plan) ([]loadgen.Follower, error) {
	var all []loadgen.Follower
	var errs []error
	for _, text := range c.Verify {
		f, err := c.follower(strings.TrimSpace(text), p)
		if err != nil {
			errs = append(errs, fmt.Errorf("--verify: %w", err))
			continue
		}
		all = append(all, f)
	}
	return all, errors.Join(errs...)
}

func (c *loadgenCommand) follower(text string, p *plan.Plan) (loadgen.Follower, error) {
	token, err := credential.Read(string(c.VerifyToken))
	if err != nil {
		return loadgen.Follower{}, fmt.Errorf("--verify-token: %w", err)
	}
	f, err := loadgen.Follow(text, p, token, c.ClockSkew)
	if errors.Is(err, loadgen.ErrWillTopic) {
		return f, fmt.Errorf("%q: which topic tells the states of the devices? say it with --will-topic", text)
	}
	return f, err
}

// workerCommand is the name of the command that starts a worker.
const workerCommand = "loadgen-worker"

func (c *loadgenCommand) limits(p *plan.Plan) score.Limits {
	l := loadgen.DefaultLimits(p)
	l.Allowed[score.FalseOffline], l.Allowed[score.MissedOffline] = c.MaxFalseOffline, c.MaxMissedOffline
	l.Allowed[score.WrongReason], l.Allowed[score.Gaps] = c.MaxWrongReason, c.MaxGaps
	if l.LatencyP99 = c.MaxLatencyP99; l.LatencyP99 > 0 {
		l.Allowed[score.TooLate] = -1 // the percentile replaces the limit for each verdict
	}
	if c.MaxDeaf != nil {
		l.Deaf, l.Allowed[score.DeafAnswered], l.Allowed[score.DeafUnasked] = *c.MaxDeaf, -1, -1 // it may be deaf while it answers, too
	}
	return l
}

// view returns what shows the run: a screen on a terminal, else lines or JSON.
func (c *loadgenCommand) view(r report.Run, out io.Writer) report.View {
	if f, ok := out.(*os.File); ok {
		return report.Open(f, r, c.JSON)
	}
	if c.JSON {
		return report.NewObjects(out, r)
	}
	return report.NewLines(out, r)
}

// write writes the files of the report.
func (c *loadgenCommand) write(f *report.Final, stderr io.Writer) error {
	if c.Report == "" {
		return nil
	}
	files, err := report.WriteFiles(c.Report, f)
	if len(files) > 0 {
		_, _ = fmt.Fprintf(stderr, "wrote %s\n", strings.Join(files, ", "))
	}
	return err
}

// plan reads the scenario and applies the flags, which override it.
func (c *loadgenCommand) plan(command *kong.Context) (*plan.Plan, error) {
	p, err := scenario.Open(c.Scenario)
	if err != nil {
		return nil, fmt.Errorf("--scenario: %w", err)
	}
	over, err := c.overrides(command)
	if err != nil {
		return nil, err
	}
	scenario.Override(p, over, c.Duration)
	if c.WillTopic != "" {
		p.WillTopic, p.BirthPayload, p.WillPayload = c.WillTopic, cmp.Or(p.BirthPayload, "online"), cmp.Or(p.WillPayload, "offline")
	}
	loadgen.FillSources(p)
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("scenario %s, with the command line: %w", p.Name, err)
	}
	return p, nil
}

func (c *loadgenCommand) overrides(command *kong.Context) (plan.Plan, error) {
	var errs []error
	bad := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	for _, flag := range command.Flags() {
		if flag.Tag.Has("notnegative") && flag.Target.Int() < 0 {
			bad(flag.Name, errors.New("a negative value means nothing"))
		}
	}
	token, err := credential.Read(string(c.Token))
	bad("token", err)
	o := plan.Plan{
		Devices: c.Connections, Seed: c.Seed, ID: c.IDFormat, Group: c.GroupSize, Protocol: c.Protocol, Token: token, User: c.User,
		Publish: c.Publish, QoS: c.QoS, Interval: c.Interval, Timeout: c.Timeout, Grace: c.Grace,
	}
	for _, text := range c.Target {
		target, err := scenario.ParseTarget(strings.TrimSpace(text))
		bad("target", err)
		o.Targets = append(o.Targets, target)
	}
	sources, err := parseSources(c.Source)
	errs, o.Sources = append(errs, err), sources
	if c.Ramp != "" {
		o.Ramp, err = scenario.ParseRate(c.Ramp)
		bad("ramp", err)
	}
	return o, errors.Join(errs...)
}

// parseSources reads addresses to connect from.
func parseSources(texts []string) (all []netip.Addr, err error) {
	for _, text := range texts {
		some, mistake := scenario.ParseSources(strings.TrimSpace(text))
		if mistake != nil {
			err = errors.Join(err, fmt.Errorf("--source: %w", mistake))
		}
		all = append(all, some...)
	}
	return all, err
}

// listScenarios prints the names of the ready scenarios with a summary.
func listScenarios(out io.Writer) error {
	return printNames(out, scenario.Names(), 16, func(name string) (string, error) {
		about, err := scenario.Summary(name)
		return strings.TrimSuffix(about, "."), err
	})
}

func showScenario(out io.Writer, name string) error {
	text, err := scenario.Text(name)
	if err != nil {
		return usageError{fmt.Errorf("--show-scenario: %w", err)}
	}
	_, err = io.WriteString(out, text)
	return err
}

// commandText returns a command line without its secrets, quoted for a shell.
func commandText(args []string) string {
	words := make([]string, 0, len(args))
	hide := false
	for i, word := range args {
		flag, _, has := strings.Cut(word, "=")
		secret := flag == "--token" || flag == "--verify-token"
		switch {
		case i == 0:
			word = "holter"
		case hide:
			word = "***"
		case secret && has:
			word = flag + "=***"
		}
		hide = secret && !has
		if strings.ContainsAny(word, " \t\n\"'\\$|&;<>()*") && word != "***" && !secret {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// loadgenWorkerCommand is a worker that holter loadgen starts.
type loadgenWorkerCommand struct{}

// Run works until the standard input ends.
func (loadgenWorkerCommand) Run(ctx context.Context, out output) error {
	return loadgen.Work(ctx, os.Stdin, out.stdout)
}
