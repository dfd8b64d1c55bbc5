package replay

import (
	"context"
	"time"
)

// Change is what a device's learned deadline would have changed in a window.
type Change struct {
	From        time.Time `json:"from" doc:"Silences that began since then are counted."`
	FalseAlarms int       `json:"false_alarms" doc:"Verdicts that a heartbeat of the same session refuted, with the learned deadline."`
	Before      int       `json:"false_alarms_today" doc:"The same with the policy that is in force."`
	Sooner      int       `json:"sooner" doc:"Outages that would have been seen sooner, or that are not seen today."`
	SoonerBy    Millis    `json:"sooner_by_ms" doc:"By how much, on average, of those that are seen today."`
	Later       int       `json:"later" doc:"Outages that would have been seen later, or not at all."`
	LaterBy     Millis    `json:"later_by_ms" doc:"By how much, on average, of those that would have been seen."`
	Bound       bool      `json:"bound" doc:"The counts are lower bounds, because silences as short as the learned deadline are not recorded."`
}

// Changes returns what the learned deadlines of some devices would have changed, by their ids; devices of
// which none is learned, or nothing is recorded in the window, are left out. It costs what a question about
// the devices does. Errors: those of [Engine.Run] but ErrUnknown.
func (e *Engine) Changes(ctx context.Context, ids []string, window time.Duration, now time.Time) (map[string]Change, error) {
	q := Question{From: now.Add(-window), ids: make(map[string]bool, len(ids))}
	for _, id := range ids {
		q.ids[id] = true
	}
	a, r, err := e.run(ctx, q, now)
	if err != nil {
		return nil, err
	}
	changes := make(map[string]Change)
	for i := range r.fleet.devices {
		d := &r.fleet.devices[i]
		if d.learned == 0 {
			continue
		}
		t := d.tally
		if t == nil {
			t = new(deviceTally)
		}
		changes[d.id] = Change{
			From: a.From, FalseAlarms: t.learned.falseAlarms, Before: t.today.falseAlarms, Sooner: t.learned.sooner.n, SoonerBy: t.learned.sooner.mean(),
			Later: t.learned.later.n, LaterBy: t.learned.later.mean(), Bound: d.learned < r.fleet.limitOf(d, Timeout),
		}
	}
	return changes, nil
}

// deviceTally counts for one device.
type deviceTally struct{ today, learned tally }
