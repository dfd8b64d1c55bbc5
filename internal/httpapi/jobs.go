package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/liveness"
)

// NewJob is the request for a job.
type NewJob struct {
	Name     string          `json:"name,omitempty" doc:"What kind of job it is, such as report.pdf. Job routes go by it, and new jobs of a queue and endpoint with different names take turns. Left out: none."`
	Queue    string          `json:"queue,omitempty" doc:"Name of the queue. Left out: that of the job route, else that of the endpoint, else default."`
	Endpoint string          `json:"endpoint,omitempty" doc:"Name of the endpoint to deliver to. Either this or url; left out with url: that of the job route."`
	URL      string          `json:"url,omitempty" doc:"URL to POST the body to, without a signature. Either this or endpoint."`
	Body     json.RawMessage `json:"body" doc:"The JSON to deliver."`
	RunAt    time.Time       `json:"run_at,omitzero" doc:"Earliest time to deliver it. Left out: at once."`
	Deadline time.Time       `json:"deadline,omitzero" doc:"Latest time to deliver it; then it becomes a dead letter. Left out: the queue's max_age."`
	Key      string          `json:"ordering_key,omitempty" doc:"Jobs of a queue and endpoint with the same key are delivered in their order. Left out: in any order."`
	Unique   string          `json:"idempotency_key,omitempty" doc:"A second job with the same key within window_ms is not created; the answer is the number of the first."`
	WindowMS float64         `json:"window_ms,omitempty" minimum:"0" maximum:"86400000" doc:"For how long the idempotency key counts. Left out: a day."`
	Debounce bool            `json:"debounce,omitempty" doc:"Deliver it window_ms, 2 hours at most, after the last request with its idempotency key, and only the body of that one; at the latest ten windows after the first."`
	Priority string          `json:"priority,omitempty" enum:"high,normal,low" doc:"Jobs of a higher priority come before others of their queue and endpoint. Left out: normal."`
}

func (j *NewJob) request() delivery.Request {
	priority, _ := jobs.ParsePriority(j.Priority) // which the schema has checked
	return delivery.Request{
		Name: j.Name, Queue: j.Queue, Endpoint: j.Endpoint, URL: j.URL, Body: j.Body, RunAt: j.RunAt, Deadline: j.Deadline, Key: j.Key, Unique: j.Unique,
		Window: fromMilliseconds(j.WindowMS), Debounce: j.Debounce, Priority: priority,
	}
}

// NewJobs is the request for many jobs.
type NewJobs struct {
	Jobs []NewJob `json:"jobs" minItems:"1" maxItems:"1000" doc:"The jobs."`
}

type bodyInput[B any] struct{ Body B }

type jobNumber struct {
	Job uint64 `json:"job" doc:"Its number."`
}

type jobNumbers struct {
	Jobs []uint64 `json:"jobs" doc:"Their numbers, in the order of the request."`
}

// Job is a job as it is shown.
type Job struct {
	Job      uint64    `json:"job,omitempty" doc:"Its number; left out for a row that was refused."`
	Row      uint64    `json:"row,omitempty" doc:"Of a row that was refused: its id in the table holter_outbox."`
	Name     string    `json:"name,omitempty"`
	Priority string    `json:"priority,omitempty" enum:"high,low" doc:"Left out if it is normal, and for a job that ended."`
	Queue    string    `json:"queue"`
	Endpoint string    `json:"endpoint,omitempty" doc:"Left out for a job with a URL of its own."`
	URL      string    `json:"url,omitempty" doc:"Target, without its query; left out for a job of an endpoint."`
	Key      string    `json:"ordering_key,omitempty" doc:"Left out for a job of an event."`
	State    string    `json:"state" enum:"ready,waiting,blocked,claimed,done,dead,deleted,refused" doc:"ready: to be delivered; waiting: until run_at; blocked: by another one with its ordering key, which waits, perhaps where its route led before; claimed: taken into memory, it is being delivered (see started) or is about to be; done: it was delivered; dead: it became a dead letter; deleted: by somebody, before it was delivered; refused: it is no job, but a row that an application wrote into the table holter_outbox, where it stays with its error."`
	Node     string    `json:"node,omitempty" doc:"Server that has claimed it, or had: the judge. A job is claimed by no server that judges no longer."`
	Term     int64     `json:"term,omitempty" doc:"Term of the judge that has claimed it."`
	Event    uint64    `json:"event,omitempty" doc:"Offset of the event that it reports."`
	Attempts int       `json:"attempts" doc:"Failed attempts."`
	Created  time.Time `json:"created,omitzero" doc:"When it was made, or its first run_at if that is later: its age counts from then. Left out for a job of an event."`
	RunAt    time.Time `json:"run_at,omitzero" doc:"Until when it waits. Left out for a claimed job, and for one that ended."`
	Leased   time.Time `json:"leased_until,omitzero" doc:"Of a claimed job: when it is claimed again if its delivery was lost. While it goes on, this is put off."`
	Started  time.Time `json:"started,omitzero" doc:"When its delivery began that is in progress, or was the last."`
	Ended    time.Time `json:"ended,omitzero" doc:"When it was delivered, became a dead letter or was deleted."`
	TookMS   float64   `json:"took_ms,omitempty" doc:"From started to ended."`
	Error    string    `json:"error,omitempty" doc:"Error of the last attempt that failed."`
	Status   int       `json:"status,omitempty" doc:"Status of the last answer, of a job that ended."`
	Response string    `json:"response,omitempty" doc:"The first 1,000 bytes of that answer."`
}

