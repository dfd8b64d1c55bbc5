//go:build linux

package fleet

import "time"

// maxInFlight bounds the connections that wait for an answer, so that a burst
// does not overflow the gateway's accept queue (4,096 by default).
const maxInFlight = 512

// queued is a device that waits to dial, and the step that asked for it.
type queued struct {
	dev  *dev
	step int
}

// dials paces new connections: first in, first out, one each gap, and no more
// than maxInFlight without an answer.
type dials struct {
	gap      time.Duration
	list     []queued
	at       time.Time // before which the next may not be dialled
	inFlight int
}

func (q *dials) add(d *dev, step int) {
	d.queued = true
	q.list = append(q.list, queued{d, step})
}

// idle reports whether nobody waits to dial or for an answer.
func (q *dials) idle() bool { return len(q.list) == 0 && q.inFlight == 0 }

// next returns when the first may dial, or otherwise if none may.
func (q *dials) next(otherwise time.Time) time.Time {
	if len(q.list) == 0 || q.inFlight >= maxInFlight {
		return otherwise
	}
	return q.at
}

// due removes and returns the first if it may dial now. Up to maxWait of
// unused pace is made up for.
func (q *dials) due(now time.Time) (queued, bool) {
	if len(q.list) == 0 || q.inFlight >= maxInFlight || q.at.After(now) {
		return queued{}, false
	}
	if oldest := now.Add(-maxWait); q.at.Before(oldest) {
		q.at = oldest
	}
	q.at = q.at.Add(q.gap)
	q.inFlight++
	first := q.list[0]
	q.list = q.list[1:]
	first.dev.queued = false
	return first, true
}
