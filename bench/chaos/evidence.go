package chaos

import (
	"context"
	"errors"
	"slices"
	"time"
)

// await waits until each device's state is right, or must be, and some devices were silent for so
// long that nothing excuses a missing verdict. It returns all evidence.
func (r *trial) await(ctx context.Context) (*Evidence, error) {
	e := &Evidence{Rules: r.config.Rules}
	limit := r.patience()
	last := limit + readyPatience/2
	if err := r.server.wait(ctx, limit-r.server.now()); err != nil {
		return nil, err
	}
	for {
		e.History, e.Until, e.Devices = r.server.snapshot(), r.server.now(), nil
		for _, f := range r.fleets {
			e.Devices = append(e.Devices, f.devices()...)
		}
		err := r.read(ctx, e)
		over := r.server.now() > last
		if err == nil {
			f := Score(e)
			if f.Bound > 0 && (over || !slices.ContainsFunc(f.Violations, curable)) {
				return e, nil
			}
			over = over && f.Bound > 0
		}
		if over {
			return nil, err
		}
		if err := r.server.wait(ctx, readEvery); err != nil {
			return nil, err
		}
	}
}

// curable reports whether a busy server may only need more time.
func curable(v Violation) bool { return v.Kind == WrongState || v.Kind == WrongStream }

// patience returns the instant by which all verdicts must be there.
func (r *trial) patience() time.Duration {
	h, rules := r.server.snapshot(), &r.config.Rules
	return rules.of(slices.Max(rules.TTLs)).deadline(h.outages(), r.server.now())
}

// read completes the evidence with the states and the log, both as of the same event, and with what
// the readers have.
func (r *trial) read(ctx context.Context, e *Evidence) (err error) {
	e.Shown = r.readers.shownSoFar() // before the log
	for range 10 {
		if e.Events, err = wholeLog(ctx, r.server.api); err != nil {
			return err
		}
		if e.States, err = states(ctx, r.server.api); err != nil {
			return err
		}
		more, _, err := pageAfter(ctx, r.server.api, latest(e.Events))
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
