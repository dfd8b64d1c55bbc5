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
		Seq          uint64    `json:"seq"`
		Epoch        uint64    `json:"epoch"`
		Reason       string    `json:"reason"`
		LastSeen     time.Time `json:"last_seen"`
		Deadline     time.Time `json:"deadline"`
		DecidedAt    time.Time `json:"decided_at"`
		HeardSilence float64   `json:"heard_silence_ms"`
		Timeout      float64   `json:"timeout_ms"`
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
		p, err := readPage(ctx, client, strings.TrimSuffix(apiURL, "/"), after)
		if err != nil {
			return nil, fmt.Errorf("read events after %d: %w", after, err)
		}
		if len(p.Events) == 0 {
			return events, nil
		}
		for i := range p.Events {
			events = append(events, p.Events[i].event())
		}
		if p.Next <= after {
			return nil, fmt.Errorf("read events after %d: next is %d", after, p.Next)
		}
		after = p.Next
	}
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
	}
}

// millis turns milliseconds into a Duration, to the nearest nanosecond.
func millis(ms float64) time.Duration {
	return time.Duration(math.Round(ms * float64(time.Millisecond)))
}
