package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/terminal"
)

// queuesCommand looks after queues.
type queuesCommand struct {
	List   queuesListCommand  `cmd:"" help:"List the queues, with what they do."`
	Set    queueSetCommand    `cmd:"" help:"Make or change a queue."`
	Delete queueDeleteCommand `cmd:"" help:"Delete a queue."`
	Pause  queuePauseCommand  `cmd:"" help:"Let no delivery begin; jobs are kept."`
	Resume queueResumeCommand `cmd:"" help:"Let deliveries begin again."`
}

// asked makes a client of the API, and lets do ask it.
func asked(flags *apiFlags, do func(api *apiclient.Client) error) error {
	api, err := flags.client()
	if err != nil {
		return err
	}
	defer api.Close()
	return do(api)
}

// told sends a change without an answer, and says what is done.
func told(ctx context.Context, out output, flags *apiFlags, method, path, done string) error {
	return asked(flags, func(api *apiclient.Client) error {
		if err := api.Ask(ctx, method, path, nil, nil); err != nil {
			return err
		}
		_, err := fmt.Fprintln(out.stdout, done)
		return err
	})
}

// named is a command about something with a name.
type named struct {
	apiFlags

	Name string `arg:"" help:"Its name."`
}

// tell sends a change of it that has no answer, and says what is done.
func (c *named) tell(ctx context.Context, out output, method, kind, path, done string) error {
	return told(ctx, out, &c.apiFlags, method, pathOf(kind+"s", c.Name)+path, kind+" "+terminal.Printable(c.Name)+" "+done)
}

// pathOf returns the path of something with a name.
func pathOf(kind, name string) string { return "/v1/" + kind + "/" + apiclient.Escape(name) }

// span shows milliseconds as people write them: 72h, not 72h0m0s.
func span(ms float64) string {
	text := terminal.Length(ms)
	for _, end := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, end) {
			text = text[:len(text)-2]
		}
	}
	return text
}

type queuesListCommand struct {
	apiFlags

	JSON bool `name:"json" help:"One JSON object a line."`
}

// Run lists the queues.
func (c *queuesListCommand) Run(ctx context.Context, out output) error {
	return asked(&c.apiFlags, func(api *apiclient.Client) error {
		var answer struct{ Queues []httpapi.Queue }
		if err := api.Get(ctx, "/v1/queues", nil, &answer); err != nil {
			return err
		}
		g := terminal.NewGrid(terminal.ScreenOf(out.stdout), terminal.Column{Name: "QUEUE"}, terminal.Column{Name: "STATE"}, terminal.Column{Name: "JOBS", Right: true}, terminal.Column{Name: "RUNNING", Right: true},
			terminal.Column{Name: "DELIVERED", Right: true}, terminal.Column{Name: "RETRIED", Right: true}, terminal.Column{Name: "DEAD", Right: true}, terminal.Column{Name: "AT A TIME", Right: true},
			terminal.Column{Name: "PER SECOND", Right: true}, terminal.Column{Name: "ATTEMPTS", Right: true}, terminal.Column{Name: "PAUSES"}, terminal.Column{Name: "MAX AGE"})
		for _, q := range answer.Queues {
			if c.JSON {
				if err := terminal.EncodeJSON(out.stdout, q); err != nil {
					return err
				}
				continue
			}
			state, rate := terminal.Cell{Text: "at work", Paint: terminal.Green}, "any"
			if q.Paused {
				state = terminal.Cell{Text: "paused", Paint: terminal.Yellow}
			}
			if q.Rate > 0 {
				rate = strconv.FormatFloat(q.Rate, 'g', -1, 64)
			}
			g.Add(terminal.Cell{Text: q.Name}, state, terminal.Cell{Text: strconv.FormatInt(q.Jobs, 10)}, terminal.Cell{Text: strconv.Itoa(q.Running)},
				terminal.Cell{Text: strconv.FormatUint(q.Delivered, 10)}, terminal.Cell{Text: strconv.FormatUint(q.Retried, 10)}, terminal.Cell{Text: strconv.FormatUint(q.Dead, 10)},
				terminal.Cell{Text: strconv.Itoa(q.Concurrency)}, terminal.Cell{Text: rate}, terminal.Cell{Text: strconv.Itoa(q.Attempts)},
				terminal.Cell{Text: span(q.Backoff) + " to " + span(q.MaxBackoff)}, terminal.Cell{Text: span(q.MaxAge)})
		}
		return g.Flush(out.stdout)
	})
}

