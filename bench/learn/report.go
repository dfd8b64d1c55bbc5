package learn

import (
	"fmt"
	"math"
	"strings"

	"github.com/holter-iot/holter/bench/internal/figures"
)

// row is what one round has found of a contender in a group.
type row struct {
	quality

	streams []quality // of the group
}

// rows returns the results of a group by contender.
func (b *bench) rows(group string) map[string][]row {
	rows := make(map[string][]row)
	for _, r := range b.results[group] {
		for i, c := range b.contenders {
			rows[c.name] = append(rows[c.name], row{r.all[i], r.streams[i]})
		}
	}
	return rows
}

func (b *bench) names() []string {
	names := make([]string, 0, len(b.contenders))
	for _, c := range b.contenders {
		names = append(names, c.name)
	}
	return names
}

// report returns all tables.
func (b *bench) report() string {
	var w strings.Builder
	fmt.Fprintf(&w, "%d simulated days, of which the first %d are a warm-up and do not count; %d devices of each stream in a group; seeds: %d. "+
		"Figures are medians of all seeds, least and most in parentheses.\n\n", b.days, int(warmup/day), b.devices, b.Rounds)
	w.WriteString("| | |\n|---|---|\n")
	for _, c := range b.contenders {
		fmt.Fprintf(&w, "| %s | %s |\n", c.name, c.text)
	}
	b.reportTargets(&w)
	for _, s := range streams() {
		if table := figures.Table("", b.names(), b.rows(s.name), measures()...); table != "" {
			fmt.Fprintf(&w, "\n### %s: %s\n\nA group of its own. Fixed: %s.\n\n%s", s.name, s.text, figures.Duration(s.policy), table)
		}
	}
	b.reportMix(&w)
	return w.String()
}

// measures are the columns of all groups.
func measures() []figures.Column[row] {
	return []figures.Column[row]{
		{Title: "λ_M: false alarms per device-month", Format: figures.Significant, Of: func(r row) float64 { return r.mistakes }},
		figures.Col("T_M: until the heartbeat, s", 0, func(r row) float64 { return r.mistake }),
		{Title: "P_A: 1 −", Format: scientific, Middle: true, Of: func(r row) float64 { return 1 - r.accuracy }},
		figures.Col("T_D: mean, s", 0, func(r row) float64 { return r.detect }),
		figures.Col("T_D: p99, s", 0, func(r row) float64 { return r.detect99 }),
		figures.Col("deadline, s", 0, func(r row) float64 { return r.deadline }),
	}
}

// scientific writes a small share.
func scientific(x float64) string {
	if x < 1e-9 {
		return "0"
	}
	power := int(math.Floor(math.Log10(x)))
	return fmt.Sprintf("%.1f·10^%d", x/math.Pow(10, float64(power)), power)
}

// reportMix returns the tables of the group of all streams.
func (b *bench) reportMix(w *strings.Builder) {
	columns := append([]figures.Column[row]{percent("outages seen", func(r row) float64 { return r.seen })}, measures()...)
	table := figures.Table("", b.names(), b.rows(mixed), columns...)
	if table == "" {
		return
	}
	fmt.Fprintf(w, "\n### All streams in one group, with outages\n\nEach device is out for 1 to 24 hours on %g %% of its days. "+
		"An outage is no false alarm; it is seen if the deadline passes before it ends. All other figures are those of devices that live.\n\n%s", 100*perDay, table)
	by := func(title string, format func(float64) string, of func(quality) float64) {
		var columns []figures.Column[row]
		for i, s := range streams() {
			columns = append(columns, figures.Column[row]{Title: s.name, Format: format, Middle: true, Of: func(r row) float64 { return of(r.streams[i]) }})
		}
		fmt.Fprintf(w, "\n%s by stream, medians:\n\n%s", title, figures.Table("", b.names(), b.rows(mixed), columns...))
	}
	by("λ_M, false alarms per device-month,", figures.Significant, func(q quality) float64 { return q.mistakes })
	by("T_D, mean in seconds,", figures.Fixed(0), func(q quality) float64 { return q.detect })
	by("The deadline, in seconds,", figures.Fixed(0), func(q quality) float64 { return q.deadline })
}

// percent returns a column of shares with their spread.
func percent(title string, of func(row) float64) figures.Column[row] {
	return figures.Column[row]{Title: title, Format: func(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }, Of: of}
}

// The targets of Holter with a budget of 1.
const (
	mostMistakes = 3.0   // false alarms per device-month in each stream
	mostDeadline = 150.0 // seconds, of devices that beat every 60 s
	leastSeen    = 0.97  // of the outages
)

// reportTargets writes which targets all seeds met, or their median did.
func (b *bench) reportTargets(w *strings.Builder) {
	w.WriteString("\nTargets for " + ourName(1) + ":\n\n| | target | measured | |\n|---|--:|--:|---|\n")
	line := func(group, what, bound string, format func(float64) string, of func(row) float64, good func(float64) bool) {
		found := figures.Each(b.rows(group)[ourName(1)], of)
		if len(found) == 0 {
			return
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", what, bound, figures.Spread(format, found), figures.Met(good(figures.Median(found))))
	}
	for _, s := range streams() {
		line(s.name, s.name+": false alarms per device-month", "≤ 3", figures.Significant,
			func(r row) float64 { return r.mistakes }, func(x float64) bool { return x <= mostMistakes })
	}
	short := func(x float64) bool { return x <= mostDeadline }
	line("A", "A: deadline", "≤ 150 s", figures.Fixed(0), func(r row) float64 { return r.deadline }, short)
	line(mixed, "A among all: deadline", "≤ 150 s", figures.Fixed(0), func(r row) float64 { return r.streams[0].deadline }, short)
	seen := percent("", nil).Format
	line(mixed, "outages seen among all", "≥ 97 %", seen, func(r row) float64 { return r.seen }, func(x float64) bool { return x >= leastSeen })
}
