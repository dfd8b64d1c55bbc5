package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/terminal"
)

// jobsCommand looks after jobs.
type jobsCommand struct {
	List    jobsListCommand    `cmd:"" help:"List the jobs that are not done."`
	Add     jobAddCommand      `cmd:"" help:"Enqueue a job."`
	Remove  jobRemoveCommand   `cmd:"" help:"Remove a job."`
	Purge   jobsPurgeCommand   `cmd:"" help:"Remove all jobs of a queue or an endpoint."`
	Dead    deadListCommand    `cmd:"" help:"List the jobs that could not be delivered."`
	Replay  deadReplayCommand  `cmd:"" help:"Deliver dead letters anew."`
	Discard deadDiscardCommand `cmd:"" help:"Remove dead letters for good."`
}

// jobChoice are the options that choose jobs.
type jobChoice struct {
	Queue    string `placeholder:"NAME" help:"Only of this queue."`
	Endpoint string `placeholder:"NAME" help:"Only of this endpoint."`
}

func (c *jobChoice) query() url.Values {
	query := url.Values{}
	for name, value := range map[string]string{"queue": c.Queue, "endpoint": c.Endpoint} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// listed asks for pages of a list until limit lines are shown, 0 for all.
func listed(ctx context.Context, api *apiclient.Client, path string, query url.Values, limit int, show func(raw json.RawMessage) (n int, next uint64, err error)) error {
	return pagedBy(ctx, api, path, "after", query, limit, show)
}

// pagedBy is listed where another parameter says which page.
func pagedBy(
	ctx context.Context, api *apiclient.Client, path, page string, query url.Values, limit int, show func(raw json.RawMessage) (n int, next uint64, err error),
) error {
	for shown := 0; ; {
		most := 1000
		if limit > 0 {
			most = min(most, limit-shown)
		}
		query.Set("limit", strconv.Itoa(most))
		var raw json.RawMessage
		if err := api.Get(ctx, path, query, &raw); err != nil {
			return err
		}
		n, next, err := show(raw)
		if shown += n; err != nil || next == 0 || limit > 0 && shown >= limit {
			return err
		}
		query.Set(page, strconv.FormatUint(next, 10))
	}
}

// counted sends a change, and says how many it was.
func counted(ctx context.Context, out output, flags *apiFlags, method, path string, body any, done string) error {
	return asked(flags, func(api *apiclient.Client) error {
		var answer struct{ Number int }
		if err := api.Ask(ctx, method, path, body, &answer); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out.stdout, "%d %s\n", answer.Number, done)
		return err
	})
}

type jobsListCommand struct {
	apiFlags
	jobChoice

	Limit int  `default:"100" placeholder:"N" help:"The most jobs to show; 0 for all. Default: 100."`
	JSON  bool `name:"json" help:"One JSON object a line."`
}

// Run lists the jobs.
func (c *jobsListCommand) Run(ctx context.Context, out output) error {
	if c.Limit < 0 {
		return orUsage("--limit: it is negative; write 0 for all")
	}
	g := terminal.NewGrid(terminal.ScreenOf(out.stdout), terminal.Column{Name: "JOB", Right: true}, terminal.Column{Name: "QUEUE"}, terminal.Column{Name: "ENDPOINT", Least: 8, Inner: true}, terminal.Column{Name: "STATE"},
		terminal.Column{Name: "FAILED", Right: true}, terminal.Column{Name: "AT", Spare: true}, terminal.Column{Name: "ERROR", Least: 16, Spare: true})
	return asked(&c.apiFlags, func(api *apiclient.Client) error {
		return listed(ctx, api, "/v1/jobs", c.query(), c.Limit, func(raw json.RawMessage) (int, uint64, error) {
			var page struct {
				Jobs []httpapi.Job
				Next uint64
			}
			if err := json.Unmarshal(raw, &page); err != nil {
				return 0, 0, apiclient.NotOurs(api)
			}
			for _, job := range page.Jobs {
				if c.JSON {
					if err := terminal.EncodeJSON(out.stdout, job); err != nil {
						return 0, 0, err
					}
					continue
				}
				at := ""
				if job.State == "waiting" {
					at = terminal.Stamp(job.RunAt)
				}
				g.Add(terminal.Cell{Text: strconv.FormatUint(job.Job, 10)}, terminal.Cell{Text: job.Queue}, terminal.Cell{Text: cmp.Or(job.Endpoint, job.URL)}, terminal.Cell{Text: job.State},
					terminal.Cell{Text: strconv.Itoa(job.Attempts)}, terminal.Cell{Text: at}, terminal.Cell{Text: job.Error})
			}
			return len(page.Jobs), page.Next, g.Flush(out.stdout)
		})
	})
}

