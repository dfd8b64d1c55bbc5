package liveness

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/habit"
	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness/judgement"
)

// Learned is the deadline that fits a device, and what it rests on.
type Learned struct {
	ID, Group string
	Policy    Policy // that is in force, complete
	From      string // the rule that Policy.Timeout is from; "learned" if it was learned
	// Without is the Timeout that would be in force if none was learned.
	Without time.Duration
	// Deadline is what was learned, within its bounds; 0 if too little is known.
	Deadline time.Duration
	// Basis is what Deadline rests on. Raised: it is Least, by what the device announced, since what was
	// learned is less. Lowered: it is Policy.LearnMax, since what was learned is more.
	Basis           habit.Basis
	Raised, Lowered bool
	// Known: enough gaps were seen to know what is exceeded as seldom as the budget says.
	Known bool
	// Fixed: nothing is learned for the device: it has a Timeout of its own, is expected by a schedule, its
	// policy says so, or a broker tracks it.
	Fixed bool
}

// Learned returns what was learned of a device. Errors: ErrUnknownDevice.
func (r *Registry) Learned(id string) (Learned, error) {
	sh, d, err := r.find(id)
	if err != nil {
		return Learned{}, err
	}
	defer sh.mu.Unlock()
	return r.learnedLocked(sh, d), nil
}

// ListLearned is [Registry.List] for what was learned of the devices of a group, or of all if group is empty.
// limit bounds how many devices are looked at.
func (r *Registry) ListLearned(buffer []Learned, group string, from Cursor, limit int) ([]Learned, Cursor) {
	next := r.walk(from, func(sh *deviceShard, d *device) bool {
		if limit <= 0 {
			return false
		}
		limit--
		if group == "" || d.group() == group {
			buffer = append(buffer, r.learnedLocked(sh, d))
		}
		return true
	})
	return buffer, next
}

func (r *Registry) learnedLocked(sh *deviceShard, d *device) Learned {
	l := d.rule.Value()
	v := Learned{ID: d.id, Group: d.group(), Policy: d.heldLocked(), From: d.fromLocked(), Without: l.Timeout, Fixed: !l.learns()}
	r.learning.mu.Lock()
	basis, ok := sh.habit(d).Explain(r.shapeOf(l.group), l.LearnBudget)
	r.learning.mu.Unlock()
	v.Basis = basis
	if !ok {
		return v
	}
	deadline := habit.Round(basis.Deadline())
	v.Known = basis.Gaps >= habit.Sure || basis.Known
	v.Deadline = max(min(deadline, l.LearnMax), l.least)
	v.Lowered, v.Raised = deadline > v.Deadline, deadline < v.Deadline
	return v
}

// ApplyLearned puts the deadline that was learned of a device in force, or takes it back. A device with
// LearnApply gets it back by itself. A deadline that is shorter judges no silence at once, see [Registry.Reconfigure]. An event with what it rests on tells of a change. Errors:
// ErrUnknownDevice, ErrBusy, ErrNotLearned.
func (r *Registry) ApplyLearned(id string, on bool) (v Learned, err error) {
	var refused error
	err = r.admin(id, func(sh *deviceShard, d *device, now time.Duration) {
		v = r.learnedLocked(sh, d)
		switch {
		case !on:
			r.holdLocked(sh, d, 0, "the learned deadline was taken back", now)
		case v.Fixed || v.Deadline == 0 || d.source == nil:
			refused = fmt.Errorf("%w: %s", ErrNotLearned, v.why())
			return
		default:
			r.holdLocked(sh, d, v.Deadline, v.Sentence(), now)
		}
		v = r.learnedLocked(sh, d)
	})
	return v, cmp.Or(err, refused)
}

// why returns why no deadline is learned.
func (v *Learned) why() string {
	switch {
	case v.Policy.Learn == judgement.LearnOff:
		return "its policy turns learning off"
	case v.Policy.Timeout == Never:
		return "a broker tracks it, its silence means nothing"
	case v.Policy.Expect != "":
		return "it is expected by a schedule"
	case v.Fixed:
		return "it has a timeout of its own"
	}
	return fmt.Sprintf("%d of %d intervals seen so far", v.Basis.Gaps, habit.Least)
}

// Sentence returns in a sentence what the deadline rests on, or why there is none.
func (v *Learned) Sentence() string {
	if v.Deadline == 0 || v.Fixed {
		return "no deadline is learned: " + v.why()
	}
	s := v.Basis.Sentence(v.Policy.LearnBudget)
	switch {
	case v.Raised:
		s += fmt.Sprintf("; it announced %v, so the deadline is not less than that", habit.Show(v.Deadline))
	case v.Lowered:
		s += fmt.Sprintf("; %v is the longest deadline that its policy allows to be learned", habit.Show(v.Deadline))
	}
	s += ": deadline " + habit.Show(v.Deadline)
	if v.Without != v.Deadline {
		s += " instead of " + habit.Show(v.Without)
	}
	return s
}

// holdLocked puts a learned deadline in force, 0 for none, unless it is. The device's next step follows it.
func (r *Registry) holdLocked(sh *deviceShard, d *device, deadline time.Duration, message string, now time.Duration) {
	h := sh.habit(d)
	next := *h
	if next.SetInForce(deadline); d.marks&learned != 0 == (deadline != 0) && next == *h {
		return
	}
	r.rejudgeLocked(sh, d, func() {
		*h = next
		if d.marks &^= learned; deadline != 0 {
			d.marks |= learned
		}
	})
	r.limitLocked(sh, d, d.heldLocked().Timeout)
	r.emitLocked(sh, d, DeviceChanged, message, now)
}

