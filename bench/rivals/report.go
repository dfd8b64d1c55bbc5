package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

const (
	beginMarker = "<!-- rivals:begin -->"
	endMarker   = "<!-- rivals:end -->"
)

// report is all that a run has to say.
type report struct {
	machine    machine
	sizes      sizes
	contenders []contender
	results    *results
}

// markdown returns the tables.
func (r report) markdown() string {
	var b strings.Builder
	m := r.machine
	fmt.Fprintf(&b, "%s, %s, GOMAXPROCS %d, %s, %s, commit %s, rounds: %d, command: `%s`\n\n",
		m.Date, m.CPU, m.Procs, m.Go, m.Kernel, m.Commit, r.results.rounds, m.Command)
	fmt.Fprintf(&b, "The process was kept from running for at most %s ms at a time: when that is much, so are the greatest figures.\n\n", number(m.StallMillis))
	b.WriteString("Each figure is the median of the rounds, with the least and the greatest in brackets. × is the median of the " +
		"ratios to Holter's figure of the same round. Bold: the best of its column.\n\n")
	r.writeVersions(&b)
	for _, t := range tables(r.sizes) {
		r.writeTable(&b, t)
	}
	r.writeLosses(&b)
	return b.String()
}

func (r report) writeVersions(b *strings.Builder) {
	b.WriteString("| | version | cannot |\n|---|---|---|\n")
	for _, c := range r.contenders {
		version := r.machine.Versions[c.module]
		switch {
		case strings.HasPrefix(c.name, holterName):
			version = r.machine.Commit
		case strings.Contains(c.name, "stand-in") && version != "":
			version = "ours, with ants " + version
		case c.name == stdlibContender().name:
			version = r.machine.Go
		case version == "":
			version = "ours"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", c.name, version, c.lacks)
	}
	b.WriteString("\n")
}

func (r report) writeTable(b *strings.Builder, t table) {
	var rows []string
	for _, c := range r.contenders {
		rows = append(rows, c.name)
	}
	rows = append(rows, t.rows...)

	var lines strings.Builder
	for _, row := range rows {
		if line, ok := r.line(t, row); ok {
			lines.WriteString(line)
		}
	}
	if lines.Len() == 0 {
		return
	}
	heads, rules := []string{"| |"}, []string{"|---|"}
	for _, c := range t.columns {
		heads = append(heads, " "+c.title+" |")
		rule := "---:|"
		if c.text != nil {
			rule = "---|"
		}
		rules = append(rules, rule)
		if c.versus {
			heads, rules = append(heads, " × |"), append(rules, "---:|")
		}
	}
	fmt.Fprintf(b, "### %s\n\n%s\n\n%s\n%s\n%s\n", t.title, t.text, strings.Join(heads, ""), strings.Join(rules, ""), lines.String())
}

// line returns a row of a table, and whether it has any value.
func (r report) line(t table, row string) (string, bool) {
	cells, some := []string{row}, false
	for _, col := range t.columns {
		if col.text != nil {
			cells = append(cells, r.textOf(col, row))
			continue
		}
		s := r.results.get(col.metric, row).summary()
		some = some || s.n > 0
		cells = append(cells, r.cell(col, row, s))
		if col.versus {
			cells = append(cells, ratioCell(r.results.ratios(col.metric, row).summary()))
		}
	}
	return "| " + strings.Join(cells, " | ") + " |\n", some
}

func (r report) textOf(col column, row string) string {
	for _, c := range r.contenders {
		if c.name == row {
			return col.text(c)
		}
	}
	return ""
}

func (r report) cell(col column, row string, s summary) string {
	if s.n == 0 {
		return "–"
	}
	format := number
	if col.count {
		format = func(x float64) string { return count(int(math.Round(x))) }
	}
	text := format(s.median)
	if col.best && r.leads(col, row, s) {
		text = "**" + text + "**"
	}
	if low, high := format(s.min), format(s.max); low != high {
		text += " (" + low + "–" + high + ")"
	}
	return text
}

func ratioCell(s summary) string {
	if s.n == 0 {
		return "–"
	}
	return number(s.median)
}

// number prints three significant digits.
func number(x float64) string {
	switch a := math.Abs(x); {
	case a < 0.00005:
		return "0"
	case a < 0.01:
		return fmt.Sprintf("%.4f", x)
	case a < 0.1:
		return fmt.Sprintf("%.3f", x)
	case a < 10:
		return fmt.Sprintf("%.2f", x)
	case a < 100:
		return fmt.Sprintf("%.1f", x)
	default:
		return count(int(math.Round(x)))
	}
}

// count prints a whole number with separators.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// writeMarkdown writes the tables between the markers of a file, or makes a file of them.
func (r report) writeMarkdown(path string) error {
	tables := beginMarker + "\n\n" + r.markdown() + "\n" + endMarker
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("read tables: %w", err)
	}
	before, rest, ok := strings.Cut(string(old), beginMarker)
	_, after, ended := strings.Cut(rest, endMarker)
	if !ok || !ended {
		if len(old) > 0 {
			return fmt.Errorf("write tables: %s has no %s and %s", path, beginMarker, endMarker)
		}
		after = "\n"
	}
	if err := os.WriteFile(path, []byte(before+tables+after), 0o644); err != nil {
		return fmt.Errorf("write tables: %w", err)
	}
	return nil
}

type jsonSeries struct {
	Metric metric     `json:"metric"`
	Rival  string     `json:"rival"`
	Timers int        `json:"timers"`
	Values []*float64 `json:"values"` // by round; null where there is none
}

// writeJSON writes every single value.
func (r report) writeJSON(path string) error {
	out := struct {
		machine

		Series []jsonSeries `json:"series"`
	}{machine: r.machine}
	for _, m := range r.results.metrics() {
		for _, rival := range r.results.rivals(m) {
			js := jsonSeries{Metric: m, Rival: rival, Timers: r.results.sizes[m][rival]}
			for _, v := range r.results.get(m, rival) {
				if math.IsNaN(v) {
					js.Values = append(js.Values, nil)
				} else {
					js.Values = append(js.Values, &v)
				}
			}
			out.Series = append(out.Series, js)
		}
	}
	text, err := json.MarshalIndent(out, "", "\t")
	if err != nil {
		return fmt.Errorf("encode values: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write values: %w", err)
	}
	return nil
}
