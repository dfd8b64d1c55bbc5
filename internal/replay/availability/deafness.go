package availability

import (
	"slices"
	"sort"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// Window is a span of time, from From to before To. It is measured by the wall clock.
type Window struct{ From, To time.Time }

// Length returns how long it is.
func (w Window) Length() time.Duration { return w.To.Sub(w.From) }

// Deafness says when sources were deaf. It is made by [DeafnessOf] and not changed. A nil Deafness is that
// of sources which never were.
type Deafness struct{ sources map[string]*deafTimes }

// deafTimes are when one source was deaf, in order, none touching another.
type deafTimes struct {
	times []Window
	sum   []time.Duration // of those before
}

// DeafnessOf makes a Deafness of breaks that were recorded and of what sources themselves remember. A
// source that is deaf now is so until an instant. What overlaps counts once. Sources that were restored
// and have not come back count as listening after their last break.
func DeafnessOf(breaks []judgement.Break, sources []liveness.SourceView, until time.Time) *Deafness {
	all := make(map[string][]Window)
	add := func(source string, from, to time.Time) {
		if from.Before(to) {
			all[source] = append(all[source], Window{from.Round(0), to.Round(0)})
		}
	}
	for i := range breaks {
		if b := &breaks[i]; b.Kind != judgement.BreakSpare {
			add(b.Source, b.To.Add(-b.Length), b.To)
		}
	}
	for i := range sources {
		s := &sources[i]
		for _, d := range s.Deaf {
			add(s.Name, d.From, d.To)
		}
		if !s.DeafSince.IsZero() {
			add(s.Name, s.DeafSince, until)
		}
	}
	d := &Deafness{sources: make(map[string]*deafTimes, len(all))}
	for source, times := range all {
		d.sources[source] = newDeafTimes(times)
	}
	return d
}

// newDeafTimes joins times that touch.
func newDeafTimes(times []Window) *deafTimes {
	slices.SortFunc(times, func(a, b Window) int { return a.From.Compare(b.From) })
	d := &deafTimes{times: times[:1], sum: []time.Duration{0}}
	for _, t := range times[1:] {
		last := &d.times[len(d.times)-1]
		if !t.From.After(last.To) {
			if t.To.After(last.To) {
				last.To = t.To
			}
			continue
		}
		d.sum = append(d.sum, d.sum[len(d.sum)-1]+last.Length())
		d.times = append(d.times, t)
	}
	return d
}

// overlap returns the times that overlap a part of a source's time.
func (d *Deafness) overlap(source string, w Window) (of *deafTimes, from, to int) {
	if d == nil {
		return nil, 0, 0
	}
	of = d.sources[source]
	if of == nil {
		return nil, 0, 0
	}
	from = sort.Search(len(of.times), func(i int) bool { return of.times[i].To.After(w.From) })
	to = sort.Search(len(of.times), func(i int) bool { return !of.times[i].From.Before(w.To) })
	return of, from, max(from, to)
}

// within returns for how long a source was deaf in a window. It takes O(log n).
func (d *Deafness) within(source string, w Window) time.Duration {
	of, from, to := d.overlap(source, w)
	if from == to {
		return 0
	}
	last := of.times[to-1]
	deaf := of.sum[to-1] - of.sum[from] + last.Length()
	return deaf - max(w.From.Sub(of.times[from].From), 0) - max(last.To.Sub(w.To), 0)
}

// backwards calls take for each time in a window for which a source was deaf, the latest first, until it
// returns false.
func (d *Deafness) backwards(source string, w Window, take func(Window) bool) bool {
	of, from, to := d.overlap(source, w)
	for i := to - 1; i >= from; i-- {
		if !take(clip(of.times[i], w)) {
			return false
		}
	}
	return true
}

// clip returns the part of a span that is in a window.
func clip(span, w Window) Window {
	if span.From.Before(w.From) {
		span.From = w.From
	}
	if span.To.After(w.To) {
		span.To = w.To
	}
	return span
}
