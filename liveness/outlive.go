package liveness

import (
	"fmt"
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness/judgement"
)

// A source may be in another process than the registry, and outlive it. The next registry restores
// the source, awaits it, goes on with its clock as if nothing had happened, and resumes its sessions.
// So a device whose connection was open all the time has the silence that it had: what it said since
// is told by the source. For all others there was a cut.

// Await implements [operate.Owner].
func (s owner) Await(pool string) bool {
	r := s.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	s.mu.Lock()
	if p := s.phase(); p != absent && p != awaited || time.Duration(s.missed.Load()) >= r.rules.Load().patience || s.toldDeafLocked() {
		s.mu.Unlock()
		return false
	}
	s.stands.Store(uint32(awaited))
	s.mu.Unlock()
	r.joinLocked(s.Source, pool)
	return true
}

// Continue implements [operate.Owner].
func (s owner) Continue(now time.Time, kept, listened time.Duration) {
	switch {
	case s.latest.Load() != nil:
	case !s.phase().held():
		s.Pulse(now)
	case s.past.IsZero() || listened <= 0 || listened > keep.MaxListened || kept > s.restarted():
		s.Pulse(now)
		s.registry.putOff(s.Source)
	default:
		s.goOn(now, kept, max(listened, s.restarted()), s.registry.lostBeside(s.Source))
	}
}

// goOn goes on at a listening time, after other sources were lost, perhaps.
func (s *Source) goOn(now time.Time, kept, listened time.Duration, lost bool) {
	if p := s.pool.Load(); p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	blank := s.deafness.Blank() == s.restarted()
	s.skipped.Store(int64(listened - s.restarted()))
	s.deafness.AddCut(listened)
	kind := judgement.BreakCut
	if blank {
		s.deafness.AddBlank(listened)
		kind = judgement.BreakBlank
	}
	s.recordBreakLocked(judgement.Break{Kind: kind, At: listened, To: now.Round(0)})
	switch {
	case s.config.Load().Connectionless: // another source may have heard more, and only the process before knew
		s.spareLocked(keep.Round(listened)+judgement.HeardTick, s.lostBeat(), listened)
	case lost:
		s.spareLocked(keep.Round(listened)+judgement.HeardTick, lostHello, listened)
	}
	s.outlived.Store(int64(listened))
	wall := now.Round(0)
	s.whole, s.wentOn = kept, wall
	s.course.MoveTo(listened, wall)
	s.turnedLocked()
	s.keepCourseLocked(&s.course)
	s.goOnLocked(&pulse{at: now, wall: wall, listened: listened})
	s.registry.completeGroups()
}

// lostBeside reports whether one of the sources to which a source's devices move has listened until the
// process before ended, or shortly before that, and has not lived on.
func (r *Registry) lostBeside(s *Source) bool {
	return slices.ContainsFunc(r.Sources(), func(other *Source) bool {
		return other != s && s.near(other) && !other.phase().held() && other.outlived.Load() == 0 && other.lostLately()
	})
}

// lostLately reports whether a source that has not lived on may have heard something shortly before the
// process before ended.
func (s *Source) lostLately() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.past.IsZero() {
		return false
	}
	n := len(s.deaf)
	return time.Duration(s.missed.Load()) < s.registry.rules.Load().patience || s.toldDeafLocked() || n > 0 && s.past.Sub(s.deaf[n-1].From) < lostHello
}

// sameHeard is by how much two stamps of one sign of life may differ that were made by two processes.
const sameHeard = time.Second

// Resume gives a session back to a device that has had it since before this process, or that the
// registry was told to be gone, and which was heard last in it at an instant; h.Epoch is the session's.
// It is no sign of life but for that instant: a device that was offline, late or asleep then still is,
// and no event tells of it. With still the owner knows that it has not been heard since it was put to
// sleep or judged. If the source went on, see [operate.Owner], the device's silence counts
// as if there had been no cut. It replaces another session that was resumed, of a lesser epoch. Errors:
// those of [Source.Open]; ErrReplaced if the device has another session since.
func (s *Source) Resume(session *Session, id string, h Hello, peer Peer, at time.Duration, still bool) error {
	if session.device != nil && session.device.id != id && session.open() {
		return fmt.Errorf("liveness: the session is open for device %q", session.device.id)
	}
	r := s.registry
	sh, d, err := r.findOrAdd(id, h.Announced, h.quota())
	if err != nil {
		return err
	}
	defer sh.mu.Unlock()
	other := d.session != nil && d.session != session
	switch {
	case h.Epoch < d.epoch:
		return fmt.Errorf("%w: %d, the device had %d", ErrStaleEpoch, h.Epoch, d.epoch)
	case other && (h.Epoch == d.epoch || !d.session.resumed): // one that was opened meanwhile is the later one, whatever its number
		return ErrReplaced
	}
	here := d.source == s
	if here && !other && (still || d.state == Online || at <= d.lastLocked()+sameHeard) {
		s.reattachLocked(sh, d, session, h.Epoch, peer, keep.Round(at))
		return nil
	}
	sig := signal{Signal: Signal{At: at, Announced: h.Announced, Epoch: h.Epoch}, announces: true, verifies: !h.Unverified, opens: session, peer: peer, resumes: true}
	if err := s.applyLocked(sh, d, sig); err != nil || !here {
		return err
	}
	s.outliveLocked(d)
	r.rearmLocked(sh, d)
	return nil
}

// outliveLocked notes that the device's connection has outlived the process before, if that is known.
func (s *Source) outliveLocked(d *device) {
	if s.outlived.Load() > 0 {
		d.marks |= outlived
	}
}

// reattachLocked gives a device of the source its session back. One that is online was heard at an
// instant.
func (s *Source) reattachLocked(sh *deviceShard, d *device, session *Session, epoch uint64, peer Peer, at time.Duration) {
	f, _ := d.conditionLocked()
	d.epoch = epoch
	s.outliveLocked(d)
	s.attachLocked(d, signal{opens: session, peer: peer, resumes: true}, change{})
	next := f
	if f.State == Online {
		next = f.Touched(at, Policy{})
	}
	s.registry.setLocked(sh, d, f, next, d.nowLocked())
}
