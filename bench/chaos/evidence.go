//go:build linux

package chaos

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/holter-iot/holter/bench/internal/api"
	"github.com/holter-iot/holter/bench/internal/run"
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
		e.History, e.Until, e.Devices = r.server.snapshot(), r.server.now(), r.truth()
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
// the follower and the reader have.
func (r *trial) read(ctx context.Context, e *Evidence) error {
	r.reader.mu.Lock()
	e.Shown = maps.Clone(r.reader.shown) // before the log
	r.reader.mu.Unlock()
	for range 10 {
		events, err := api.Events(ctx, r.server.client, r.server.api)
		if err != nil {
			return err
		}
		if e.States, err = states(ctx, r.server.client, r.server.api); err != nil {
			return err
		}
		more, _, err := api.EventsAfter(ctx, r.server.client, r.server.api, latest(events))
		if err != nil {
			return err
		}
		if e.Events = events; len(more) == 0 {
			return r.readReaders(ctx, e)
		}
	}
	return errors.New("the log does not come to rest")
}

// readReaders takes what the follower and the reader have, once the follower has had time to come
// to the end.
func (r *trial) readReaders(ctx context.Context, e *Evidence) error {
	for limit := time.Now().Add(2 * readWithin); r.follower.reached() < latest(e.Events) && time.Now().Before(limit); {
		if err := run.Wait(ctx, pollEvery); err != nil {
			return err
		}
	}
	r.follower.mu.Lock()
	defer r.follower.mu.Unlock()
	r.reader.mu.Lock()
	defer r.reader.mu.Unlock()
	e.Followed, e.Seen, e.Missed = clipped(r.follower.events, e), clipped(r.reader.events, e), r.follower.missed
	e.Writes = r.writer.done
	return r.follower.err
}

// clipped leaves out events after the log was read.
func clipped(list []api.Event, e *Evidence) []api.Event {
	n := len(list)
	for n > 0 && list[n-1].Offset > latest(e.Events) && e.History.when(list[n-1].Time) > e.Until {
		n--
	}
	return list[:n:n]
}