type jobAddCommand struct {
	apiFlags

	Body     string         `arg:"" help:"What to deliver: JSON."`
	URL      string         `name:"url" placeholder:"URL" help:"Where to; or an endpoint."`
	Endpoint string         `placeholder:"NAME" help:"Where to."`
	Queue    string         `placeholder:"NAME" help:"Through which queue. Default: default."`
	Key      string         `placeholder:"TEXT" help:"Jobs of an endpoint with the same ordering key are delivered in their order."`
	Unique   string         `placeholder:"TEXT" help:"A second job with the same idempotency key within a day is not made."`
	In       *time.Duration `placeholder:"DURATION" help:"Not before so long."`
	Within   *time.Duration `placeholder:"DURATION" help:"Not after so long; then it is a dead letter."`
}

// Help is the text below the usage line.
func (*jobAddCommand) Help() string {
	return `It is POSTed until the receiver takes it.

Example:

    holter jobs add '{"restart":"pump-3"}' --url https://workers.example/restart --in 10m --key pump-3`
}

// Run enqueues the job.
func (c *jobAddCommand) Run(ctx context.Context, out output) error {
	if !json.Valid([]byte(c.Body)) {
		return orUsage("the body is not JSON; write {\"a\":1}, or \"text\" with its quotes")
	}
	if c.In != nil && *c.In < 0 {
		return orUsage(fmt.Sprintf("--in: %v is negative; leave it out for at once", *c.In))
	}
	if c.Within != nil && *c.Within <= 0 {
		return orUsage(fmt.Sprintf("--within: %v is not above 0", *c.Within))
	}
	body := httpapi.NewJob{Queue: c.Queue, Endpoint: c.Endpoint, URL: c.URL, Body: json.RawMessage(c.Body), Key: c.Key, Unique: c.Unique}
	return asked(&c.apiFlags, func(api *apiclient.Client) error {
		if err := c.setTimes(ctx, api, &body); err != nil {
			return err
		}
		var answer struct{ Job uint64 }
		if err := api.Ask(ctx, http.MethodPost, "/v1/jobs", body, &answer); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out.stdout, "job %d\n", answer.Job)
		return err
	})
}

// setTimes counts from now by the server's clock: it is the one that the job is delivered by, and this machine's may be wrong.
func (c *jobAddCommand) setTimes(ctx context.Context, api *apiclient.Client, body *httpapi.NewJob) error {
	if c.In == nil && c.Within == nil {
		return nil
	}
	now, err := apiclient.ServerTime(ctx, api)
	if err != nil {
		return err
	}
	if c.In != nil {
		body.RunAt = now.Add(*c.In)
	}
	if c.Within != nil {
		body.Deadline = now.Add(*c.Within)
	}
	return nil
}

type jobRemoveCommand struct {
	apiFlags

	Job uint64 `arg:"" help:"Its number."`
}

// Run removes the job.
func (c *jobRemoveCommand) Run(ctx context.Context, out output) error {
	number := strconv.FormatUint(c.Job, 10)
	return told(ctx, out, &c.apiFlags, http.MethodDelete, pathOf("jobs", number), "job "+number+" is removed")
}

type jobsPurgeCommand struct {
	apiFlags
	jobChoice
}

