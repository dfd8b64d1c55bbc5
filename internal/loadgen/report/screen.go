package report

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/holter-iot/holter/internal/terminal"
)

// Escape sequences. The second screen of a terminal leaves alone what was on the first one;
// between begin and end of a frame it may hold back what it draws, if it knows them; with line wrap
// off it cuts what is too long.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
	leaveScreen = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
	beginFrame  = "\x1b[?2026h\x1b[H"
	endFrame    = "\x1b[J\x1b[?2026l"
	endOfLine   = "\x1b[K"
)

// ScreenConfig says what a terminal can do.
type ScreenConfig struct {
	// Size is asked before each frame; nil: 80 columns and 24 lines.
	Size func() (columns, lines int)
	// Plain uses no colours, ASCII no other characters.
	Plain, ASCII bool
}

// Screen is a [View] for a terminal: one screen that is drawn again for each sample.
type Screen struct {
	out io.Writer
	run Run
	cfg ScreenConfig

	stages []Stage
	now    int // the stage that goes on, -1 before the first sample
	before *Sample
	notes  []string // the latest, with the time

	mu   sync.Mutex // guards open, and writing
	open bool
}

// keptNotes is how many notes stay on the screen.
const keptNotes = 4

// NewScreen returns a view that draws a screen.
func NewScreen(out io.Writer, run Run, cfg ScreenConfig) *Screen {
	if cfg.Size == nil {
		cfg.Size = func() (columns, lines int) { return 80, 24 }
	}
	return &Screen{out: out, run: run, cfg: cfg, stages: run.Fleet.Stages, now: -1}
}

// Show implements [View].
func (v *Screen) Show(s *Sample) error {
	v.follow(s)
	columns, lines := v.cfg.Size()
	frame := v.frame(s, columns, lines)
	v.mu.Lock()
	defer v.mu.Unlock()
	var b strings.Builder
	if !v.open {
		v.open = true
		b.WriteString(enterScreen)
	}
	b.WriteString(beginFrame)
	for i, line := range frame {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + endOfLine)
	}
	b.WriteString(endFrame)
	_, err := io.WriteString(v.out, b.String())
	return err
}

// End implements [View].
func (v *Screen) End(f *Final) error { return errors.Join(v.Close(), WriteSummary(v.out, f)) }

// Close implements [View].
func (v *Screen) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.open {
		return nil
	}
	v.open = false
	_, err := io.WriteString(v.out, leaveScreen)
	return err
}

// follow notes which stage it is, and what is to be remembered of a sample.
func (v *Screen) follow(s *Sample) {
	if v.before == nil || newStage(v.before, s) {
		next := v.now + 1
		for next < len(v.stages) && v.stages[next].Name != s.Phase {
			next++
		}
		if next == len(v.stages) { // a stage that is not of the plan
			v.stages = append(slices.Clip(v.stages), Stage{Name: s.Phase})
		}
		v.now = next
	}
	for _, note := range s.Notes {
		v.notes = append(v.notes, stopwatch(s.At)+"  "+clean(note))
	}
	v.notes = v.notes[max(len(v.notes)-keptNotes, 0):]
	v.before = &Sample{Phase: s.Phase, Done: s.Done}
}

func (v *Screen) paint(color terminal.Paint, text string) string {
	return terminal.Screen{Colour: !v.cfg.Plain}.In(color, text)
}

// alarm paints a count that should be 0.
func (v *Screen) alarm(n uint64, what string) string {
	text := count(n) + " " + what
	if n == 0 {
		return text
	}
	return v.paint(terminal.Red, text)
}

func (v *Screen) frame(s *Sample, columns, lines int) []string {
	below := slices.Concat([]string{""}, v.figures(s, columns), v.noteLines())
	above := v.head(s, columns)
	stages := v.stageLines(s, columns, max(lines-len(above)-len(below), 1))
	frame := slices.Concat(above, stages, below)
	if len(frame) > lines && lines > 0 {
		frame = frame[:lines]
	}
	if v.cfg.ASCII {
		for i := range frame {
			frame[i] = ascii(frame[i])
		}
	}
	return frame
}

