package main

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
func listed(ctx context.Context, api *client, path string, query url.Values, limit int, show func(raw json.RawMessage) (n int, next uint64, err error)) error {
	return pagedBy(ctx, api, path, "after", query, limit, show)
}

// pagedBy is listed where another parameter says which page.
func pagedBy(
	ctx context.Context, api *client, path, page string, query url.Values, limit int, show func(raw json.RawMessage) (n int, next uint64, err error),
) error {
	for shown := 0; ; {
		most := 1000
		if limit > 0 {
			most = min(most, limit-shown)
		}
		query.Set("limit", strconv.Itoa(most))
		var raw json.RawMessage
		if err := api.get(ctx, path, query, &raw); err != nil {
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
	return asked(flags, func(api *client) error {
		var answer struct{ Number int }
		if err := api.ask(ctx, method, path, body, &answer); err != nil {
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
	g := newGrid(screenOf(out.stdout), column{name: "JOB", right: true}, column{name: "QUEUE"}, column{name: "ENDPOINT", least: 8, inner: true}, column{name: "STATE"},
		column{name: "FAILED", right: true}, column{name: "AT", spare: true}, column{name: "ERROR", least: 16, spare: true})
	return asked(&c.apiFlags, func(api *client) error {
		return listed(ctx, api, "/v1/jobs", c.query(), c.Limit, func(raw json.RawMessage) (int, uint64, error) {
			var page struct {
				Jobs []httpapi.Job
				Next uint64
			}
			if err := json.Unmarshal(raw, &page); err != nil {
				return 0, 0, errNotOurs(api)
			}
			for _, job := range page.Jobs {
				if c.JSON {
					if err := encodeJSON(out.stdout, job); err != nil {
						return 0, 0, err
					}
					continue
				}
				at := ""
				if job.State == "waiting" {
					at = stamp(job.RunAt)
				}
				g.add(cell{text: strconv.FormatUint(job.Job, 10)}, cell{text: job.Queue}, cell{text: cmp.Or(job.Endpoint, job.URL)}, cell{text: job.State},
					cell{text: strconv.Itoa(job.Attempts)}, cell{text: at}, cell{text: job.Error})
			}
			return len(page.Jobs), page.Next, g.flush(out.stdout)
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
	return asked(&c.apiFlags, func(api *client) error {
		if err := c.setTimes(ctx, api, &body); err != nil {
			return err
		}
		var answer struct{ Job uint64 }
		if err := api.ask(ctx, http.MethodPost, "/v1/jobs", body, &answer); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out.stdout, "job %d\n", answer.Job)
		return err
	})
}

// setTimes counts from now by the server's clock: it is the one that the job is delivered by, and this machine's may be wrong.
func (c *jobAddCommand) setTimes(ctx context.Context, api *client, body *httpapi.NewJob) error {
	if c.In == nil && c.Within == nil {
		return nil
	}
	now, err := serverTime(ctx, api)
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
	g := newGrid(screenOf(out.stdout), column{name: "JOB", right: true}, column{name: "DIED (UTC)"}, column{name: "QUEUE"}, column{name: "ENDPOINT", least: 8, inner: true},
		column{name: "MESSAGE", least: 12, inner: true}, column{name: "ATTEMPTS", right: true}, column{name: "ERROR", least: 16}, column{name: "ANSWER", least: 8, spare: true})
	return asked(&c.apiFlags, func(api *client) error {
		return listed(ctx, api, "/v1/dead-letters", query, c.Limit, func(raw json.RawMessage) (int, uint64, error) {
			var page struct {
				DeadLetters []httpapi.DeadLetter `json:"dead_letters"`
				Next        uint64
			}
			if err := json.Unmarshal(raw, &page); err != nil {
				return 0, 0, errNotOurs(api)
			}
			for _, d := range page.DeadLetters {
				if c.JSON {
					if err := encodeJSON(out.stdout, d); err != nil {
						return 0, 0, err
					}
					continue
				}
				g.add(cell{text: strconv.FormatUint(d.Job, 10)}, cell{text: stamp(d.Died)}, cell{text: d.Queue}, cell{text: cmp.Or(d.Endpoint, d.URL)}, cell{text: d.Message},
					cell{text: strconv.Itoa(d.Attempts)}, cell{text: d.Error}, cell{text: d.Response})
			}
			return len(page.DeadLetters), page.Next, g.flush(out.stdout)
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
