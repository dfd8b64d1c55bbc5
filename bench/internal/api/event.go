// Package api reads the log of events of Holter's API, for benchmarks that check what it says.
package api

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

// The types of events, without "io.holter." and "device.".
const (
	TypeOnline  = "online"
	TypeOffline = "offline"
	TypeFailed  = "failed"
	TypeHeard   = "source.heard"
)

// The reasons of an offline event that devices bring about.
const (
	ReasonSilence = "silence"
	ReasonClosed  = "closed"
	ReasonBye     = "bye"
)

// Event is an event of the server. What it did not tell is zero.
type Event struct {
	Offset uint64 // its place in the log
	ID     string // "DEVICE:SEQ"
	Type   string
	Device string // empty if it is not about a device
	Seq    uint64 // counts the events of the device from 1
	Epoch  uint64
	Reason string
	Time   time.Time

	LastSeen, Deadline, DecidedAt time.Time
	HeardSilence, Timeout         time.Duration
	Deaf                          time.Duration // of a source
}

// UnmarshalJSON reads an event in the JSON format of CloudEvents.
func (e *Event) UnmarshalJSON(text []byte) error {
	var c cloudevent.Event
	if err := json.Unmarshal(text, &c); err != nil {
		return fmt.Errorf("event %.200q: %w", text, err)
	}
	d := &c.Data
	*e = Event{
		Offset: d.Offset, ID: c.ID, Type: strings.TrimPrefix(c.Type, "io.holter."), Seq: d.Seq, Epoch: d.Epoch, Reason: d.Reason, Time: c.Time,
		LastSeen: d.LastSeen, Deadline: d.Deadline, DecidedAt: d.DecidedAt,
		HeardSilence: millis(d.Silence), Timeout: millis(d.Timeout), Deaf: millis(d.Deaf),
	}
	if kind, ok := strings.CutPrefix(e.Type, "device."); ok {
		e.Type, e.Device = kind, c.Subject
	}
	return nil
}

func millis(ms *float64) time.Duration {
	if ms == nil {
		return 0
	}
	return time.Duration(math.Round(*ms * float64(time.Millisecond)))
}

// PageSize is how many events a page of the log has at most.
const PageSize = 1000

// EventsAfter reads the page of the log that begins after an offset, and returns the offset that the next one begins after. An empty page
// is the end.
func EventsAfter(ctx context.Context, client *apiclient.Client, after uint64) (events []Event, next uint64, err error) {
	var page struct {
		Events []Event
		Next   uint64
	}
	err = client.Get(ctx, fmt.Sprintf("/v1/events?after=%d&limit=%d", after, PageSize), nil, &page)
	if err == nil && len(page.Events) > 0 && page.Next <= after {
		err = fmt.Errorf("after %d, the next page of the log begins after %d", after, page.Next)
	}
	if err != nil {
		return nil, after, err
	}
	return page.Events, max(page.Next, after), nil
}

// Events reads the whole log.
func Events(ctx context.Context, client *apiclient.Client) (events []Event, err error) {
	for after := uint64(0); ; {
		page, next, err := EventsAfter(ctx, client, after)
		if err != nil || len(page) == 0 {
			return events, err
		}
		events, after = append(events, page...), next
	}
}
