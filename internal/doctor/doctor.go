// Package doctor checks a machine, the data and the API of a server for problems. It changes nothing,
// except that it migrates a database as the server would do.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/terminal"
)

// Level is the result of a check.
type Level string

// The levels.
const (
	LevelOK   Level = "ok"   // nothing to do
	LevelWarn Level = "warn" // worth a look
	LevelFail Level = "fail" // holter does not work until it is fixed
)

// Finding is the result of a check, with its reason.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	Text  string `json:"text"`
	Help  string `json:"help,omitempty"` // what to do

	Value   string `json:"value,omitempty"`   // current value
	Needed  string `json:"needed,omitempty"`  // required value
	Command string `json:"command,omitempty"` // command that fixes it
}

// doctor collects the findings of its checks.
type doctor struct {
	machine  machine
	storeOf  func(ctx context.Context, cfg config.Config) (aside int, err error) // opens the database and closes it again
	surveyOf func(ctx context.Context, cfg config.Config) (sqldb.Survey, error)  // asks the server of a database
	findings []Finding

	does string // what storeOf shows of the database; "": that it opens

	mostConnections int // as the configuration says; 0 if it does not
}

// Options choose what is checked.
type Options struct {
	Config      config.Config
	ConfigFile  string // file of Config; "" for none
	Mistakes    error  // mistakes of the configuration; then Config holds the defaults
	API         *apiclient.Client
	Wanted      bool         // an API that does not answer is a failure, as it is if a server holds the lock
	Connections int          // planned concurrent devices; 0 for as many as Config allows
	Sources     []netip.Addr // source addresses of a load generator; Sources or Targets select its checks
	Targets     []string     // targets of a load generator, as HOST:PORT or tcp://HOST:PORT
}

// Examine runs the checks and returns their findings.
func Examine(ctx context.Context, o Options) []Finding {
	d := &doctor{machine: machine{"/"}, storeOf: probeStore, surveyOf: survey, mostConnections: o.Config.Gateway.MaxConnections}
	if o.Mistakes != nil {
		d.fail("configuration", o.Mistakes.Error(), "Fix it; until then the checks below are for the defaults.")
	} else if o.ConfigFile != "" {
		d.ok("configuration", o.ConfigFile+" has no mistakes")
	}
	server := d.checkStore(ctx, o.Config)
	d.checkAPI(ctx, o.API, o.Wanted || server > 0)
	if len(o.Sources)+len(o.Targets) == 0 {
		d.checkDevices(o.Config)
		d.checkBalancer(o.Config)
		d.checkLimits(server, cmp.Or(o.Connections, o.Config.Gateway.MaxConnections), perConnection(o.Config.Listen))
	}
	if o.Connections > 0 {
		d.checkLoad(o.Connections, o.Sources, o.Targets)
	}
	d.checkClock()
	return d.findings
}

func (d *doctor) ok(check, text string) { d.judge(check, text) }

func (d *doctor) warn(check, text, help string) {
	d.judge(check, "", problem{true, LevelWarn, text, help})
}

func (d *doctor) fail(check, text, help string) {
	d.judge(check, "", problem{true, LevelFail, text, help})
}

// problem is something that may be wrong, and what to do about it.
type problem struct {
	is         bool
	level      Level
	text, help string
}

// judge reports the first of the problems that there is, or else that all is well.
func (d *doctor) judge(check, well string, problems ...problem) {
	f := Finding{Check: check, Level: LevelOK, Text: well}
	for _, p := range slices.Backward(problems) {
		if p.is {
			f.Level, f.Text, f.Help = p.level, p.text, p.help
		}
	}
	d.findings = append(d.findings, f)
}

// Print writes findings, as text or as JSON lines. It returns an error if some failed.
func Print(out io.Writer, findings []Finding, asJSON bool) error {
	count := map[Level]int{}
	s := terminal.ScreenOf(out)
	for _, f := range findings {
		count[f.Level]++
		write := f.write
		if asJSON {
			write = func(out io.Writer, _ terminal.Screen) error { return terminal.EncodeJSON(out, f) }
		}
		if err := write(out, s); err != nil {
			return err
		}
	}
	if !asJSON {
		if _, err := fmt.Fprintf(out, "\n%s: %d ok, %s, %d failed\n", terminal.Plural(len(findings), "check", "checks"), count[LevelOK],
			terminal.Plural(count[LevelWarn], "warning", "warnings"), count[LevelFail]); err != nil {
			return err
		}
	}
	if n := count[LevelFail]; n > 0 {
		return fmt.Errorf("%s failed", terminal.Plural(n, "check", "checks"))
	}
	return nil
}

// checkWidth is the width of the column of checks.
const checkWidth = 19

func (f Finding) write(out io.Writer, s terminal.Screen) error {
	colours := map[Level]terminal.Paint{LevelOK: terminal.Green, LevelWarn: terminal.Yellow, LevelFail: terminal.Red}
	var text strings.Builder
	lead := s.In(colours[f.Level], fmt.Sprintf("%-4s", f.Level)) + "  " + fmt.Sprintf("%-*s", checkWidth, f.Check) + "  "
	indent := strings.Repeat(" ", 4+2+checkWidth+2)
	for _, paragraph := range []string{f.Text, f.Help} {
		for part := range strings.SplitSeq(paragraph, "\n") {
			for line := range strings.SplitSeq(terminal.Wrap(terminal.Printable(part), s.Width-len(indent)), "\n") {
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
