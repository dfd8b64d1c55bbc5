package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/liveness"
)

// streamBatch is how many events are read from the log at a time, and written under one deadline.
const streamBatch = 100

func (a *API) registerStream(mux *http.ServeMux, api huma.API) {
	offset := &huma.Schema{Type: huma.TypeInteger, Minimum: new(0.0)}
	responses := textResponses("Each message: id the offset, event the type, data the event",
		"422", "A bad offset", "503", "There are too many streams")
	responses["200"].Content = map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}}
	plain(mux, api, &huma.Operation{
		OperationID: "stream-events", Path: "/v1/events/stream", Tags: []string{"events"}, Responses: responses,
		Summary: "Events as they happen, as server-sent events",
		Description: "A message missed, with the field oldest, says that events are no longer kept; the stream goes on from there. " +
			"A comment comes every 15 s if there is nothing else. A reader who takes nothing for 10 s is dropped, and may come back " +
			"with Last-Event-ID.",
		Parameters: []*huma.Param{
			{
				Name: "after", In: "query", Schema: offset,
				Description: "Offset after which to begin; 0: with the oldest event that is kept. Left out: only new events.",
			},
			{Name: "Last-Event-ID", In: "header", Schema: offset, Description: "Stands above after; browsers send it by themselves."},
		},
	}, a.stream)
}

// place is where a stream is in the log.
type place struct {
	after uint64
	// fromOldest says that the reader wants what is there, and has not missed what came before.
	fromOldest bool
}

func (a *API) stream(w http.ResponseWriter, r *http.Request) {
	at, err := a.startOf(r)
	if err != nil {
		writeProblem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	defer a.streams.Add(-1)
	if most := int64(a.config.MaxConnections) * 3 / 4; a.streams.Add(1) > most {
		a.refused.Add(1)
		w.Header().Set("Retry-After", "10")
		writeProblem(w, http.StatusServiceUnavailable, fmt.Sprintf("there are %d streams already, and no room for another; "+
			"come back later, or read /v1/events page by page", most))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // else nginx holds events back
	if r.Method == http.MethodHead {
		return
	}
	s := &streamWriter{control: http.NewResponseController(w), out: w, node: a.config.Node}
	if err := a.follow(r.Context(), s, at); errors.Is(err, os.ErrDeadlineExceeded) {
		a.dropped.Add(1)
		a.config.Logger.Info("event stream dropped: its reader is too slow", "remote", r.RemoteAddr)
	}
}

// startOf says where a request wants to begin.
func (a *API) startOf(r *http.Request) (place, error) {
	query := r.URL.Query()
	for name := range query {
		if name != "after" {
			return place{}, fmt.Errorf("query.%s: there is no such parameter; after is the only one", name)
		}
	}
	after, header := query.Get("after"), r.Header.Get("Last-Event-ID")
	text, name := header, "the header Last-Event-ID"
	if header == "" {
		text, name = after, "query.after"
	}
	if text == "" {
		_, latest := a.log.Bounds()
		return place{after: latest}, nil
	}
	offset, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return place{}, fmt.Errorf("%s: %q is not an offset; want a whole number, or nothing for new events only", name, text)
	}
	return place{after: offset, fromOldest: offset == 0 && header == ""}, nil
}

// follow writes events until ctx is done, which is no error, or a write fails.
func (a *API) follow(ctx context.Context, s *streamWriter, at place) error {
	if err := s.hello(at); err != nil {
		return err
	}
	var events []liveness.Event
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, heartbeatEvery)
		var err error
		events, err = a.log.Wait(wait, events[:0], at.after, streamBatch)
		cancel()
		switch {
		case errors.Is(err, liveness.ErrMissed), err == nil && !at.fromOldest && events[0].Offset != at.after+1:
			oldest, _ := a.log.Bounds()
			at.after = oldest - 1
			err = s.missed(oldest)
		case err == nil:
			at = place{after: events[len(events)-1].Offset}
			err = s.events(events)
		case ctx.Err() == nil:
			err = s.comment("still here")
		default:
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return s.comment("the server stops, come back later")
}

// streamWriter writes server-sent events. Each method fails if the reader does not take what it writes in time.
type streamWriter struct {
	control *http.ResponseController
	out     io.Writer
	node    string
	buffer  []byte
}

// hello names the place at which the stream begins, so that a reader who comes back before the first event misses none.
func (s *streamWriter) hello(at place) error {
	s.buffer = append(s.buffer[:0], "retry: 2000\n"...)
	if !at.fromOldest {
		s.buffer = fmt.Appendf(s.buffer, "id: %d\n", at.after)
	}
	s.buffer = append(s.buffer, '\n')
	return s.flush()
}

func (s *streamWriter) events(events []liveness.Event) error {
	s.buffer = s.buffer[:0]
	for i := range events {
		e := eventOf(&events[i], s.node)
		data, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("event %d: %w", events[i].Offset, err)
		}
		s.buffer = fmt.Appendf(s.buffer, "id: %d\nevent: %s\ndata: %s\n\n", e.Data.Offset, e.Type, data)
	}
	return s.flush()
}

// missed moves the reader's place to before the oldest event.
func (s *streamWriter) missed(oldest uint64) error {
	s.buffer = fmt.Appendf(s.buffer[:0], "id: %d\nevent: missed\ndata: {\"oldest\":%d}\n\n", oldest-1, oldest)
	return s.flush()
}

func (s *streamWriter) comment(text string) error {
	s.buffer = fmt.Appendf(s.buffer[:0], ": %s\n\n", text)
	return s.flush()
}

func (s *streamWriter) flush() error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer has deadlines, see Handler
	if _, err := s.out.Write(s.buffer); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := s.control.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