type queueSetCommand struct {
	apiFlags

	Name        string         `arg:"" help:"Name of the queue."`
	Concurrency *int           `placeholder:"N" help:"Deliveries at a time. Default: 32."`
	Rate        *float64       `placeholder:"N" help:"Deliveries per second; 0 for no limit. Default: 0."`
	Attempts    *int           `placeholder:"N" help:"After which a job is a dead letter. Default: 100."`
	Backoff     *time.Duration `placeholder:"DURATION" help:"Bound of the random pause before the first retry; it doubles with each. Default: 1s."`
	MaxBackoff  *time.Duration `placeholder:"DURATION" help:"Longest pause. Default: 1h."`
	MaxAge      *time.Duration `placeholder:"DURATION" help:"Of a job, after which it is a dead letter. Default: 72h."`
	MaxJobs     *int64         `placeholder:"N" help:"Beyond which it takes no more. Default: 10000000."`
}

// Help is the text below the usage line.
func (*queueSetCommand) Help() string {
	return `What is left out stays as it is, or is as by default for a new queue.

Example:

    holter queues set slow --concurrency 4 --rate 10 --max-age 24h`
}

// Run makes or changes the queue.
func (c *queueSetCommand) Run(ctx context.Context, out output) error {
	if err := c.check(); err != nil {
		return err
	}
	return asked(&c.apiFlags, func(api *apiclient.Client) error {
		var answer struct{ Queues []httpapi.Queue }
		if err := api.Get(ctx, "/v1/queues", nil, &answer); err != nil {
			return err
		}
		var body httpapi.QueueSettings
		for _, q := range answer.Queues {
			if q.Name == c.Name {
				body = q.QueueSettings
			}
		}
		c.change(&body)
		if err := api.Ask(ctx, http.MethodPut, pathOf("queues", c.Name), body, nil); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out.stdout, "queue %s is set\n", terminal.Printable(c.Name))
		return err
	})
}

// check refuses what cannot be sent, and a zero, which would not be sent: the queue would be as by default.
func (c *queueSetCommand) check() error {
	if c.Rate != nil && (math.IsNaN(*c.Rate) || math.IsInf(*c.Rate, 0)) {
		return orUsage(fmt.Sprintf("--rate: %v is no number of deliveries per second; 0 is for no limit", *c.Rate))
	}
	for _, option := range []struct {
		name string
		zero bool
	}{
		{"concurrency", isZero(c.Concurrency)},
		{"attempts", isZero(c.Attempts)},
		{"backoff", isZero(c.Backoff)},
		{"max-backoff", isZero(c.MaxBackoff)},
		{"max-age", isZero(c.MaxAge)},
		{"max-jobs", isZero(c.MaxJobs)},
	} {
		if option.zero {
			return orUsage("--" + option.name + ": it cannot be 0; leave it out to keep what is set, and see --help for the default")
		}
	}
	return nil
}

// change puts what was given into the settings.
func (c *queueSetCommand) change(s *httpapi.QueueSettings) {
	set(&s.Concurrency, c.Concurrency)
	set(&s.Rate, c.Rate)
	set(&s.Attempts, c.Attempts)
	set(&s.MaxJobs, c.MaxJobs)
	for _, d := range []struct {
		to   *float64
		from *time.Duration
	}{{&s.Backoff, c.Backoff}, {&s.MaxBackoff, c.MaxBackoff}, {&s.MaxAge, c.MaxAge}} {
		if d.from != nil {
			*d.to = terminal.Milliseconds(*d.from)
		}
	}
}

type (
	queueDeleteCommand named
	queuePauseCommand  named
	queueResumeCommand named
)

// Run deletes the queue.
func (c *queueDeleteCommand) Run(ctx context.Context, out output) error {
	return (*named)(c).tell(ctx, out, http.MethodDelete, "queue", "", "is deleted")
}

// Run pauses the queue.
func (c *queuePauseCommand) Run(ctx context.Context, out output) error {
	return (*named)(c).tell(ctx, out, http.MethodPut, "queue", "/pause", "is paused")
}

// Run resumes the queue.
func (c *queueResumeCommand) Run(ctx context.Context, out output) error {
	return (*named)(c).tell(ctx, out, http.MethodDelete, "queue", "/pause", "is at work")
}

// orUsage makes a usage error of a text, if it is not empty.
func orUsage(text string) error {
	if text == "" {
		return nil
	}
	return usageError{errors.New(text)}
}

// isZero says whether a zero was given.
func isZero[T comparable](from *T) bool {
	var zero T
	return from != nil && *from == zero
}

// set sets what was given.
func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}
