package cli

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
	"github.com/holter-iot/holter/liveness"
)

// row is a line of an explanation: a label, an amount with its sign, and what it is.
type row struct{ label, sign, amount, text string }

// surroundings are facts beyond the device that bear on its state.
type surroundings struct {
	source  *httpapi.Source // source of its last heartbeat; nil if unknown
	started time.Time       // start of the server; zero if unknown
}

// restart reports whether the server was started during an interval in which a source was deaf.
func (s surroundings) restart(deaf httpapi.Deaf) bool {
	return !s.started.IsZero() && !s.started.Before(deaf.From) && !s.started.After(deaf.To)
}

// deafNow reports whether the source hears nothing now.
func (s surroundings) deafNow() bool { return s.source != nil && s.source.DeafSince != nil }

// gone reports whether the source is no longer configured.
func (s surroundings) gone() bool { return s.source != nil && s.source.Absent }

// waiting reports whether the source is no longer configured, and not retired either.
func (s surroundings) waiting() bool { return s.gone() && !s.source.Retired }

// never reports whether a timeout in milliseconds means that silence does not count.
func never(ms float64) bool { return ms == 0 || ms >= terminal.Milliseconds(liveness.Never) }

// explanation returns the reasons for the state of a device.
func explanation(d *httpapi.Device, around surroundings) string {
	lines := []row{
		{label: "state", text: state(d)},
		{label: "because", text: because(d, around)},
		{label: "since", text: instant(d, d.Since)},
	}
	if d.Listening != nil {
		lines = append(lines, row{label: "last heartbeat", text: instant(d, d.LastSeen) + ", source " + terminal.Printable(d.Source)})
		lines = append(lines, silence(d, around)...)
	}
	if d.Recovering > 0 {
		text := fmt.Sprintf("%d of %d heartbeats in a row; then it is online", d.Recovering, d.Policy.Recover)
		lines = append(lines, row{label: "recovering", text: text})
	}
	if around.source != nil && around.source.Note != "" {
		lines = append(lines, row{label: "source", text: terminal.Printable(around.source.Note)})
	}
	lines = append(lines, standstill(around)...)
	lines = append(lines, outlook(d, around)...)
	lines = append(lines, rules(d)...)
	if l := d.Learned; l != nil && l.Mode != "off" && d.Listening != nil && !never(float64(d.Timeout)) {
		lines = append(lines, row{label: "learned", text: terminal.Printable(l.Sentence)})
	}
	lines = append(lines, row{label: "session", text: session(d)})
	if d.Flapping {
		lines = append(lines, row{label: "flapping", text: "it keeps going offline and coming back"})
	}
	if d.Maintenance {
		lines = append(lines, row{label: "maintenance", text: "on: it is judged, but its events are suppressed"})
	}
	return terminal.Printable(d.ID) + "\n\n" + table(lines)
}

// state returns the state of the device, and the one that is decided.
func state(d *httpapi.Device) string {
	if d.Decided == "" {
		return d.State
	}
	return d.State + ": " + d.Decided + " is decided, and not stored yet, so nobody was told"
}

