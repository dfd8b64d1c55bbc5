package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/jobs"
)

// DeadLetter is a job that could not be delivered.
type DeadLetter struct {
	Job      uint64          `json:"job" doc:"Its number."`
	Name     string          `json:"name,omitempty"`
	Queue    string          `json:"queue"`
	Endpoint string          `json:"endpoint,omitempty"`
	URL      string          `json:"url,omitempty"`
	Message  string          `json:"message" doc:"The message id that the receiver sees."`
	Key      string          `json:"ordering_key,omitempty"`
	Created  time.Time       `json:"created,omitzero"`
	Died     time.Time       `json:"died"`
	Attempts int             `json:"attempts" doc:"Attempts made."`
	Error    string          `json:"error" doc:"Error of the last attempt. For a job that became too old while it waited, it says so as well."`
	Status   int             `json:"status,omitempty" doc:"HTTP status of the last answer."`
	Response string          `json:"response,omitempty" doc:"The beginning of the last answer."`
	Body     json.RawMessage `json:"body,omitempty" doc:"The JSON to deliver; only with bodies=true."`
}

type deadInput struct {
	Queue    string `query:"queue" doc:"Only of this queue."`
	Endpoint string `query:"endpoint" doc:"Only of this endpoint."`
	After    uint64 `query:"after" doc:"Only with a greater number: next of the previous page."`
	Limit    int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Page size."`
	Bodies   bool   `query:"bodies" doc:"Include the bodies; then a page ends after 100 dead letters, or some MiB."`
}

type deadPage struct {
	DeadLetters []DeadLetter `json:"dead_letters"`
	Next        uint64       `json:"next,omitempty" doc:"Value of after for the next page; left out on the last page."`
}

// DeadChoice chooses dead letters.
type DeadChoice struct {
	Jobs     []uint64 `json:"jobs,omitempty" maxItems:"1000" doc:"Dead letters with these numbers."`
	Queue    string   `json:"queue,omitempty" doc:"Only of this queue."`
	Endpoint string   `json:"endpoint,omitempty" doc:"Only of this endpoint."`
	All      bool     `json:"all,omitempty" doc:"All dead letters. Required if no other field is given."`
}

func (a *API) registerDead(api huma.API) {
	serve(a, api, operation("delivery", "list-dead-letters", "GET /v1/dead-letters", "List the dead letters",
		"Jobs that could not be delivered, by number. The latest 100,000 of the last 30 days are kept.", http.StatusNotFound), a.listDead)
	serve(a, api, operation("delivery", "retry-dead-letters", "POST /v1/dead-letters/retry", "Deliver dead letters again",
		"Each becomes a new job with the same message id. If one of the numbers does not exist, nothing is changed.", http.StatusNotFound), a.retryDead)
	serve(a, api, operation("delivery", "delete-dead-letters", "POST /v1/dead-letters/delete", "Delete dead letters",
		"If one of the numbers does not exist, nothing is changed.",
		http.StatusNotFound), a.deleteDead)
}

// A page of dead letters with bodies, which may have a megabyte each, has at most deadBodies of
// them, and ends with the one that makes it longer than deadBytes.
const (
	deadBodies = 100
	deadBytes  = 3 << 20
)

