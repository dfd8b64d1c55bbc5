package httpapi

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/internal/jobs"
)

// JobRouteSettings choose jobs by their names, and say where they go. What the sender of a job names
// itself counts more.
type JobRouteSettings struct {
	Jobs     string `json:"jobs" minLength:"1" doc:"Pattern for the names of jobs, such as report.*; * for all. The longest one that matches counts."`
	Queue    string `json:"queue,omitempty" doc:"Left out: that of the endpoint."`
	Endpoint string `json:"endpoint,omitempty" doc:"Endpoint of jobs that have neither an endpoint nor a URL. Left out: none."`
	Weight   int    `json:"weight,omitempty" minimum:"1" maximum:"100" doc:"Deliveries that a name may have at a time, and turns that it gets, for one of each name without a weight in the same queue and endpoint. Default: 1."`
}

// JobRoute is a job route.
type JobRoute struct {
	JobRouteSettings

	Name string `json:"name"`
}

type jobRouteList struct {
	JobRoutes []JobRoute `json:"job_routes"`
}

func (a *API) registerJobRoutes(api huma.API) {
	const missing, changed = http.StatusNotFound, http.StatusPreconditionFailed
	serve(a, api, operation("delivery", "list-job-routes", "GET /v1/job-routes", "List the job routes",
		"A job route gives the jobs whose names match its pattern a queue and an endpoint."), a.listJobRoutes)
	serveTagged(a, api, operation("delivery", "get-job-route", "GET /v1/job-routes/{name}", "Show a job route", "The ETag stands for its settings.", missing),
		a.jobRouteSettings, a.getJobRoute)
	serveEmpty(a, api, operation("delivery", "put-job-route", "PUT /v1/job-routes/{name}", "Make or change a job route",
		"It takes effect with the next job. Jobs that go to another queue than before wait for those with the same ordering keys in the old one; POST /v1/jobs/move moves these, too.",
		missing, changed), a.putJobRoute)
	a.serveChange(api, operation("delivery", "delete-job-route", "DELETE /v1/job-routes/{name}", "Delete a job route", "Its jobs stay.", missing),
		"job route deleted", a.jobRouteSettings, a.config.Delivery.DeleteJobRoute)
}

func (a *API) listJobRoutes(context.Context, *struct{}) (jobRouteList, error) {
	return jobRouteList{a.viewJobRoutes(a.config.Delivery.Settings().JobRoutes...)}, nil
}

func (a *API) getJobRoute(_ context.Context, in *nameInput) (JobRoute, error) {
	r, err := a.config.Delivery.JobRoute(in.Name)
	return a.viewJobRoutes(r)[0], err
}

func (a *API) viewJobRoutes(routes ...jobs.JobRoute) []JobRoute {
	names := namesOf(a.config.Delivery)
	return mapped(routes, func(r *jobs.JobRoute) JobRoute {
		return JobRoute{Name: r.Name, JobRouteSettings: JobRouteSettings{
			Jobs: r.Jobs, Queue: names.queues[r.Queue], Endpoint: names.endpoints[r.Endpoint], Weight: r.Weight,
		}}
	})
}

func (a *API) putJobRoute(ctx context.Context, in *putInput[JobRouteSettings]) error {
	b := &in.Body
	queue, err := a.queueNum(b.Queue)
	if err != nil {
		return err
	}
	r := jobs.JobRoute{Name: in.Name, Jobs: b.Jobs, Queue: queue, Weight: cmp.Or(b.Weight, 1)}
	if b.Endpoint != "" {
		p, err := a.config.Delivery.Endpoint(b.Endpoint)
		if err != nil {
			return err
		}
		r.Endpoint = p.Num
	}
	return a.changedNamed(ctx, "job route set", in.Name, a.edit(ctx, in.Name, condition{in.IfMatch, in.IfNoneMatch}, a.jobRouteSettings, func() error {
		return a.config.Delivery.PutJobRoute(ctx, r)
	}))
}
