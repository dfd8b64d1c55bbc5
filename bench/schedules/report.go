package schedules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
)

// pair is what both libraries take in a round.
type pair struct{ holter, robfig speed }

// report returns all tables.
func (b *bench) report() string {
	var w strings.Builder
	fmt.Fprintf(&w, "Each measurement in a process of its own that may use all cores; %d rounds in turns. Figures are medians, least and most in parentheses. "+
		"The longest stalls of the machine meanwhile: %s ms.\n", b.Rounds, figures.Spread(figures.Fixed(1), b.stalls))
	b.reportSpeed(&w)
	names := []string{"holter", "robfig"}
	table := figures.Table("", names, b.memories,
		figures.Col("B each", 0, func(m memory) float64 { return m.Bytes }),
		figures.Col("each expression names its zone, B each", 0, func(m memory) float64 { return m.Zoned }),
		figures.Time("added in, µs each", 1, time.Microsecond, func(m memory) time.Duration { return m.Add }))
	if table != "" {
		fmt.Fprintf(&w, "\n### Memory of %s schedules of one engine\n\nHeap and stacks after a collection, with a closure and an expression for each, and without its text.\n\n%s",
			figures.Grouped(b.held), table)
	}
	b.reportOracle(&w)
	return w.String()
}

func (b *bench) reportSpeed(w *strings.Builder) {
	pairs := make(map[string][]pair)
	for text, all := range b.speeds["holter"] {
		for i := range min(len(all), len(b.speeds["robfig"][text])) {
			pairs["`"+text+"`"] = append(pairs["`"+text+"`"], pair{all[i], b.speeds["robfig"][text][i]})
		}
	}
	var names []string
	for _, text := range usual() {
		names = append(names, "`"+text+"`")
	}
	columns := func(of, allocs func(speed) float64) []figures.Column[pair] {
		return []figures.Column[pair]{
			figures.Col("holter, ns", 0, func(p pair) float64 { return of(p.holter) }), figures.Col("robfig, ns", 0, func(p pair) float64 { return of(p.robfig) }),
			figures.Col("robfig ÷ holter", 2, func(p pair) float64 { return of(p.robfig) / of(p.holter) }),
			figures.Col("holter, allocations", 0, func(p pair) float64 { return allocs(p.holter) }),
			figures.Col("robfig, allocations", 0, func(p pair) float64 { return allocs(p.robfig) }),
		}
	}
	next := figures.Table("", names, pairs, columns(func(s speed) float64 { return s.Next }, func(s speed) float64 { return s.NextAllocs })...)
	parse := figures.Table("", names, pairs, columns(func(s speed) float64 { return s.Parse }, func(s speed) float64 { return s.ParseAllocs })...)
	if next != "" {
		fmt.Fprintf(w, "\n### The next instant\n\nIn %s, one after the other from 2026 to 2090 and again.\n\n%s\n### Parse\n\n%s", berlin, next, parse)
	}
}

func (b *bench) reportOracle(w *strings.Builder) {
	var names []string
	for _, z := range zones() {
		names = append(names, z.name)
	}
	kinds := []string{skipped, twice, sameDay, others}
	columns := []figures.Column[compared]{
		figures.Text("the clock changes by", func(row string, _ []compared) string {
			z := zones()[slices.Index(names, row)]
			return fmt.Sprintf("%s, %d", z.text, z.year)
		}),
		figures.Count("expressions", func(c compared) int { return c.Expressions }), figures.Count("asked", func(c compared) int { return c.Instants }),
		figures.Count("**holter differs**", func(c compared) int { return c.Different }),
		figures.Count("robfig asked", func(c compared) int { return c.RobfigInstants }),
	}
	for _, kind := range kinds {
		columns = append(columns, figures.Count("robfig differs: "+kind, func(c compared) int { return c.Robfig[kind] }))
	}
	table := figures.Table("", names, b.compared, columns...)
	if table == "" {
		return
	}
	fmt.Fprintf(w, "\n### Next instants beside Vixie cron's\n\nRandom expressions (seed %d), each asked for its next instant after %d random ones, half of them close to a change of the clock.\n\n%s",
		b.seed, b.instants, table)
	for _, kind := range kinds {
		for _, z := range names {
			if all := b.compared[z]; len(all) > 0 && all[0].RobfigFirst[kind] != "" {
				fmt.Fprintf(w, "\nThe first difference of robfig/cron that is of the kind “%s”: %s.\n", kind, all[0].RobfigFirst[kind])
				break
			}
		}
	}
}

// verdict returns an error if package schedule differs from the model.
func (b *bench) verdict() error {
	for _, z := range zones() {
		for _, c := range b.compared[z.name] {
			if c.Different > 0 {
				return fmt.Errorf("%s: %d of %d instants differ from the model, the first: %s", z.name, c.Different, c.Instants, c.First)
			}
		}
	}
	return nil
}
