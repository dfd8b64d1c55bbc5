package chaos

import (
	"context"
	"errors"
	"slices"
	"time"
)

// await waits until each device's state is right, or must be, and some devices were silent for so
// long that nothing excuses a missing verdict. With several nodes, each takeover would make that
// longer; it is enough that a verdict was due, or that those which are silent have had the time. It
// returns all evidence.
func (r *trial) await(ctx context.Context) (*Evidence, error) {
	e := &Evidence{Rules: r.config.Rules}
	proved := func(f *Findings, over bool) bool { return f.Bound > 0 || r.judges != nil && (f.Due > 0 || over) }
	limit := r.patience()
	last := limit + readyPatience/2
	if err := r.wait(ctx, limit-r.now()); err != nil {
		return nil, err
	}
	for {
		e.History, e.Until, e.Devices = r.snapshot(), r.now(), nil
		err := r.devices(e)
		if err != nil {
			return nil, err
		}
		err = r.read(ctx, e)
		over := r.now() > last
		if err == nil {
			f := Score(e)
			if proved(&f, over) && (over || !slices.ContainsFunc(f.Violations, curable)) {
				return e, nil
			}
			over = over && proved(&f, over)
		}
		if over {
			return nil, err
		}
		if err := r.wait(ctx, readEvery); err != nil {
			return nil, err
		}
	}
}

// devices adds the truth about all devices.
func (r *trial) devices(e *Evidence) error {
	led, err := r.balancer.routes()
	if err != nil {
		return err
	}
	for _, f := range r.fleets {
		list, err := f.devices(led)
		if err != nil {
			return err
		}
		e.Devices = append(e.Devices, list...)
	}
	return nil
}

// curable reports whether a busy server may only need more time.
func curable(v Violation) bool { return v.Kind == WrongState || v.Kind == WrongStream }

// patience returns the instant by which all verdicts must be there.
func (r *trial) patience() time.Duration {
	h, rules := r.snapshot(), &r.config.Rules
	return rules.of(slices.Max(rules.TTLs)).deadline(h.outages(), r.now())
}

// read completes the evidence with the states and the log, both as of the same event, and with what
// the readers have.
func (r *trial) read(ctx context.Context, e *Evidence) (err error) {
	e.Shown = r.readers.shownSoFar() // before the log
	r.nodesSaid(e)
	for range 10 {
		api := r.api()
		if e.Events, err = wholeLog(ctx, api); err != nil {
			return err
		}
		if e.States, err = states(ctx, api); err != nil {
			return err
		}
		more, _, err := pageAfter(ctx, r.api(), latest(e.Events))
		if err != nil {
			return err
		}
		if len(more) == 0 {
			e.Writes = r.writer.done
			return r.readers.complete(ctx, e)
		}
	}
	return errors.New("the log does not come to rest")
}
