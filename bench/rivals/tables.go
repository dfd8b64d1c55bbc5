package rivals

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/run"
)

// column is a column of a table: a metric, and what else to say of it.
type column struct {
	title  string
	metric metric
	versus bool   // a column follows that divides the metric by Holter's
	best   bool   // the least median is set in bold
	early  metric // a rival that has any of it did not wait for its deadlines, and cannot be the best
	count  bool   // the metric is a whole number
	text   func(contender) string
}

type table struct {
	title   string
	text    string
	columns []column
	rows    []string // rows that are no contender
}

// tables returns all tables in their order.
func tables(s sizes) []table { return append(operationTables(s), dueTables(s)...) }

// report returns the tables of what was measured.
func (b *bench) report(ctx context.Context) string {
	var w strings.Builder
	fmt.Fprintf(&w, "%d rounds. The process was kept from running for at most %s ms at a time: when that is much, so are the greatest figures. Each figure is the "+
		"median of the rounds, with the least and the greatest in parentheses. × is the median of the ratios to Holter's figure of the same round. Bold: the best of "+
		"its column.\n\n%s", b.Rounds, figures.Significant(figures.Millis(b.stall)), versions(ctx))
	var rows []string
	for _, c := range contenders() {
		rows = append(rows, c.name)
	}
	for _, t := range tables(b.sizes) {
		var columns []figures.Column[values]
		for _, c := range t.columns {
			columns = append(columns, b.columns(c)...)
		}
		if text := figures.Table("", slices.Concat(rows, t.rows), b.results, columns...); text != "" {
			fmt.Fprintf(&w, "\n### %s\n\n%s\n\n%s", t.title, t.text, text)
		}
	}
	return w.String() + b.losses()
}

// columns returns a column, and the one that compares it with Holter's.
func (b *bench) columns(c column) []figures.Column[values] {
	if c.text != nil {
		return []figures.Column[values]{figures.Text(c.title, func(row string, _ []values) string { return textOf(c, row) })}
	}
	f := figures.Column[values]{Title: c.title, Format: figures.Significant, Of: func(v values) float64 { return v.of(c.metric) }}
	if c.count {
		f.Format = figures.Fixed(0)
	}
	if c.best {
		f.Best = func(row string) bool { return row != baselineName && !b.isEarly(c.early, row) }
	}
	if !c.versus {
		return []figures.Column[values]{f}
	}
	ratio := figures.Column[values]{Title: "×", Format: figures.Significant, Of: f.Of, Middle: true, Over: func(string) string { return holterName }}
	return []figures.Column[values]{f, ratio}
}

func textOf(c column, row string) string {
	for _, contender := range contenders() {
		if contender.name == row {
			return c.text(contender)
		}
	}
	return ""
}

// isEarly reports whether a rival fired before its deadlines.
func (b *bench) isEarly(early metric, rival string) bool {
	return early != "" && b.median(early, rival) > 0
}

// versions returns the table of the contenders.
func versions(ctx context.Context) string {
	modules := make(map[string]string)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			modules[d.Path] = d.Version
		}
	}
	var w strings.Builder
	w.WriteString("| | version | cannot |\n|---|---|---|\n")
	for _, c := range contenders() {
		version := modules[c.module]
		switch {
		case strings.HasPrefix(c.name, holterName):
			version = run.Commit(ctx)
		case strings.Contains(c.name, "stand-in") && version != "":
			version = "ours, with ants " + version
		case c.name == stdlibContender().name:
			version = runtime.Version()
		case version == "":
			version = "ours"
		}
		fmt.Fprintf(&w, "| %s | %s | %s |\n", c.name, version, c.lacks)
	}
	return w.String()
}

// losses lists where a rival's figure is better than Holter's.
func (b *bench) losses() string {
	var w strings.Builder
	for _, t := range tables(b.sizes) {
		for _, c := range t.columns {
			var better []string
			ours := b.median(c.metric, holterName)
			for _, rival := range contenders() {
				theirs := b.median(c.metric, rival.name)
				if !c.best || rival.name == holterFuncName || !(theirs < ours) {
					continue
				}
				text := rival.name + " " + figures.Significant(theirs)
				if b.isEarly(c.early, rival.name) {
					text += " (fires early)"
				}
				better = append(better, text)
			}
			if len(better) > 0 {
				fmt.Fprintf(&w, "* %s, %s: %s against %s\n", t.title, c.title, strings.Join(better, ", "), figures.Significant(ours))
			}
		}
	}
	if w.Len() == 0 {
		w.WriteString("Nowhere, by the medians of the columns that have a best.\n")
	}
	return "\n### Where a rival is better than Holter\n\n" + w.String()
}

