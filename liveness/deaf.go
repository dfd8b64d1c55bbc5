package liveness

import (
	"time"

	"github.com/holter-iot/holter/liveness/judgement"
)

// deafKept is how many deaf intervals a source remembers one by one.
const deafKept = 64

// beginLocked handles the first pulse. All that passed since the source listened last, before a
// restart, was deaf.
func (s *Source) beginLocked(now time.Time) time.Duration {
	listened, wall := s.restarted(), now.Round(0)
	if from := s.past; !from.IsZero() {
		to := wall
		if to.Before(from) {
			to = from // the wall clock was set back
		}
		kind := judgement.BreakCut
		if s.deafness.Blank() == listened {
			kind = judgement.BreakBlank
		}
		s.recordBreakLocked(judgement.Break{Kind: kind, At: listened, Length: to.Sub(from), To: to})
		s.endLocked(judgement.DeafInterval{From: from, To: to, Listened: listened})
	} else {
		s.course.Turn(listened, wall)
		s.turnedLocked()
	}
	s.keepCourseLocked(&s.course)
	s.goOnLocked(&pulse{at: now, wall: wall, listened: listened})
	s.registry.completeGroups()
	return listened
}

// completeGroups lets groups report outages: all devices are restored before any source listens.
func (r *Registry) completeGroups() {
	r.reform.complete.Store(true)
	for _, g := range r.rules.Load().groups {
		g.complete(r.clock.steady(), r.outbox)
	}
}

// endLocked reports the deaf interval before a restart's first pulse. The events of a source
// alternate: an odd number of them means that the last one was SourceDeaf.
func (s *Source) endLocked(d judgement.DeafInterval) {
	if s.toldDeafLocked() {
		s.heardLocked(d)
		return
	}
	s.deafLocked(d)
}

// deafLocked reports a deaf interval that is over.
func (s *Source) deafLocked(d judgement.DeafInterval) {
	s.emitLocked(SourceDeaf, d.From, d.To.Sub(d.From))
	s.heardLocked(d)
}

// heardLocked reports the end of a deaf interval.
func (s *Source) heardLocked(d judgement.DeafInterval) {
	if len(s.deaf) == deafKept {
		s.deaf = append(s.deaf[:0], s.deaf[1:]...)
	}
	s.deaf = append(s.deaf, d)
	s.deafTotal += d.To.Sub(d.From)
	s.course.Turn(d.Listened, d.To)
	s.turnedLocked()
	s.emitLocked(SourceHeard, d.To, d.To.Sub(d.From))
}

func (s *Source) emitLocked(t Type, at time.Time, deaf time.Duration) {
	s.seq++
	s.registry.outbox.put(Event{
		Type: t, Subject: s.name, Source: s.name, Seq: s.seq, Time: at, Deaf: deaf, Members: int(s.alive.Load()),
	})
}

// Deafen makes the source deaf from an instant on, the last at which anything was heard; for
// instance because the connection to a broker was lost. It is a cut: devices have to reconnect. The
// source is deaf from then, or up to two ticks of the timers later, to the next pulse. SourceDeaf
// is emitted now, SourceHeard then, and the devices that the source heard last are unknown until
// they are heard again. No heartbeat may have been stamped later than at. Nothing changes about a
// source that is deaf already or never listened. The other sources of its pool do not wait for it any more.
//
// A heartbeat that did not reach a source without connections may have been from a device that another
// one of its kind and pool heard last. Call Deafen as often as something is lost: those devices have
// their reconnect grace from the latest call on.
func (s *Source) Deafen(at time.Time) {
	for _, other := range s.registry.neighbours(s) {
		if other.wandersTo(s) {
			other.spare(other.lostBeat())
		}
	}
	s.deafen(at)
	s.advancePool()
}

func (s *Source) deafen(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.latest.Load()
	if last == nil || last.deaf {
		return
	}
	listened := last.listened + min(at.Sub(last.at), s.config.Load().MaxGap)
	listened = max(listened, s.clock.Now())
	listened += 2*judgement.HeardTick - listened%judgement.HeardTick // beyond all heartbeats, whose instants are rounded up
	on := listened - last.listened
	next := &pulse{at: last.at.Add(on), wall: last.wall.Add(on), listened: listened, deaf: true}
	s.latest.Store(next)
	if s.phase() == listening {
		s.stands.Store(uint32(deaf))
	}
	s.emitLocked(SourceDeaf, next.wall, 0)
}

// resumeLocked handles the first pulse after the source was deaf.
func (s *Source) resumeLocked(last *pulse, now time.Time) {
	to := last.wallAt(now)
	deaf := max(now.Sub(last.at), to.Sub(last.wall))
	s.deafness.AddCut(last.listened)
	s.recordBreakLocked(judgement.Break{Kind: judgement.BreakCut, At: last.listened, Length: deaf, To: to})
	s.heardLocked(judgement.DeafInterval{From: to.Add(-deaf), To: to, Listened: last.listened})
	s.keepCourseLocked(&s.course)
	s.goOnLocked(&pulse{at: now, wall: to, listened: last.listened})
}

// restarted returns the listening time at which the source goes on after a restart, 0 if it is new.
func (s *Source) restarted() time.Duration { return max(s.deafness.Cut(), 0) }

// wallLocked returns the instant of a listening time, past or, if the source listens on, future;
// zero if it never listened. Two calls return the same, unless the wall clock is set back in
// between. Two listening times that are converted under one lock give instants at least as far
// apart.
func (s *Source) wallLocked(listened time.Duration) time.Time { return s.course.At(listened) }

func (s *Source) wall(listened time.Duration) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wallLocked(listened)
}
