package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/liveness"
)

type eventsInput struct {
	After  uint64 `query:"after" default:"0" doc:"Offset after which to read: next of the page before. 0: from the oldest event that is kept."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The most events of the page."`
	Device string `query:"device" maxLength:"128" doc:"Only events of this device."`
}

func (i *eventsInput) matches(e *liveness.Event) bool {
	return i.Device == "" || isDevice(e.Type) && e.Subject == i.Device
}

type eventsOutput struct {
	Body struct {
		Events []Event `json:"events"`
		Next   uint64  `json:"next" doc:"What to pass as after the next time; the same as after if there is nothing new."`
	}
}

func (a *API) registerEvents(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "list-events", Method: http.MethodGet, Path: "/v1/events", Tags: []string{"events"},
		Summary: "Events after an offset",
		Description: "Events are kept for a while, the latest of them. 410 says that events after the offset are gone, and in its field " +
			"oldest what is kept. A page with a filter may be short or empty although more follow: go on while next moves.",
		Responses: map[string]*huma.Response{"410": {
			Description: "Events were missed",
			Content: map[string]*huma.MediaType{
				"application/problem+json": {Schema: huma.SchemaFromType(api.OpenAPI().Components.Schemas, reflect.TypeFor[missedError]())},
			},
		}},
	}, a.events)
}

func (a *API) events(_ context.Context, in *eventsInput) (*eventsOutput, error) {
	out := &eventsOutput{}
	out.Body.Events = make([]Event, 0, min(in.Limit, 100))
	out.Body.Next = in.After
	var buffer []liveness.Event
	for scanned := 0; scanned < maxScan && len(out.Body.Events) < in.Limit; scanned += len(buffer) {
		var err error
		buffer, err = a.log.Read(buffer[:0], out.Body.Next, in.Limit-len(out.Body.Events))
		if err != nil && scanned == 0 {
			return nil, a.gone(in.After)
		}
		if len(buffer) == 0 { // also if the log has overtaken the scan: the next request is told
			break
		}
		for i := range buffer {
			if in.matches(&buffer[i]) {
				out.Body.Events = append(out.Body.Events, eventOf(&buffer[i], a.config.Node))
			}
		}
		out.Body.Next = buffer[len(buffer)-1].Offset
	}
	return out, nil
}

func (a *API) gone(after uint64) error {
	oldest, latest := a.log.Bounds()
	why := fmt.Sprintf("events after offset %d are no longer kept", after)
	if after > latest {
		why = fmt.Sprintf("offset %d is ahead of the log, which ends at %d: it began anew when the server was restarted", after, latest)
	}
	return &missedError{
		ErrorModel: huma.ErrorModel{
			Title: http.StatusText(http.StatusGone), Status: http.StatusGone,
			Detail: fmt.Sprintf("%s; the oldest is %d, read on with after=%d", why, oldest, oldest-1),
		},
		Oldest: oldest,
	}
}