func operationTables(s sizes) []table {
	return []table{
		{
			title: "Arm",
			text:  fmt.Sprintf("%s timers are started one after the other, with timeouts of 30 to 90 s.", figures.Grouped(s.n)),
			columns: []column{
				{title: "ns", metric: armNanos, versus: true, best: true},
				{title: "allocations", metric: armAllocs},
			},
		},
		{
			title: "Heartbeat",
			text: fmt.Sprintf("%s live timers are renewed once each, in random order. The last row is no timer: it is what one "+
				"compare-and-swap on a random eight-byte word costs in the same loop.", figures.Grouped(s.n)),
			columns: []column{
				{title: "renewed by", text: func(c contender) string { return c.renews }},
				{title: "ns", metric: touchNanos, versus: true, best: true},
				{title: "allocations", metric: touchAllocs},
			},
			rows: []string{baselineName},
		},
		{
			title:   "Cancel",
			text:    fmt.Sprintf("%s live timers, each renewed once, are cancelled in random order.", figures.Grouped(s.n)),
			columns: []column{{title: "ns", metric: cancelNanos, versus: true, best: true}},
		},
		{
			title: "Memory",
			text: fmt.Sprintf("Live bytes per timer with %s timers: after arming, without the caller's table of ids, and without "+
				"closures, since all share one func. Growth: with %s timers, before and after %d heartbeats of each but one, the "+
				"earliest, which is silent.", figures.Grouped(s.n), figures.Grouped(s.growth), heartbeats),
			columns: []column{
				{title: "bytes", metric: liveBytesPer, versus: true, best: true},
				{title: fmt.Sprintf("bytes, %s timers", figures.Grouped(s.growth)), metric: grownBefore},
				{title: fmt.Sprintf("bytes, after %d heartbeats", heartbeats), metric: grownAfter, versus: true, best: true},
			},
		},
		{
			title: "Garbage collection",
			text: fmt.Sprintf("`runtime.GC()` with %s live timers, the median of five. The ids are live too, and where they are "+
				"pointers they are scanned as well.", figures.Grouped(s.n)),
			columns: []column{{title: "ms", metric: gcMillis, versus: true, best: true}},
		},
	}
}

func dueTables(s sizes) []table {
	return []table{
		{
			title: "All due at one instant",
			text: fmt.Sprintf("%s timers are due at the same instant; each callback adds one to a counter. The time from that instant "+
				"to the end of the last callback, and how many callbacks started before it.", figures.Grouped(s.n)),
			columns: []column{
				{title: "callbacks run on", text: func(c contender) string { return c.runs }},
				{title: "last after, ms", metric: instantLast, versus: true, best: true, early: instantEarly},
				{title: "early", metric: instantEarly, count: true},
				{title: "early by at most, ms", metric: instantEarlyBy},
				{title: "never fired", metric: instantMissing, count: true},
			},
		},
		{
			title: fmt.Sprintf("Due over %v", s.window),
			text: fmt.Sprintf("%s timers, armed in random order, are due evenly over %v. The time from each deadline to the start of its "+
				"callback; CPU time of the process over those %v, the callbacks' own clock reading (some 50 ns each) among it.",
				figures.Grouped(s.spread), s.window, s.window),
			columns: []column{
				{title: "late p50, ms", metric: windowP50, versus: true, best: true, early: windowEarly},
				{title: "p99, ms", metric: windowP99, best: true, early: windowEarly},
				{title: "max, ms", metric: windowMax},
				{title: "early", metric: windowEarly, count: true},
				{title: "early by at most, ms", metric: windowEarlyBy},
				{title: "CPU, s", metric: windowCPU, versus: true, best: true, early: windowEarly},
			},
		},
		{
			title: "One slow callback",
			text: fmt.Sprintf("One callback blocks for %v, with one worker where a rival has workers. Meanwhile %s other timers fall due, "+
				"and a timer is armed, renewed and cancelled each millisecond. Behind one blocked worker callbacks must wait; the clock "+
				"and the operations need not. Holter says itself when it found a timer due (an upper bound, a power of two of µs); of the "+
				"others only the callbacks can be seen.", s.block, figures.Grouped(s.others)),
			columns: []column{
				{title: "callbacks run on", text: func(c contender) string { return c.runs }},
				{title: "found due late p99, ms", metric: slowEngineP99},
				{title: "callback late p99, ms", metric: slowRunP99},
				{title: "longest arm, ms", metric: slowArmMax},
				{title: "longest renewal, ms", metric: slowTouchMax},
				{title: "longest cancel, ms", metric: slowCancelMax},
			},
		},
	}
}
