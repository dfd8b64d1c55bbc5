package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/holter-iot/holter/httpapi"
)

const (
	eventTime  = "2006-01-02 15:04:05" // in a table; JSON has all of it
	gridBuffer = 1000                  // rows that are aligned together
)

// eventList writes events, as a table or as JSON.
type eventList struct {
	out  io.Writer
	json bool
	grid *grid
	n    int // events so far
}

func newEventList(out io.Writer, json bool) *eventList {
	return &eventList{out: out, json: json, grid: newGrid(screenOf(out),
		column{name: "OFFSET", right: true},
		column{name: "TIME (UTC)"},
		column{name: "EVENT"},
		column{name: "SUBJECT", least: 16, inner: true},
		column{name: "WHAT", least: 20},
	)}
}

// add takes an event.
func (l *eventList) add(e *event) (bool, error) {
	l.n++
	if l.json {
		return true, writeJSON(l.out, e.raw)
	}
	kind := strings.TrimPrefix(e.Type, eventPrefix)
	l.grid.add(
		cell{text: strconv.FormatUint(e.Data.Offset, 10)}, cell{e.Time.UTC().Format(eventTime), faint}, cell{kind, eventPaint(kind)},
		cell{text: e.Subject}, cell{text: eventText(kind, &e.Data)},
	)
	if len(l.grid.rows) >= gridBuffer {
		return true, l.flush()
	}
	return true, nil
}

// flush writes what was added since the last time.
func (l *eventList) flush() error { return l.grid.flush(l.out) }

func eventPaint(kind string) paint {
	switch kind {
	case "device.online", "source.heard", "group.outage.ended", "device.flapping.stopped":
		return green
	case "device.late", "device.failed", "device.flapping.started":
		return yellow
	case "device.offline", "source.deaf", "group.outage.started":
		return red
	case "device.sleeping":
		return blue
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
			say("silent %v of %v (%s)", rounded(*d.Silence), rounded(*d.Timeout), d.Policy)
		} else {
			say("%s", d.Reason)
		}
	case "device.late":
		if d.Silence != nil && d.Timeout != nil && never(*d.Timeout) {
			say("silent %v", rounded(*d.Silence))
		} else if d.Silence != nil && d.Timeout != nil {
			say("silent %v of %v (%s)", rounded(*d.Silence), rounded(*d.Timeout), d.Policy)
		}
	case "device.failed":
		say("%s", d.Message)
	case "source.deaf", "source.heard":
		if d.Deaf != nil && *d.Deaf > 0 {
			say("deaf for %v", rounded(*d.Deaf))
		}
	case "group.outage.started", "group.outage.ended":
		if d.Members != nil && d.Silent != nil {
			say("%s of %s silent", grouped(*d.Silent), grouped(*d.Members))
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

// rounded shows milliseconds as a duration, to a tenth of a second where it is long.
func rounded(ms float64) string {
	d := duration(ms)
	if d >= 10_000_000_000 {
		return short(d)
	}
	return length(ms)
}
