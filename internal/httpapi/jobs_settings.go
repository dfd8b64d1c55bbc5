package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/playbook"
)

type nameInput struct {
	Name string `path:"name" maxLength:"64" doc:"Its name."`
}

// QueueSettings are the settings of a queue. Fields that are left out have defaults.
type QueueSettings struct {
	Concurrency int     `json:"concurrency,omitempty" minimum:"1" doc:"Deliveries at a time. Default: 32."`
	Rate        float64 `json:"rate,omitempty" minimum:"0" doc:"Deliveries per second. Default: 0, no limit."`
	Attempts    int     `json:"attempts,omitempty" minimum:"1" doc:"Attempts after which a job is a dead letter. Default: 100."`
	Backoff     float64 `json:"backoff_ms,omitempty" minimum:"1" doc:"Upper bound of the random pause before the first retry; it doubles with each retry. Default: 1 s."`
	MaxBackoff  float64 `json:"max_backoff_ms,omitempty" minimum:"1" doc:"Longest pause. Default: 1 h."`
	MaxAge      float64 `json:"max_age_ms,omitempty" minimum:"1000" doc:"Age after which a job is a dead letter. Default: 72 h."`
	MaxJobs     int64   `json:"max_jobs,omitempty" minimum:"1" doc:"Jobs beyond which it takes no more. Default: 10,000,000."`
	Paused      bool    `json:"paused,omitempty" doc:"No delivery begins."`
}

// Queue is a queue with its counts.
type Queue struct {
	QueueSettings

	Name      string `json:"name"`
	Jobs      int64  `json:"jobs" doc:"Jobs that are not done."`
	Running   int    `json:"running" doc:"Deliveries in progress."`
	Delivered uint64 `json:"delivered" doc:"Jobs, since the server started."`
	Retried   uint64 `json:"retried" doc:"Failed attempts that are followed by another, since the server started."`
	Dead      uint64 `json:"dead" doc:"Jobs that became dead letters since the server started."`

	OldestAge *float64 `json:"oldest_age_ms,omitempty" doc:"Age of the oldest job that is not done, as found some seconds ago; 0 if there is none. Until a time of their own (run_at, a playbook's wait) jobs have no age. Left out until it was looked for, after a start."`
}

type queueList struct {
	Queues []Queue `json:"queues"`
}

func settingsOf(q *jobs.Queue) QueueSettings {
	return QueueSettings{
		Concurrency: q.Concurrency, Rate: q.Rate, Attempts: q.Attempts, Backoff: milliseconds(q.Backoff), MaxBackoff: milliseconds(q.MaxBackoff),
		MaxAge: milliseconds(q.MaxAge), MaxJobs: q.MaxJobs, Paused: q.Paused,
	}
}

// queue returns the queue with these settings.
func (s *QueueSettings) queue(name string) jobs.Queue {
	q := jobs.NewQueue(name)
	q.Concurrency, q.Attempts, q.MaxJobs = cmp.Or(s.Concurrency, q.Concurrency), cmp.Or(s.Attempts, q.Attempts), cmp.Or(s.MaxJobs, q.MaxJobs)
	q.Backoff, q.MaxBackoff = cmp.Or(fromMilliseconds(s.Backoff), q.Backoff), cmp.Or(fromMilliseconds(s.MaxBackoff), q.MaxBackoff)
	q.MaxAge = cmp.Or(fromMilliseconds(s.MaxAge), q.MaxAge)
	q.Rate, q.Paused = s.Rate, s.Paused
	return q
}

// EndpointSettings are the settings of an endpoint.
type EndpointSettings struct {
	Kind     string          `json:"kind" doc:"slack, teams, discord, telegram, ntfy, email, pagerduty, opsgenie, webhook, mqtt, nats, kafka, log, command or playbook; command only if the server allows it."`
	Target   string          `json:"target" required:"false" doc:"URL of a webhook, a server or a broker, name of a log file or of a playbook, or a program. Of slack, teams, discord and ntfy it is a secret, of which only the host is shown; the query of any is hidden. Telegram, pagerduty and opsgenie need none."`
	Settings json.RawMessage `json:"settings,omitempty" doc:"Settings of its kind; all kinds have timeout_ms and batch. Left out when an endpoint is changed: as before. A secret is shown as hidden; writing that keeps it, unless kind or target's scheme, host or port change. A secret may be credential:NAME, a file in the server's CREDENTIALS_DIRECTORY."`
	Queue    string          `json:"queue,omitempty" doc:"Queue of the jobs and routes to it that name none. Left out: default."`
}

