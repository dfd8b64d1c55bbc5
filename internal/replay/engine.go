package replay

import (
	"context"
	"fmt"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// Engine answers questions about a registry's devices. Make one with [New].
type Engine struct {
	registry *liveness.Registry
	records  Records
	busy     chan struct{} // capacity 1: holds a value while a question is answered; never closed
}

// New returns an engine. It starts nothing.
func New(registry *liveness.Registry, records Records) *Engine {
	return &Engine{registry: registry, records: records, busy: make(chan struct{}, 1)}
}

// Run answers a question. It may take seconds, and one question is answered at a time. Errors: those of
// ctx and of the records; ErrBad, ErrUnknown, ErrBusy.
func (e *Engine) Run(ctx context.Context, q Question, now time.Time) (*Answer, error) {
	a, r, err := e.run(ctx, q, now)
	if err != nil {
		return nil, err
	}
	r.answer(a)
	return a, nil
}

// run answers a question but for what the answer says.
func (e *Engine) run(ctx context.Context, q Question, now time.Time) (*Answer, *replay, error) {
	select {
	case e.busy <- struct{}{}:
		defer func() { <-e.busy }()
	default:
		return nil, nil, ErrBusy
	}
	q, err := q.checked(now)
	if err != nil {
		return nil, nil, err
	}
	f, err := e.fleetOf(&q)
	if err != nil {
		return nil, nil, err
	}
	knownFrom, err := e.records.GapsKept(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("ask since when silences are recorded: %w", err)
	}
	a := &Answer{Field: q.Field, Group: q.Group, Device: q.Device, KnownFrom: knownFrom}
	switch {
	case knownFrom.IsZero() || !knownFrom.Before(now):
		return nil, nil, fmt.Errorf("%w: no silence is recorded yet; records begin within minutes of the server's first start", ErrBad)
	case !q.To.After(knownFrom):
		return nil, nil, fmt.Errorf("%w: to is %s, but silences are recorded since %s only", ErrBad, stamp(q.To), stamp(knownFrom))
	case q.From.Before(knownFrom):
		q.From, a.Clipped = knownFrom, true
	}
	a.From, a.To = q.From, q.To
	r, err := e.replay(ctx, &q, now, f, a)
	return a, r, err
}

// replay judges the records anew.
func (e *Engine) replay(ctx context.Context, q *Question, now time.Time, f *fleet, a *Answer) (*replay, error) {
	sources, err := e.sources(ctx, a.KnownFrom, now)
	if err != nil {
		return nil, err
	}
	if err := e.readLimits(ctx, q, a.KnownFrom, now, f); err != nil {
		return nil, err
	}
	if q.Field != OutageShare && len(q.Values) == 0 && q.ids == nil {
		q.Values = f.defaultValues(q.Field)
	}
	r := newReplay(q, f, sources)
	if a.Damaged, err = e.each(ctx, q.From, now, f, r.gap); err != nil {
		return nil, err
	}
	for i := range f.devices {
		d := &f.devices[i]
		if d.open != nil {
			r.judge(d, d.open)
		}
		if d.spell != nil && !d.offline {
			r.endSpell(d)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	if q.Field == OutageShare {
		if err := e.replayOutages(ctx, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// defaultValues returns values from a quarter to four times what most of the devices have today.
func (f *fleet) defaultValues(field Field) []time.Duration {
	counts, most := make(map[time.Duration]int), time.Duration(0)
	for i := range f.devices {
		v := f.heldValue(&f.devices[i], field)
		if v == 0 { // it has no late_after
			v = f.policies[f.devices[i].held].Timeout
		}
		if counts[v]++; counts[v] > counts[most] || counts[v] == counts[most] && v < most {
			most = v
		}
	}
	if most == 0 {
		most = time.Minute
	}
	return spanGrid(max(most/4, leastSpan), min(4*most, MaxSpan))
}
