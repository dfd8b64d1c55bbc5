package learn

import (
	"math"
	"time"
)

// tally counts what a detector did to the devices of a stream. A device that lives is silent for one gap
// after the other; a gap that is longer than the deadline was a false alarm.
type tally struct {
	alarms   int     // false ones
	wrong    float64 // seconds for which devices that live were suspected
	alive    float64 // seconds of devices that live
	detect   float64 // of all these seconds, the sum of the time that it would take to detect a death in it
	deadline float64 // likewise, of the deadlines
	deaths   [2048]int
	died     int
	outages  int
	seen     int // of the outages
}

// living counts a gap of a device that lives. The deadline was in force in it.
func (t *tally) living(gap, deadline time.Duration) {
	g, d := gap.Seconds(), deadline.Seconds()
	t.alive += g
	t.deadline += g * d
	trusted := min(g, d)
	t.detect += trusted * (d - trusted/2) // the integral of d-x for x from 0 to trusted: later it is suspected already
	if gap > deadline {
		t.alarms++
		t.wrong += g - d
	}
}

// out counts an outage after a gap; silent is the whole silence.
func (t *tally) out(silent, deadline time.Duration) {
	t.outages++
	if silent > deadline {
		t.seen++
	}
}

// dies counts a death so long after the last heartbeat.
func (t *tally) dies(after, deadline time.Duration) {
	t.died++
	t.deaths[bucket(deadline-after)]++
}

const fine = 0.01 // by how much a bucket is longer than the one before

// bucket returns the bucket of a time until detection: 0 for none and for up to a millisecond.
func bucket(d time.Duration) int {
	ms := max(d.Seconds()*1000, 1)
	return min(int(math.Ceil(math.Log(ms)/math.Log1p(fine))), len(tally{}.deaths)-1)
}

// add adds what another tally has counted.
func (t *tally) add(o *tally) {
	t.alarms, t.wrong, t.alive, t.detect, t.deadline = t.alarms+o.alarms, t.wrong+o.wrong, t.alive+o.alive, t.detect+o.detect, t.deadline+o.deadline
	t.died, t.outages, t.seen = t.died+o.died, t.outages+o.outages, t.seen+o.seen
	for i, n := range o.deaths {
		t.deaths[i] += n
	}
}

const month = 30 * day

// quality is how good a detector is, with the measures of Chen, Toueg and Aguilera. A figure that nothing was
// measured of is NaN.
type quality struct {
	mistakes float64 // λ_M: false alarms per device and 30 days
	mistake  float64 // T_M: seconds from a false alarm to the heartbeat that ends it
	accuracy float64 // P_A: the share of the time in which devices that live are not suspected
	detect   float64 // T_D: seconds from a death to the deadline
	detect99 float64 // its 99th percentile
	deadline float64 // in force, seconds
	seen     float64 // the share of outages
}

func (t *tally) quality() quality {
	return quality{
		mistakes: float64(t.alarms) / t.alive * month.Seconds(), mistake: t.wrong / float64(t.alarms), accuracy: 1 - t.wrong/t.alive,
		detect: t.detect / t.alive, detect99: t.percentile(0.99), deadline: t.deadline / t.alive, seen: float64(t.seen) / float64(t.outages),
	}
}

// percentile returns the time within which a share of the deaths was detected, to within 1 %.
func (t *tally) percentile(share float64) float64 {
	if t.died == 0 {
		return math.NaN()
	}
	left := share * float64(t.died)
	for i, n := range t.deaths {
		if left -= float64(n); left <= 0 {
			return math.Pow(1+fine, float64(i)) / 1000
		}
	}
	return math.Inf(1)
}
