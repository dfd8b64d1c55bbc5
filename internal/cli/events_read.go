package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

const (
	noLimit  = -1
	lookBack = 1 << 20 // events that are looked through for the latest that match
	disorder = 1000    // places by which an event may stand off the order of times
)

// eventReader reads the log of events, page by page.
type eventReader struct {
	api    *apiclient.Client
	filter url.Values // of the query
	stderr io.Writer
}

// begin is the offset before the oldest event.
func begin(st *httpapi.Stats) uint64 { return max(st.Oldest, 1) - 1 }

// forward emits the events after an offset that are not older than from, up to another offset and
// until limit of them were emitted.
func (r *eventReader) forward(ctx context.Context, after, upto uint64, limit int, from time.Time, emit func(*event) error) error {
	if after > upto {
		return fmt.Errorf("offset %d is ahead of the latest event, %d; is it of another server?", after, upto)
	}
	return r.pages(ctx, "/v1/events", r.filter, after, upto, func(e *event) (more bool, err error) {
		switch {
		case e.Data.Offset > upto:
			return false, nil
		case e.Time.Before(from):
			return true, nil
		}
		limit--
		return limit != 0, emit(e)
	})
}

// pages hands on events after a number, page by page, until take wants no more or a page ends at
// another number.
func (r *eventReader) pages(ctx context.Context, path string, filter url.Values, after, end uint64, take func(*event) (more bool, err error)) error {
	for after < end {
		page, err := r.page(ctx, path, filter, after, pageSize)
		if err != nil {
			return err
		}
		for i := range page.Events {
			if more, err := take(&page.Events[i]); err != nil || !more {
				return err
			}
		}
		if page.Next <= after {
			return nil
		}
		after = page.Next
	}
	return nil
}

type eventPage struct {
	Events []event `json:"events"`
	Next   uint64  `json:"next"`
}

func (r *eventReader) page(ctx context.Context, path string, filter url.Values, after uint64, limit int) (page eventPage, err error) {
	query := url.Values{"after": {strconv.FormatUint(after, 10)}, "limit": {strconv.Itoa(limit)}}
	maps.Copy(query, filter)
	var answer apiclient.Answer
	if err := r.api.Get(ctx, path, query, &answer); err != nil {
		return page, err
	}
	if err := answer.Decode(&page); err != nil || page.Events == nil {
		return page, answer.Strange
	}
	return page, nil
}

// last emits the latest n events that match the filter, oldest first.
func (r *eventReader) last(ctx context.Context, st *httpapi.Stats, n int, emit func(*event) error) error {
	found, err := r.lastOfDevice(ctx, st, n)
	if apiclient.StatusOf(err) == http.StatusNotFound || err == nil && found == nil {
		found, err = r.lastOfAll(ctx, st, n)
	}
	if err != nil {
		return err
	}
	for i := range found {
		if err := emit(&found[i]); err != nil {
			return err
		}
	}
	return nil
}

// lastOfDevice returns the latest n events of a device if the filter selects one device and nothing
// else; otherwise nil.
func (r *eventReader) lastOfDevice(ctx context.Context, st *httpapi.Stats, n int) ([]event, error) {
	device := r.filter["device"]
	if len(r.filter) != 1 || len(device) != 1 || n == 0 {
		return nil, nil
	}
	var d httpapi.Device
	if err := r.api.Get(ctx, pathOf("devices", device[0]), nil, &d); err != nil {
		return nil, err
	}
	found := []event{}
	err := r.pages(ctx, pathOf("devices", device[0])+"/events", nil, d.Seq-min(uint64(n), d.Seq), d.Seq, func(e *event) (bool, error) {
		if e.Data.Offset <= st.Latest { // the others are new
			found = append(found, *e)
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return found[max(0, len(found)-n):], nil
}

// lastOfAll searches the latest events, in windows that reach further back each time.
func (r *eventReader) lastOfAll(ctx context.Context, st *httpapi.Stats, n int) ([]event, error) {
	if n == 0 {
		return nil, nil
	}
	window := uint64(n)
	if len(r.filter) > 0 {
		window = pageSize
	}
	var found []event
	for end := st.Latest; len(found) < n && end > begin(st); window *= 4 {
		if st.Latest-end >= lookBack {
			_, _ = fmt.Fprintf(r.stderr, "holter: looked through the latest %s events only; --after %d or --since looks through more\n",
				terminal.Grouped(st.Latest-end), begin(st))
			break
		}
		after := max(begin(st), end-min(window, end))
		var part []event
		err := r.forward(ctx, after, end, noLimit, time.Time{}, func(e *event) error {
			if part = append(part, *e); len(part) > 2*n {
				part = slices.Delete(part, 0, len(part)-n)
			}
			return nil
		})
		if apiclient.StatusOf(err) == http.StatusGone { // the oldest events have gone meanwhile
			break
		}
		if err != nil {
			return nil, err
		}
		found = append(part, found...)
		end = after
	}
	return found[max(0, len(found)-n):], nil
}

// search returns an offset after which all events since a time come, and few others, by bisection.
func (r *eventReader) search(ctx context.Context, st *httpapi.Stats, since time.Time) (uint64, error) {
	low, high := begin(st), st.Latest // the first event that is late enough comes after low, or not at all; not after high
	for high-low > disorder {
		middle := low + (high-low)/2
		page, err := r.page(ctx, "/v1/events", nil, middle, 1)
		if apiclient.StatusOf(err) == http.StatusGone {
			low = middle
			continue
		}
		if err != nil {
			return 0, err
		}
		if len(page.Events) == 0 || !page.Events[0].Time.Before(since) {
			high = middle
		} else {
			low = middle
		}
	}
	return max(begin(st), low-min(disorder, low)), nil
}
