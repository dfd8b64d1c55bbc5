package main

import (
	"fmt"
	"strings"
)

// leads says whether a row is a contender and none has a smaller median. One that fires early is out of the race.
func (r report) leads(col column, row string, s summary) bool {
	if row == baselineName || r.isEarly(col, row) {
		return false
	}
	for _, c := range r.contenders {
		other := r.results.get(col.metric, c.name).summary()
		if other.n > 0 && other.median < s.median && !r.isEarly(col, c.name) {
			return false
		}
	}
	return true
}

func (r report) isEarly(col column, row string) bool {
	return col.early != "" && r.results.get(col.early, row).summary().median > 0
}

// writeLosses lists where a rival's figure is better than Holter's.
func (r report) writeLosses(b *strings.Builder) {
	b.WriteString("### Where a rival is better than Holter\n\n")
	none := true
	for _, t := range tables(r.sizes) {
		for _, col := range t.columns {
			better := r.better(col)
			if !col.best || len(better) == 0 {
				continue
			}
			none = false
			ours := r.results.get(col.metric, holterName).summary()
			fmt.Fprintf(b, "* %s, %s: %s against %s\n", t.title, col.title, strings.Join(better, ", "), number(ours.median))
		}
	}
	if none {
		b.WriteString("Nowhere, by the medians of the columns that have a best.\n")
	}
}

// better returns the rivals whose median is less than Holter's.
func (r report) better(col column) []string {
	ours := r.results.get(col.metric, holterName).summary()
	var out []string
	for _, c := range r.contenders {
		theirs := r.results.get(col.metric, c.name).summary()
		if theirs.n == 0 || ours.n == 0 || theirs.median >= ours.median || c.name == holterFuncName {
			continue
		}
		text := c.name + " " + number(theirs.median)
		if r.isEarly(col, c.name) {
			text += " (fires early)"
		}
		out = append(out, text)
	}
	return out
}
