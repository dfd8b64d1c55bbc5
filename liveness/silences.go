package liveness

import (
	"time"

	"github.com/holter-iot/holter/internal/operate"
)

// Grace implements [operate.Owner].
func (s owner) Grace(p Policy) time.Duration { return s.config.Load().grace(p) }

// Silences implements [operate.Registry].
func (r operator) Silences(do func(*operate.Silence)) {
	r.each(func(sh *deviceShard, d *device) {
		s := operate.Silence{
			Num: d.num, ID: d.id, Group: d.group(), Held: d.gracePolicyLocked(), Limit: sh.habit(d).Limit(), Sessions: d.epoch != 0, Offline: d.state == Offline,
		}
		if v := r.learnedLocked(sh, d); !v.Fixed {
			s.Learned = v.Deadline
		}
		s.Set, _ = r.rules.Load().combineLocked(sh, d.id, d.rule.Value().group, d.rule.Value().announced)
		if d.source != nil && (d.state != Offline || d.reason != Bye) {
			f, _ := d.conditionLocked()
			f.Last = d.lastLocked()
			s.Open = r.gapLocked(d, f, max(d.source.Now()-f.Last, 0)).Gap
		}
		do(&s)
	})
}
