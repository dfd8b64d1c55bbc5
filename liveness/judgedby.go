package liveness

import (
	"time"
	"unique"
)

// span returns the span of a policy that the condition follows from, 0 if it follows from none. See
// [View].JudgedBy.
func (c condition) span(p Policy) time.Duration {
	switch {
	case c.ending() && c.reason != Bye:
		return p.CloseGrace
	case c.state == Late:
		return p.LateAfter
	case c.state != Offline || c.until == 0 || c.reason == Bye:
		return 0
	case c.reason == Silence:
		return p.Timeout
	}
	return p.CloseGrace
}

// atOnce is the span of a connection's end that left the device no time to come back, see [Signal].
const atOnce = time.Duration(-1)

// judgedByLocked is spanLocked, but 0 for atOnce.
func (d *device) judgedByLocked(f condition) time.Duration { return max(d.spanLocked(f), 0) }

// spanLocked returns the span that a device's condition follows from, as it was in the policy then.
func (d *device) spanLocked(f condition) time.Duration {
	if d.source == nil {
		return 0
	}
	if span, ok := d.source.registry.shards[d.handle%shardCount].judgedBy[d.handle]; ok {
		return span
	}
	return f.span(d.heldLocked())
}

// keepJudgedByLocked keeps the span that a device's condition follows from, unless it is that of the policy in
// force, or not known.
func (sh *deviceShard) keepJudgedByLocked(d *device, f condition, span time.Duration) {
	if d.source == nil || span == 0 || span == f.span(d.heldLocked()) {
		dropKept(&sh.judgedBy, d.handle)
		return
	}
	if sh.judgedBy == nil {
		sh.judgedBy = make(map[uint32]time.Duration)
	}
	sh.judgedBy[d.handle] = span
}

// endedLocked returns how long after its last sign of life a device's connection ended, if its condition follows
// from that.
func (d *device) endedLocked(f condition) time.Duration {
	return max(f.until-d.judgedByLocked(f)-f.last, 0)
}

// judgeByLocked makes a condition, which follows from what came now, follow from the policy in force, unless it
// follows from what the one before does.
func (sh *deviceShard) judgeByLocked(d *device, before, next condition, now time.Duration) {
	same := next.state == before.state
	if next.ending() {
		same = before.ending() && next.until == before.until
	}
	if next.reason == before.reason && (same || next.state == Offline && before.ending()) {
		return
	}
	span := next.span(d.policyLocked()) // which has another timeout if its source is retired
	if next.ending() && next.reason != Bye && next.until <= max(now, next.last) {
		span = atOnce
	}
	sh.keepJudgedByLocked(d, next, span)
}

// ruleByLocked gives a device a rule. Its condition f still follows from what it did.
func (sh *deviceShard) ruleByLocked(d *device, f condition, by unique.Handle[rule]) {
	if by == d.rule {
		return
	}
	span := d.spanLocked(f)
	d.rule = by
	sh.keepJudgedByLocked(d, f, span)
}
