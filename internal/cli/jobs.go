package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

// jobsCommand manages jobs.
type jobsCommand struct {
	List       jobsListCommand      `cmd:"" default:"withargs" help:"List the jobs that have not ended, or those that ended lately."`
	Get        jobGetCommand        `cmd:"" help:"Show a job, also one that ended lately."`
	Add        jobAddCommand        `cmd:"" help:"Enqueue a job."`
	Import     jobsImportCommand    `cmd:"" help:"Enqueue the jobs of a file."`
	Reschedule jobRescheduleCommand `cmd:"" help:"Deliver a job at once, or later."`
	Move       jobsMoveCommand      `cmd:"" help:"Move jobs to another queue."`
	Delete     jobsDeleteCommand    `cmd:"" help:"Delete jobs."`
}

// laneFlags choose jobs by where they are.
type laneFlags struct {
	Queue    string `query:"queue" placeholder:"NAME" help:"Only of this queue."`
	Endpoint string `query:"endpoint" placeholder:"NAME" help:"Only of this endpoint."`
}

type jobsListCommand struct {
	apiFlags
	laneFlags
	limitFlag
	listCommand

	State string `query:"state" enum:",ready,waiting,blocked,claimed,done,dead,deleted,refused" default:"" placeholder:"STATE" help:"Only jobs in this state: ready, waiting, blocked or claimed; or, from the latest on, done, dead or deleted; or refused."`
	Name  string `query:"name" placeholder:"PATTERN" help:"Only enqueued jobs whose names match, such as report.*."`
	Key   string `query:"ordering_key" placeholder:"TEXT" help:"Only with this ordering key."`
}

// Help is the text below the usage line.
func (*jobsListCommand) Help() string {
	return `Applications write jobs into the table holter_outbox in transactions of their own. A row that
cannot be a job stays there, and is listed with --state refused. Mend it and set its error to NULL, or
delete it, in the database.

Example:

    holter jobs list --state refused`
}

func jobs() list {
	return list{
		columns: []string{"JOB", "NAME,least=8,spare", "QUEUE", "ENDPOINT,least=8,inner", "STATE", "NODE,spare", "FAILED", "ENDED/DUE,spare", "ERROR,least=16,spare"},
		row: rowOf(func(j *httpapi.Job) []any {
			if j.State != "waiting" {
				j.RunAt = time.Time{}
			}
			var number any = j.Job
			if j.Row != 0 {
				number = fmt.Sprintf("row %d", j.Row)
			}
			return []any{number, j.Name, j.Queue, cmp.Or(j.Endpoint, j.URL), j.State, j.Node, j.Attempts, cmp.Or(j.Ended, j.RunAt), j.Error}
		}),
	}
}

type jobAddCommand struct {
	apiFlags
	jsonFlag

	Body     string         `arg:"" help:"What to deliver: JSON."`
	URL      string         `name:"url" placeholder:"URL" help:"Where to deliver it; or use --endpoint."`
	Endpoint string         `placeholder:"NAME" help:"Endpoint to deliver it to. Default: that of the job route."`
	Name     string         `placeholder:"NAME" help:"What kind of job it is, such as report.pdf: job routes go by it, and names take turns."`
	Queue    string         `placeholder:"NAME" help:"Queue of the job. Default: that of the job route, or of the endpoint, or default."`
	Key      string         `placeholder:"TEXT" help:"Ordering key: jobs of an endpoint with the same one are delivered in order."`
	Unique   string         `placeholder:"TEXT" help:"Idempotency key: a second job with it within --window is not created."`
	Window   time.Duration  `placeholder:"DURATION" help:"For how long the idempotency key counts. Default: a day."`
	Debounce bool           `help:"Deliver only the last of the jobs with the idempotency key, --window after it was added."`
	Priority string         `enum:",high,normal,low" default:"" placeholder:"PRIORITY" help:"high, normal or low: higher ones come before others of their queue and endpoint."`
	In       *time.Duration `placeholder:"DURATION" help:"Deliver it after this time."`
	Within   *time.Duration `placeholder:"DURATION" help:"Deliver it within this time; after it, the job becomes a dead letter."`
}

