package liveness

import (
	"time"

	"github.com/holter-iot/holter/liveness/judgement"
)

// pace returns the pace of a silence under a policy; last is when the device was heard last, and from, no
// earlier, since when it is silent. It takes the source's lock.
func (s *Source) pace(p Policy, last, from time.Duration) judgement.Pace {
	if !p.Paced() {
		return judgement.Pace{}
	}
	s.quieted.Store(true) // before the course is read, so that no turn is missed
	s.mu.Lock()
	by := judgement.Pace{Course: s.course.Since(last)}
	s.mu.Unlock()
	by.Set(&s.registry.calendars, p, from)
	return by
}

// outlookLocked returns by what a device in this condition is judged. It takes the source's lock if not all
// time counts.
func (d *device) outlookLocked(f judgement.Condition) judgement.Outlook {
	p, excused := d.policyLocked(), d.suppressedLocked()
	from := max(f.From(), excused)
	o := judgement.Outlook{Plain: p.Timeout, Pace: d.source.pace(p, f.Last, from)}
	ended := d.toldUntilLocked(f)
	if o.Wait(d.source.notBefore(d.wholeLocked(f.Last), from, ended, p, &o.Pace), judgement.AfterDeaf); o.NotBefore == ended {
		o.Delay = judgement.NoDelay // it is the time to come back
	}
	if excused != 0 {
		o.Wait(o.Pace.After(excused, p.Timeout), judgement.AfterWindow)
	}
	o.Wait(f.PutOff(0), judgement.AfterRelease)
	o.Wait(d.grantedLocked(f), judgement.AfterGrant)
	o.Policy = f.Stretched(p, &o.Pace)
	if f.Ending() {
		o.CloseGrace = d.judgedByLocked(f) // the policy may have another one by now
	}
	o.Wait(f.HoldOff(o.NotBefore, o.Policy, &o.Pace), judgement.AfterEnd)
	if !o.Pace.All() {
		o.Wait(f.ConnectBy(d.source.config.Load().grace(p), &o.Pace), judgement.AfterRelease)
	}
	return o
}

// turnedLocked is called when the wall clock and the listening clock have parted: verdicts that were put off
// by the wall clock may be due at another listening time, and there may be too many turns.
func (s *Source) turnedLocked() {
	if _, crowded := s.course.Crowded(); !s.quieted.Load() && !crowded {
		return
	}
	s.turned.Store(true)
	select {
	case s.registry.turns <- struct{}{}:
	default: // a pass over the sources is to come
	}
}

// watchTurns does what follows from a turn of a clock, until ctx is done.
func (r *Registry) watchTurns(done <-chan struct{}) {
	for {
		select {
		case <-r.turns:
			for _, s := range r.Sources() {
				if s.turned.Swap(false) {
					s.keepSightings()
					s.rearmPaced()
				}
			}
		case <-done:
			return
		}
	}
}

// rearmPaced arms anew the steps of those devices of the source that have an Expect or quiet windows and are
// silent.
func (s *Source) rearmPaced() {
	if !s.quieted.Swap(false) {
		return
	}
	s.registry.each(func(sh *deviceShard, d *device) {
		if d.source == s && d.timer != 0 && !d.touched && d.rule.Value().Paced() {
			s.registry.rearmLocked(sh, d)
		}
	})
}
