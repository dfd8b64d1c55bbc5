package drive

import (
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// did reports what was done to device i, which is absent now, and later its return.
func (d *Drive) did(i int32, t plan.Truth) {
	d.absences[i] = append(d.absences[i], d.report(i, t))
	d.devs[i].flags |= missing
}

// report reports what happened to device i.
func (d *Drive) report(i int32, t plan.Truth) plan.Truth {
	t.Device, t.Last = d.number(i), d.instant(d.devs[i].last)
	d.truths = append(d.truths, t)
	return t
}

// miss reports that device i lost its connection, or did not get in: once in each absence, but each
// greeting that the gateway may have heard. greeted is [plan.Truth].Greeted.
func (d *Drive) miss(i int32, cause string, at int64, greeted time.Time) {
	among := func(is func(plan.Truth) bool) bool { return slices.ContainsFunc(d.absences[i], is) }
	known := among(func(t plan.Truth) bool { return t.Kind == plan.Lost })
	heard := among(func(t plan.Truth) bool { return !t.Greeted.IsZero() })
	t := plan.Truth{Kind: plan.Lost, At: d.instant(at), Cause: cause, Greeted: greeted}
	switch {
	case !known || !heard && !greeted.IsZero():
		d.did(i, t)
	case !greeted.IsZero(): // the return is reported with the first
		d.report(i, t)
	}
}

// greeted is when device i said hello on a connection that is not welcomed yet; zero otherwise.
func (d *Drive) greeted(i int32) time.Time {
	if v := &d.devs[i]; v.state == greeting {
		return d.instant(v.mark)
	}
	return time.Time{}
}

// slowAfter is how long it may take to hand a sign of life to the kernel.
const slowAfter = int64(100 * time.Microsecond)

// sent notes that what may end an absence of device i has been handed to the kernel since an
// instant.
func (d *Drive) sent(i int32, at int64) {
	if v := &d.devs[i]; !v.has(missing) {
		return
	}
	delete(d.slow, i)
	if now := d.clock(); now-at > slowAfter {
		d.slow[i] = now
	}
}

// back notes a sign of life of device i, and reports its return. answered is when the gateway
// answered it; 0 if that is not waited for.
func (d *Drive) back(i int32, at, answered int64) {
	d.devs[i].last = at
	if d.journals != nil {
		d.journals[i].sign(d.instant(at), d.moment(answered))
	}
	if !d.devs[i].has(missing) {
		return
	}
	d.devs[i].flags &^= missing
	for _, t := range d.absences[i] {
		t.Back, t.Sent, t.Heard = d.instant(at), d.moment(d.slow[i]), d.moment(answered)
		d.truths = append(d.truths, t)
	}
	delete(d.absences, i)
	delete(d.slow, i)
}

// welcomedAt notes in the journal which target has welcomed device i, which has moved so often.
func (d *Drive) welcomedAt(i int32, moves uint8) {
	if d.journals != nil {
		j := &d.journals[i]
		j.Targets = append(j.Targets, uint8(d.places.block(d.number(i), moves)))
	}
}

// moment is [Drive.instant] for a time that is 0 if there is none.
func (d *Drive) moment(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return d.instant(at)
}

func (d *Drive) failed(cause string) { d.counts.Errors[cause]++ }
