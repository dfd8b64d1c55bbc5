package liveness

import (
	"time"
	"unique"

	"github.com/holter-iot/holter/liveness/judgement"
)

// atOnce is the span of a connection's end that left the device no time to come back, see [Signal].
const atOnce = time.Duration(-1)

// judgedByLocked is spanLocked, but 0 for atOnce.
func (d *device) judgedByLocked(f judgement.Condition) time.Duration { return max(d.spanLocked(f), 0) }

// spanLocked returns the span that a device's condition follows from, as it was in the policy then.
func (d *device) spanLocked(f judgement.Condition) time.Duration {
	if d.source == nil {
		return 0
	}
	if span, ok := d.source.registry.shards[d.handle%shardCount].judgedBy[d.handle]; ok {
		return span
	}
	return f.Span(d.heldLocked())
}

// keepJudgedByLocked keeps the span that a device's condition follows from, unless it is that of the policy in
// force, or not known.
func (sh *deviceShard) keepJudgedByLocked(d *device, f judgement.Condition, span time.Duration) {
	if d.source == nil || span == 0 || span == f.Span(d.heldLocked()) {
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
func (d *device) endedLocked(f judgement.Condition) time.Duration {
	return max(f.Until-d.judgedByLocked(f)-f.Last, 0)
}

// judgeByLocked makes a condition, which follows from what came now, follow from the policy in force, unless it
// follows from what the one before does.
func (sh *deviceShard) judgeByLocked(d *device, before, next judgement.Condition, now time.Duration) {
	same := next.State == before.State
	if next.Ending() {
		same = before.Ending() && next.Until == before.Until
	}
	if next.Reason == before.Reason && (same || next.State == Offline && before.Ending()) {
		return
	}
	span := next.Span(d.policyLocked()) // which has another timeout if its source is retired
	if next.Ending() && next.Reason != Bye && next.Until <= max(now, next.Last) {
		span = atOnce
	}
	sh.keepJudgedByLocked(d, next, span)
}

// ruleByLocked gives a device a rule. Its condition f still follows from what it did.
func (sh *deviceShard) ruleByLocked(d *device, f judgement.Condition, by unique.Handle[rule]) {
	if by == d.rule {
		return
	}
	span := d.spanLocked(f)
	d.rule = by
	sh.keepJudgedByLocked(d, f, span)
}
