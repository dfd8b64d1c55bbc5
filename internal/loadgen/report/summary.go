package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/terminal"
)

// lateness of the generator from which on the summary warns.
const tooLate = Millis(10 * time.Millisecond)

// nonesInARow is how many kinds of mistakes a row names.
const nonesInARow = 7

// shownExamples is how many examples of a mistake the summary has.
const shownExamples = 2

// WriteSummary writes some twenty lines about a run.
func WriteSummary(out io.Writer, f *Final) error {
	var b strings.Builder
	b.WriteString(result(f) + "\n")
	for _, reason := range f.Outcome.Reasons {
		b.WriteString("  " + clean(reason) + "\n")
	}
	if t := FirstTrouble(f); t != nil {
		fmt.Fprintf(&b, "First trouble after %s, in phase %s: %s\n", clock(time.Duration(t.At).Round(time.Second)), clean(t.Phase), strings.Join(t.What, ", "))
	}
	b.WriteByte('\n')
	for _, r := range summaryRows(f) {
		for _, line := range r.lines(110) {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// result is one line: how it ended.
func result(f *Final) string {
	switch {
	case !f.Outcome.Passed && f.Outcome.Status == 0:
		return "NOT FINISHED"
	case !f.Outcome.Passed:
		return fmt.Sprintf("FAILED (exit status %d)", f.Outcome.Status)
	case f.Verdicts == nil:
		return "DONE (no verdicts were checked: --verify says where to read them)"
	default:
		return "PASSED"
	}
}

func summaryRows(f *Final) []row {
	rows := append(figureRows(f), verdictRows(f.Verdicts)...)
	for i, h := range f.Hits {
		words := []string{clean(h.Limit) + ": " + clean(h.Evidence)}
		if h.Mend != "" {
			words = append(words, "mend it with: "+clean(h.Mend))
		}
		rows = append(rows, row{first(i, "limits hit"), words})
	}
	return rows
}

// figureRows are the figures of the whole run, but for those of its verdicts.
func figureRows(f *Final) []row {
	last, most := f.last(), peaks(f.Samples)
	seconds := max(f.Duration().Seconds(), 1e-9)
	return []row{
		{"scenario", []string{headline(&f.Run)}},
		{"ran", []string{
			clock(f.Duration().Round(100 * time.Millisecond)), "from " + f.Began.UTC().Format("2006-01-02 15:04:05") + " UTC",
			plural(max(last.Workers, most.workers), "worker"), deadWords(last.Dead),
		}},
		{"connections", []string{
			count(most.welcomed) + " at the most", count(last.Welcomed) + " at the end", count(last.Connects) + " begun",
			count(last.Failed) + " failed", count(last.Lost) + " lost", count(most.rate.Connects) + "/s at the most",
		}},
		{"connecting", finalWords(f.Connect)},
		{"heartbeats", []string{
			count(last.Sent) + " sent", count(last.Answered) + " answered", count(float64(last.Sent)/seconds) + "/s on average",
			count(most.rate.Sent) + "/s at the most",
		}},
		{"round trip", finalWords(f.RTT)},
		{"from plan", append(finalWords(f.RTTPlanned), "counted from when it should have been sent")},
		{"own lateness", append(finalWords(f.Lateness), lateWords(f))},
		{"generator", []string{fmt.Sprintf("%.2f cores at the most", most.cpu), size(most.memory) + " at the most", perDevice(most)}},
		{"errors", errorCounts(last, terminal.Screen{}.In)},
	}
}

func verdictRows(v *Verdicts) []row {
	if v == nil {
		return nil
	}
	words := []string{count(v.Right) + " right"}
	if v.Excused > 0 {
		words = append(words, count(v.Excused)+" excused (on devices that sleep, stall or could not get in)")
	}
	if v.UnjudgedDevices > 0 {
		words = append(words, fmt.Sprintf("%s unjudged, on %s whose worker died", count(v.Unjudged), plural(v.UnjudgedDevices, "device")))
	}
	for _, m := range v.Mistakes {
		if !m.None() {
			words = append(words, count(m.Count)+" "+clean(m.Name)+allowed(m))
		}
	}
	rows := []row{{"verdicts", words}}
	none := v.None()
	for i := 0; i < len(none); i += nonesInARow {
		var names []string
		for _, m := range none[i:min(i+nonesInARow, len(none))] {
			names = append(names, clean(m.Name))
		}
		head := "none of: "
		if i > 0 {
			head = ""
		}
		tail := ","
		if i+nonesInARow >= len(none) {
			tail = ""
		}
		rows = append(rows, row{"", []string{head + strings.Join(names, ", ") + tail}})
	}
	for i, text := range v.NotChecked {
		rows = append(rows, row{first(i, "NOT CHECKED"), []string{clean(text)}})
	}
	rows = append(rows, v.clockRows()...)
	detection := finalWords(v.Detection)
	if v.DetectionAllowed > 0 {
		detection = append(detection, "p99 allowed: "+short(v.DetectionAllowed))
	}
	rows = append(rows, row{"detection", append(detection, "from the deadline to when the verdict was here")})
	if v.Decided.Count > 0 {
		rows = append(rows, row{"decided", append(finalWords(v.Decided), "the same, to when it says that it was decided")})
	}
	for _, m := range v.Mistakes {
		for i, e := range m.Examples {
			if i == shownExamples || m.Of != "" {
				break
			}
			rows = append(rows, row{first(i, "  for example"), []string{clean(m.Name) + ": " + e.words()}})
		}
	}
	return rows
}

// clockRows describes the clocks of those who judge.
func (v *Verdicts) clockRows() []row {
	rows := []row{{"deaf", []string{v.Deaf.Words()}}}
	if v.Behind.Back > 0 || time.Duration(v.Behind.Most) > time.Second {
		rows = append(rows, row{"behind", []string{v.Behind.Words()}})
	}
	for i, c := range v.Clocks {
		words := c.Words()
		if len(v.Clocks) > 1 {
			words = clean(c.From) + ": " + words
		}
		rows = append(rows, row{first(i, "clock"), []string{words}})
	}
	return rows
}

// Words describes the deaf time.
func (d Deaf) Words() string {
	if d.Count == 0 {
		return "never"
	}
	text := fmt.Sprintf("%s in all", short(d.Total))
	if d.Count > 1 {
		text = fmt.Sprintf("%s, %s, the longest %s", plural(d.Count, "time"), text, short(d.Longest))
	}
	switch {
	case d.Allowed < 0:
		text += " (any time allowed)"
	case d.Total > d.Allowed:
		text += fmt.Sprintf(" (only %s allowed)", short(d.Allowed))
	default:
		text += fmt.Sprintf(" (%s allowed)", short(d.Allowed))
	}
	if len(d.Still) > 0 {
		text += "; STILL DEAF at the end: " + clean(strings.Join(d.Still, ", "))
	}
	return text
}

// Words describes the listening clocks.
func (b Behind) Words() string {
	text := "listening clocks by " + short(b.Most) + " at the most"
	if b.Back > 0 {
		text += "; " + plural(int(b.Back), "device") + " back late, but before the clock reached the deadline"
	}
	return text
}

// Words describes the clock.
func (c Clock) Words() string {
	text := "not measured: the times that are told are taken as they are"
	switch side := "ahead of"; {
	case !c.Measured && !c.Set:
	case c.Skew == 0 && c.Error == 0:
		text = "the same as here"
	default:
		if c.Skew < 0 {
			side = "behind"
		}
		text = fmt.Sprintf("%s %s the one here, give or take %s", short(max(c.Skew, -c.Skew)), side, short(c.Error))
	}
	switch {
	case c.Set:
		text += ", as was said (--clock-skew)"
	case c.Most-c.Least > max(Millis(10*time.Millisecond), 4*c.Error):
		text += fmt.Sprintf("; it MOVED by %s", short(c.Most-c.Least))
	}
	return text
}

func allowed(m Mistake) string {
	switch {
	case m.Of != "":
		return " (of the " + clean(m.Of) + ")"
	case m.Allowed < 0:
		return " (any number allowed)"
	case m.Held():
		return fmt.Sprintf(" (%s allowed)", count(m.Allowed))
	case m.Allowed == 0:
		return " (none allowed)"
	default:
		return fmt.Sprintf(" (only %s allowed)", count(m.Allowed))
	}
}

func (e Example) words() string {
	text := clean(e.Device) + ": " + clean(e.Done) + "; said: " + clean(e.Said)
	if e.Timed() {
		text += " at " + e.At.UTC().Format("15:04:05.000")
	}
	return text
}

// high is the most that was seen of something.
type high struct {
	welcomed, workers int
	rate              Rate
	cpu               float64
	memory            uint64
}

func peaks(samples []Sample) high {
	var h high
	for i := range samples {
		s := &samples[i]
		h.welcomed, h.workers = max(h.welcomed, s.Welcomed), max(h.workers, s.Workers)
		h.rate.Connects, h.rate.Sent = max(h.rate.Connects, s.Rate.Connects), max(h.rate.Sent, s.Rate.Sent)
		h.cpu, h.memory = max(h.cpu, s.CPU), max(h.memory, s.Memory)
	}
	return h
}

func perDevice(h high) string {
	if h.welcomed < 1000 { // the program itself would be most of it
		return ""
	}
	return count(h.memory/uint64(h.welcomed)) + " B per connection, all included"
}

func finalWords(d Distribution) []string {
	if d.Count == 0 {
		return []string{"nothing to measure"}
	}
	return latencyWords(d.Latency)
}

func lateWords(f *Final) string {
	if f.Lateness.P99 < tooLate {
		return ""
	}
	return "the generator could not keep up: trust the row above, not the round trip"
}

func deadWords(n int) string {
	if n == 0 {
		return ""
	}
	return plural(n, "worker") + " died"
}

func errorCounts(s *Sample, paint func(color terminal.Paint, text string) string) []string {
	var words []string
	for _, cause := range s.Causes() {
		words = append(words, paint(terminal.Red, count(s.Errors[cause])+" "+clean(cause)))
	}
	if len(words) == 0 {
		return []string{paint(terminal.Green, "none")}
	}
	return words
}

func first(i int, head string) string {
	if i > 0 {
		return ""
	}
	return head
}