type jobsInput struct {
	State    string `query:"state" enum:"ready,waiting,blocked,claimed,done,dead,deleted,refused" doc:"Only in this state. Left out: all that have not ended."`
	Name     string `query:"name" doc:"Only enqueued jobs whose names match this pattern, such as report.*; * for all."`
	Queue    string `query:"queue" doc:"Only of this queue."`
	Endpoint string `query:"endpoint" doc:"Only of this endpoint."`
	Key      string `query:"ordering_key" doc:"Only with this ordering key; that of an event is its device."`
	After    uint64 `query:"after" doc:"Where to go on: next of the previous page."`
	Limit    int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Page size."`
}

type jobPage struct {
	Jobs []Job  `json:"jobs"`
	Next uint64 `json:"next,omitempty" doc:"Value of after for the next page; left out on the last page."`
}

type oneJobInput struct {
	Job uint64 `path:"job" doc:"The job's number."`
}

type rescheduleInput struct {
	Job  uint64 `path:"job" doc:"The job's number."`
	Body struct {
		RunAt time.Time `json:"run_at,omitzero" doc:"Until when it is to wait. Left out: it is delivered at once."`
	}
}

type deleteJobsInput struct {
	Queue    string `query:"queue" doc:"Jobs of this queue."`
	Endpoint string `query:"endpoint" doc:"Jobs of this endpoint."`
}

// JobMove says which jobs to move to which queue.
type JobMove struct {
	Jobs  string `json:"jobs" minLength:"1" doc:"Pattern for their names, such as report.*; * for all."`
	Queue string `json:"queue" doc:"Queue to move them to."`
}

type count struct {
	Number int `json:"number" doc:"Number of them."`
}

const (
	jobsPath     = "/v1/jobs"
	bulkJobsPath = jobsPath + "/bulk"
	maxJobBody   = delivery.MaxBody + 64<<10      // of a request: the body to deliver, and the other fields
	maxBulkBody  = delivery.MaxBulkBodies + 2<<20 // the same for many jobs
)

func (a *API) registerJobs(api huma.API) {
	add := operation("delivery", "enqueue-job", "POST "+jobsPath, "Enqueue a job",
		"Its body is POSTed until the receiver answers with a status from 200 to 299, by the rules of the queue. The job is stored when this is answered. "+
			"The body may have 1 MiB, and the request 64 KiB more.", http.StatusNotFound)
	add.MaxBodyBytes = maxJobBody
	serve(a, api, add, a.enqueue)
	bulk := operation("delivery", "enqueue-jobs", "POST "+bulkJobsPath, "Enqueue many jobs",
		"Up to 1,000 in one transaction, all or none. The error of a job names its index, such as jobs[17]. The bodies to deliver may have 8 MiB together, "+
			"and the request 2 MiB more.", http.StatusNotFound)
	bulk.MaxBodyBytes = maxBulkBody
	serve(a, api, bulk, a.enqueueAll)
	serve(a, api, operation("delivery", "list-jobs", "GET "+jobsPath, "List jobs",
		"Those that have not ended, by number; or, with a state of those that have (done, dead or deleted), these from the latest number on; or, with the state refused, "+
			"the rows of the table holter_outbox that cannot be jobs, into which applications write in transactions of their own. "+
			"A request looks at 20,000 jobs at most: a page may be shorter than its limit, or empty, although next says that others follow.", http.StatusNotFound), a.listJobs)
	serve(a, api, operation("delivery", "get-job", "GET /v1/jobs/{job}", "Show a job",
		"Without its body. Jobs that ended are kept for jobs.max_age, a day by default.", http.StatusNotFound), a.getJob)
	serveEmpty(a, api, operation("delivery", "reschedule-job", "POST /v1/jobs/{job}/reschedule", "Change when a job is delivered",
		"At once, or at another time. A job that has not failed yet holds up no others meanwhile. The job of an event can only be delivered at once. "+
			"409 if it is being delivered, or waits for another one with its ordering key.", http.StatusNotFound, http.StatusConflict), a.reschedule)
	serveEmpty(a, api, operation("delivery", "delete-job", "DELETE /v1/jobs/{job}", "Delete a job",
		"It may still arrive if a delivery is in progress.", http.StatusNotFound), a.deleteJob)
	serve(a, api, operation("delivery", "delete-jobs", "DELETE "+jobsPath, "Delete all jobs of a queue or an endpoint",
		"Give one of queue and endpoint, or both. Those that are being delivered may still arrive.", http.StatusNotFound), a.deleteJobs)
	serve(a, api, operation("delivery", "move-jobs", "POST "+jobsPath+"/move", "Move jobs to another queue",
		"Those whose names match; they keep their endpoint and the order of their keys, also with jobs that stay. Jobs of events and jobs that are being "+
			"delivered are not moved. After an error, some may have been moved: send it again for the rest.", http.StatusNotFound), a.moveJobs)
	serve(a, api, operation("delivery", "retry-now", "POST /v1/endpoints/{name}/retry-now", "Retry the jobs of an endpoint at once",
		"Jobs that wait for another attempt are rescheduled.", http.StatusNotFound), a.retryNow)
}

