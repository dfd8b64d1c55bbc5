package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/loadgen/scenario"
)

type doctorCommand struct {
	apiFlags
	storeFlags

	Connections int      `placeholder:"N" help:"How many devices are to be connected at a time. Default: gateway.max_connections of the configuration, else as many as open files allow."`
	Source      []string `placeholder:"ADDRESSES" help:"Ask about a load generator on this machine: where it is to connect from, as 127.0.0.2-127.0.0.40, 10.0.0.0/28 or one address; may be repeated."`
	Target      []string `placeholder:"ADDRESS" help:"Ask about a load generator: where it is to connect to, as [tcp://]HOST:PORT; may be repeated."`
	JSON        bool     `name:"json" help:"One JSON object a line: check, level (ok, warn or fail), text, and help; for a load also value, needed, and command."`
}

// Help is the text below the usage line.
func (*doctorCommand) Help() string {
	return `It may be run while the server is, and should be run as the same user. It changes nothing, but that a database of an older version, or without tables, is brought up to date, as the server would do. It ends with 1 if a check fails.

With --connections it also looks for what would stop "holter loadgen" from playing so many devices on this machine, with the server on it, too: the checks that begin with "load". They only warn, but with --source or --target, which ask about the load generator instead of a server: then they fail, and the limits of a server are left out.

Examples:

    holter doctor --config fleet.yaml --connections 500000

    # can this machine play 500,000 devices?
    holter doctor --connections 500000 --source 127.0.0.2-127.0.0.40 --target 127.0.0.1:7700`
}

// Run checks, and prints what was found.
func (c *doctorCommand) Run(ctx context.Context, command *kong.Context, out output) error {
	if c.Connections < 0 {
		return usageError{fmt.Errorf("--connections: %d is negative", c.Connections)}
	}
	if c.Connections == 0 && len(c.Source)+len(c.Target) > 0 {
		return usageError{errors.New("--source and --target are about a load generator; say with --connections how many devices it is to play")}
	}
	sources, err := c.sources()
	if err != nil {
		return usageError{err}
	}
	api, err := c.client()
	if err != nil {
		return err
	}
	defer api.close()
	d := &doctor{machine: machine{root: "/"}, storeOf: probeStore}
	cfg, err := c.resolve(command)
	if err != nil {
		d.fail("configuration", err.Error(), "Mend it; until then the checks below are for the defaults.")
		if cfg, err = config.Resolve("", nil); err != nil {
			return err
		}
	} else if c.Config != "" {
		d.ok("configuration", c.Config+" has no mistakes")
	}
	connections := c.Connections
	if connections == 0 {
		connections = cfg.Gateway.MaxConnections
	}
	server := d.checkStore(ctx, cfg)
	d.checkAPI(ctx, api, c.API != "" || server > 0)
	if len(sources)+len(c.Target) == 0 {
		d.checkDevices(cfg)
		d.checkLimits(server, connections, perConnection(cfg.Listen))
	}
	if c.Connections > 0 {
		d.checkLoad(c.Connections, sources, c.Target)
	}
	d.checkClock()
	return d.print(out.stdout, c.JSON)
}

