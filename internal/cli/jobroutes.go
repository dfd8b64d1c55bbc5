package cli

import (
	"cmp"
	"context"
	"errors"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/httpapi"
)

// jobRoutesCommand manages job routes.
type jobRoutesCommand struct {
	List   plainList          `cmd:"" default:"withargs" help:"List the job routes."`
	Get    getCommand         `cmd:"" help:"Show a job route."`
	Set    jobRouteSetCommand `cmd:"" help:"Create or change a job route."`
	Delete changeCommand      `cmd:"" help:"Delete a job route; its jobs stay."`
}

func jobRoutes() list {
	return list{
		key:     "job_routes",
		columns: []string{"JOB ROUTE", "JOBS,least=8", "QUEUE", "ENDPOINT", "WEIGHT"},
		row: rowOf(func(r *httpapi.JobRoute) []any {
			return []any{r.Name, r.Jobs, cmp.Or(r.Queue, "-"), cmp.Or(r.Endpoint, "-"), r.Weight}
		}),
	}
}

type jobRouteSetCommand struct {
	apiFlags `json:"-"`

	Name     string  `json:"-" arg:"" help:"Name of the job route."`
	Jobs     *string `json:"jobs,omitempty" placeholder:"PATTERN" help:"Names of the jobs, such as report.*; required for a new job route. The longest pattern that matches counts."`
	Queue    *string `json:"queue,omitempty" placeholder:"NAME" help:"Queue of jobs that name none. Default: that of the endpoint."`
	Endpoint *string `json:"endpoint,omitempty" placeholder:"NAME" help:"Endpoint of jobs that have neither an endpoint nor a URL. Default: none."`
	Weight   *int    `json:"weight,omitempty" placeholder:"N" help:"Deliveries and turns of each name, for one of a name without a weight. Default: 1."`
}

// Help is the text below the usage line.
func (*jobRouteSetCommand) Help() string {
	return `Options that are left out keep their values. What the sender of a job names itself counts more. "holter jobs move" moves the jobs that wait already.

Examples:

    holter job-routes set reports --jobs 'report.*' --queue slow
    holter job-routes set mail --jobs mail --endpoint mailer --weight 3`
}

// Run creates or changes the job route.
func (c *jobRouteSetCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	return set(ctx, api, out, "job-routes", c.Name, c, func(*httpapi.JobRouteSettings) error {
		if c.Jobs == nil {
			return usageError{errors.New("--jobs: a new job route needs a pattern for the names of jobs, such as report.*")}
		}
		return nil
	})
}