// Endpoint is an endpoint with its state and counts.
type Endpoint struct {
	EndpointSettings

	Name      string `json:"name"`
	State     string `json:"state" enum:"closed,open,half-open,disabled,broken" doc:"closed: deliveries are made; open: deliveries failed repeatedly and pause; half-open: one delivery is tried; disabled: no deliveries are made, its jobs wait, and events create no jobs for it; broken: its settings cannot be used."`
	Note      string `json:"note,omitempty" doc:"Reason why it is disabled or broken."`
	Delivered uint64 `json:"delivered" doc:"Messages, since the server started."`
	Failed    uint64 `json:"failed" doc:"Attempts that failed, since the server started."`
}

// EndpointTest is what came of a test message.
type EndpointTest struct {
	Delivered bool    `json:"delivered"`
	Status    int     `json:"status,omitempty" doc:"Of the response: of HTTP or SMTP, or the exit code of a program."`
	Response  string  `json:"response,omitempty" doc:"Its beginning."`
	Error     string  `json:"error,omitempty" doc:"Why it was not delivered."`
	Took      float64 `json:"took_ms"`
}

type endpointList struct {
	Endpoints []Endpoint `json:"endpoints"`
}

// RouteSettings choose the events that become jobs of a queue and endpoint. An event must match all
// fields.
type RouteSettings struct {
	Types    []string `json:"types,omitempty" doc:"Types of events, or patterns such as device.*; left out: all."`
	Reasons  []string `json:"reasons,omitempty" doc:"Reasons of device.offline, such as silence; left out: all events."`
	Group    string   `json:"group,omitempty" doc:"Pattern for the name of the group. Left out: all."`
	Device   string   `json:"device,omitempty" doc:"Pattern for the device's id, such as site-7/*. Left out: all devices, sources and groups."`
	All      bool     `json:"all,omitempty" doc:"Also suppressed events: those of devices in maintenance, and those of members of a group that has an outage. Pagerduty and opsgenie always get those that may close an incident."`
	Queue    string   `json:"queue,omitempty" doc:"Left out: that of the endpoint."`
	Endpoint string   `json:"endpoint"`
	Paused   bool     `json:"paused,omitempty" doc:"It creates no jobs."`
}

// Route is a route.
type Route struct {
	RouteSettings

	Name string `json:"name"`
}

type routeList struct {
	Routes []Route `json:"routes"`
}