// Run removes the jobs.
func (c *jobsPurgeCommand) Run(ctx context.Context, out output) error {
	if c.Queue == "" && c.Endpoint == "" {
		return orUsage("say which jobs to remove, with --queue or --endpoint")
	}
	return counted(ctx, out, &c.apiFlags, http.MethodDelete, "/v1/jobs?"+c.query().Encode(), nil, "jobs are removed")
}

type deadListCommand struct {
	apiFlags
	jobChoice

	Limit int  `default:"100" placeholder:"N" help:"The most dead letters to show; 0 for all. Default: 100."`
	JSON  bool `name:"json" help:"One JSON object a line, with the answer and what was to be delivered."`
}

// Run lists the dead letters.
func (c *deadListCommand) Run(ctx context.Context, out output) error {
	if c.Limit < 0 {
		return orUsage("--limit: it is negative; write 0 for all")
	}
	query := c.query()
	if c.JSON {
		query.Set("bodies", "true")
	}
	g := terminal.NewGrid(terminal.ScreenOf(out.stdout), terminal.Column{Name: "JOB", Right: true}, terminal.Column{Name: "DIED (UTC)"}, terminal.Column{Name: "QUEUE"}, terminal.Column{Name: "ENDPOINT", Least: 8, Inner: true},
		terminal.Column{Name: "MESSAGE", Least: 12, Inner: true}, terminal.Column{Name: "ATTEMPTS", Right: true}, terminal.Column{Name: "ERROR", Least: 16}, terminal.Column{Name: "ANSWER", Least: 8, Spare: true})
	return asked(&c.apiFlags, func(api *apiclient.Client) error {
		return listed(ctx, api, "/v1/dead-letters", query, c.Limit, func(raw json.RawMessage) (int, uint64, error) {
			var page struct {
				DeadLetters []httpapi.DeadLetter `json:"dead_letters"`
				Next        uint64
			}
			if err := json.Unmarshal(raw, &page); err != nil {
				return 0, 0, apiclient.NotOurs(api)
			}
			for _, d := range page.DeadLetters {
				if c.JSON {
					if err := terminal.EncodeJSON(out.stdout, d); err != nil {
						return 0, 0, err
					}
					continue
				}
				g.Add(terminal.Cell{Text: strconv.FormatUint(d.Job, 10)}, terminal.Cell{Text: terminal.Stamp(d.Died)}, terminal.Cell{Text: d.Queue}, terminal.Cell{Text: cmp.Or(d.Endpoint, d.URL)}, terminal.Cell{Text: d.Message},
					terminal.Cell{Text: strconv.Itoa(d.Attempts)}, terminal.Cell{Text: d.Error}, terminal.Cell{Text: d.Response})
			}
			return len(page.DeadLetters), page.Next, g.Flush(out.stdout)
		})
	})
}

// deadChoice are the options that choose dead letters.
type deadChoice struct {
	jobChoice

	Jobs []uint64 `arg:"" optional:"" help:"Their numbers."`
	All  bool     `help:"All of them."`
}

func (c *deadChoice) body() (httpapi.DeadChoice, error) {
	if c.All == (len(c.Jobs) > 0 || c.Queue != "" || c.Endpoint != "") {
		return httpapi.DeadChoice{}, orUsage("say which dead letters, by their numbers, with --queue or --endpoint, or --all")
	}
	return httpapi.DeadChoice{Jobs: c.Jobs, Queue: c.Queue, Endpoint: c.Endpoint, All: c.All}, nil
}

type deadReplayCommand struct {
	apiFlags
	deadChoice
}

// Run lets them be delivered.
func (c *deadReplayCommand) Run(ctx context.Context, out output) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	return counted(ctx, out, &c.apiFlags, http.MethodPost, "/v1/dead-letters/replay", body, "are to be delivered")
}

type deadDiscardCommand struct {
	apiFlags
	deadChoice
}

// Run removes them.
func (c *deadDiscardCommand) Run(ctx context.Context, out output) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	return counted(ctx, out, &c.apiFlags, http.MethodPost, "/v1/dead-letters/discard", body, "are removed")
}
