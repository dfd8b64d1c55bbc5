package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/store"
)

// DeadLetter is a job that could not be delivered.
type DeadLetter struct {
	Job      uint64          `json:"job" doc:"Its number."`
	Queue    string          `json:"queue"`
	Endpoint string          `json:"endpoint,omitempty"`
	URL      string          `json:"url,omitempty"`
	Message  string          `json:"message" doc:"The id that its receiver knows."`
	Key      string          `json:"ordering_key,omitempty"`
	Created  time.Time       `json:"created,omitzero"`
	Died     time.Time       `json:"died"`
	Attempts int             `json:"attempts" doc:"That were made."`
	Error    string          `json:"error" doc:"Of the last one."`
	Status   int             `json:"status,omitempty" doc:"Of the last answer."`
	Response string          `json:"response,omitempty" doc:"The beginning of the last answer."`
	Body     json.RawMessage `json:"body,omitempty" doc:"What was to be delivered; only if it was asked for."`
}

type deadInput struct {
	Queue    string `query:"queue" doc:"Only of this queue."`
	Endpoint string `query:"endpoint" doc:"Only of this endpoint."`
	After    uint64 `query:"after" doc:"Only with a greater number: next of the page before."`
	Limit    int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The most dead letters of the page."`
	Bodies   bool   `query:"bodies" doc:"With what was to be delivered; then the page has 100 at most."`
}

type deadOutput struct {
	Body struct {
		DeadLetters []DeadLetter `json:"dead_letters"`
		Next        uint64       `json:"next,omitempty" doc:"What to pass as after for the next page; left out on the last."`
	}
}

// DeadChoice chooses dead letters.
type DeadChoice struct {
	Jobs     []uint64 `json:"jobs,omitempty" maxItems:"1000" doc:"Those with these numbers."`
	Queue    string   `json:"queue,omitempty" doc:"Only of this queue."`
	Endpoint string   `json:"endpoint,omitempty" doc:"Only of this endpoint."`
	All      bool     `json:"all,omitempty" doc:"All; needed if nothing else is said."`
}

type deadChoiceInput struct {
	Body DeadChoice
}

func (a *API) registerDead(api huma.API) {
	huma.Register(api, describe("list-dead-letters", http.MethodGet, "/v1/dead-letters", "List the dead letters",
		"Jobs that could not be delivered, by number. The latest 100,000 of the last 30 days are kept.", http.StatusNotFound), a.listDead)
	huma.Register(api, describe("replay-dead-letters", http.MethodPost, "/v1/dead-letters/replay", "Deliver dead letters anew",
		"Each becomes a new job, with the id that its receiver knows.", http.StatusNotFound), a.replayDead)
	huma.Register(api, describe("discard-dead-letters", http.MethodPost, "/v1/dead-letters/discard", "Remove dead letters for good", "",
		http.StatusNotFound), a.discardDead)
}

// deadBodies is how many dead letters a page has at most if it is to have their bodies, which may have a megabyte each.
const deadBodies = 100

func (a *API) listDead(ctx context.Context, in *deadInput) (*deadOutput, error) {
	names := namesOf(a.config.Delivery)
	lanes, err := names.lanes(in.Queue, in.Endpoint)
	if err != nil {
		return nil, a.deliveryError(ctx, err)
	}
	limit := in.Limit
	if in.Bodies {
		limit = min(limit, deadBodies)
	}
	dead, err := a.config.Delivery.Jobs().Dead(ctx, store.DeadFilter{Lanes: lanes, After: in.After}, limit)
	if err != nil {
		return nil, a.deliveryError(ctx, err)
	}
	out := &deadOutput{}
	out.Body.DeadLetters = make([]DeadLetter, len(dead))
	for i := range dead {
		d := &dead[i]
		out.Body.DeadLetters[i] = DeadLetter{
			Job: d.ID, Queue: names.queues[d.Lane.Queue], Endpoint: names.endpoints[d.Lane.Endpoint], URL: d.URL, Message: d.Message, Key: d.Key,
			Created: utc(d.Created), Died: utc(d.Died), Attempts: d.Attempts, Error: d.Error, Status: d.Status, Response: d.Response,
		}
		if in.Bodies && json.Valid(d.Data) {
			out.Body.DeadLetters[i].Body = d.Data
		}
	}
	if len(dead) == limit {
		out.Body.Next = dead[len(dead)-1].ID
	}
	return out, nil
}

func (a *API) replayDead(ctx context.Context, in *deadChoiceInput) (*numberOutput, error) {
	return a.eachDead(ctx, in, "dead letters replayed", a.config.Delivery.Jobs().Replay)
}

func (a *API) discardDead(ctx context.Context, in *deadChoiceInput) (*numberOutput, error) {
	return a.eachDead(ctx, in, "dead letters discarded", a.config.Delivery.Jobs().Discard)
}

func (a *API) eachDead(
	ctx context.Context, in *deadChoiceInput, what string, do func(context.Context, store.DeadFilter) (int, error),
) (*numberOutput, error) {
	choice := &in.Body
	if choice.All == (len(choice.Jobs) > 0 || choice.Queue != "" || choice.Endpoint != "") {
		return nil, huma.Error422UnprocessableEntity("say which dead letters, with jobs, queue or endpoint; or all, and nothing else")
	}
	lanes, err := namesOf(a.config.Delivery).lanes(choice.Queue, choice.Endpoint)
	if err != nil {
		return nil, a.deliveryError(ctx, err)
	}
	n, err := do(ctx, store.DeadFilter{IDs: choice.Jobs, Lanes: lanes})
	if err != nil {
		return nil, a.deliveryError(ctx, err)
	}
	a.changedDelivery(ctx, what, "number", n)
	return numbered(n), nil
}
