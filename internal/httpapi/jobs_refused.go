package httpapi

import (
	"context"
	"time"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/jobs"
)

// RefusedRow is a row of the table holter_outbox that cannot be a job.
type RefusedRow struct {
	Row      uint64    `json:"row" doc:"Its id in the table."`
	Created  time.Time `json:"created" doc:"When it was written."`
	Name     string    `json:"name,omitempty"`
	Queue    string    `json:"queue,omitempty"`
	Endpoint string    `json:"endpoint,omitempty"`
	URL      string    `json:"url,omitempty"`
	Key      string    `json:"ordering_key,omitempty"`
	Unique   string    `json:"idempotency_key,omitempty"`
	RunAt    time.Time `json:"run_at,omitzero"`
	Deadline time.Time `json:"deadline,omitzero"`
	Size     int64     `json:"bytes" doc:"Size of its body."`
	Error    string    `json:"error" doc:"Why it cannot be a job."`
}

type refusedInput struct {
	After uint64 `query:"after" doc:"Only with a greater number: next of the previous page."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Page size."`
}

type refusedPage struct {
	Rows []RefusedRow `json:"refused_rows"`
	Next uint64       `json:"next,omitempty" doc:"Value of after for the next page; left out on the last page."`
}

func (a *API) listRefused(ctx context.Context, in *refusedInput) (page refusedPage, err error) {
	rows, err := a.config.Delivery.Jobs().RefusedRows(ctx, in.After, in.Limit)
	page.Rows = mapped(rows, func(r *jobs.OutboxRow) RefusedRow {
		return RefusedRow{
			Row: r.ID, Created: utc(r.Created), Name: r.Name, Queue: r.Queue, Endpoint: r.Endpoint, URL: delivery.HideURL(r.URL), Key: r.Key, Unique: r.Unique,
			RunAt: utc(r.RunAt), Deadline: utc(r.Deadline), Size: r.Size, Error: r.Error,
		}
	})
	page.Next = nextPage(rows, in.Limit, func(r *jobs.OutboxRow) uint64 { return r.ID })
	return page, err
}
