package loadgen

import (
	"io"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/report"
	"github.com/holter-iot/holter/internal/loadgen/scenario"
	"github.com/holter-iot/holter/internal/loadgen/score"
)

// Plan is what a fleet is to do. [Scenario] and [ParseScenario] make one. Then a program sets the fields that depend
// on where it runs: Targets ([]string of host:port), Devices, Seed (int and uint64), Protocol (line, frame, jt808,
// teltonika, gt06, mqtt, mqtt5), Token and User; and where the scenario does not say, Interval, Timeout and Grace (of
// type time.Duration), which must be those of the server.
type Plan = plan.Plan

// Step is something that happens at one instant: At and Back, since the beginning of the first phase.
type Step = plan.Step

// Report is what came of a run. Verdicts (nil without followers) has the numbers of right verdicts and the mistakes,
// Outcome reports whether the run passed; as JSON it is the report.json of `holter loadgen`.
type Report = report.Final

// Limits are the mistakes that a run may have and pass; the zero value allows none. See [DefaultLimits].
type Limits = score.Limits

// Scenario returns the plan of a ready scenario, such as steady, silent-10pct, reconnect-storm or site-outage, or of
// a file. What has a slash in it or ends in .yaml is a file.
func Scenario(nameOrFile string) (*Plan, error) { return scenario.Open(nameOrFile) }

// ParseScenario returns the plan of the text of a scenario file. Messages call it by the name.
func ParseScenario(name, text string) (*Plan, error) { return scenario.Parse(name, text) }

// Lines returns a value for Config.View, which writes a line each second.
func Lines(out io.Writer) func(report.Run) report.View {
	return func(run report.Run) report.View { return report.NewLines(out, run) }
}