// because explains the reason of the state.
func because(d *httpapi.Device, around surroundings) string {
	state, timeout := settled(d), terminal.Span(float64(d.Timeout))+sinceExpected(d)
	by := terminal.Span(d.JudgedBy) // not what the policy says by now
	silent := "no heartbeat for " + by + sinceExpected(d)
	back, soon := "", ""
	if d.JudgedBy > 0 {
		back, soon = ", and it was not back within "+by, ", and it has "+by+" to come back"
	}
	off, unknown, endless := state == "offline", state == "unknown", never(float64(d.Timeout))
	due := !endless && d.Listening != nil && counting(d) >= float64(d.Timeout)
	for _, reason := range []struct {
		is   bool
		text string
	}{
		{state == "never_seen", "it is configured, and no heartbeat has come yet"},
		{off && d.Reason == "silence", silent + " while Holter was listening"},
		{off && d.Reason == "bye", "it said goodbye"},
		{off && d.Reason == "closed", "its connection ended" + back},
		{off && d.Reason == "will", "a broker published its last will, or said that its connection ended" + back},
		{off && d.Reason == "protocol", "it broke its protocol and was cut off" + back},
		{off && d.Reason == "admin", "an operator ended its session" + back},
		{off && d.Reason == "reported", "its gateway or broker said that it is offline"},
		{state == "sleeping", "it said that it would be silent until " + instant(d, d.SleepUntil)},
		{d.Closing == "admin", "an operator ended its session" + soon},
		{d.Closing == "reported", "its gateway or broker said that it is offline" + soon},
		{d.Closing != "", "its connection ended (" + d.Closing + ")" + soon},
		{unknown && around.gone(), "its source is no longer configured, so it cannot be heard there"},
		{
			unknown && d.Listening != nil && slices.ContainsFunc(d.Listening.Deaf, around.restart),
			"Holter was restarted after its last heartbeat, and it has not been heard since",
		},
		{unknown && around.deafNow(), "its source is deaf, so it cannot be heard"},
		{unknown, "its source was deaf after its last heartbeat, and it has not been heard since"},
		{state == "suspect", "it was asked " + asked(d) + ", and has not answered"},
		{state == "late" && (endless || due), silent},
		{state == "late", silent + "; it is offline after " + timeout},
		{state == "online" && endless, "nothing reported it gone, and its silence does not count"},
		{state == "online" && due, "its timeout has passed; the verdict is still to come"},
		{state == "online", "its last heartbeat came in time"},
	} {
		if reason.is {
			return reason.text
		}
	}
	return d.Reason
}

// settled returns the state of the device, of a pending one that which is decided.
func settled(d *httpapi.Device) string {
	if d.State == "pending" && d.Decided != "" {
		return d.Decided
	}
	return d.State
}

// counting returns how much of the device's silence counts, in milliseconds.
func counting(d *httpapi.Device) float64 { return d.Silence - d.Listening.Slept - d.Listening.Quiet }

// sinceExpected is what follows a silence that counts since a device was expected.
func sinceExpected(d *httpapi.Device) string {
	switch {
	case d.Policy.Expect == "":
		return ""
	case !d.RunningFrom.IsZero():
		return " since its run began, which has not ended"
	}
	return " since it was expected"
}

// asked tells how often a device was asked for a sign of life, and when.
func asked(d *httpapi.Device) string {
	times := strconv.Itoa(d.Asked) + " times"
	if d.Asked == 1 {
		times = "once"
	}
	return times + " since " + terminal.Stamp(d.LastSeen) + ", the last time at " + instant(d, d.AskedAt)
}

// silence shows how the heard silence adds up, to the millisecond: the time on the wall clock, less
// the time in which the source was deaf, less what it has not processed yet.
func silence(d *httpapi.Device, around surroundings) []row {
	var lines []row
	if !d.LastSeen.IsZero() {
		lines = parts(d, around)
	}
	lines = append(lines, row{sign: "=", amount: terminal.Span(d.Silence), text: "heard silence"})
	off, timeout := settled(d) == "offline", float64(d.Timeout)
	if off {
		timeout = d.JudgedBy
	}
	if never(timeout) || off && (d.Reason != "silence" || d.Recovering > 0) {
		return lines
	}
	counts := counting(d)
	if slept := d.Listening.Slept; slept > 0 {
		lines = append(lines, row{sign: "-", amount: terminal.Span(slept), text: "asleep, which does not count"})
	}
	if quiet := d.Listening.Quiet; quiet > 0 {
		lines = append(lines, row{sign: "-", amount: terminal.Span(quiet), text: uncounted(d) + ", which does not count"})
	}
	if counts < d.Silence {
		lines = append(lines, row{sign: "=", amount: terminal.Span(counts), text: "silence that counts"})
	}
	left := "timeout, passed by " + terminal.Span(counts-timeout)
	switch {
	case off: // its policy may have another one by now, and other windows
		left = "timeout by which it was judged"
	case counts < timeout:
		left = "timeout, " + terminal.Span(timeout-counts) + " to go"
	}
	return append(lines, row{amount: terminal.Span(timeout), text: left})
}

// uncounted tells which part of a silence does not count.
func uncounted(d *httpapi.Device) string {
	switch {
	case d.Expected.IsZero():
		return "in quiet windows"
	case len(d.Policy.Quiet) > 0:
		return "before it was expected at " + terminal.Stamp(d.Expected) + ", and in quiet windows"
	}
	return "before it was expected at " + terminal.Stamp(d.Expected)
}

