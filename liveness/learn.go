package liveness

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/internal/habit"
	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness/judgement"
)

// Habits are learned from gaps: the listening time between two heartbeats of a device. A heartbeat costs
// nothing for that. A snapshot visits every device's last heartbeat anyway, and compares it with
// the one before. A silence that goes on beyond the device's limit is noticed there, too: from then on
// the device's next heartbeat takes its lock, and says exactly how long the silence was.

// learning is what is learned of all devices.
type learning struct {
	on      atomic.Bool   // gaps are taken, see keep.Registry
	applies atomic.Bool   // some policy has LearnApply
	dropped atomic.Uint64 // gaps that nobody took

	snapshot sync.Mutex      // held while a snapshot is taken; guards the fields below; taken before a device shard's
	seen     []uint64        // a bit for each device number that the snapshot has come by
	listened []time.Duration // by source: what its clock read at the latest snapshot
	rising   []uint32        // handles of devices whose deadline in force may be too short

	mu    sync.Mutex  // guards the shapes, here and of the groups; taken after a device shard's
	shape habit.Shape // of the devices of no group
	week  int64       // the latest in which the shapes were halved

	slot int64 // the minute in which deadlines fell last; for watchLearning only
}

// learnLeast is the least time between two heartbeats that is a gap. A heartbeat while a snapshot is
// taken is seen twice.
const learnLeast = time.Second

// RecordGaps implements [keep.Registry].
func (r keeper) RecordGaps() { r.learning.on.Store(true) }

// shapeOf returns the shape of a group, which may be nil. Call it with learning.mu held.
func (r *Registry) shapeOf(g *group) *habit.Shape {
	if g == nil {
		return &r.learning.shape
	}
	return &g.shape
}

// habit returns the habit of a shard's device.
func (sh *deviceShard) habit(d *device) *habit.Habit { return &sh.habits[d.handle/shardCount] }

// learns reports whether a deadline may be learned of the devices of a rule.
func (l rule) learns() bool {
	return l.Learn != judgement.LearnOff && l.from != ofDevice && l.Timeout < Never && l.Expect == ""
}

// heldLocked returns the policy that holds for the device: that of its rule, with the deadline that was
// learned.
func (d *device) heldLocked() Policy {
	l := d.rule.Value()
	return d.heldByLocked(&l)
}

// heldByLocked is heldLocked for a rule that the device is about to have.
func (d *device) heldByLocked(l *rule) Policy {
	p := l.Policy
	if d.marks&learned != 0 && l.learns() {
		h := d.source.registry.shards[d.handle%shardCount].habit(d)
		p.Timeout = max(min(h.InForce(), habit.Round(l.LearnMax)), l.least)
	}
	return p
}

// gracePolicyLocked returns the policy that holds for the device, with the interval that its reconnect grace is
// for: where a learned deadline is in force, that is what the device does, not what it is to do.
func (d *device) gracePolicyLocked() Policy {
	l := d.rule.Value()
	p := d.heldByLocked(&l)
	if d.marks&learned != 0 && l.learns() {
		p.Interval = max(p.Interval, d.source.registry.shards[d.handle%shardCount].habit(d).Interval())
	}
	return p
}

// fromLocked returns where the device's timeout comes from.
func (d *device) fromLocked() string {
	l := d.rule.Value()
	if d.marks&learned != 0 && l.learns() {
		return "learned"
	}
	return l.from
}

// learnLocked learns a gap of a device, and notes if its deadline in force may have become too short.
// Call it while a snapshot is taken.
func (r *Registry) learnLocked(sh *deviceShard, d *device, gap time.Duration) {
	l, h := d.rule.Value(), sh.habit(d)
	held := d.heldLocked().Timeout
	if l.Timeout == Never {
		return
	}
	r.learning.mu.Lock()
	ok := h.Add(gap, held, l.LearnBudget, r.shapeOf(l.group), rand.Uint32())
	r.learning.mu.Unlock()
	r.limitLocked(sh, d, held)
	if ok && l.Learn == judgement.LearnApply && l.learns() && gap*5/4 > held {
		r.learning.rising = append(r.learning.rising, d.handle)
	}
}

// watchAhead is how long before its limit a silence is noticed at the latest, if snapshots are about five
// seconds apart.
const watchAhead = 6 * time.Second

// usual returns the silence up to which a device beats as ever: its heartbeats up to then cost nothing.
func usual(h *habit.Habit) time.Duration { return h.Interval() * 9 / 8 }

// limitLocked sets from which silence on the device's gaps are recorded: half of its timeout, or half more
// than its usual gap; but so much more than that that it can be noticed in between. From its timeout on all
// are.
func (r *Registry) limitLocked(sh *deviceShard, d *device, timeout time.Duration) {
	h := sh.habit(d)
	interval, least := time.Duration(0), time.Duration(0)
	if h.Gaps() >= habit.Least {
		interval, least = h.Interval(), min(usual(h)+watchAhead, timeout)
	}
	if h.SetLimit(max(timeout/2, min(interval*3/2, timeout)), least) && d.num != 0 {
		r.keepGapLocked(sh, recordedGap{Gap: judgement.Gap{Num: d.num, At: r.clock.time(), End: judgement.EndLimit, Length: h.Limit()}})
	}
}