// sources are the addresses that a load generator is to connect from.
func (c *doctorCommand) sources() (all []netip.Addr, err error) {
	for _, text := range c.Source {
		some, err := scenario.ParseSources(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("--source: %w", err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// level is what a check came to.
type level string

const (
	levelOK   level = "ok"
	levelWarn level = "warn"
	levelFail level = "fail"
)

// finding is what a check found.
type finding struct {
	Check string `json:"check"`
	Level level  `json:"level"`
	Text  string `json:"text"`
	Help  string `json:"help,omitempty"` // what to do

	Value   string `json:"value,omitempty"`   // what there is
	Needed  string `json:"needed,omitempty"`  // what there should be
	Command string `json:"command,omitempty"` // that mends it
}

// doctor collects what checks find.
type doctor struct {
	machine  machine
	storeOf  func(ctx context.Context, cfg config.Config) (aside int, err error) // opens the database and closes it again
	findings []finding
}

func (d *doctor) ok(check, text string) {
	d.findings = append(d.findings, finding{Check: check, Level: levelOK, Text: text})
}

func (d *doctor) warn(check, text, help string) {
	d.findings = append(d.findings, finding{Check: check, Level: levelWarn, Text: text, Help: help})
}

func (d *doctor) fail(check, text, help string) {
	d.findings = append(d.findings, finding{Check: check, Level: levelFail, Text: text, Help: help})
}

// print writes the findings. Its error says that some failed.
func (d *doctor) print(out io.Writer, asJSON bool) error {
	count := map[level]int{}
	s := screenOf(out)
	for _, f := range d.findings {
		count[f.Level]++
		write := f.write
		if asJSON {
			write = func(out io.Writer, _ screen) error { return encodeJSON(out, f) }
		}
		if err := write(out, s); err != nil {
			return err
		}
	}
	if !asJSON {
		if _, err := fmt.Fprintf(out, "\n%s: %d ok, %s, %d failed\n", plural(len(d.findings), "check", "checks"), count[levelOK],
			plural(count[levelWarn], "warning", "warnings"), count[levelFail]); err != nil {
			return err
		}
	}
	if n := count[levelFail]; n > 0 {
		return fmt.Errorf("%s failed", plural(n, "check", "checks"))
	}
	return nil
}

// checkWidth is that of the column of checks.
const checkWidth = 19

func (f finding) write(out io.Writer, s screen) error {
	colours := map[level]paint{levelOK: green, levelWarn: yellow, levelFail: red}
	var text strings.Builder
	lead := s.in(colours[f.Level], fmt.Sprintf("%-4s", f.Level)) + "  " + fmt.Sprintf("%-*s", checkWidth, f.Check) + "  "
	indent := strings.Repeat(" ", 4+2+checkWidth+2)
	for _, paragraph := range []string{f.Text, f.Help} {
		for part := range strings.SplitSeq(paragraph, "\n") {
			for line := range strings.SplitSeq(wrap(printable(part), s.width-len(indent)), "\n") {
				if paragraph != "" {
					text.WriteString(lead + line + "\n")
				}
				lead = indent
			}
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// wrap breaks a text into lines of so many columns, between words; not at all if that is less than 20.
func wrap(text string, columns int) string {
	if columns < 20 {
		return text
	}
	var out strings.Builder
	used := 0
	for i, word := range strings.Split(text, " ") {
		switch w := width(word); {
		case i == 0:
			used = w
		case used+1+w > columns:
			out.WriteByte('\n')
			used = w
		default:
			out.WriteByte(' ')
			used += 1 + w
		}
		out.WriteString(word)
	}
	return out.String()
}

// storeFlags say where what is kept is, as for holter serve.
type storeFlags struct {
	Data     string     `env:"HOLTER_DATA" placeholder:"DIR" help:"Directory of what is stored. Default: ./holter-data."`
	Database secretFlag `env:"HOLTER_DATABASE" placeholder:"URL" help:"Database, as for holter serve. Default: SQLite in the directory."`
	Config   string     `env:"HOLTER_CONFIG" placeholder:"FILE" help:"YAML file of the server, which may say both."`
}

// resolve joins command line, environment, file and defaults, as holter serve does.
func (f *storeFlags) resolve(command *kong.Context) (config.Config, error) {
	typed := typedFlags(command)
	if f.Config == "" && typed["config"] {
		return config.Config{}, errors.New("--config: the name of the file is empty")
	}
	var settings []config.Setting
	for _, s := range []config.Setting{
		{Key: "data", Value: f.Data, Origin: "HOLTER_DATA"},
		{Key: "database", Value: string(f.Database), Origin: "HOLTER_DATABASE"},
	} {
		if typed[s.Key] {
			s.Origin = "--" + s.Key
		} else if s.Value == "" {
			continue
		}
		settings = append(settings, s)
	}
	return config.Resolve(f.Config, settings)
}

// readText reads a small file of the kernel; "" if it cannot be read.
func readText(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
