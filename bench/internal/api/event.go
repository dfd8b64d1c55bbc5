// Package api reads the log of events of Holter's API, for benchmarks that check what it says.
package api

import (
	"context"
	"fmt"
	"strings"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

// The types of events about devices begin with DevicePrefix.
const (
	DevicePrefix = "io.holter.device."
	TypeOnline   = DevicePrefix + "online"
	TypeOffline  = DevicePrefix + "offline"
	TypeFailed   = DevicePrefix + "failed"
)

// The reasons of an offline event that devices bring about.
const (
	ReasonSilence = "silence"
	ReasonClosed  = "closed"
	ReasonBye     = "bye"
)

// Event is an event of the server.
type Event = cloudevent.Event

// Device returns the device that an event is about, "" if it is about a source or a group.
func Device(e *Event) string {
	if strings.HasPrefix(e.Type, DevicePrefix) {
		return e.Subject
	}
	return ""
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
