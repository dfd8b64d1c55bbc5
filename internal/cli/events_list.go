package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

const (
	eventTime = "2006-01-02 15:04:05" // in a table; JSON has all of it
	rowBuffer = 1000                  // rows that are aligned together
)

// eventList writes events, as a table or as JSON.
type eventList struct {
	out  io.Writer
	json bool
	rows *terminal.Table
	n    int // events so far
}

func newEventList(out io.Writer, s terminal.Screen, json bool) *eventList {
	return &eventList{out: out, json: json, rows: terminal.NewTable(s, "OFFSET", "TIME (UTC)", "EVENT", "SUBJECT,least=16,inner", "DETAILS,least=20")}
}

// add takes an event.
func (l *eventList) add(e *event) error {
	l.n++
	if l.json {
		return terminal.WriteJSON(l.out, e.raw)
	}
	kind := strings.TrimPrefix(e.Type, eventPrefix)
	l.rows.Add(
		e.Data.Offset,
		terminal.Cell{Text: e.Time.UTC().Format(eventTime), Paint: terminal.Faint},
		terminal.Cell{Text: kind, Paint: eventPaint(kind)},
		e.Subject, eventText(kind, &e.Data),
	)
	if l.rows.Buffered() >= rowBuffer {
		return l.flush()
	}
	return nil
}

// flush writes what was added since the last time.
func (l *eventList) flush() error { return l.rows.Flush(l.out) }

func eventPaint(kind string) terminal.Paint {
	switch kind {
	case "device.online", "source.heard", "group.outage.ended", "device.flapping.stopped":
		return terminal.Green
	case "device.late", "device.failed", "device.flapping.started":
		return terminal.Yellow
	case "device.offline", "source.deaf", "group.outage.started":
		return terminal.Red
	case "device.sleeping":
		return terminal.Blue
	}
	return ""
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