// A deadline that is learned goes up at once. It goes down once a day, by no more than lowerAtMost, if it
// falls by a tenth at least.
const (
	lowerAtMost  = 1.5
	lowerAtLeast = 1 / 0.9
	// lowerSlots is into how many parts a day's devices are divided.
	lowerSlots = 24 * 60
)

// adaptLocked makes the deadline in force of a device with LearnApply follow what is learned. With lower it
// may become shorter, too.
func (r *Registry) adaptLocked(sh *deviceShard, d *device, lower bool) {
	l := d.rule.Value()
	if l.Learn != judgement.LearnApply || !l.learns() || d.source == nil || !d.expected() {
		return
	}
	v := r.learnedLocked(sh, d)
	held, next := v.Policy.Timeout, v.Deadline
	if next < held {
		silence := d.source.Now() - d.lastLocked()
		next = max(next, time.Duration(float64(held)/lowerAtMost), l.least)
		if !lower || !v.Known || float64(held) < lowerAtLeast*float64(v.Deadline) || silence > next/2 {
			return
		}
	}
	if next == 0 || habit.Round(next) == held {
		return
	}
	r.holdLocked(sh, d, next, v.Sentence(), d.nowLocked())
}

// adaptRising lets the deadlines rise of which a snapshot has found that they may be too short.
func (r *Registry) adaptRising() {
	r.learning.snapshot.Lock()
	handles := r.learning.rising
	r.learning.rising = nil
	r.learning.snapshot.Unlock()
	slices.Sort(handles)
	handles = slices.Compact(handles)
	for i, handle := range handles {
		if r.outbox.busy() { // the others rise when their events can be written
			r.learning.snapshot.Lock()
			r.learning.rising = append(r.learning.rising, handles[i:]...)
			r.learning.snapshot.Unlock()
			return
		}
		sh, d := r.lock(handle)
		if d != nil && d.marks&forgotten == 0 {
			r.adaptLocked(sh, d, false)
		}
		sh.mu.Unlock()
	}
}

// learnEvery is how often deadlines are looked at.
const learnEvery = time.Second

// watchLearning makes deadlines follow what is learned until ctx is done.
func (r *Registry) watchLearning(ctx context.Context) {
	r.learning.slot = r.clock.time().Unix() / 60 // whose devices may have fallen before a restart
	tick := time.NewTicker(learnEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.adaptStep(r.clock.time())
		case <-ctx.Done():
			return
		}
	}
}

// adaptStep lets deadlines rise, and those of a part of the devices fall at each minute of the day.
func (r *Registry) adaptStep(now time.Time) {
	r.learning.halve(r, now)
	if !r.learning.applies.Load() {
		return
	}
	r.adaptRising()
	slot := now.Unix() / 60
	if slot == r.learning.slot {
		return
	}
	r.learning.slot = slot
	r.each(func(sh *deviceShard, d *device) {
		if int64(d.num%lowerSlots) == slot%lowerSlots && !r.outbox.busy() {
			r.adaptLocked(sh, d, true)
		}
	})
}

// weekOf returns the number of a week.
func weekOf(t time.Time) int64 { return t.Unix() / (7 * 24 * 60 * 60) }

// halve halves the shapes once a week.
func (l *learning) halve(r *Registry, now time.Time) {
	this := weekOf(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	if this <= l.week {
		return
	}
	l.week = this
	l.shape.Halve()
	for _, g := range r.rules.Load().groups {
		g.shape.Halve()
	}
}

// Habits implements [keep.Registry].
func (r keeper) Habits(do func(num uint32, id string, learned uint64)) {
	r.each(func(sh *deviceShard, d *device) {
		if h := sh.habit(d).Uint64(); h != 0 && d.num != 0 {
			do(d.num, d.id, h)
		}
	})
}

// reviveHabitLocked gives a new device the habit of a record.
func (r *Registry) reviveHabitLocked(sh *deviceShard, d *device, rec *keep.Record) {
	h := habit.FromUint64(rec.Habit)
	if h.SetInForce(rec.Learned); rec.Learned != 0 && d.source != nil {
		d.marks |= learned
	}
	*sh.habit(d) = h
}

// Shapes implements [keep.Registry].
func (r keeper) Shapes() map[string][]byte {
	r.learning.mu.Lock()
	defer r.learning.mu.Unlock()
	week := binary.AppendUvarint(nil, uint64(r.learning.week))
	all := map[string][]byte{"": r.learning.shape.Append(slices.Clone(week))}
	for _, g := range r.rules.Load().groups {
		all[g.Name] = g.shape.Append(slices.Clone(week))
	}
	return all
}

// RestoreShape implements [keep.Registry].
func (r keeper) RestoreShape(group string, data []byte) error {
	week, n := binary.Uvarint(data)
	s, err := habit.ParseShape(data[max(n, 0):])
	if err != nil || n <= 0 || week > math.MaxInt32 {
		return fmt.Errorf("liveness: what was learned of group %q is damaged", group)
	}
	r.learning.mu.Lock()
	defer r.learning.mu.Unlock()
	r.learning.week = int64(week)
	if group == "" {
		r.learning.shape = *s
	}
	for _, g := range r.rules.Load().groups {
		if g.Name == group {
			g.shape = *s
		}
	}
	return nil
}
