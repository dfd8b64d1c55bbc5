package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

const (
	streamPath = "/v1/events/stream"
	// streamBatch is the number of events read at a time, and written under one deadline.
	streamBatch = 100
)

func (a *API) registerStream(mux routes, api huma.API) {
	offset := &huma.Schema{Type: huma.TypeInteger, Minimum: new(0.0)}
	parameters := []*huma.Param{
		{
			Name: "after", In: "query", Schema: offset,
			Description: "Offset after which to start; 0: with the oldest event that is kept. Left out: only new events.",
		},
		{Name: "Last-Event-ID", In: "header", Schema: offset, Description: "Overrides after; browsers send it automatically."},
	}
	for _, p := range api.OpenAPI().Paths["/v1/events"].Get.Parameters {
		if p.Name != "after" && p.Name != "limit" {
			parameters = append(parameters, p)
		}
	}
	op := operation("events", "stream-events", "GET "+streamPath, "Events as they happen, as server-sent events",
		"A message named missed, with the field oldest, says that events are no longer kept; the stream continues there. "+
			"A comment comes every 15 s if there is nothing else; with a filter, it carries the latest offset. A comment says why the "+
			"server ends a stream. A reader that takes nothing for 10 s is disconnected without one. A reader that reconnects "+
			"with Last-Event-ID misses nothing. While the process starts, the answer waits for up to 30 s, and is then a stream that ends at once "+
			"and tells its reader to come back, because an EventSource that is answered 503 never does.")
	op.Parameters = parameters
	op.Responses = textResponses("text/event-stream", "Each message: id the offset, event the type, data the event",
		map[string]string{"422": "A bad offset or filter", "503": "There are too many streams"})
	mux.describe(api, a.stream, &op)
}

// place is the position of a stream in the log.
type place struct {
	after uint64
	// fromOldest: the reader wants all kept events, and has not missed earlier ones.
	fromOldest bool
}

func (a *API) stream(w http.ResponseWriter, r *http.Request) {
	at, filter, err := a.startOf(r)
	if err != nil {
		writeProblem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	a.serveStream(w, r, func(ctx context.Context, out *sseWriter) error {
		return a.follow(ctx, &streamWriter{sseWriter: out, eventOf: a.eventOf, filter: filter}, at)
	})
}

// startOf returns the position and the filter that a request asks for.
func (a *API) startOf(r *http.Request) (place, eventFilter, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return place{}, eventFilter{}, fmt.Errorf("query: %w; percent-encode what is not a letter or a digit", err)
	}
	if err := onlyKnown(query, []string{"after", "device", "type", "group", "source"}); err != nil {
		return place{}, eventFilter{}, err
	}
	filter, errs := parseEventFilter(query)
	if len(errs) > 0 {
		return place{}, filter, errors.New(sayAll(errs))
	}
	after, header := query.Get("after"), r.Header.Get("Last-Event-ID")
	text, name := header, "the header Last-Event-ID"
	if header == "" {
		text, name = after, "query.after"
	}
	if text == "" {
		_, latest := a.events.Bounds()
		return place{after: latest}, filter, nil
	}
	offset, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return place{}, filter, fmt.Errorf("%s: %.40q is not an offset; want a whole number, or nothing for new events only", name, text)
	}
	return place{after: offset, fromOldest: offset == 0 && header == ""}, filter, nil
}

// errUnreadable is wrapped by the error of a stream whose events cannot be read.
var errUnreadable = errors.New("httpapi: events cannot be read")

// follow writes events until ctx is done, which is not an error, or a write fails.
func (a *API) follow(ctx context.Context, s *streamWriter, at place) error {
	if err := s.hello(at); err != nil {
		return err
	}
	var events []liveness.Event
	for ctx.Err() == nil {
		if why := s.recheck(); why != "" {
			return s.comment(why)
		}
		if time.Since(s.wrote) >= heartbeatEvery {
			if err := s.heartbeat(at); err != nil {
				return err
			}
		}
		events = s.release(events)
		atMost := heartbeatEvery - time.Since(s.wrote)
		if _, latest := a.events.Bounds(); at.after >= latest { // else it reads now, perhaps from a slow database
			atMost = min(atMost, streamReview-time.Since(s.checked))
		}
		wait, cancel := context.WithTimeout(ctx, atMost)
		var err error
		events, err = a.events.Wait(wait, events[:0], at.after, streamBatch)
		quiet := wait.Err() != nil
		cancel()
		switch {
		case errors.Is(err, eventlog.ErrMissed), err == nil && !at.fromOldest && events[0].Offset != at.after+1:
			oldest, _ := a.events.Bounds()
			at.after = oldest - 1
			err = s.missed(oldest)
		case err == nil:
			at = place{after: events[len(events)-1].Offset}
			err = s.events(events)
		case quiet:
			err = nil
		default:
			return errors.Join(fmt.Errorf("%w: %w", errUnreadable, err), s.comment("events cannot be read just now, come back later"))
		}
		if err != nil {
			return err
		}
	}
	return s.comment(stopping)
}

// keepEvents is for how many events a stream keeps the memory between two reads.
const keepEvents = 4

// release lets go of memory that a burst of events needed, because a stream mostly waits, and there
// may be thousands. It returns the events' memory if it is to be used again.
func (s *streamWriter) release(events []liveness.Event) []liveness.Event {
	s.sseWriter.release()
	if cap(events) > keepEvents {
		return nil
	}
	return events
}

// streamWriter writes events as server-sent ones.
type streamWriter struct {
	*sseWriter

	eventOf func(*liveness.Event) Event
	filter  eventFilter
	told    uint64 // the offset that the reader was told last
}

// hello sends the offset at which the stream starts, so that a reader that reconnects before the
// first event misses none.
func (s *streamWriter) hello(at place) error {
	s.buffer = append(s.buffer[:0], "retry: 2000\n"...)
	if !at.fromOldest {
		s.buffer = fmt.Appendf(s.buffer, "id: %d\n", at.after)
	}
	s.buffer = append(s.buffer, '\n')
	s.told = at.after
	return s.flush()
}

// events writes the events that match the filter, if any.
func (s *streamWriter) events(events []liveness.Event) error {
	s.buffer = s.buffer[:0]
	for i := range events {
		if !s.filter.matches(&events[i]) {
			continue
		}
		e := s.eventOf(&events[i])
		data, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("event %d: %w", events[i].Offset, err)
		}
		s.buffer = fmt.Appendf(s.buffer, "id: %d\nevent: %s\ndata: %s\n\n", e.Data.Offset, e.Type, data)
		s.told = e.Data.Offset
	}
	if len(s.buffer) == 0 {
		return nil
	}
	return s.flush()
}

// missed tells the reader that events were missed, and moves its offset to before the oldest event.
func (s *streamWriter) missed(oldest uint64) error {
	s.told = oldest - 1
	s.buffer = fmt.Appendf(s.buffer[:0], "id: %d\nevent: missed\ndata: {\"oldest\":%d}\n\n", oldest-1, oldest)
	return s.flush()
}

// heartbeat writes a comment, with the current offset if the reader was told another.
func (s *streamWriter) heartbeat(at place) error {
	s.buffer = append(s.buffer[:0], ": still here\n"...)
	if at.after != s.told {
		s.told = at.after
		s.buffer = fmt.Appendf(s.buffer, "id: %d\n", at.after)
	}
	s.buffer = append(s.buffer, '\n')
	return s.flush()
}
