package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	feedPage     = 1000
	maxFeedBytes = 64 << 20 // of one page
)

// cloudEvent is an event as the feed has it.
type cloudEvent struct {
	ID      string    `json:"id"`
	Type    string    `json:"type"`
	Subject string    `json:"subject"`
	Time    time.Time `json:"time"`
	Data    struct {
		Offset       uint64    `json:"offset"`
		Seq          uint64    `json:"seq"`
		Epoch        uint64    `json:"epoch"`
		Reason       string    `json:"reason"`
		LastSeen     time.Time `json:"last_seen"`
		Deadline     time.Time `json:"deadline"`
		DecidedAt    time.Time `json:"decided_at"`
		HeardSilence float64   `json:"heard_silence_ms"`
		Timeout      float64   `json:"timeout_ms"`
		Deaf         float64   `json:"deaf_ms"`
	} `json:"data"`
}

// page is one answer of the feed.
type page struct {
	Events []cloudEvent `json:"events"`
	Next   uint64       `json:"next"`
}

// Events reads the whole event feed of the API at apiURL, such as
// "http://127.0.0.1:8080", page by page until one is empty, and returns it in
// the feed's order. It blocks until then or until ctx is done, and starts no
// goroutine that outlives it. Any answer but 200, malformed JSON or a page that
// does not move on is an error.
func Events(ctx context.Context, apiURL string) ([]Event, error) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var events []Event
	for after := uint64(0); ; {
		page, next, err := EventsAfter(ctx, client, apiURL, after)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			return events, nil
		}
		events = append(events, page...)
		after = next
	}
}

// EventsAfter reads one page of the event feed, of up to 1,000 events after an
// offset, and returns the offset after which the next page begins. An empty
// page is the end. Errors are those of [Events].
func EventsAfter(ctx context.Context, client *http.Client, apiURL string, after uint64) (events []Event, next uint64, err error) {
	p, err := readPage(ctx, client, strings.TrimSuffix(apiURL, "/"), after)
	if err == nil && len(p.Events) > 0 && p.Next <= after {
		err = fmt.Errorf("next is %d", p.Next)
	}
	if err != nil {
		return nil, after, fmt.Errorf("read events after %d: %w", after, err)
	}
	for i := range p.Events {
		events = append(events, p.Events[i].event())
	}
	return events, max(p.Next, after), nil
}

// ParseEvent reads one event in the JSON format of CloudEvents.
func ParseEvent(data []byte) (Event, error) {
	var c cloudEvent
	if err := json.Unmarshal(data, &c); err != nil {
		return Event{}, fmt.Errorf("event %.200q: %w", data, err)
	}
	return c.event(), nil
}

// readPage reads one page.
func readPage(ctx context.Context, client *http.Client, api string, after uint64) (page, error) {
	url := api + "/v1/events?after=" + strconv.FormatUint(after, 10) + "&limit=" + strconv.Itoa(feedPage)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return page{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return page{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxFeedBytes))
	if err != nil {
		return page{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return page{}, fmt.Errorf("%s: %.200q", resp.Status, body)
	}
	var p page
	if err := json.Unmarshal(body, &p); err != nil {
		return page{}, err
	}
	return p, nil
}

// event turns a CloudEvent into an Event.
func (c *cloudEvent) event() Event {
	kind, ofDevice := strings.CutPrefix(c.Type, "io.holter.device.")
	device := c.Subject
	if !ofDevice {
		kind, device = strings.TrimPrefix(c.Type, "io.holter."), ""
	}
	return Event{
		Offset:       c.Data.Offset,
		ID:           c.ID,
		Type:         kind,
		Device:       device,
		Seq:          c.Data.Seq,
		Epoch:        c.Data.Epoch,
		Reason:       c.Data.Reason,
		Time:         c.Time,
		LastSeen:     c.Data.LastSeen,
		Deadline:     c.Data.Deadline,
		DecidedAt:    c.Data.DecidedAt,
		HeardSilence: millis(c.Data.HeardSilence),
		Timeout:      millis(c.Data.Timeout),
		Deaf:         millis(c.Data.Deaf),
	}
}

// millis turns milliseconds into a Duration, to the nearest nanosecond.
func millis(ms float64) time.Duration {
	return time.Duration(math.Round(ms * float64(time.Millisecond)))
}
