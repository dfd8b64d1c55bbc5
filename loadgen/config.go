package loadgen

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/report"
)

// Config describes a run. Zero fields have the defaults that are named.
type Config struct {
	// Plan is what the fleet is to do. It must not be changed while Run runs. Required.
	Plan *Plan
	// Workers is how many share the fleet; default: as many as the limit on open files asks for,
	// and one for each core while there are heartbeats enough for it.
	Workers int
	// Command starts a worker: a program and its arguments, which calls [Work] with its standard
	// input and output. Without it all workers live in this process and share its limit on open
	// files, as a small fleet does anyway unless Workers is set.
	Command []string
	// Pipeline is how many heartbeats a device sends together; default 1.
	Pipeline int

	// Followers read the verdicts. Without any, nothing is scored. Limits says which mistakes are
	// allowed.
	Followers []Follower
	Limits    Limits
	// FollowTimeout is how long the followers may take to begin; default 10 s.
	FollowTimeout time.Duration

	// View is called once, before anything else is done, and returns what shows the progress. Run
	// closes it. See [Lines]. Default: nothing is shown.
	View func(report.Run) report.View
	// OnSignal is called for each signal of the plan, one after the other in a goroutine of its
	// own, and may block; ctx ends with the run. An error is noted. Default: signals are noted.
	OnSignal func(ctx context.Context, step Step) error
	// Patience is how long a ramp may go without progress; default 12 s, longer than a connection
	// may take. It is halved if every connection fails at once.
	Patience time.Duration

	// Tool and CommandLine are for the report, without secrets.
	Tool, CommandLine string

	// players makes what plays the devices of a worker in this process; default: a [drive.Drive].
	players func(drive.Config) (player, error)
}

// Exit statuses, as an [Error] has them.
const (
	StatusFailed      = 1   // something that was checked did not hold, or workers died
	StatusUsage       = 2   // the configuration is wrong
	StatusNotRun      = 3   // the fleet could not be connected, or not be followed
	StatusInterrupted = 130 // interrupted by a signal
)

// Error is why a run did not pass.
type Error struct {
	Status  int
	Reasons []string // at least one
}

// ExitStatus is the exit code of the program.
func (e *Error) ExitStatus() int { return e.Status }

func (e *Error) Error() string {
	if len(e.Reasons) == 1 {
		return e.Reasons[0]
	}
	return strings.Join(e.Reasons, "\n  ")
}

func (c Config) withDefaults() (Config, error) {
	if c.Plan == nil {
		return c, errors.New("loadgen: Config.Plan is missing")
	}
	if c.FollowTimeout == 0 {
		c.FollowTimeout = 10 * time.Second
	}
	if c.Patience == 0 {
		c.Patience = 12 * time.Second
	}
	if c.players == nil {
		c.players = newDrive
	}
	list := []error{c.Plan.Validate()}
	no := func(wrong bool, format string, args ...any) {
		if wrong {
			list = append(list, fmt.Errorf("loadgen: "+format, args...))
		}
	}
	no(c.Workers < 0 || c.Workers > mostWorkers, "%d workers are out of range; allowed are 1 to %d, and 0 for as many as are needed", c.Workers, mostWorkers)
	no(c.Pipeline < 0, "a pipeline of %d heartbeats is out of range; allowed are 1 and more", c.Pipeline)
	no(c.FollowTimeout < 0 || c.Patience < 0, "FollowTimeout or Patience is negative")
	return c, errors.Join(list...)
}

const (
	mostWorkers = 1000
	// spareFiles are descriptors that a worker needs beside its connections.
	spareFiles = 200
	// worthAWorker is how many heartbeats a second justify another worker, as long as there are
	// cores: half of what one worker can send.
	worthAWorker = 50_000
	// A fleet up to this size needs no process of its own. The heartbeats of a larger one would be
	// delayed by the work of this process.
	fewDevices    = 2000
	fewHeartbeats = 5000
)

// parts returns the number of workers, and whether they are processes.
func (c *Config) parts(limit int) (n int, processes bool) {
	p := c.Plan
	connections := p.Devices + seconds(p)
	needed := (connections + max(limit-spareFiles, 1) - 1) / max(limit-spareFiles, 1)
	switch {
	case len(c.Command) == 0:
		return min(max(c.Workers, 1), p.Devices), false
	case c.Workers > 0:
		return min(c.Workers, p.Devices), true
	}
	rate := float64(p.Devices) / p.Interval.Seconds()
	if connections <= fewDevices && rate <= fewHeartbeats && needed == 1 {
		return 1, false
	}
	worth := min(runtime.GOMAXPROCS(0), int(rate/worthAWorker)+1)
	return min(max(needed, worth), mostWorkers, p.Devices), true
}

// seconds returns how many connections, at most, devices that move, are duplicated or are leaving
// have beside their own.
func seconds(p *plan.Plan) int {
	most := 0
	for _, ph := range p.Phases {
		for _, a := range ph.Acts {
			if a.Kind != plan.Duplicate && a.Kind != plan.Move && a.Kind != plan.Bye && a.Kind != plan.Close {
				continue
			}
			n := a.Count
			switch {
			case a.All:
				n = p.Devices
			case a.Share > 0:
				n = int(a.Share*float64(p.Devices)) + 1
			case a.Groups > 0:
				n = a.Groups * p.Group
			case a.GroupShare > 0:
				n = int(a.GroupShare*float64(p.Devices)) + p.Group
			}
			most = max(most, min(n, p.Devices))
		}
	}
	return most
}
