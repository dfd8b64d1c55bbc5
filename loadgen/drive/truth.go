package drive

import (
	"slices"
	"time"

	"github.com/holter-iot/holter/loadgen/plan"
)

// did reports what was done to device i.
func (d *Drive) did(i int32, kind plan.Kind, at int64, connected bool) {
	d.report(i, plan.Truth{Kind: kind, At: d.instant(at), Connected: connected})
}

// miss reports that device i lost its connection, once in each absence.
func (d *Drive) miss(i int32, cause string, at int64) {
	if !slices.ContainsFunc(d.absences[i], func(t plan.Truth) bool { return t.Kind == plan.Lost }) {
		d.report(i, plan.Truth{Kind: plan.Lost, At: d.instant(at), Cause: cause})
	}
}

// report adds to what was done to device i, which is absent now.
func (d *Drive) report(i int32, t plan.Truth) {
	v := &d.devs[i]
	v.flags |= missing
	t.Device, t.Last = d.number(i), d.instant(v.last)
	d.truths = append(d.truths, t)
	d.absences[i] = append(d.absences[i], t)
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
		t.Back, t.Heard = d.instant(at), d.moment(answered)
		d.truths = append(d.truths, t)
	}
	delete(d.absences, i)
}

// moment is [Drive.instant] for a time that is 0 if there is none.
func (d *Drive) moment(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return d.instant(at)
}

func (d *Drive) failed(cause string) { d.counts.Errors[cause]++ }
