package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

// The types of events about devices begin with ofDevice.
const (
	ofDevice    = "io.holter.device."
	typeOnline  = ofDevice + "online"
	typeOffline = ofDevice + "offline"
	typeFailed  = ofDevice + "failed"
)

// The reasons of an offline event that devices bring about.
const (
	reasonSilence = "silence"
	reasonClosed  = "closed"
	reasonBye     = "bye"
)

// deviceOf returns the device that an event is about, "" if it is about a source or a group.
func deviceOf(e *cloudevent.Event) string {
	if strings.HasPrefix(e.Type, ofDevice) {
		return e.Subject
	}
	return ""
}

// subject returns what an event is about: a device, source/NAME or group/NAME.
func subject(e *cloudevent.Event) string { return e.ID[:max(strings.LastIndexByte(e.ID, ':'), 0)] }

// text returns an event as the API writes it.
func text(e *cloudevent.Event) string {
	text, err := json.Marshal(e)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// latest returns the offset of the last event; 0 if there is none.
func latest(events []cloudevent.Event) uint64 {
	if len(events) == 0 {
		return 0
	}
	return events[len(events)-1].Data.Offset
}

// pageSize is how many events a page of the log has at most.
const pageSize = 1000

// pageAfter reads the page of the log that begins after an offset, and returns the offset that the
// next one begins after. An empty page is the end.
func pageAfter(ctx context.Context, client *apiclient.Client, after uint64) (events []cloudevent.Event, next uint64, err error) {
	var page struct {
		Events []cloudevent.Event
		Next   uint64
	}
	err = client.Get(ctx, fmt.Sprintf("/v1/events?after=%d&limit=%d", after, pageSize), nil, &page)
	if err == nil && len(page.Events) > 0 && page.Next <= after {
		err = fmt.Errorf("after %d, the next page of the log begins after %d", after, page.Next)
	}
	if err != nil {
		return nil, after, err
	}
	return page.Events, max(page.Next, after), nil
}

// wholeLog reads all pages of the log.
func wholeLog(ctx context.Context, client *apiclient.Client) (events []cloudevent.Event, err error) {
	for after := uint64(0); ; {
		page, next, err := pageAfter(ctx, client, after)
		if err != nil || len(page) == 0 {
			return events, err
		}
		events, after = append(events, page...), next
	}
}
