package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

const (
	fleetStreamPath = "/v1/fleet/stream"
	// fleetEvery is the least time between two messages of the fleet, fleetAtLeast the greatest.
	fleetEvery   = 500 * time.Millisecond
	fleetAtLeast = 5 * time.Second
)

func (a *API) registerFleetStream(mux routes, api huma.API) {
	version := &huma.Schema{Type: huma.TypeInteger, Minimum: new(0.0)}
	op := operation("overview", "stream-fleet", "GET "+fleetStreamPath, "The fleet as it changes, as server-sent events",
		"A message named fleet comes at once, then when something in it has changed, at most twice a second, and every 5 s if nothing has. That listening clocks "+
			"go on is no change; that one stands still is. With map, messages named map say what changed in the fleet map since that version: from, to, and cells in base64. The "+
			"cells are varints (unsigned, as in protocol buffers): the difference of the device's number to the one before, from 0 on, times 16, plus its new four bits. A message with to and "+
			"reload true says that the version is not known any more, or that more than 50,000 cells have changed: then read the map again, and leave out "+
			"changes to versions that it already has. A reader that reconnects with Last-Event-ID misses no change. "+
			"The stream starts, ends and is limited as /v1/events/stream.")
	op.Parameters = []*huma.Param{
		{Name: "map", In: "query", Schema: version, Description: "Version of the fleet map from which to go on: the header " + mapVersionHeader + " of it. Left out: no messages about the map."},
		{Name: "Last-Event-ID", In: "header", Schema: version, Description: "Overrides map if that is given; browsers send it automatically."},
	}
	op.Responses = textResponses("text/event-stream", "Each message: event its name, data JSON; those of the map have its version as id",
		map[string]string{"422": "A bad version", "503": "There are too many streams"})
	mux.describe(api, a.fleetStream, &op)
}

func (a *API) fleetStream(w http.ResponseWriter, r *http.Request) {
	version, err := mapVersionOf(r)
	if err != nil {
		writeProblem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	a.serveStream(w, r, func(ctx context.Context, out *sseWriter) error {
		return a.followFleet(ctx, &fleetWriter{sseWriter: out, version: version})
	})
}

// mapVersionOf returns the version of the map from which a stream is to go on, nil if it is to have no
// messages about the map.
func mapVersionOf(r *http.Request) (*uint64, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("query: %w; percent-encode what is not a letter or a digit", err)
	}
	if err := onlyKnown(query, []string{"map"}); err != nil {
		return nil, err
	}
	text, name := query.Get("map"), "query.map"
	if text == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		text, name = last, "the header Last-Event-ID"
	}
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s: %.40q is no version of the map; want a whole number, as the header %s of the map has it", name, text, mapVersionHeader)
	}
	return &version, nil
}

// fleetWriter writes the messages of a stream of the fleet.
type fleetWriter struct {
	*sseWriter

	version *uint64 // of the map that the reader has; nil if it wants none
	shown   uint64  // fleetNews.number of what the reader was shown last
	showed  time.Time
}

// followFleet writes messages until ctx is done or a write fails.
func (a *API) followFleet(ctx context.Context, s *fleetWriter) error {
	s.buffer = append(s.buffer, "retry: 2000\n"...)
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.comment(stopping)
		case <-tick.C:
		}
		if why := s.recheck(); why != "" {
			return s.comment(why)
		}
		news, err := a.news.latest(a)
		if err != nil {
			return err
		}
		s.addMap(a.fleet)
		s.addFleet(news)
		if len(s.buffer) > 0 {
			if err := s.flush(); err != nil {
				return err
			}
		}
		s.release()
		s.buffer = s.buffer[:0]
		tick.Reset(time.Until(news.until))
	}
}

// addFleet adds what the fleet is now, if there is something new in it or it is time.
func (s *fleetWriter) addFleet(news *fleetNews) {
	now := time.Now()
	if news.number != s.shown || now.Sub(s.showed) >= fleetAtLeast {
		s.shown, s.showed = news.number, now
		s.buffer = append(s.buffer, news.message...)
	}
}

// addMap adds what has changed in the map.
func (s *fleetWriter) addMap(pictures *pictures) {
	if s.version == nil {
		return
	}
	messages, latest, ok := pictures.since(*s.version)
	*s.version = latest
	if !ok {
		s.buffer = fmt.Appendf(s.buffer, "id: %d\nevent: map\ndata: {\"to\":%d,\"reload\":true}\n\n", latest, latest)
		return
	}
	for _, m := range messages {
		s.buffer = append(s.buffer, m...)
	}
}
