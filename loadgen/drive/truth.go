//go:build linux

package drive

import (
	"time"

	"github.com/holter-iot/holter/loadgen/plan"
)

// absence is what is reported again when a device is back.
type absence struct {
	truths []plan.Truth
	lost   plan.Lost
	isLost bool
}

// absent returns the absence of device i, a new one if there is none.
func (d *Drive) absent(i int32) *absence {
	d.devs[i].flags |= missing
	a := d.absences[i]
	if a == nil {
		a = &absence{}
		d.absences[i] = a
	}
	return a
}

// did reports what was done to device i.
func (d *Drive) did(i int32, kind plan.Kind, at int64, connected bool) {
	t := plan.Truth{Device: d.number(i), Kind: kind, At: d.instant(at), Last: d.instant(d.devs[i].last), Connected: connected}
	d.truths = append(d.truths, t)
	a := d.absent(i)
	a.truths = append(a.truths, t)
}

// miss reports that device i lost its connection, once in each absence.
func (d *Drive) miss(i int32, cause string, at int64) {
	v := &d.devs[i]
	if v.has(missing) && d.absences[i].isLost {
		return
	}
	l := plan.Lost{Device: d.number(i), At: d.instant(at), Last: d.instant(v.last), Cause: cause}
	d.losts = append(d.losts, l)
	a := d.absent(i)
	a.lost, a.isLost = l, true
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
	a, when, heard := d.absences[i], d.instant(at), d.moment(answered)
	delete(d.absences, i)
	for _, t := range a.truths {
		t.Back, t.Heard = when, heard
		d.truths = append(d.truths, t)
	}
	if a.isLost {
		a.lost.Back, a.lost.Heard = when, heard
		d.losts = append(d.losts, a.lost)
	}
}

// moment is [Drive.instant] for a time that is 0 if there is none.
func (d *Drive) moment(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return d.instant(at)
}

func (d *Drive) failed(cause string) { d.counts.errors[cause]++ }