// noticeGapLocked records the silence that a signal ends, if it was longer than the device's limit. before
// is what was known of the device, on the clock on which it was heard at an instant.
func (r *Registry) noticeGapLocked(sh *deviceShard, d *device, before judgement.Condition, heard time.Duration, sig signal) {
	h := sh.habit(d)
	switch {
	case !r.learning.on.Load():
		return
	case before.State == NeverSeen: // its number may be that of a device that the snapshot before has seen
		h.SetSkips(true)
		return
	case heard <= before.Last && before.State != Offline: // then each heartbeat counts, of several in an instant, too
		return
	}
	p := d.heldLocked()
	if h.Limit() == 0 {
		r.limitLocked(sh, d, p.Timeout)
	}
	asleep := before.State == Sleeping
	switch {
	case before.State == Offline && (before.Reason == Bye || before.Until == 0): // its absence was announced
		h.SetSkips(true)
		return
	case p.Timeout == Never, heard-before.From() <= h.Limit() && !before.Absent(heard, d.judgedByLocked(before)):
		h.SetSkips(h.Skips() || asleep)
		return
	}
	g := r.gapLocked(d, before, max(heard-before.Last, 0))
	g.End, g.broken = endOf(sig, before), g.broken || sig.Kind == Retained
	h.SetSkips(true)
	r.keepGapLocked(sh, g)
	delete(sh.judged, d.handle) // it is of this silence; another may follow before the device is online again
}

// beforeVerdict is what a gap must tell of the time around a verdict, since a device that is offline does not:
// how long after its last heartbeat an announced sleep ended, 0 if there was none; how its connection ended, if the
// verdict does not say that; and whether it was in maintenance.
type beforeVerdict struct {
	slept      time.Duration
	end        connectionEnd
	maintained bool
}

// connectionEnd is how a device's connection ended, as in a [Gap]. Without a reason it did not.
type connectionEnd struct {
	closed       time.Duration
	why          Reason
	atOnce, told bool
}

// keepVerdictLocked keeps what is known of a device at a verdict until it is heard again.
func (r *Registry) keepVerdictLocked(sh *deviceShard, d *device, before, next judgement.Condition) {
	if before.State == Offline {
		delete(sh.judged, d.handle)
		return
	}
	if next.State != Offline || next.Until == 0 {
		return
	}
	f := beforeVerdict{maintained: d.maintained() || d.marks&suppressed != 0}
	switch {
	case before.Ending():
		if end := d.connectionEndLocked(before); end.told || next.Reason != before.Reason || next.Until != before.Until { // the device does not say when it ended
			f.end = end
		}
	case before.State == Sleeping:
		f.slept = before.Until - before.Last
	}
	if f != (beforeVerdict{}) {
		sh.keepBeforeVerdict(d, f)
	}
}

// reviveVerdictLocked keeps what is known of the verdict on a restored device. Whether the device was in maintenance then
// is not: it was, if it is now.
func (sh *deviceShard) reviveVerdictLocked(d *device, f judgement.Condition, rec *keep.Record) {
	sh.keepJudgedByLocked(d, f, rec.JudgedBy)
	if d.state == Offline && d.maintained() {
		sh.keepBeforeVerdict(d, beforeVerdict{maintained: true})
	}
}

// keepEndLocked is keepVerdictLocked for a connection that ends after a verdict: another policy might have
// come to it later. A peer that is told of verdicts ends its connection because of this one, so that the end
// tells nothing of the device.
func (r *Registry) keepEndLocked(sh *deviceShard, d *device, before judgement.Condition, sig signal) {
	if sig.Kind != Disconnected || before.State != Offline || before.Reason == Bye || before.Reason != Silence && before.JudgedSince() {
		return
	}
	f := sh.judged[d.handle]
	switch {
	case d.session != nil && d.session.peer != nil && !before.Recovering():
		d.marks |= cutOff
	case f.end.why == NoReason:
		cut := d.source.deafness.Cut()
		told := sig.tellsEnd(cut) && d.wholeLocked(before.Last) < cut
		f.end = connectionEnd{closed: max(sig.At-before.Last, 0), why: sig.Reason, atOnce: sig.AtOnce, told: told}
		sh.keepBeforeVerdict(d, f)
	}
}

func (sh *deviceShard) keepBeforeVerdict(d *device, f beforeVerdict) {
	if !d.source.registry.learning.on.Load() {
		return
	}
	if sh.judged == nil {
		sh.judged = make(map[uint32]beforeVerdict)
	}
	sh.judged[d.handle] = f
}

