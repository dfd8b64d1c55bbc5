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

// judgedByLocked returns the span that a device's condition follows from, as it was in the policy then.
func (d *device) judgedByLocked(f condition) time.Duration {
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
		if delete(sh.judgedBy, d.handle); len(sh.judgedBy) == 0 {
			sh.judgedBy = nil // a map does not shrink
		}
		return
	}
	if sh.judgedBy == nil {
		sh.judgedBy = make(map[uint32]time.Duration)
	}
	sh.judgedBy[d.handle] = span
}

// judgeByLocked makes a condition follow from the policy in force, unless it follows from what the one before
// does.
func (sh *deviceShard) judgeByLocked(d *device, before, next condition) {
	same := next.state == before.state && (!next.ending() || next.until == before.until)
	if next.reason == before.reason && (same || next.state == Offline && before.ending()) {
		return
	}
	sh.keepJudgedByLocked(d, next, next.span(d.policyLocked())) // which has another timeout if its source is retired
}

// ruleByLocked gives a device a rule. Its condition f still follows from what it did.
func (sh *deviceShard) ruleByLocked(d *device, f condition, by unique.Handle[rule]) {
	if by == d.rule {
		return
	}
	span := d.judgedByLocked(f)
	d.rule = by
	sh.keepJudgedByLocked(d, f, span)
}