// Help is the text below the usage line.
func (*jobAddCommand) Help() string {
	return `The body is POSTed until the receiver accepts it.

Example:

    holter jobs add '{"restart":"pump-3"}' --url https://workers.example/restart --in 10m --key pump-3`
}

// Run enqueues the job.
func (c *jobAddCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	switch {
	case !json.Valid([]byte(c.Body)):
		return usageError{errors.New("the body is not JSON; write {\"a\":1}, or \"text\" with its quotes")}
	case c.In != nil && *c.In < 0:
		return usageError{fmt.Errorf("--in: %v is negative; leave it out to deliver at once", *c.In)}
	case c.Window < 0 || c.Window > 24*time.Hour:
		return usageError{fmt.Errorf("--window: %v is out of range; want up to 24h, or leave it out for a day", c.Window)}
	case c.Within != nil && *c.Within <= 0:
		return usageError{fmt.Errorf("--within: %v is not above 0", *c.Within)}
	}
	body := httpapi.NewJob{
		Name: c.Name, Queue: c.Queue, Endpoint: c.Endpoint, URL: c.URL, Body: json.RawMessage(c.Body), Key: c.Key, Unique: c.Unique,
		WindowMS: terminal.Milliseconds(c.Window), Debounce: c.Debounce, Priority: c.Priority,
	}
	if err := c.setTimes(ctx, api, &body); err != nil {
		return err
	}
	return ask(ctx, api, out, c.JSON, http.MethodPost, "/v1/jobs", body, func(made *struct{ Job uint64 }) error {
		return say(out.stdout, "job %d", made.Job)
	})
}

// setTimes counts from now by the server's clock: the server delivers by it, and this machine's may
// be wrong.
func (c *jobAddCommand) setTimes(ctx context.Context, api *apiclient.Client, body *httpapi.NewJob) error {
	if c.In == nil && c.Within == nil {
		return nil
	}
	stats, err := apiclient.AskStats(ctx, api)
	if err != nil {
		return err
	}
	if c.In != nil {
		body.RunAt = stats.AsOf.Add(*c.In)
	}
	if c.Within != nil {
		body.Deadline = stats.AsOf.Add(*c.Within)
	}
	return nil
}

type jobsMoveCommand struct {
	apiFlags `json:"-"`

	Jobs  string `json:"jobs" arg:"" name:"pattern" help:"Pattern for the names of the jobs."`
	Queue string `json:"queue" required:"" placeholder:"NAME" help:"Queue to move them to."`
}

// Help is the text below the usage line.
func (*jobsMoveCommand) Help() string {
	return `Jobs that were enqueued and are not being delivered yet are moved. The order of each key holds, also with jobs that stay. For new jobs, set a job route.

Example, for reports that hold up all else:

    holter queues set slow --concurrency 2
    holter job-routes set reports --jobs 'report.*' --queue slow
    holter jobs move 'report.*' --queue slow`
}

// Run moves the jobs.
func (c *jobsMoveCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	return count(ctx, api, out, http.MethodPost, "/v1/jobs/move", c, "job", "moved")
}

type jobsDeleteCommand struct {
	apiFlags
	laneFlags

	Jobs []uint64 `arg:"" optional:"" name:"job" help:"Their numbers."`
}

// Help is the text below the usage line.
func (*jobsDeleteCommand) Help() string {
	return `A job that is being delivered may arrive nevertheless.

Examples:

    holter jobs delete 17
    holter jobs delete --queue slow`
}

// Run deletes the jobs.
func (c *jobsDeleteCommand) Run(ctx context.Context, command *kong.Context, api *apiclient.Client, out output) error {
	query := queryOf(command)
	if (len(c.Jobs) > 0) == (len(query) > 0) {
		return usageError{errors.New("say which jobs, either by their numbers or with --queue or --endpoint")}
	}
	for _, job := range c.Jobs {
		if err := tell(ctx, api, out, "jobs", strconv.FormatUint(job, 10), http.MethodDelete, "", nil, "deleted"); err != nil {
			return err
		}
	}
	if len(c.Jobs) > 0 {
		return nil
	}
	return count(ctx, api, out, http.MethodDelete, "/v1/jobs?"+query.Encode(), nil, "job", "deleted")
}
