package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

type eventsInput struct {
	After  uint64   `query:"after" default:"0" doc:"Offset after which to read: next of the previous page. 0: from the oldest event that is kept."`
	Limit  int      `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Page size."`
	Device []string `query:"device,explode" doc:"Only events of this device; may be given again for others."`
	Type   []string `query:"type,explode" doc:"Only events of these types, separated by commas or given again."`
	Group  []string `query:"group,explode" doc:"Only events of this group and its devices; may be given again for others."`
	Source []string `query:"source,explode" doc:"Only events of this source and of the devices heard there; may be given again for others."`

	filter eventFilter
}

// Resolve implements huma.Resolver.
func (i *eventsInput) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	var errs []error
	i.filter, errs = parseEventFilter(u.Query())
	return errs
}

type eventPage struct {
	Events []Event `json:"events"`
	Next   uint64  `json:"next" doc:"Value of after for the next request; the same as after if there is nothing new."`
}

func (a *API) registerEvents(api huma.API) {
	op := operation("events", "list-events", "GET /v1/events", "Events after an offset",
		"Offsets have no gaps, and continue after a restart. The latest events are kept. "+
			"410 says that events after the offset are gone; its field oldest is the oldest that is kept. A page with a filter may be short or "+
			"empty although more follow: continue while next moves. An event has to match all filters.")
	op.Responses = map[string]*huma.Response{"410": responseOf[missedError](api.OpenAPI(), "Events were missed")}
	serve(a, api, op, a.listEvents)
	listOf(api.OpenAPI().Paths["/v1/events"].Get, "type", eventTypes())
}

func (a *API) listEvents(ctx context.Context, in *eventsInput) (eventPage, error) {
	page := eventPage{Events: make([]Event, 0, min(in.Limit, 100)), Next: in.After}
	atOnce := in.Limit
	if !in.filter.all() {
		atOnce = maxPage
	}
	var buffer []liveness.Event
	for scanned := 0; scanned < maxScan && len(page.Events) < in.Limit; scanned += len(buffer) {
		var err error
		buffer, err = a.events.Read(ctx, buffer[:0], page.Next, atOnce)
		switch {
		case errors.Is(err, eventlog.ErrMissed) && scanned == 0:
			return eventPage{}, a.gone(in.After)
		case err != nil && !errors.Is(err, eventlog.ErrMissed): // else events have gone since the previous read, which the next request reports
			return eventPage{}, a.unreadable(ctx, err)
		}
		if len(buffer) == 0 {
			break
		}
		for i := range buffer {
			if len(page.Events) == in.Limit {
				break
			}
			if in.filter.matches(&buffer[i]) {
				page.Events = append(page.Events, a.eventOf(&buffer[i]))
			}
			page.Next = buffer[i].Offset
		}
	}
	return page, nil
}

func (a *API) gone(after uint64) error {
	oldest, latest := a.events.Bounds()
	why := fmt.Sprintf("events after offset %d are no longer kept", after)
	if after > latest {
		why = fmt.Sprintf("offset %d is ahead of the log, which ends at %d: it is of another database, or this one was restored from before", after, latest)
	}
	return &missedError{
		ErrorModel: newProblem(http.StatusGone, fmt.Sprintf("%s; the oldest is %d, read on with after=%d", why, oldest, oldest-1)),
		Oldest:     oldest,
	}
}

// unreadable returns the problem that events cannot be read.
func (a *API) unreadable(ctx context.Context, err error) error {
	if ctx.Err() == nil { // else the client is gone
		a.config.Logger.ErrorContext(ctx, "cannot read events", "error", err)
	}
	return huma.ErrorWithHeaders(
		huma.Error503ServiceUnavailable("events cannot be read from the database just now; try again, and see /readyz"),
		http.Header{"Retry-After": {"1"}})
}