func (a *API) enqueue(ctx context.Context, in *bodyInput[NewJob]) (jobNumber, error) {
	id, err := a.config.Delivery.Enqueue(ctx, in.Body.request())
	return jobNumber{id}, err
}

func (a *API) enqueueAll(ctx context.Context, in *bodyInput[NewJobs]) (jobNumbers, error) {
	ids, err := a.config.Delivery.EnqueueAll(ctx, mapped(in.Body.Jobs, (*NewJob).request))
	return jobNumbers{ids}, err
}

func (a *API) listJobs(ctx context.Context, in *jobsInput) (page jobPage, err error) {
	lanes, err := a.lanes(in.Queue, in.Endpoint)
	if err != nil {
		return page, err
	}
	if in.State == refused {
		return a.listRefused(ctx, in)
	}
	names := namesOf(a.config.Delivery)
	query := jobs.Query{Filter: jobs.Filter{Lanes: lanes, After: in.After}, State: jobs.State(in.State), Name: in.Name, Key: in.Key}
	views, next, err := a.config.Delivery.Jobs().Find(ctx, query, in.Limit, a.now())
	page.Jobs, page.Next = mapped(views, func(v *jobs.View) Job { return a.job(names, v) }), next
	return page, err
}

// refused is the state of rows of the table holter_outbox that cannot be jobs.
const refused = "refused"

// listRefused lists those rows.
func (a *API) listRefused(ctx context.Context, in *jobsInput) (page jobPage, err error) {
	rows, err := a.config.Delivery.Jobs().RefusedRows(ctx, in.After, in.Limit)
	page.Jobs = []Job{}
	for i := range rows {
		r := &rows[i]
		if in.Queue != "" && r.Queue != in.Queue || in.Endpoint != "" && r.Endpoint != in.Endpoint || in.Key != "" && r.Key != in.Key ||
			in.Name != "" && !liveness.Match(in.Name, r.Name) {
			continue
		}
		page.Jobs = append(page.Jobs, Job{
			Row: r.ID, Name: r.Name, Queue: r.Queue, Endpoint: r.Endpoint, URL: delivery.HideURL(r.URL), Key: r.Key, State: refused,
			Created: utc(r.Created), RunAt: utc(r.RunAt), Error: r.Error,
		})
	}
	page.Next = nextPage(rows, in.Limit, func(r *jobs.OutboxRow) uint64 { return r.ID })
	return page, err
}

func (a *API) getJob(ctx context.Context, in *oneJobInput) (Job, error) {
	names := namesOf(a.config.Delivery)
	view, err := a.config.Delivery.Jobs().Get(ctx, in.Job, a.now())
	if err != nil {
		return Job{}, err
	}
	return a.job(names, &view), nil
}

func (a *API) reschedule(ctx context.Context, in *rescheduleInput) error {
	now := a.now()
	at := in.Body.RunAt
	if at.IsZero() {
		at = now
	}
	err := a.config.Delivery.Jobs().Reschedule(ctx, in.Job, at, now)
	if err == nil {
		a.logChange(ctx, "job rescheduled", "job", in.Job, "run_at", at)
	}
	return err
}

