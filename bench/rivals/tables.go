package rivals

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/run"
)

type column = figures.Column[values]

// table is a table of the report, with a row for each contender that has any of its figures.
type table struct {
	title   string
	chart   string // the file with a chart of the columns that have a best; "" for none
	text    string
	columns []column
}

// compared returns the columns that have a best.
func (t *table) compared() []column {
	return slices.DeleteFunc(slices.Clone(t.columns), func(c column) bool { return c.Best == nil })
}

// figure returns a column of a metric.
func figure(title string, m metric) column {
	return column{Title: title, Format: figures.Significant, Of: m.of}
}

// count returns a column of whole numbers.
func count(title string, m metric) column { return figures.Col(title, 0, m.of) }

// best returns a column of a metric, with the least median in bold.
func (b *bench) best(title string, m metric) column {
	c := figure(title, m)
	c.Best = func(row string) bool { return row != baselineName && !b.isEarly(m, row) }
	return c
}

// ratio returns a column that divides a metric by Holter's.
func ratio(m metric) column {
	c := figures.Ratio("×", m.of, holterName)
	c.Middle, c.Format = true, figures.Significant
	return c
}

// isEarly reports whether a rival fired before its deadlines where a metric was measured. Then it
// cannot be the best.
func (b *bench) isEarly(m metric, rival string) bool {
	kind, _, _ := strings.Cut(string(m), "_")
	return b.median(metric(kind+"_early"), rival) > 0
}

// tables returns all tables in their order.
func (b *bench) tables() []table { return append(b.liveTables(), b.dueTables()...) }

func (b *bench) liveTables() []table {
	n, growth := figures.Grouped(b.n), figures.Grouped(b.growth)
	return []table{
		{
			"Heartbeat", "heartbeat.svg", n + " live timers are renewed once each, in random order. The last row is no timer: it is " +
				"what one compare-and-swap on a random eight-byte word costs in the same loop.",
			[]column{b.best("ns", "touch_ns"), ratio("touch_ns"), figure("allocations", "touch_allocs")},
		},
		{
			"Arm and cancel", "arm-cancel.svg", n + " timers are started one after the other, with timeouts of 30 to 90 s, renewed once " +
				"each, and cancelled in random order.",
			[]column{
				b.best("arm, ns", "arm_ns"), ratio("arm_ns"), figure("allocations", "arm_allocs"), b.best("cancel, ns", "cancel_ns"),
				ratio("cancel_ns"),
			},
		},
		{
			"Memory", "memory.svg", fmt.Sprintf("Live bytes per timer after arming, without the caller's table of ids, and without "+
				"closures, since all share one func; and after %d heartbeats of each but one, the earliest, which is silent.", heartbeats),
			[]column{
				b.best("bytes, "+n+" timers", "live_bytes"), ratio("live_bytes"), figure("bytes, "+growth+" timers", "grown_before"),
				b.best("bytes, "+growth+" timers after heartbeats", "grown_after"), ratio("grown_after"),
			},
		},
		{
			"Garbage collection", "", "`runtime.GC()` with " + n + " live timers, the median of five. The ids are live too, and where they " +
				"are pointers they are scanned as well.",
			[]column{b.best("ms", "gc_ms"), ratio("gc_ms")},
		},
	}
}

func (b *bench) dueTables() []table {
	return []table{
		{
			"All due at one instant", "due.svg", figures.Grouped(b.n) + " timers are due at the same instant; each callback adds one to a counter. " +
				"The time from that instant to the end of the last callback, and how many callbacks started before it.",
			[]column{
				b.best("last after, ms", "instant_last"), ratio("instant_last"), count("early", "instant_early"),
				figure("early by at most, ms", "instant_early_by"), count("never fired", "instant_missing"),
			},
		},
		{
			fmt.Sprintf("Due over %v", b.window), "",
			fmt.Sprintf("%s timers, armed in random order, are due evenly over %v. The time from each deadline to the start of its "+
				"callback; CPU time of the process over those %v, the callbacks' own clock reading (some 50 ns each) among it.",
				figures.Grouped(b.spread), b.window, b.window),
			[]column{
				b.best("late p50, ms", "window_p50"), ratio("window_p50"), b.best("p99, ms", "window_p99"), figure("max, ms", "window_max"),
				count("early", "window_early"), figure("early by at most, ms", "window_early_by"), b.best("CPU, s", "window_cpu"), ratio("window_cpu"),
			},
		},
		{
			"One slow callback", "", fmt.Sprintf("One callback blocks for %v, with one worker where a rival has workers. Meanwhile %s other "+
				"timers fall due, and a timer is armed, renewed and cancelled each millisecond. Behind one blocked worker callbacks must "+
				"wait; the clock and the operations need not. Holter says itself when it found a timer due (an upper bound, a power of two "+
				"of µs); of the others only the callbacks can be seen.", b.block, figures.Grouped(b.others)),
			[]column{
				figure("found due late p99, ms", "slow_engine_p99"), figure("callback late p99, ms", "slow_run_p99"),
				figure("longest arm, ms", "slow_arm_max"), figure("longest renewal, ms", "slow_touch_max"), figure("longest cancel, ms", "slow_cancel_max"),
			},
		},
	}
}

// report returns the tables of what was measured.
func (b *bench) report(ctx context.Context, stall time.Duration) string {
	var w strings.Builder
	fmt.Fprintf(&w, "%d rounds. The machine itself stalled for at most %s ms at a time: when that is much, so are the greatest figures. Each figure is the "+
		"median of the rounds, with the least and the greatest in parentheses. × is the median of the ratios to Holter's figure of the same round. Bold: the best of "+
		"its column.\n\n%s", b.Rounds, figures.Significant(figures.Millis(stall)), versions(ctx))
	var rows []string
	for _, c := range contenders() {
		rows = append(rows, c.name)
	}
	for _, t := range b.tables() {
		if text := figures.Table("", rows, b.results, t.columns...); text != "" {
			fmt.Fprintf(&w, "\n### %s\n\n%s\n\n%s", t.title, t.text, text)
		}
	}
	return w.String() + b.losses()
}

// versions returns the table of the contenders.
func versions(ctx context.Context) string {
	modules := make(map[string]string)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			modules[d.Path] = d.Version
		}
	}
	modules[holterModule] = run.Commit(ctx)
	var w strings.Builder
	w.WriteString("| | version | renewed by | callbacks run on | cannot |\n|---|---|---|---|---|\n")
	for _, c := range timers() {
		fmt.Fprintf(&w, "| %s | %s | %s | %s | %s |\n", c.name, c.version+modules[c.module], c.renews, c.runs, c.lacks)
	}
	return w.String()
}

// losses lists where a rival's figure is better than Holter's, in the columns that have a best.
func (b *bench) losses() string {
	var w strings.Builder
	for _, t := range b.tables() {
		for _, c := range t.compared() {
			ours := figures.Median(c.Figures(b.results, holterName))
			var better []string
			for _, rival := range timers() {
				theirs := figures.Median(c.Figures(b.results, rival.name))
				if rival.module == holterModule || !(theirs < ours) {
					continue
				}
				early := ""
				if !c.Best(rival.name) {
					early = " (fires early)"
				}
				better = append(better, rival.name+" "+c.Format(theirs)+early)
			}
			if len(better) > 0 {
				fmt.Fprintf(&w, "* %s, %s: %s against %s\n", t.title, c.Title, strings.Join(better, ", "), c.Format(ours))
			}
		}
	}
	return "\n### Where a rival is better than Holter\n\n" + cmp.Or(w.String(), "Nowhere, by the medians.\n")
}
