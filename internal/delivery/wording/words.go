package wording

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Words says what notifications are told with. The zero Words has the default words.
type Words struct {
	title, text *Template // nil for the default
}

// New returns words with the templates of a title and a text. An empty one stands for the default.
// Errors: mistakes in a template, with their positions.
func New(title, text string) (*Words, error) {
	w := &Words{}
	var errs [2]error
	if title != "" {
		w.title, errs[0] = Parse("title", title)
	}
	if text != "" {
		w.text, errs[1] = Parse("text", text)
	}
	return w, errors.Join(errs[:]...)
}

// Text is what is told: plain text, whose lines have no line ends.
type Text struct {
	Title string
	Lines []string
}

// Say returns the words for a notification, of one or of several together. A template that mentions
// neither .List nor .Count says nothing about several: the text then has its words for each. Where a
// template fails, the default words stand in for it: an alert that reads otherwise is better than none.
func (w *Words) Say(n *Notification) Text {
	if n.Count == 1 {
		return Text{Title: w.titleOf(n), Lines: w.linesOf(n)}
	}
	out := Text{Title: summary(n)}
	if w.title != nil && w.title.list {
		out.Title = w.titleOf(n)
	}
	if w.text != nil && w.text.list {
		out.Lines = w.linesOf(n)
		return out
	}
	for _, one := range n.List {
		if w.text != nil {
			out.Lines = append(out.Lines, w.linesOf(one)...)
		} else {
			out.Lines = append(out.Lines, w.titleOf(one))
		}
	}
	return out
}

func (w *Words) titleOf(n *Notification) string {
	if text, ok := said(w.title, n); ok {
		return line(text)
	}
	return defaultTitle(n)
}

func (w *Words) linesOf(n *Notification) []string {
	text, ok := said(w.text, n)
	if !ok {
		return defaultLines(n)
	}
	return strings.Split(strings.Trim(clean(text), "\n "), "\n")
}

// said returns what a template says, and false if there is none or it fails.
func said(t *Template, n *Notification) (string, bool) {
	if t == nil {
		return "", false
	}
	text, err := t.Execute(n)
	return text, (err == nil || errors.Is(err, ErrTooLong)) && strings.TrimSpace(text) != ""
}

// defaultTitle says in a few words what happened.
func defaultTitle(n *Notification) string {
	switch n.Type {
	case "device.online":
		if n.OfflineFor > 0 {
			return fmt.Sprintf("%s is back online after %v", n.Device, n.OfflineFor)
		}
	case "device.offline":
		return fmt.Sprintf("%s is offline%s", n.Device, because(n.Reason))
	case "device.failed":
		return n.Device + " reports a failure"
	case "device.session_replaced":
		return n.Device + " opened another session while one was open"
	case "device.maintenance.stopped":
		if n.Reason != "" {
			return fmt.Sprintf("%s is still offline%s after its maintenance", n.Device, because(n.Reason))
		}
	case "source.deaf":
		return fmt.Sprintf("Source %s hears nothing", n.Source)
	case "source.heard":
		return fmt.Sprintf("Source %s listens again after %v", n.Source, n.Deaf)
	case "group.outage.started":
		return fmt.Sprintf("Outage of group %s: %d of %d devices are silent", n.Group, n.Silent, n.Members)
	case "group.outage.ended":
		return fmt.Sprintf("The outage of group %s is over: %d of %d devices are silent", n.Group, n.Silent, n.Members)
	case Job:
		return cmp.Or(n.title, n.Message, "A job without a text")
	case Test:
		return "Test of Holter"
	}
	return n.Device + " " + plainWords()[n.Type]
}

// plainWords are what is said of a device by the events whose other fields matter little.
func plainWords() map[string]string {
	return map[string]string{
		"device.online": "is online", "device.late": "is late", "device.sleeping": "sleeps", "device.changed": "has other settings",
		"device.flapping.started": "keeps going offline and online", "device.flapping.stopped": "does not keep going offline and online any more",
		"device.maintenance.started": "is in maintenance", "device.maintenance.stopped": "is not in maintenance any more", "device.forgotten": "was removed",
		"device.run.started": "has begun a run", "device.run.finished": "has finished a run",
	}
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// defaultLines says what else is known.
func defaultLines(n *Notification) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	switch {
	case n.Type == Job && n.title == "": // the title has the text
		return nil
	case n.LastSeen != "" && n.Timeout > 0 && (n.Reason == "silence" || n.Type == "device.late"):
		add("Silent for %v of %v allowed, last seen %s", n.HeardSilence, n.Timeout, n.LastSeen)
	case n.LastSeen != "" && n.State == "offline":
		add("Last seen %s", n.LastSeen)
	case n.Type == "group.outage.started" && n.Before > 0:
		add("%d of them were so before", n.Before)
	case n.Type == "source.heard" && n.Members > 0:
		add("It waits for the heartbeats of %d devices", n.Members)
	}
	if n.Message != "" {
		lines = append(lines, n.Message)
	}
	if n.Group != "" && n.Device != "" {
		add("Group: %s", n.Group)
	}
	if n.Flapping {
		lines = append(lines, "It keeps going offline and online")
	}
	return lines
}

// summary says how many notifications of which kinds there are.
func summary(n *Notification) string {
	names := map[string]string{
		"device.online": "online", "device.late": "late", "device.offline": "offline", "device.sleeping": "sleeping", "device.failed": "with failures",
	}
	counts := make(map[string]int)
	var order []string
	devices := true
	for _, one := range n.List {
		name := cmp.Or(names[one.Type], "other")
		if counts[name]++; counts[name] == 1 {
			order = append(order, name)
		}
		devices = devices && name != "other"
	}
	if len(order) == 1 && devices {
		return fmt.Sprintf("%d devices %s", n.Count, order[0])
	}
	parts := make([]string, len(order))
	for i, name := range order {
		parts[i] = fmt.Sprintf("%d %s", counts[name], name)
	}
	if len(order) == 1 {
		return fmt.Sprintf("%d messages", n.Count)
	}
	return fmt.Sprintf("%d messages: %s", n.Count, strings.Join(parts, ", "))
}