// recordedGap is a gap that is not learned yet.
type recordedGap struct {
	judgement.Gap

	handle uint32 // of the device
	broken bool   // the source was deaf in it, or some of it does not count, see judgement.Pace
}

// gapLocked returns a silence of a device that has lasted for a length. before is what was known of it,
// perhaps on another clock than its own.
func (r *Registry) gapLocked(d *device, before judgement.Condition, length time.Duration) recordedGap {
	last := before.Last
	if own, known := d.conditionLocked(); known { // on the clock by which it was judged
		last = own.Last
	}
	g := recordedGap{handle: d.handle, broken: d.source.deafness.Since(last) || d.quietLocked(last, last+length) || d.maintainedSinceLocked(last)}
	g.Gap = judgement.Gap{
		Num: d.num, Source: d.source.name, Start: last, Length: length, At: r.clock.time().Round(0), End: judgement.EndOpen,
		Running: d.running(), CutOff: d.marks&cutOff != 0,
	}
	var f beforeVerdict
	switch {
	case before.State == Sleeping && !before.Ending():
		f.slept = before.Until - before.Last
	case before.State == Offline:
		f = r.shards[d.handle%shardCount].judged[d.handle]
	}
	if f.end.why == NoReason && (before.Ending() || before.JudgedSince() && before.Reason != Silence) {
		f.end = d.connectionEndLocked(before)
	}
	g.Slept, g.Closed, g.Reason, g.AtOnce, g.Told = f.slept, f.end.closed, f.end.why, f.end.atOnce, f.end.told
	if g.Suppressed = f.maintained; !before.JudgedSince() {
		g.Suppressed = d.marks&suppressed != 0 || d.maintainedSinceLocked(last)
	}
	return g
}

// endOf returns what a signal is the end of a silence by.
func endOf(sig signal, before judgement.Condition) judgement.GapEnd {
	switch {
	case sig.Kind == Goodbye:
		return judgement.EndBye
	case sig.opens != nil, sig.Epoch != 0 && before.Ending():
		return judgement.EndSession
	}
	return judgement.EndBeat
}

// keepGapLocked keeps a gap until it is taken. There is room for several of each device; what does not
// fit is counted.
func (r *Registry) keepGapLocked(sh *deviceShard, g recordedGap) {
	if !r.learning.on.Load() {
		return
	}
	if len(sh.gaps) > 4*len(sh.places)+64 {
		r.learning.dropped.Add(1)
		return
	}
	sh.gaps = append(sh.gaps, g)
}

// quietLocked reports whether a part of a span of listening time does not count for the device.
func (d *device) quietLocked(from, to time.Duration) bool {
	p := d.rule.Value().Policy
	if !p.Paced() {
		return false
	}
	by := d.source.pace(p, from, from)
	return by.Touches(from, to)
}

// dropGapsLocked drops the gaps of a device number that were not taken yet.
func (sh *deviceShard) dropGapsLocked(num uint32) {
	sh.gaps = slices.DeleteFunc(sh.gaps, func(g recordedGap) bool { return g.Num == num })
}

// learnRecordedLocked learns a gap that was recorded, unless it was announced or the source was deaf in it.
func (r *Registry) learnRecordedLocked(sh *deviceShard, g *recordedGap) {
	if g.End > judgement.EndBye || g.Slept != 0 || g.Suppressed || g.broken {
		return
	}
	if d := sh.at(g.handle); d != nil && d.num == g.Num && d.marks&forgotten == 0 {
		r.learnLocked(sh, d, g.Length)
	}
}

// TakeGaps implements [keep.Registry].
func (r keeper) TakeGaps() (gaps []judgement.Gap, breaks []judgement.Break, dropped uint64) {
	r.learning.snapshot.Lock()
	defer r.learning.snapshot.Unlock()
	for i := range r.shards {
		sh := &r.shards[i]
		sh.mu.Lock()
		for i := range sh.gaps {
			r.learnRecordedLocked(sh, &sh.gaps[i]) // which may add one
		}
		for i := range sh.gaps {
			gaps = append(gaps, sh.gaps[i].Gap)
		}
		sh.gaps = nil
		sh.mu.Unlock()
	}
	for _, s := range r.Sources() {
		breaks = append(breaks, s.takeBreaks()...)
	}
	return gaps, breaks, r.learning.dropped.Load()
}

// breaksKept is how many breaks of a source wait to be taken. There are hardly ever more between two
// checkpoints; the oldest are dropped.
const breaksKept = 1024

// recordBreakLocked records a break, which is noticed now.
func (s *Source) recordBreakLocked(b judgement.Break) {
	if !s.registry.learning.on.Load() {
		return
	}
	if len(s.breaks) == breaksKept {
		s.breaks = append(s.breaks[:0], s.breaks[1:]...)
	}
	b.Source, b.Clock = s.name, s.Now()
	s.breaks = append(s.breaks, b)
}

func (s *Source) takeBreaks() []judgement.Break {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.breaks
	s.breaks = nil
	return b
}
