package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/holter-iot/holter/liveness/judgement"
)

// Records is where gaps are kept.
type Records interface {
	// Gaps returns the gaps whose At is in [from, to), and the limits that were set then, of the devices that
	// want reports; nil is all. Those of a device are in order; those of a former device with its number are
	// left out. A part that cannot be read gives a [judgement.ErrDamagedGaps]; another error is the last.
	Gaps(ctx context.Context, from, to time.Time, want func(num uint32) bool) iter.Seq2[judgement.Gap, error]
	// Breaks returns the breaks that ended in [from, to), those of a source in order.
	Breaks(ctx context.Context, from, to time.Time) ([]judgement.Break, error)
	// GapsKept returns since when gaps are kept; zero if there are none.
	GapsKept(ctx context.Context) (from time.Time, err error)
}

// source is what a replay knows of a source.
type source struct {
	grace  func(p judgement.Policy) time.Duration // see [operate.Owner]
	breaks []judgement.Break                      // by listening time
	deaf   []time.Duration                        // by position: how long all breaks before it lasted
}

// sources returns the sources by name, with their breaks since an instant.
func (e *Engine) sources(ctx context.Context, since, now time.Time) (map[string]*source, error) {
	all := make(map[string]*source)
	for _, s := range e.registry.Sources() {
		all[s.Name()] = &source{grace: s.Owner().Grace}
	}
	breaks, err := e.records.Breaks(ctx, since, now)
	if err != nil {
		return nil, fmt.Errorf("read when sources were deaf: %w", err)
	}
	for i := range breaks {
		s := known(all, breaks[i].Source)
		s.breaks = append(s.breaks, breaks[i])
	}
	for _, s := range all {
		slices.SortStableFunc(s.breaks, func(a, b judgement.Break) int { return cmp.Compare(a.At, b.At) })
		s.deaf = make([]time.Duration, len(s.breaks)+1)
		for i, b := range s.breaks {
			if s.deaf[i+1] = s.deaf[i]; b.Kind != judgement.BreakSpare {
				s.deaf[i+1] += b.Length
			}
		}
	}
	return all, nil
}

// defaultGrace is the grace of a source without a configuration, see liveness.SourceConfig.
func defaultGrace(p judgement.Policy) time.Duration { return p.Grace(10*time.Second, 5*time.Minute) }

// known returns a source by its name. One that the registry has no more has the default grace.
func known(all map[string]*source, name string) *source {
	s := all[name]
	if s == nil {
		s = &source{grace: defaultGrace, deaf: []time.Duration{0}}
		all[name] = s
	}
	return s
}

// within returns the breaks after one listening time and up to another, and how long the source was deaf
// in them.
func (s *source) within(after, until time.Duration) (breaks []judgement.Break, deaf time.Duration) {
	first := s.upTo(after)
	end := s.upTo(until)
	if end <= first {
		return nil, 0
	}
	return s.breaks[first:end], s.deaf[end] - s.deaf[first]
}

// upTo returns how many breaks there are up to a listening time.
func (s *source) upTo(at time.Duration) int {
	n, _ := slices.BinarySearchFunc(s.breaks, at, func(b judgement.Break, at time.Duration) int {
		if b.At <= at {
			return -1
		}
		return 1
	})
	return n
}

// readLimits reads from which silence on the gaps of each device were recorded in the window, and since
// when that is known.
func (e *Engine) readLimits(ctx context.Context, q *Question, knownFrom, now time.Time, f *fleet) error {
	_, err := e.each(ctx, knownFrom, now, f, func(g *judgement.Gap) {
		if d := f.of(g.Num); d != nil && g.End == judgement.EndLimit {
			d.limited(g, q)
		}
	})
	f.settle(q)
	return err
}

// each calls visit for each record of a fleet. visit must not keep the record. It returns how many parts
// could not be read.
func (e *Engine) each(ctx context.Context, from, to time.Time, f *fleet, visit func(*judgement.Gap)) (damaged int, err error) {
	var one judgement.Gap // one for all, since visit makes it escape
	for g, err := range e.records.Gaps(ctx, from, to, f.has) {
		switch {
		case errors.Is(err, judgement.ErrDamagedGaps):
			damaged++
			continue
		case err == nil:
			err = ctx.Err()
		}
		if err != nil {
			return damaged, fmt.Errorf("read the recorded silences: %w", err)
		}
		one = g
		visit(&one)
	}
	return damaged, nil
}

// limited notes a record that is no gap.
func (d *device) limited(g *judgement.Gap, q *Question) {
	switch {
	case d.limit == 0: // nothing was recorded of it before
		d.limit, d.since = g.Length, g.At
	case g.At.After(q.From):
		d.limit = max(d.limit, g.Length)
	default:
		d.limit = g.Length
	}
}