func (a *API) listDead(ctx context.Context, in *deadInput) (page deadPage, err error) {
	names := namesOf(a.config.Delivery)
	lanes, err := a.lanes(in.Queue, in.Endpoint)
	if err != nil {
		return page, err
	}
	limit := in.Limit
	if in.Bodies {
		limit = min(limit, deadBodies)
	}
	dead, err := a.config.Delivery.Jobs().DeadHeads(ctx, jobs.Filter{Lanes: lanes, After: in.After}, limit)
	if err != nil {
		return page, err
	}
	more := len(dead) == limit
	if in.Bodies {
		heads := len(dead)
		if dead, err = a.withBodies(ctx, dead); err != nil {
			return page, err
		}
		more = more || len(dead) < heads
	}
	page.DeadLetters = mapped(dead, func(d *jobs.DeadLetter) DeadLetter {
		out := DeadLetter{
			Job: d.ID, Name: d.Name, Queue: names.queues[d.Lane.Queue], Endpoint: names.endpoints[d.Lane.Endpoint], URL: delivery.HideURL(d.URL), Message: d.Message, Key: d.Key,
			Created: utc(d.Created), Died: utc(d.Died), Attempts: d.Attempts, Error: d.Error, Status: d.Status, Response: d.Response,
		}
		if in.Bodies && json.Valid(d.Data) {
			out.Body = d.Data
		}
		return out
	})
	if more {
		page.Next = dead[len(dead)-1].ID
	}
	return page, nil
}

// withBodies returns dead letters with their bodies. It leaves out the last ones if the answer
// would be too long.
func (a *API) withBodies(ctx context.Context, dead []jobs.DeadLetter) ([]jobs.DeadLetter, error) {
	size := 0
	for i := range dead {
		full, err := a.config.Delivery.Jobs().Dead(ctx, jobs.Filter{IDs: []uint64{dead[i].ID}}, 1)
		if err != nil {
			return nil, err
		}
		if len(full) == 1 { // else it was deleted meanwhile
			dead[i] = full[0]
		}
		if size += len(dead[i].Data); size > deadBytes {
			return dead[:i+1], nil
		}
	}
	return dead, nil
}

func (a *API) retryDead(ctx context.Context, in *bodyInput[DeadChoice]) (count, error) {
	return a.eachDead(ctx, in, "dead letters rescheduled", a.config.Delivery.Jobs().Replay)
}

func (a *API) deleteDead(ctx context.Context, in *bodyInput[DeadChoice]) (count, error) {
	return a.eachDead(ctx, in, "dead letters deleted", a.config.Delivery.Jobs().DeleteDead)
}

func (a *API) eachDead(
	ctx context.Context, in *bodyInput[DeadChoice], what string, do func(context.Context, jobs.Filter) (int, error),
) (count, error) {
	choice := &in.Body
	if choice.All == (len(choice.Jobs) > 0 || choice.Queue != "" || choice.Endpoint != "") {
		return count{}, huma.Error422UnprocessableEntity("say which dead letters, with jobs, queue or endpoint; or all, and nothing else")
	}
	lanes, err := a.lanes(choice.Queue, choice.Endpoint)
	if err != nil {
		return count{}, err
	}
	if err := a.checkDead(ctx, choice.Jobs, lanes); err != nil {
		return count{}, err
	}
	n, err := do(ctx, jobs.Filter{IDs: choice.Jobs, Lanes: lanes})
	if err == nil {
		a.logChange(ctx, what, "number", n)
	}
	return count{n}, err
}

// checkDead returns a problem if one of the numbers is not that of a dead letter in the lanes.
func (a *API) checkDead(ctx context.Context, ids []uint64, lanes []jobs.Lane) error {
	if len(ids) == 0 {
		return nil
	}
	dead, err := a.config.Delivery.Jobs().DeadHeads(ctx, jobs.Filter{IDs: ids, Lanes: lanes}, len(ids))
	if err != nil {
		return err
	}
	there := make(map[uint64]bool, len(dead))
	for i := range dead {
		there[dead[i].ID] = true
	}
	var missing []string
	for _, id := range ids {
		if !there[id] {
			missing = append(missing, strconv.FormatUint(id, 10))
		}
	}
	const most = 20
	if n := len(missing) - most; n > 0 {
		missing = append(missing[:most], fmt.Sprintf("%d more", n))
	}
	if len(missing) > 0 {
		return huma.Error404NotFound("no dead letter has the number " + strings.Join(missing, ", ") + "; nothing was changed")
	}
	return nil
}
