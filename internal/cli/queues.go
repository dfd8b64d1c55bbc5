package cli

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

// queuesCommand manages queues.
type queuesCommand struct {
	List   plainList       `cmd:"" default:"withargs" help:"List the queues."`
	Get    getCommand      `cmd:"" help:"Show a queue."`
	Set    queueSetCommand `cmd:"" help:"Create or change a queue."`
	Delete changeCommand   `cmd:"" help:"Delete a queue."`
	Pause  changeCommand   `cmd:"" help:"Start no deliveries; jobs are kept."`
	Resume changeCommand   `cmd:"" help:"Start deliveries again."`
}

func queues() list {
	return list{
		columns: []string{
			"QUEUE", "STATE", "JOBS", "OLDEST", "RUNNING", "DELIVERED", "RETRIED", "DEAD", "CONCURRENCY", "RATE,right", "ATTEMPTS", "BACKOFF", "MAX AGE",
		},
		row: rowOf(func(q *httpapi.Queue) []any {
			rate := "any"
			if q.Rate > 0 {
				rate = strconv.FormatFloat(q.Rate, 'g', -1, 64) + "/s"
			}
			oldest := ""
			if q.OldestAge != nil && *q.OldestAge > 0 {
				oldest = terminal.Short(terminal.Duration(*q.OldestAge))
			}
			return []any{
				q.Name, activity(q.Paused), q.Jobs, oldest, q.Running, q.Delivered, q.Retried, q.Dead, q.Concurrency, rate, q.Attempts,
				terminal.Span(q.Backoff) + " to " + terminal.Span(q.MaxBackoff), terminal.Span(q.MaxAge),
			}
		}),
	}
}

type queueSetCommand struct {
	apiFlags `json:"-"`

	Name        string        `json:"-" arg:"" help:"Name of the queue."`
	Concurrency *int          `json:"concurrency,omitempty" nonzero:"" placeholder:"N" help:"Deliveries at a time. Default: 32."`
	Rate        *float64      `json:"rate,omitempty" placeholder:"N" help:"Deliveries per second; 0 for no limit. Default: 0."`
	Attempts    *int          `json:"attempts,omitempty" nonzero:"" placeholder:"N" help:"Attempts after which a job becomes a dead letter. Default: 100."`
	Backoff     *milliseconds `json:"backoff_ms,omitempty" nonzero:"" placeholder:"DURATION" help:"Limit of the random pause before the first retry; it doubles with each. Default: 1s."`
	MaxBackoff  *milliseconds `json:"max_backoff_ms,omitempty" nonzero:"" placeholder:"DURATION" help:"Longest pause. Default: 1h."`
	MaxAge      *milliseconds `json:"max_age_ms,omitempty" nonzero:"" placeholder:"DURATION" help:"Age at which a job becomes a dead letter. Default: 3d."`
	MaxJobs     *int64        `json:"max_jobs,omitempty" nonzero:"" placeholder:"N" help:"Jobs beyond which it takes no more. Default: 10000000."`
}

// Help is the text below the usage line.
func (*queueSetCommand) Help() string {
	return `Options that are left out keep their values; a new queue starts with the defaults.

Example:

    holter queues set slow --concurrency 4 --rate 10 --max-age 1d`
}

// Run creates or changes the queue.
func (c *queueSetCommand) Run(ctx context.Context, command *kong.Context, api *apiclient.Client, out output) error {
	if c.Rate != nil && (math.IsNaN(*c.Rate) || math.IsInf(*c.Rate, 0)) {
		return usageError{fmt.Errorf("--rate: %v is not a number of deliveries per second; write 0 for no limit", *c.Rate)}
	}
	for _, flag := range command.Flags() { // the API takes zeros for options that are left out
		if flag.Tag.Has("nonzero") && !flag.Target.IsNil() && flag.Target.Elem().IsZero() {
			return usageError{fmt.Errorf("--%s: it cannot be 0; leave it out to keep its value", flag.Name)}
		}
	}
	return set[httpapi.QueueSettings](ctx, api, out, "queues", c.Name, c, nil)
}
