package replay

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/habit"
)

// explain writes the sentences.
func (a *Answer) explain() {
	for i := range a.Points {
		a.Points[i].Sentence = a.sentence(&a.Points[i], a.Points[i].name(a.Field))
	}
	if a.Learned != nil {
		a.Learned.Sentence = a.sentence(a.Learned, "The learned deadlines")
	}
	a.Today.Sentence = a.ofToday()
	a.Sentence = a.headline()
}

// name writes the value of a point.
func (p *Point) name(f Field) string {
	switch {
	case f == OutageShare:
		return strconv.FormatFloat(p.Share*100, 'g', 3, 64) + " %"
	case p.Value == 0:
		return "none"
	}
	return habit.Show(p.Value.Duration())
}

// instead writes today's value.
func (a *Answer) instead() string {
	switch {
	case a.Field == OutageShare:
		return "as configured"
	case a.Today.Least != a.Today.Most:
		return fmt.Sprintf("%s to %s", habit.Show(a.Today.Least.Duration()), habit.Show(a.Today.Most.Duration()))
	}
	return a.Today.name(a.Field)
}

// sentence says what differs from today.
func (a *Answer) sentence(p *Point, name string) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch a.Field {
	case LateAfter:
		parts = append(parts, a.more(p.Lates-a.Today.Lates, p.Bound, "time late", "times late"))
	case OutageShare:
		parts = append(parts, a.more(p.GroupOutages-a.Today.GroupOutages, false, "outage of a group", "outages of groups"),
			a.more(p.Notifications-a.Today.Notifications, false, "notification", "notifications"))
	case CloseGrace:
		parts = append(parts, a.more(p.Closed-a.Today.Closed, p.Bound, "verdict on an ended connection", "verdicts on ended connections"))
	case Timeout:
		parts = append(parts, a.more(p.FalseAlarms-a.Today.FalseAlarms, p.Bound, "false alarm", "false alarms"))
	}
	if p.Sooner > 0 {
		add("%s seen %s", plural(p.Sooner, "outage", "outages"), by(p.SoonerBy, "sooner"))
	}
	if p.Later > 0 {
		add("%s seen %s", plural(p.Later, "outage", "outages"), by(p.LaterBy, "later"))
	}
	return fmt.Sprintf("%s instead of %s: %s", name, a.instead(), strings.Join(parts, ", "))
}

// by says by how much, or that it is not seen either way.
func by(d Millis, how string) string {
	switch {
	case d > 0:
		return habit.Show(d.Duration()) + " " + how
	case how == "later":
		return "no more"
	}
	return "that are missed today"
}

// more says how many more there are in a month, or, of a short window, in all.
func (a *Answer) more(n int, bound bool, one, many string) string {
	window := a.To.Sub(a.From)
	size, in := math.Abs(float64(n)), "in the window"
	if window >= 24*time.Hour {
		size, in = size*float64(month)/float64(window), "a month"
	}
	text, noun := strconv.FormatFloat(math.Round(size), 'f', -1, 64), many
	if size < 10 {
		text = strings.TrimSuffix(strconv.FormatFloat(size, 'f', 1, 64), ".0")
	}
	if text == "1" {
		noun = one
	}
	switch {
	case n == 0 && bound:
		return "no more " + many + " that are known of"
	case n == 0:
		return "as many " + many
	case n < 0:
		return fmt.Sprintf("%s fewer %s %s", text, noun, in)
	case bound:
		return fmt.Sprintf("at least %s more %s %s", text, noun, in)
	}
	return fmt.Sprintf("%s more %s %s", text, noun, in)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// ofToday says what the policies in force did.
func (a *Answer) ofToday() string {
	t := &a.Today
	return fmt.Sprintf("Today, %s: %s and %d of %s seen", a.instead(), plural(t.FalseAlarms, "false alarm", "false alarms"), t.Seen, plural(a.Outages, "outage", "outages"))
}

// headline returns the sentence of the learned deadlines, of the only value, or of the least value that
// costs nothing.
func (a *Answer) headline() string {
	switch {
	case len(a.Points) == 1:
		return a.Points[0].Sentence
	case a.Learned != nil:
		return a.Learned.Sentence
	case a.Field != Timeout:
		return a.Today.Sentence
	}
	for i := range a.Points {
		if p := &a.Points[i]; !p.Bound && p.FalseAlarms <= a.Today.FalseAlarms && p.Value < a.Today.Value {
			return p.Sentence
		}
	}
	return a.Today.Sentence
}
