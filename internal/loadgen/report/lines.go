package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Lines is a [View] for what is no terminal: one line a sample, in columns that stay the same.
// Lines that begin with # are not figures.
type Lines struct {
	out   io.Writer
	run   Run
	begun bool
}

// NewLines returns a view that writes lines.
func NewLines(out io.Writer, run Run) *Lines { return &Lines{out: out, run: run} }

// column is one of the columns of Lines.
type column struct {
	head  string
	width int // below 0: to the left
	of    func(s *Sample) string
}

func columns() []column {
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	ms := func(l Latency, d Millis) string {
		if l.Count == 0 {
			return "-"
		}
		return fmt.Sprintf("%.2f", d.number())
	}
	score := func(of func(*Score) uint64) func(*Sample) string {
		return func(s *Sample) string {
			if s.Score == nil {
				return "-"
			}
			return number(of(s.Score))
		}
	}
	return []column{
		{"time", -8, func(s *Sample) string { return stopwatch(s.At) }},
		{"phase", -14, func(s *Sample) string { return word(s.Phase) }},
		{"done%", 5, func(s *Sample) string { return fmt.Sprintf("%.0f", percent(s.Done)) }},
		{"open", 8, func(s *Sample) string { return strconv.Itoa(s.Welcomed) }},
		{"connecting", 10, func(s *Sample) string { return strconv.Itoa(s.Connecting) }},
		{"failed", 8, func(s *Sample) string { return number(s.Failed) }},
		{"lost", 8, func(s *Sample) string { return number(s.Lost) }},
		{"connects/s", 10, func(s *Sample) string { return fmt.Sprintf("%.0f", s.Rate.Connects) }},
		{"sent/s", 9, func(s *Sample) string { return fmt.Sprintf("%.0f", s.Rate.Sent) }},
		{"answered/s", 10, func(s *Sample) string { return fmt.Sprintf("%.0f", s.Rate.Answered) }},
		{"rtt50ms", 9, func(s *Sample) string { return ms(s.RTT, s.RTT.P50) }},
		{"rtt99ms", 9, func(s *Sample) string { return ms(s.RTT, s.RTT.P99) }},
		{"rttmaxms", 9, func(s *Sample) string { return ms(s.RTT, s.RTT.Max) }},
		{"late99ms", 9, func(s *Sample) string { return ms(s.Lateness, s.Lateness.P99) }},
		{"right", 8, score(func(c *Score) uint64 { return c.Right })},
		{"false", 6, score(func(c *Score) uint64 { return c.FalseOffline })},
		{"missed", 6, score(func(c *Score) uint64 { return c.Missed })},
		{"reason", 6, score(func(c *Score) uint64 { return c.WrongReason })},
		{"gaps", 6, score(func(c *Score) uint64 { return c.Gaps })},
		{"cpu", 5, func(s *Sample) string { return fmt.Sprintf("%.2f", s.CPU) }},
		{"MiB", 7, func(s *Sample) string { return number(s.Memory >> 20) }},
		{"errors", -1, func(s *Sample) string { return errorList(s) }},
	}
}

// Show implements [View].
func (l *Lines) Show(s *Sample) error {
	var b strings.Builder
	if !l.begun {
		l.begun = true
		fmt.Fprintf(&b, "# %s\n# ", headline(&l.run))
		for i, c := range columns() {
			cell(&b, i, c.width, c.head)
		}
		b.WriteByte('\n')
	}
	for _, note := range s.Notes {
		fmt.Fprintf(&b, "# %s %s\n", stopwatch(s.At), clean(note))
	}
	b.WriteString("  ")
	for i, c := range columns() {
		cell(&b, i, c.width, c.of(s))
	}
	b.WriteByte('\n')
	_, err := io.WriteString(l.out, b.String())
	return err
}

// End implements [View].
func (l *Lines) End(f *Final) error {
	if _, err := io.WriteString(l.out, "\n"); err != nil {
		return err
	}
	return WriteSummary(l.out, f)
}

// Close implements [View]: there is nothing to do.
func (l *Lines) Close() error { return nil }

func cell(b *strings.Builder, i, width int, text string) {
	if i > 0 {
		b.WriteByte(' ')
	}
	fmt.Fprintf(b, "%*s", width, text)
}

// word makes one column of a name with spaces.
func word(name string) string { return strings.ReplaceAll(clean(name), " ", "-") }

func errorList(s *Sample) string {
	var list []string
	for _, cause := range s.Causes() {
		list = append(list, fmt.Sprintf("%s=%d", word(cause), s.Errors[cause]))
	}
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, ",")
}

func percent(share float64) float64 { return 100 * min(max(share, 0), 1) }

// headline says what runs.
func headline(r *Run) string {
	f := &r.Fleet
	return fmt.Sprintf("%s: %s over %s to %s", clean(f.Scenario), plural(f.Devices, "device"), f.Protocol, targets(f.Targets))
}

func targets(list []string) string {
	switch len(list) {
	case 0:
		return "no target"
	case 1:
		return clean(list[0])
	}
	return fmt.Sprintf("%s and %d more", clean(list[0]), len(list)-1)
}
