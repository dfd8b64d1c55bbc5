package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/terminal"
)

const (
	noLimit  = -1
	lookBack = 1 << 20 // events that are looked through for the latest that match
	disorder = 1000    // places by which an event may stand off the order of times
)

// eventFilter selects events; an empty field selects all.
type eventFilter struct{ devices, types, groups, sources []string }

func (f *eventFilter) empty() bool {
	return len(f.devices)+len(f.types)+len(f.groups)+len(f.sources) == 0
}

// query adds the filter to a query.
func (f *eventFilter) query(q url.Values) url.Values {
	for name, values := range map[string][]string{"device": f.devices, "type": f.types, "group": f.groups, "source": f.sources} {
		if len(values) > 0 {
			q[name] = values
		}
	}
	return q
}

// eventReader reads the log of events, page by page.
type eventReader struct {
	api    *apiclient.Client
	filter eventFilter
	stderr io.Writer
}

// bounds are the first and last offset of the log.
type bounds struct {
	oldest, latest uint64
	now            time.Time // by the server's clock
}

// begin is the offset before the oldest event.
func (b bounds) begin() uint64 { return max(b.oldest, 1) - 1 }

func (r *eventReader) bounds(ctx context.Context) (bounds, error) {
	st, err := apiclient.AskStats(ctx, r.api)
	return bounds{oldest: st.Oldest, latest: st.Latest, now: st.AsOf}, err
}

// forward emits the events after an offset, up to another, until emit has taken limit of them.
func (r *eventReader) forward(ctx context.Context, after, upto uint64, limit int, emit func(*event) (taken bool, err error)) error {
	if after > upto {
		return fmt.Errorf("offset %d is ahead of the latest event, %d; is it of another server?", after, upto)
	}
	for after < upto && limit != 0 {
		page, err := r.page(ctx, r.filter.query(url.Values{"after": {strconv.FormatUint(after, 10)}, "limit": {strconv.Itoa(pageSize)}}))
		if err != nil {
			return err
		}
		for i := range page.Events {
			if page.Events[i].Data.Offset > upto || limit == 0 {
				return nil
			}
			taken, err := emit(&page.Events[i])
			if err != nil {
				return err
			}
			if taken && limit > 0 {
				limit--
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

func (r *eventReader) page(ctx context.Context, query url.Values) (eventPage, error) {
	var answer apiclient.Answer
	if err := r.api.Get(ctx, "/v1/events", query, &answer); err != nil {
		return eventPage{}, err
	}
	var page eventPage
	if err := answer.Decode(&page); err != nil || page.Events == nil {
		return page, answer.Strange
	}
	return page, nil
}

// last emits the latest n events that match the filter, oldest first.
func (r *eventReader) last(ctx context.Context, b bounds, n int, emit func(*event) (bool, error)) error {
	found, err := r.lastOfDevice(ctx, b, n)
	if apiclient.StatusOf(err) == http.StatusNotFound || err == nil && found == nil {
		found, err = r.lastOfAll(ctx, b, n)
	}
	if err != nil {
		return err
	}
	for i := range found {
		if _, err := emit(&found[i]); err != nil {
			return err
		}
	}
	return nil
}

// lastOfDevice returns the latest n events of a device if the filter selects one device and nothing
// else; otherwise nil.
func (r *eventReader) lastOfDevice(ctx context.Context, b bounds, n int) ([]event, error) {
	f := &r.filter
	if len(f.devices) != 1 || len(f.types)+len(f.groups)+len(f.sources) > 0 || n == 0 {
		return nil, nil
	}
	var d httpapi.Device
	if err := r.api.Get(ctx, pathOf("devices", f.devices[0]), nil, &d); err != nil {
		return nil, err
	}
	found := []event{}
	for after := d.Seq - min(uint64(n), d.Seq); after < d.Seq; {
		var page eventPage
		query := url.Values{"after": {strconv.FormatUint(after, 10)}, "limit": {strconv.Itoa(pageSize)}}
		if err := r.api.Get(ctx, pathOf("devices", f.devices[0])+"/events", query, &page); err != nil {
			return nil, err
		}
		for i := range page.Events {
			if page.Events[i].Data.Offset <= b.latest { // the others are new
				found = append(found, page.Events[i])
			}
		}
		if page.Next <= after {
			break
		}
		after = page.Next
	}
	return found[max(0, len(found)-n):], nil
}

// lastOfAll searches the latest events, in windows that reach further back each time.
func (r *eventReader) lastOfAll(ctx context.Context, b bounds, n int) ([]event, error) {
	if n == 0 {
		return nil, nil
	}
	window := uint64(n)
	if !r.filter.empty() {
		window = pageSize
	}
	var found []event
	for end := b.latest; len(found) < n && end > b.begin(); window *= 4 {
		if b.latest-end >= lookBack {
			_, _ = fmt.Fprintf(r.stderr, "holter: looked through the latest %s events only; --after %d or --since looks through more\n",
				terminal.Grouped(b.latest-end), b.begin())
			break
		}
		begin := max(b.begin(), end-min(window, end))
		var part []event
		err := r.forward(ctx, begin, end, noLimit, func(e *event) (bool, error) {
			if part = append(part, *e); len(part) > 2*n {
				part = slices.Delete(part, 0, len(part)-n)
			}
			return true, nil
		})
		if apiclient.StatusOf(err) == http.StatusGone { // the oldest events have gone meanwhile
			break
		}
		if err != nil {
			return nil, err
		}
		found = append(part, found...)
		end = begin
	}
	return found[max(0, len(found)-n):], nil
}

// search returns an offset after which all events since a time come, and few others, by bisection.
func (r *eventReader) search(ctx context.Context, b bounds, since time.Time) (uint64, error) {
	low, high := b.begin(), b.latest // the first event that is late enough comes after low, or not at all; not after high
	for high-low > disorder {
		middle := low + (high-low)/2
		page, err := r.page(ctx, url.Values{"after": {strconv.FormatUint(middle, 10)}, "limit": {"1"}})
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
	return max(b.begin(), low-min(disorder, low)), nil
}
