package replay

import (
	"slices"
	"sort"
	"time"
)

// answer fills in what was counted.
func (r *replay) answer(a *Answer) {
	f, q := r.fleet, r.question
	a.Devices, a.Unknown, a.Untracked = len(f.devices), f.unknown, f.untracked
	a.DeviceMonths = f.watched(q)
	a.Silences, a.Outages, a.Undecided, a.Suppressed, a.Overlaps = r.silences, r.outages, r.undecided, r.suppressed, r.overlaps
	limits := f.limits(q.Field)
	if n := len(limits); n > 0 && q.Field != OutageShare {
		a.ExactFrom = millis(limits[n-1])
	}
	window := q.To.Sub(q.From)
	point := func(t *tally) Point { return t.point(window, a.DeviceMonths) }
	a.Today = point(&r.today)
	a.Today.ranges(f.heldValues(q.Field))
	a.Today.Bounds = f.below(q.Field, func(d *device) time.Duration { return f.heldValue(d, q.Field) })
	a.Today.Bound = a.Today.Bounds > 0
	if known := f.learnedValues(); q.Field == Timeout && len(known) > 0 {
		learned := point(&r.learned)
		learned.ranges(known)
		learned.Bounds = f.below(q.Field, f.learnedOf)
		learned.Bound = learned.Bounds > 0
		a.Learned = &learned
	}
	a.Points = make([]Point, len(r.values))
	for i := range r.values {
		a.Points[i] = point(&r.values[i])
		p := &a.Points[i]
		if q.Field == OutageShare {
			p.Share = q.Shares[i]
			continue
		}
		p.Value = millis(q.Values[i])
		p.Bounds = len(limits) - sort.Search(len(limits), func(n int) bool { return limits[n] > q.Values[i] })
		p.Bound = p.Bounds > 0
	}
	a.explain()
}

// ranges sets the value of a point that has several.
func (p *Point) ranges(values []time.Duration) {
	if n := len(values); n > 0 {
		slices.Sort(values)
		p.Least, p.Value, p.Most = millis(values[0]), millis(values[n/2]), millis(values[n-1])
	}
}

// heldValue returns the value that a device has today, 0 if it has none.
func (f *fleet) heldValue(d *device, field Field) time.Duration {
	p := &f.policies[d.held]
	switch field {
	case Timeout:
		return p.Timeout
	case CloseGrace:
		return p.CloseGrace
	case LateAfter:
		return p.LateAfter
	case OutageShare:
	}
	return 0
}

// heldValues returns the values that the devices have today.
func (f *fleet) heldValues(field Field) []time.Duration {
	var all []time.Duration
	for i := range f.devices {
		if v := f.heldValue(&f.devices[i], field); v > 0 {
			all = append(all, v)
		}
	}
	return all
}

// learnedValues returns the timeout that each device would have, nil if none was learned.
func (f *fleet) learnedValues() []time.Duration {
	var all []time.Duration
	some := false
	for i := range f.devices {
		some = some || f.devices[i].learned > 0
		all = append(all, f.learnedOf(&f.devices[i]))
	}
	if !some {
		return nil
	}
	return all
}

func (f *fleet) learnedOf(d *device) time.Duration {
	if d.learned > 0 {
		return d.learned
	}
	return f.policies[d.held].Timeout
}

// below returns how many devices have a value below their limit.
func (f *fleet) below(field Field, value func(*device) time.Duration) (n int) {
	for i := range f.devices {
		if v := value(&f.devices[i]); v > 0 && v < f.limitOf(&f.devices[i], field) {
			n++
		}
	}
	return n
}