func (a *API) registerDelivery(api huma.API) {
	if a.config.Delivery == nil {
		return
	}
	a.registerJobs(api)
	a.registerDead(api)
	a.registerJobRoutes(api)
	const missing, used, changed = http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed
	engine := a.config.Delivery
	serve(a, api, operation("delivery", "list-queues", "GET /v1/queues", "List the queues", "All of them, with counts."), a.listQueues)
	serveTagged(a, api, operation("delivery", "get-queue", "GET /v1/queues/{name}", "Show a queue", "With its counts.", missing), a.queueSettings, a.getQueue)
	serveEmpty(a, api, operation("delivery", "put-queue", "PUT /v1/queues/{name}", "Make or change a queue", "It takes effect at once.", changed), a.putQueue)
	a.serveChange(api, operation("delivery", "delete-queue", "DELETE /v1/queues/{name}", "Delete a queue",
		"409 while it has jobs or dead letters, or a route leads to it.", missing, used), "queue deleted", a.queueSettings, engine.DeleteQueue)
	a.serveChange(api, operation("delivery", "pause-queue", "PUT /v1/queues/{name}/pause", "Pause a queue",
		"No delivery begins; jobs are kept, and more may come.", missing), "queue paused", a.queueSettings,
		func(ctx context.Context, name string) error { return engine.PauseQueue(ctx, name, true) })
	a.serveChange(api, operation("delivery", "resume-queue", "DELETE /v1/queues/{name}/pause", "Resume a queue", "Its deliveries begin again.", missing), "queue resumed", a.queueSettings,
		func(ctx context.Context, name string) error { return engine.PauseQueue(ctx, name, false) })

	serve(a, api, operation("delivery", "list-endpoints", "GET /v1/endpoints", "List the endpoints", "All of them, with state and counts. Secrets are hidden."), a.listEndpoints)
	serveTagged(a, api, operation("delivery", "get-endpoint", "GET /v1/endpoints/{name}", "Show an endpoint", "Its secrets are hidden.", missing),
		a.endpointSettings, a.getEndpoint)
	serveEmpty(a, api, operation("delivery", "put-endpoint", "PUT /v1/endpoints/{name}", "Make or change an endpoint",
		"To change the secret of a webhook, give the new one as secret and the old one as previous_secret: it signs with both until the old one is left out.", used, changed), a.putEndpoint)
	a.serveChange(api, operation("delivery", "delete-endpoint", "DELETE /v1/endpoints/{name}", "Delete an endpoint",
		"409 while it has jobs or dead letters, or a route leads to it.", missing, used), "endpoint deleted", a.endpointSettings, engine.DeleteEndpoint)
	a.serveChange(api, operation("delivery", "disable-endpoint", "PUT /v1/endpoints/{name}/disabled", "Disable an endpoint",
		"Its jobs wait. Events make no jobs for it meanwhile, and are counted in holter_delivery_dropped_total; to miss nothing, pause the queue instead.",
		missing), "endpoint disabled", a.endpointSettings, func(ctx context.Context, name string) error {
		return engine.EnableEndpoint(ctx, name, false, "by an operator")
	})
	a.serveChange(api, operation("delivery", "enable-endpoint", "DELETE /v1/endpoints/{name}/disabled", "Enable an endpoint", "Its jobs are delivered again.", missing), "endpoint enabled", a.endpointSettings,
		func(ctx context.Context, name string) error { return engine.EnableEndpoint(ctx, name, true, "") })

	serve(a, api, operation("delivery", "test-endpoint", "POST /v1/endpoints/{name}/test", "Send a test message to an endpoint",
		"One message at once, also to a disabled endpoint; the answer says what came of it. It makes no job. For pagerduty and opsgenie an incident is opened and closed again.",
		missing), a.testEndpoint)

	serve(a, api, operation("delivery", "list-routes", "GET /v1/routes", "List the routes",
		"An event that a route matches becomes a job, one for each endpoint; of several routes to an endpoint, the first counts."), a.listRoutes)
	serveTagged(a, api, operation("delivery", "get-route", "GET /v1/routes/{name}", "Show a route", "The ETag stands for its settings.", missing), a.routeSettings, a.getRoute)
	serveEmpty(a, api, operation("delivery", "put-route", "PUT /v1/routes/{name}", "Make or change a route", "It takes effect with the next event.", missing, used, changed), a.putRoute)
	a.serveChange(api, operation("delivery", "delete-route", "DELETE /v1/routes/{name}", "Delete a route", "Its jobs stay.", missing), "route deleted", a.routeSettings, engine.DeleteRoute)
	a.serveChange(api, operation("delivery", "pause-route", "PUT /v1/routes/{name}/pause", "Pause a route", "It creates no jobs.", missing), "route paused", a.routeSettings,
		func(ctx context.Context, name string) error { return engine.PauseRoute(ctx, name, true) })
	a.serveChange(api, operation("delivery", "resume-route", "DELETE /v1/routes/{name}/pause", "Resume a route", "It creates jobs again, from the next event on.", missing), "route resumed", a.routeSettings,
		func(ctx context.Context, name string) error { return engine.PauseRoute(ctx, name, false) })
}

func (a *API) listQueues(context.Context, *struct{}) (queueList, error) {
	return queueList{a.viewQueues(a.config.Delivery.Settings().Queues...)}, nil
}

func (a *API) getQueue(_ context.Context, in *nameInput) (Queue, error) {
	q, err := a.config.Delivery.Queue(in.Name)
	return a.viewQueues(q)[0], err
}

func (a *API) viewQueues(queues ...jobs.Queue) []Queue {
	stats := make(map[string]delivery.QueueStats)
	for _, st := range a.config.Delivery.Stats().Queues {
		stats[st.Name] = st
	}
	return mapped(queues, func(q *jobs.Queue) Queue {
		st := stats[q.Name]
		view := Queue{
			QueueSettings: settingsOf(q), Name: q.Name, Jobs: st.Jobs, Running: st.Running, Delivered: st.Delivered, Retried: st.Retried, Dead: st.Dead,
		}
		if st.OldestKnown {
			age := milliseconds(st.Age(time.Now()))
			view.OldestAge = &age
		}
		return view
	})
}

func (a *API) putQueue(ctx context.Context, in *putInput[QueueSettings]) error {
	return a.changedNamed(ctx, "queue set", in.Name, a.edit(ctx, in.Name, condition{in.IfMatch, in.IfNoneMatch}, a.queueSettings, func() error {
		return a.config.Delivery.PutQueue(ctx, in.Body.queue(in.Name))
	}))
}

func (a *API) listEndpoints(context.Context, *struct{}) (endpointList, error) {
	return endpointList{a.viewEndpoints(a.config.Delivery.Settings().Endpoints...)}, nil
}

func (a *API) getEndpoint(_ context.Context, in *nameInput) (Endpoint, error) {
	p, err := a.config.Delivery.Endpoint(in.Name)
	return a.viewEndpoints(p)[0], err
}

