package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

const eventTime = "2006-01-02 15:04:05" // in a table; JSON has all of it

// eventList prints events.
type eventList struct{ *printer }

func newEventList(out io.Writer, asJSON bool) *eventList {
	return &eventList{newPrinter(out, asJSON, eventColumns()...)}
}

func eventColumns() []string {
	return []string{"OFFSET", "TIME (UTC)", "EVENT", "SUBJECT,least=16,inner", "DETAILS,least=20"}
}

// add prints an event.
func (l *eventList) add(e *event) error {
	kind := strings.TrimPrefix(e.Type, eventPrefix)
	cell := painted(kind)
	if cell.Paint == terminal.Faint {
		cell.Paint = "" // most types are neither good nor bad
	}
	at := terminal.Cell{Text: e.Time.UTC().Format(eventTime), Paint: terminal.Faint}
	return l.printer.add(e.raw, e.Data.Offset, at, cell, e.Subject, eventText(kind, &e.Data))
}

// eventText says in a few words what an event tells beyond its type.
func eventText(kind string, d *httpapi.EventData) string {
	var all []string
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	switch kind {
	case "device.offline":
		if d.Reason == "silence" && d.Silence != nil && d.Timeout != nil {
			say("silent %v of %v (%s)", terminal.Rounded(*d.Silence), terminal.Rounded(*d.Timeout), d.Policy)
		} else {
			say("%s", d.Reason)
		}
	case "device.late":
		switch {
		case d.Silence == nil:
		case d.Timeout == nil: // its silence means nothing
			say("silent %v", terminal.Rounded(*d.Silence))
		default:
			say("silent %v of %v (%s)", terminal.Rounded(*d.Silence), terminal.Rounded(*d.Timeout), d.Policy)
		}
	case "device.failed":
		say("%s", d.Message)
	case "source.deaf", "source.heard":
		if d.Deaf != nil && *d.Deaf > 0 {
			say("deaf for %v", terminal.Rounded(*d.Deaf))
		}
	case "group.outage.started", "group.outage.ended":
		if d.Members != nil && d.Silent != nil {
			say("%s of %s silent", terminal.Grouped(*d.Silent), terminal.Grouped(*d.Members))
		}
	}
	if d.Outage {
		say("in an outage of %s", d.Group)
	}
	if d.Maintenance && !strings.HasPrefix(kind, "device.maintenance.") {
		say("in maintenance")
	}
	if d.Flapping && !strings.HasPrefix(kind, "device.flapping.") {
		say("flapping")
	}
	if d.Source != "" && strings.HasPrefix(kind, "device.") {
		say("at %s", d.Source)
	}
	return strings.Join(all, ", ")
}