func (v *Screen) head(s *Sample, columns int) []string {
	right := stopwatch(s.At)
	if planned := v.run.Fleet.Length; planned > 0 {
		right += " / " + stopwatch(planned)
	}
	left := terminal.Shorten(headline(&v.run), max(columns-len(right)-2, 10), false)
	space := strings.Repeat(" ", max(columns-utf8.RuneCountInString(left)-len(right), 2))
	return []string{v.paint(terminal.Bold, left) + space + v.paint(terminal.Faint, right), ""}
}

// stageLines shows the stages, as many as there is room for, around the one that goes on.
func (v *Screen) stageLines(s *Sample, columns, room int) []string {
	from := min(max(v.now-room/2, 0), max(len(v.stages)-room, 0))
	to := min(from+room, len(v.stages))
	wide := 6
	for _, stage := range v.stages {
		wide = max(wide, min(utf8.RuneCountInString(stage.Name), columns/4))
	}
	bar := min(max(columns-wide-30, 8), 50)
	var lines []string
	for i := from; i < to; i++ {
		stage := v.stages[i]
		done, mark, color := 0.0, "  ", terminal.Faint
		switch {
		case i < v.now:
			done, color = 1, terminal.Green
		case i == v.now:
			done, mark, color = min(max(s.Done, 0), 1), "▸ ", terminal.Bold
		}
		full := int(done*float64(bar) + 0.5)
		name := terminal.Shorten(clean(stage.Name), wide, false)
		name += strings.Repeat(" ", wide-utf8.RuneCountInString(name))
		line := mark + name + "  " + v.paint(terminal.Blue, strings.Repeat("█", full)) + v.paint(terminal.Faint, strings.Repeat("░", bar-full))
		line += fmt.Sprintf(" %3.0f%%", 100*done)
		if stage.Length > 0 {
			line += "  of " + clock(stage.Length)
		}
		if i == v.now {
			line = v.paint(color, mark+name) + line[len(mark+name):]
		}
		lines = append(lines, line)
	}
	return lines
}

func (v *Screen) figures(s *Sample, columns int) []string {
	missing := fmt.Sprintf("%s open of %s wanted", count(s.Welcomed), count(s.Wanted))
	rows := []row{
		{"connections", []string{missing, count(s.Connecting) + " connecting", v.alarm(s.Failed, "failed"), v.alarm(s.Lost, "lost")}},
		{"connects", []string{count(s.Rate.Connects) + "/s", count(s.Connects) + " in all"}},
		{"heartbeats", []string{count(s.Rate.Sent) + "/s sent", count(s.Rate.Answered) + "/s answered", count(s.Sent) + " in all"}},
		{"round trip", latencyWords(s.RTT)},
		{"from plan", latencyWords(s.RTTPlanned)},
		{"own lateness", latencyWords(s.Lateness)},
		{"generator", []string{fmt.Sprintf("%.2f cores", s.CPU), size(s.Memory), plural(s.Workers, "worker"), v.paint(terminal.Red, deadWords(s.Dead))}},
		{"errors", errorCounts(s, v.paint)},
		{"verdicts", v.scoreWords(s)},
	}
	var lines []string
	for _, r := range rows {
		lines = append(lines, r.lines(columns)...)
	}
	return lines
}

func (v *Screen) scoreWords(s *Sample) []string {
	c := s.Score
	if c == nil {
		return []string{v.paint(terminal.Faint, "nobody follows them (--verify)")}
	}
	return []string{
		v.paint(terminal.Green, count(c.Right)+" right"), v.alarm(c.FalseOffline, "false offline"), v.alarm(c.Missed, "missed"),
		v.alarm(c.WrongReason, "wrong reason"), v.alarm(c.Gaps, "gaps"), v.alarm(c.Order, "out of order"),
	}
}

func (v *Screen) noteLines() []string {
	if len(v.notes) == 0 {
		return nil
	}
	lines := []string{""}
	for _, note := range v.notes {
		lines = append(lines, "  "+v.paint(terminal.Yellow, note))
	}
	return lines
}

func latencyWords(l Latency) []string {
	if l.Count == 0 {
		return []string{"-"}
	}
	of := func(name string, d Millis) string { return name + " " + short(d) }
	return []string{of("p50", l.P50), of("p99", l.P99), of("p99.9", l.P999), of("max", l.Max)}
}