func (a *API) viewEndpoints(endpoints ...jobs.Endpoint) []Endpoint {
	stats := make(map[string]delivery.EndpointStats)
	for _, st := range a.config.Delivery.Stats().Endpoints {
		stats[st.Name] = st
	}
	names := namesOf(a.config.Delivery)
	return mapped(endpoints, func(p *jobs.Endpoint) Endpoint {
		st := stats[p.Name]
		return Endpoint{
			EndpointSettings: EndpointSettings{Kind: p.Kind, Target: delivery.HideTarget(p.Kind, p.Target), Settings: delivery.HideSecrets(p.Settings), Queue: names.queues[p.Queue]},
			Name:             p.Name, State: st.State, Note: st.Note, Delivered: st.Delivered, Failed: st.Failed,
		}
	})
}

// errOfPlaybook is the problem of a change to the endpoint or the route of a playbook.
func errOfPlaybook(name string) error {
	return huma.Error409Conflict(fmt.Sprintf("%.80q belongs to a playbook; change the playbook", name))
}

func (a *API) putEndpoint(ctx context.Context, in *putInput[EndpointSettings]) error {
	if strings.HasPrefix(in.Name, playbook.EndpointPrefix) {
		return errOfPlaybook(in.Name)
	}
	queue, err := a.queueNum(in.Body.Queue)
	if err != nil {
		return err
	}
	p := jobs.Endpoint{Name: in.Name, Kind: in.Body.Kind, Target: in.Body.Target, Settings: in.Body.Settings, Queue: queue}
	return a.changedNamed(ctx, "endpoint set", in.Name, a.edit(ctx, in.Name, condition{in.IfMatch, in.IfNoneMatch}, a.endpointSettings, func() error {
		return a.config.Delivery.PutEndpoint(ctx, p)
	}))
}

func (a *API) testEndpoint(ctx context.Context, in *nameInput) (EndpointTest, error) {
	start := time.Now()
	r, err := a.config.Delivery.Test(ctx, in.Name)
	if err != nil {
		return EndpointTest{}, err
	}
	a.logChange(ctx, "endpoint tested", "name", in.Name, "delivered", r.Err == nil && r.Again.IsZero())
	out := EndpointTest{Delivered: true, Status: r.Status, Response: r.Response, Took: milliseconds(time.Since(start))}
	switch {
	case r.Err != nil:
		out.Delivered, out.Error = false, r.Err.Error()
	case !r.Again.IsZero():
		out.Delivered, out.Error = false, fmt.Sprintf("its rate allows no message before %s; try again then", r.Again.UTC().Format(time.RFC3339))
	}
	return out, nil
}

// queueNum returns the number of a queue; 0 for no name.
func (a *API) queueNum(name string) (uint32, error) {
	if name == "" {
		return 0, nil
	}
	q, err := a.config.Delivery.Queue(name)
	return q.Num, err
}

func (a *API) listRoutes(context.Context, *struct{}) (routeList, error) {
	return routeList{a.viewRoutes(a.config.Delivery.Settings().Routes...)}, nil
}

func (a *API) getRoute(_ context.Context, in *nameInput) (Route, error) {
	r, err := a.config.Delivery.Route(in.Name)
	return a.viewRoutes(r)[0], err
}

func (a *API) viewRoutes(routes ...jobs.Route) []Route {
	names := namesOf(a.config.Delivery)
	return mapped(routes, func(r *jobs.Route) Route {
		return Route{Name: r.Name, RouteSettings: RouteSettings{
			Types: r.Types, Reasons: r.Reasons, Group: r.Group, Device: r.Device, All: r.Suppressed, Queue: names.queues[r.Queue],
			Endpoint: names.endpoints[r.Endpoint], Paused: r.Paused,
		}}
	})
}

func (a *API) putRoute(ctx context.Context, in *putInput[RouteSettings]) error {
	if strings.HasPrefix(in.Name, playbook.EndpointPrefix) {
		return errOfPlaybook(in.Name)
	}
	b := &in.Body
	p, err := a.config.Delivery.Endpoint(b.Endpoint)
	if err != nil {
		return err
	}
	q, err := a.config.Delivery.Queue(cmp.Or(b.Queue, namesOf(a.config.Delivery).queues[p.Queue], jobs.DefaultQueue))
	if err != nil {
		return err
	}
	r := jobs.Route{
		Name: in.Name, Types: b.Types, Reasons: b.Reasons, Group: b.Group, Device: b.Device, Suppressed: b.All, Queue: q.Num, Endpoint: p.Num, Paused: b.Paused,
	}
	return a.changedNamed(ctx, "route set", in.Name, a.edit(ctx, in.Name, condition{in.IfMatch, in.IfNoneMatch}, a.routeSettings, func() error {
		return a.config.Delivery.PutRoute(ctx, r)
	}))
}