// parts are the terms of the sum.
func parts(d *httpapi.Device, around surroundings) []row {
	wall := terminal.Milliseconds(d.AsOf.Sub(d.LastSeen))
	unread := math.Round(wall) - math.Round(d.Silence)
	lines := []row{{label: "silence", amount: terminal.Span(wall), text: "since the last heartbeat"}}
	if before := d.Listening.Earlier; before > 0 {
		unread -= math.Round(before)
		lines = append(lines, row{sign: "-", amount: terminal.Span(before), text: "source deaf earlier, too often to list"})
	}
	for _, deaf := range d.Listening.Deaf {
		unread -= math.Round(deaf.Length)
		text := "source deaf from " + terminal.Stamp(deaf.From) + " to " + terminal.Stamp(deaf.To)
		if around.restart(deaf) {
			text += ", when holter was restarted"
		}
		lines = append(lines, row{sign: "-", amount: terminal.Span(deaf.Length), text: text})
	}
	if around.waiting() {
		return append(lines, row{sign: "-", amount: terminal.Span(unread), text: "nothing listens for the source any more"})
	}
	if around.deafNow() {
		still := max(min(math.Round(terminal.Milliseconds(d.AsOf.Sub(*around.source.DeafSince))), unread), 0)
		unread -= still
		lines = append(lines, row{sign: "-", amount: terminal.Span(still), text: "source deaf since " + terminal.Stamp(*around.source.DeafSince) + ", and it still is"})
	}
	return append(lines, row{sign: "-", amount: terminal.Span(unread), text: "not processed yet"})
}

// standstill explains why the device is not judged at the moment, or by which clock.
func standstill(around surroundings) []row {
	switch {
	case around.source == nil:
		return nil
	case around.waiting():
		return []row{
			{label: "clock", text: "stands still: the source is configured no more; holter has listened for " + terminal.Span(around.source.Missed) + " without it"},
			{text: fmt.Sprintf("after 10m of that, or at once with \"holter sources retire %s\",", terminal.Printable(around.source.Name))},
			{text: "its devices are judged by the clocks of the other sources, with the silence that they have"},
		}
	case around.gone():
		return []row{{label: "clock", text: "follows those of the other sources: the source is configured no more"}}
	case around.deafNow():
		return []row{{label: "clock", text: "stands still: the source is deaf, so nobody behind it is judged"}}
	case around.source.Held:
		return []row{{label: "clock", text: "stands still: events cannot be kept, so nobody is judged; \"holter doctor\" looks for the reason"}}
	}
	return nil
}

// outlook shows when the device goes offline.
func outlook(d *httpapi.Device, around surroundings) []row {
	var lines []row
	if !d.Deadline.IsZero() && !around.waiting() {
		lines = append(lines, row{label: "deadline", text: instant(d, d.Deadline) + ", if no heartbeat arrives while the source is listening"})
	}
	l := d.Listening
	if !d.RunningFrom.IsZero() {
		lines = append(lines, row{label: "running", text: "since " + instant(d, d.RunningFrom) + ": silence counts from its start"})
	}
	if !d.Expected.IsZero() && d.State != "offline" {
		lines = append(lines, row{label: "expected", text: instant(d, d.Expected) + ": its silence counts from there"})
	}
	if l != nil && l.QuietBy > 0 && len(d.Policy.Quiet) > 0 {
		windows := terminal.Printable(strings.Join(d.Policy.Quiet, "; "))
		lines = append(lines, row{label: "quiet", text: windows + ": " + terminal.Span(l.QuietBy) + " of its silence up to the deadline do not count"})
	}
	if l == nil || l.NotBefore == 0 {
		return lines
	}
	label, left, over := "grace", "because the source was deaf", "passed: the source listened long enough after it was deaf"
	switch {
	case l.Excused:
		label, left = "window", "because a maintenance window excuses its silence"
		over = "passed: its timeout after a maintenance window that excused its silence"
	case l.Grace != nil: // the source was deaf
	case d.Closing != "" && l.QuietBy > 0 && !d.Expected.IsZero():
		left, over = "because its connection ended before it was expected", "passed: its timeout since it was expected"
	case d.Closing != "" && l.QuietBy > 0:
		left, over = "because its connection ended in a quiet window", "passed: its timeout outside of quiet windows"
	case l.Released:
		left = "because its ear was ending and closed its connection"
		over = "passed: it had the time to connect elsewhere after its ear had closed its connection"
	case l.Granted:
		left = "because its timeout became shorter while it was silent"
		over = "passed: it had time to report after its timeout had become shorter"
	}
	if l.NotBefore > l.Now {
		over = "not judged for another " + terminal.Span(l.NotBefore-l.Now) + " of listening, " + left
	}
	lines = append(lines, row{label: label, text: over})
	if g := l.Grace; g != nil {
		lines = append(lines,
			row{amount: terminal.Span(g.Each), text: "reconnect grace: what one gap puts its verdict off at most"},
			row{amount: terminal.Span(g.Most), text: "all gaps since its last heartbeat together, beyond its timeout"},
			row{amount: terminal.Span(g.Used), text: "of that used, " + terminal.Span(g.Left) + " left"})
	}
	return lines
}