func (a *API) deleteJob(ctx context.Context, in *oneJobInput) error {
	n, err := a.config.Delivery.DeleteJobs(ctx, jobs.Filter{IDs: []uint64{in.Job}})
	if err != nil {
		return err
	}
	if n == 0 {
		return huma.Error404NotFound(fmt.Sprintf("there is no job %d that has not ended", in.Job))
	}
	a.logChange(ctx, "job deleted", "job", in.Job)
	return nil
}

func (a *API) deleteJobs(ctx context.Context, in *deleteJobsInput) (count, error) {
	if in.Queue == "" && in.Endpoint == "" {
		return count{}, huma.Error422UnprocessableEntity("say of which queue or endpoint, with ?queue=NAME or ?endpoint=NAME")
	}
	lanes, err := a.lanes(in.Queue, in.Endpoint)
	if err != nil {
		return count{}, err
	}
	n, err := a.config.Delivery.DeleteJobs(ctx, jobs.Filter{Lanes: lanes})
	if err == nil {
		a.logChange(ctx, "jobs deleted", "queue", in.Queue, "endpoint", in.Endpoint, "number", n)
	}
	return count{n}, err
}

func (a *API) moveJobs(ctx context.Context, in *bodyInput[JobMove]) (count, error) {
	n, err := a.config.Delivery.MoveJobs(ctx, in.Body.Jobs, in.Body.Queue)
	if n > 0 {
		a.logChange(ctx, "jobs moved", "jobs", in.Body.Jobs, "queue", in.Body.Queue, "number", n)
	}
	return count{n}, err
}

func (a *API) retryNow(ctx context.Context, in *nameInput) (count, error) {
	lanes, err := a.lanes("", in.Name)
	if err != nil {
		return count{}, err
	}
	n, err := a.config.Delivery.RetryNow(ctx, lanes)
	return count{n}, err
}

// laneNames maps numbers of queues and endpoints to names.
type laneNames struct{ queues, endpoints map[uint32]string }

func namesOf(e *delivery.Engine) laneNames {
	s := e.Settings()
	n := laneNames{make(map[uint32]string, len(s.Queues)), make(map[uint32]string, len(s.Endpoints))}
	for _, q := range s.Queues {
		n.queues[q.Num] = q.Name
	}
	for _, p := range s.Endpoints {
		n.endpoints[p.Num] = p.Name
	}
	return n
}

// job returns a job as it is shown.
func (a *API) job(n laneNames, v *jobs.View) Job {
	job := Job{
		Job: v.ID, Name: v.Name, Queue: n.queues[v.Lane.Queue], Endpoint: n.endpoints[v.Lane.Endpoint], URL: delivery.HideURL(v.URL), Key: v.OrderingKey, State: string(v.State),
		Node: a.judgeOf(v.Term()), Term: v.Term(), Event: v.Event, Attempts: v.Attempts, Created: utc(v.Created), RunAt: utc(v.RunAt), Leased: utc(v.LeasedUntil),
		Started: utc(v.Started), Ended: utc(v.Ended), Error: v.Error, Status: v.Status, Response: v.Response,
	}
	if v.Priority != jobs.PriorityNormal {
		job.Priority = v.Priority.String()
	}
	switch {
	case v.State == jobs.StateClaimed:
		job.Started = utc(a.config.Delivery.Started(v.ID))
	case !v.Started.IsZero():
		job.TookMS = milliseconds(v.Ended.Sub(v.Started))
	}
	return job
}

// lanes returns the lanes of a queue and an endpoint. An empty name stands for all. It returns nil
// for all lanes.
func (a *API) lanes(queue, endpoint string) ([]jobs.Lane, error) {
	if queue == "" && endpoint == "" {
		return nil, nil
	}
	all := a.config.Delivery.Settings()
	queues, endpoints := all.Queues, append(all.Endpoints, jobs.Endpoint{}) // the last is that of jobs with a URL
	if queue != "" {
		q, err := a.config.Delivery.Queue(queue)
		if err != nil {
			return nil, err
		}
		queues = []jobs.Queue{q}
	}
	if endpoint != "" {
		p, err := a.config.Delivery.Endpoint(endpoint)
		if err != nil {
			return nil, err
		}
		endpoints = []jobs.Endpoint{p}
	}
	lanes := []jobs.Lane{}
	for _, q := range queues {
		for _, p := range endpoints {
			lanes = append(lanes, jobs.Lane{Queue: q.Num, Endpoint: p.Num})
		}
	}
	return lanes, nil
}
