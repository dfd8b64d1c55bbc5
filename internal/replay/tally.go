package replay

import (
	"math"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// outcome is what one policy says of a silence.
type outcome struct {
	judgement judgement.Judgement
	real      bool // it is an outage
	returned  bool // the device, which was offline, is online when it is over
}

// seen reports whether an outage would have been judged.
func (o *outcome) seen() bool { return o.real && o.judgement.Offline > 0 }

// tally counts for one value.
type tally struct {
	falseAlarms, lates, seen, closed, notifications, groupOutages int

	delays        delays
	sooner, later shift
}

// shift is how many outages were seen at another time than today, and by how much together.
type shift struct {
	n, both int // both: those that were seen either way
	by      time.Duration
}

func (s *shift) mean() Millis {
	if s.both == 0 {
		return 0
	}
	return millis(s.by / time.Duration(s.both))
}

// add counts an outcome. today is what today's policy says of the same silence.
func (t *tally) add(o, today *outcome) {
	j := &o.judgement
	if j.Late > 0 {
		t.lates++
	}
	if j.Offline > 0 {
		t.notifications++
	}
	if o.returned {
		t.notifications++
	}
	switch {
	case o.seen():
		t.seen++
		t.delays.add(j.Offline)
		if j.Reason != liveness.Silence {
			t.closed++
		}
	case j.Offline > 0:
		t.falseAlarms++
	}
	t.compare(o, today)
}

// compare compares when an outage was seen.
func (t *tally) compare(o, today *outcome) {
	mine, theirs := o.judgement.Offline, today.judgement.Offline
	switch {
	case !o.seen() && !today.seen() || mine == theirs:
	case !today.seen():
		t.sooner.n++
	case !o.seen():
		t.later.n++
	case mine < theirs:
		t.sooner = shift{t.sooner.n + 1, t.sooner.both + 1, t.sooner.by + theirs - mine}
	default:
		t.later = shift{t.later.n + 1, t.later.both + 1, t.later.by + mine - theirs}
	}
}

// delays is a histogram of delays, to 1 %.
type delays struct {
	n        int
	sum, max time.Duration
	buckets  []int // nil if there are none
}

const (
	// delayRatio is the ratio of a bucket's bounds, delayLeast the upper bound of the first.
	delayRatio   = 1.01
	delayLeast   = 10 * time.Millisecond
	delayBuckets = 2300 // beyond a year
)

func (d *delays) add(delay time.Duration) {
	if d.buckets == nil {
		d.buckets = make([]int, delayBuckets)
	}
	d.n++
	d.sum += delay
	d.max = max(d.max, delay)
	b := math.Ceil(math.Log(float64(delay)/float64(delayLeast)) / math.Log(delayRatio))
	d.buckets[int(max(min(b, delayBuckets-1), 0))]++
}

func (d *delays) mean() time.Duration {
	if d.n == 0 {
		return 0
	}
	return d.sum / time.Duration(d.n)
}

// quantile returns the least delay that a share of the delays is not above.
func (d *delays) quantile(share float64) time.Duration {
	want, sum := int(math.Ceil(share*float64(d.n))), 0
	for b, n := range d.buckets {
		if sum += n; sum >= want {
			return min(time.Duration(math.Pow(delayRatio, float64(b))*float64(delayLeast)), d.max)
		}
	}
	return 0
}

// point returns what was counted, for a window.
func (t *tally) point(window time.Duration, deviceMonths float64) Point {
	p := Point{
		FalseAlarms: t.falseAlarms, Lates: t.lates, Seen: t.seen, Closed: t.closed,
		Mean: millis(t.delays.mean()), P90: millis(t.delays.quantile(0.9)), Max: millis(t.delays.max),
		Sooner: t.sooner.n, SoonerBy: t.sooner.mean(), Later: t.later.n, LaterBy: t.later.mean(),
		Notifications: t.notifications, GroupOutages: t.groupOutages,
	}
	if deviceMonths > 0 {
		p.Rate = float64(t.falseAlarms) / deviceMonths
	}
	p.Weekly = float64(t.notifications) * float64(defaultWindow) / float64(window)
	return p
}