// timeoutFrom says who has set the timeout.
func timeoutFrom(rule string) string {
	switch rule {
	case "default":
		return "the fleet's default timeout"
	case "device":
		return "timeout set for this device"
	case "announced":
		return "timeout set by the device itself"
	case "learned":
		return "timeout learned from its heartbeats"
	}
	return "timeout of " + terminal.Printable(rule) // a group
}

// rules shows the policy.
func rules(d *httpapi.Device) []row {
	p := d.Policy
	late, timeout := terminal.Span(p.LateAfter), terminal.Span(float64(p.Timeout))
	if never(float64(p.Timeout)) {
		timeout = "never"
	}
	if p.LateAfter == 0 || p.LateAfter >= float64(p.Timeout) && !never(float64(p.Timeout)) {
		late = "off"
	}
	from := timeoutFrom(p.From)
	if p.Own {
		from += ", with \"holter devices policy\""
	}
	lines := []row{
		{label: "policy", text: from},
		{amount: terminal.Span(p.Interval), text: "interval"},
		{amount: timeout, text: "timeout"},
		{amount: late, text: "late after"},
		{amount: terminal.Span(p.CloseGrace), text: "close grace"},
		{amount: terminal.Span(p.SleepLimit), text: "sleep limit"},
	}
	if p.Probes > 0 {
		lines = append(lines, row{amount: fmt.Sprintf("%d × %s", p.Probes, terminal.Span(p.ProbeWait)), text: "probes"})
	}
	if p.Recover > 1 {
		lines = append(lines, row{amount: strconv.Itoa(p.Recover), text: "heartbeats in a row until it is online again"})
	}
	if p.Expect != "" {
		lines = append(lines, row{text: "expected at " + terminal.Printable(p.Expect)})
	}
	for _, window := range p.Quiet {
		lines = append(lines, row{text: "quiet " + terminal.Printable(window)})
	}
	if d.Group != "" {
		lines = append(lines, row{label: "group", text: terminal.Printable(d.Group)})
	}
	return lines
}

func session(d *httpapi.Device) string {
	connection := "not connected"
	if d.Connected {
		connection = "connected"
	}
	return fmt.Sprintf("%s, epoch %d, event %d", connection, d.Epoch, d.Seq)
}

// table aligns lines: amounts to the right.
func table(lines []row) string {
	width := 0
	for _, l := range lines {
		width = max(width, len(l.amount))
	}
	var out strings.Builder
	for _, l := range lines {
		if l.amount == "" {
			fmt.Fprintf(&out, "  %-14s  %s\n", l.label, l.text)
			continue
		}
		fmt.Fprintf(&out, "  %-14s  %1s %*s  %s\n", l.label, l.sign, width, l.amount, l.text)
	}
	return out.String()
}

// instant returns a time, and its distance from now by the server's clock.
func instant(d *httpapi.Device, t time.Time) string {
	if t.IsZero() {
		return "at a time that is not known"
	}
	if away := t.Sub(d.AsOf); away > 0 {
		return terminal.Stamp(t) + " (in " + terminal.Span(terminal.Milliseconds(away)) + ")"
	}
	return terminal.Stamp(t) + " (" + terminal.Span(terminal.Milliseconds(d.AsOf.Sub(t))) + " ago)"
}
