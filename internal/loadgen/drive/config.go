package drive

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// Config describes which devices are played, and how. Zero fields have the defaults that are named.
type Config struct {
	// Plan is what the whole fleet is to do. It must not be changed any more.
	Plan *plan.Plan
	// From and To are the devices: From, From+1 … To-1. Both zero: all of the plan.
	From, To int
	// Rate is how many connections a second are begun while the fleet ramps up, and Wait how long
	// after Start the first is; default: the share of the plan's Ramp that these devices are of the
	// fleet, from the beginning.
	Rate float64
	Wait time.Duration
	// Start is when the ramp of the fleet begins and what the planned instants of heartbeats count
	// from; default: when Run is called. Processes that play one fleet are given the same.
	Start time.Time
	// Pipeline is how many heartbeats are sent together, each time; default 1.
	Pipeline int
	// Closed makes a device send its next heartbeats as soon as the last ones are answered, instead
	// of as planned. It shows how many a gateway can answer.
	Closed bool
	// Tick is the grid on which things are planned; default: a thousandth of the plan's interval,
	// from 5 ms to 50 ms. What is due at once is sent at once, so that neither side wakes up for
	// each heartbeat.
	Tick time.Duration
	// Connecting is how many devices may wait for a handshake or a welcome at once; the others are
	// queued. Default 512.
	Connecting int
	// Journal keeps each sign of life, for [Drive.Journals]: 24 bytes each. A device then sends one
	// heartbeat at a time.
	Journal bool
	// Roam makes a device that is not let in go on to the plan's next target, and end a connection on
	// which a heartbeat is not answered within AnswerTimeout: it does what a load balancer would do. It
	// keeps its source address.
	Roam bool
	// ConnectTimeout is how long a handshake may take, and then the welcome; AnswerTimeout is how
	// long the answer to a heartbeat may take. Default of both: 10 s.
	ConnectTimeout, AnswerTimeout time.Duration
}

const maxPipeline = 1024

func (c Config) withDefaults() (Config, error) {
	p := c.Plan
	if p == nil {
		return c, errors.New("drive: Config.Plan is missing")
	}
	if c.From == 0 && c.To == 0 {
		c.To = p.Devices
	}
	c.Rate = cmp.Or(c.Rate, p.Ramp*float64(c.To-c.From)/float64(max(p.Devices, 1)))
	c.Pipeline = cmp.Or(c.Pipeline, 1)
	c.Tick = cmp.Or(c.Tick, min(max(p.Interval/1000, 5*time.Millisecond), 50*time.Millisecond).Truncate(time.Millisecond))
	c.Connecting = cmp.Or(c.Connecting, 512)
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, 10*time.Second)
	c.AnswerTimeout = cmp.Or(c.AnswerTimeout, 10*time.Second)
	return c, c.reject()
}

// reject returns all errors of a configuration, joined.
func (c Config) reject() error {
	list := []error{c.Plan.Validate()}
	no := func(wrong bool, format string, args ...any) {
		if wrong {
			list = append(list, fmt.Errorf("drive: "+format, args...))
		}
	}
	no(c.From < 0 || c.To <= c.From || c.To > c.Plan.Devices,
		"the devices %d to %d are none of a plan with %d; From begins at 0, To is the one after the last", c.From, c.To, c.Plan.Devices)
	no(c.To-c.From > math.MaxInt32/2, "%d devices are too many for one process; split them", c.To-c.From)
	no(!(c.Rate > 0), "a rate of %v connections a second gets nowhere; set Rate, or the plan's Ramp", c.Rate)
	no(c.Wait < 0, "Wait is %v; nothing begins before Start", c.Wait)
	no(c.Pipeline < 1 || c.Pipeline > maxPipeline, "Pipeline is %d; it goes from 1 to %d", c.Pipeline, maxPipeline)
	no(c.Journal && c.Pipeline > 1, "a journal needs a Pipeline of 1, not %d", c.Pipeline)
	no(c.Tick < time.Millisecond || c.Tick > time.Second, "Tick is %v; it goes from 1ms to 1s", c.Tick)
	no(c.Connecting < 1, "Connecting is %d; it must be 1 or more", c.Connecting)
	no(c.ConnectTimeout < 0 || c.AnswerTimeout < 0, "a timeout is negative")
	no(c.Plan.Interval < c.Tick, "the plan's interval is %v, shorter than Tick, %v", c.Plan.Interval, c.Tick)
	return errors.Join(list...)
}
