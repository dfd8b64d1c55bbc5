package replay

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/holter-iot/holter/liveness/judgement"
)

// fall is a verdict on a member of a group.
type fall struct {
	group int32
	at    time.Time
	back  time.Time // when it came back; zero: it did not
}

// change is a fall, or a return.
type change struct {
	group    int32
	at, fell time.Time
	back     bool
}

// fall returns when the device fell silent and came back, by the wall clock.
func (c *silence) fall(d *device, offline time.Duration) fall {
	g := c.gap
	at := g.At.Add(offline - g.Length)
	for i := range c.breaks {
		if b := &c.breaks[i]; b.Kind != judgement.BreakSpare && b.At >= g.Start+offline {
			at = at.Add(-b.Length)
		}
	}
	f := fall{group: d.group, at: at}
	if g.End != judgement.EndOpen && d.by(byHeld) == 0 {
		f.back = g.At
	}
	return f
}

// replayOutages counts the outages of groups with each share.
func (e *Engine) replayOutages(ctx context.Context, r *replay) error {
	members := make([]int, len(r.fleet.groups))
	for i := range r.fleet.devices {
		members[r.fleet.devices[i].group]++
	}
	changes := changesOf(r.falls)
	r.today.notifications = 0 // those of devices in an outage of their group are left out
	for i, name := range r.fleet.groups {
		outage, ok := e.registry.Operator().Outages(name)
		if !ok { // devices of no group
			outage.Share = 0
		}
		r.today.addOutages(outage, members[i], int32(i), changes)
		for v, share := range r.question.Shares {
			if ok {
				outage.Share = share
			}
			r.values[v].addOutages(outage, members[i], int32(i), changes)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	for v := range r.values { // the verdicts on devices are those of today
		t := r.today
		t.notifications, t.groupOutages = r.values[v].notifications, r.values[v].groupOutages
		r.values[v] = t
	}
	return nil
}

// changesOf returns verdicts and returns in order of time.
func changesOf(falls []fall) []change {
	var changes []change
	for _, f := range falls {
		changes = append(changes, change{f.group, f.at, f.at, false})
		if !f.back.IsZero() {
			changes = append(changes, change{f.group, f.back, f.at, true})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.group, b.group), a.at.Compare(b.at))
	})
	return changes
}

// addOutages counts the outages of a group, and the notifications that remain.
func (t *tally) addOutages(c judgement.OutageConfig, members int, group int32, changes []change) {
	first, _ := slices.BinarySearchFunc(changes, group, func(c change, group int32) int { return cmp.Compare(c.group, group) })
	counts := judgement.NewOutage(c)
	counts.Members = members
	online, silent := judgement.Standing{Member: true}, judgement.Standing{Member: true, Silent: true}
	changed := 0
	for _, change := range changes[first:] {
		if change.group != group {
			break
		}
		was, is := online, silent
		if change.back {
			was, is = silent, online
		}
		counts.Move(was, change.fell.UnixNano(), is, change.at.UnixNano(), change.at.UnixNano())
		if on, _ := counts.Weigh(); on {
			changed++
		}
		if !counts.On {
			t.notifications++
		}
	}
	t.groupOutages += (changed + 1) / 2
	t.notifications += changed
}
