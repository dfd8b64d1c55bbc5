package liveness

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness/judgement"
)

// poolEvery is how often the members of a pool are pulsed, at the least, while several listen.
const poolEvery = 50 * time.Millisecond

// lostHello is for how long a device may be silent because its hello died with a source that has
// left: the source may have accepted it up to 3 s before anybody knew, and it takes 10 s more until
// the balancer in front leads the device elsewhere.
const lostHello = 13 * time.Second

// pool are sources among which devices move. Of several that listen, no clock passes an instant
// before all of them have handled what they had read by then.
//
// Each member's least mark is an instant: that of the pulse whose listening time it is, or of one
// between two pulses. The pool has come as far as the earliest of its members' instants, T, and each
// clock is set to what its source's listening time was at T. Nothing ever has to be waited for but
// pulses and marks.
//
// No verdict overtakes a sign of life: let a device be judged by the clock of s for a deadline D,
// and let t be the instant at which the listening time of s was D. The clock of s reads D or later,
// so t is not after some T that the pool had come to. Each member that listened then had handled,
// by a mark that went behind it, all that it had read by T. So every sign of life that any of them
// had read by t is applied.
//
// A member listens from its first pulse, or the first after it was deaf, and is waited for from
// then: until its first mark comes, nobody's clock moves. What it read before that pulse returned is
// not covered. Nor is what it had read when it was lost, see [operate.Owner].
type pool struct {
	mu      sync.Mutex // guards members, and is held while their clocks are moved or they are pulsed; taken before a source's
	members []*Source
	several atomic.Bool // more than one listens
}

// joinLocked makes a source a member of the pool with a name, and of no other.
func (r *Registry) joinLocked(s *Source, name string) {
	p := r.pools[name]
	if p == nil && name != "" {
		p = &pool{}
		r.pools[name] = p
	}
	old := s.pool.Swap(p)
	if old == p {
		return
	}
	old.change(func(members []*Source) []*Source {
		return slices.DeleteFunc(members, func(m *Source) bool { return m == s })
	})
	p.change(func(members []*Source) []*Source { return append(members, s) })
}

// change replaces the members of a pool, which may be nil.
func (p *pool) change(f func([]*Source) []*Source) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members = f(p.members)
}

// advance sets the members' clocks as far as all have come. It is called when that may have
// changed, and costs O(members).
func (p *pool) advance() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var through time.Time
	listening := 0
	for _, s := range p.members {
		at, ok := s.through()
		if !ok {
			continue
		}
		if listening == 0 || at.Before(through) {
			through = at
		}
		listening++
	}
	p.several.Store(listening > 1)
	if through.IsZero() {
		return // nobody listens, or somebody has not answered yet
	}
	for _, s := range p.members {
		s.reach(through)
	}
}

// through returns the instant up to which the source has handled all that it read, the zero time if
// that is not known, and whether it listens or is awaited.
func (s *Source) through() (at time.Time, listens bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase().held() {
		return time.Time{}, true
	}
	return s.instantLocked(slices.Min(s.marks)), s.phase() == listening
}

// reach moves the clock to what the source's listening time was at an instant.
func (s *Source) reach(at time.Time) {
	s.mu.Lock()
	listened, ok := s.instants.Listened(at)
	if ok = ok && s.phase() == listening; ok {
		s.keepLocked(max(listened, s.Now()))
	}
	s.mu.Unlock()
	if ok {
		s.clock.Set(listened)
	}
}

// ahead returns by how much the clock of s is ahead of another, on which a device was heard last, at
// the instant of that; now is what s read when the signal came that moves the device to it. In a
// pool, the signal may have come earlier than what the other had heard, and only be applied later.
func (s *Source) ahead(other *Source, last, now time.Duration) time.Duration {
	if s.besides(other) {
		at := other.instant(last)
		s.mu.Lock()
		here, ok := s.instants.Listened(at)
		s.mu.Unlock()
		if ok {
			return here - last
		}
	}
	return now - max(other.Now(), last)
}

// besides reports whether the source is in one pool with another, which may be nil. Where in a pool a
// device is heard is no event; a checkpoint knows it.
func (s *Source) besides(other *Source) bool {
	p := s.pool.Load()
	return p != nil && other != nil && p == other.pool.Load()
}

// near reports whether devices may move between the source and another one: it is in the same pool, or
// was before the process began.
func (s *Source) near(other *Source) bool {
	return s.besides(other) || !other.phase().present() && s.kind() == other.kind()
}

// instant returns the instant of a listening time; zero if it is not known.
func (s *Source) instant(listened time.Duration) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.instantLocked(listened)
}

func (s *Source) instantLocked(listened time.Duration) time.Time {
	if turns := s.instants.Turns; len(turns) == 0 || listened < turns[0].Listened {
		return time.Time{}
	}
	return s.instants.At(listened)
}

// goOnLocked makes a pulse the latest. The first after the source did not listen has yet to be
// passed through each part, whatever marks came before.
func (s *Source) goOnLocked(p *pulse) {
	if s.pulsedLocked() {
		s.marks = slices.Repeat([]time.Duration{min(s.Now(), p.listened-1)}, len(s.marks))
	}
	if !s.instants.At(p.listened).Equal(p.at) { // there was a gap
		s.instants.Turn(p.listened, p.at)
		s.instants.Kept = p.listened // none matters for long
	}
	s.latest.Store(p)
}

// every returns how often the source is to be pulsed, 0 if it does not matter, and whether that
// holds whatever deadlines it has. In a pool its clock follows the others', so a pulse at a deadline
// of its own is no better than one a moment later.
func (s *Source) every() (every time.Duration, always bool) {
	every = s.config.Load().Every
	if p := s.pool.Load(); p == nil || !p.several.Load() {
		return every, false
	}
	if every == 0 {
		return poolEvery, true
	}
	return min(every, poolEvery), true
}

// Leave implements [operate.Owner].
func (s owner) Leave(at time.Time) {
	if p := s.phase(); p == absent || p == retired {
		return
	}
	s.registry.putOff(s.Source)
	s.deafen(at)
	s.depart(added, listening, deaf, awaited, returning)
	s.registry.retire(s.Source)
	s.advancePool()
}

// Retire implements [operate.Owner].
func (s owner) Retire() {
	if !s.depart(added, listening, deaf, returning) {
		return
	}
	s.registry.retire(s.Source)
	s.advancePool()
}

// depart makes a source an absent one if it is in one of some phases. It reports whether it was.
func (s *Source) depart(from ...phase) bool {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(from, s.phase()) {
		return false
	}
	s.missed.Store(max(s.missed.Load(), int64(s.registry.rules.Load().patience)))
	s.stands.Store(uint32(absent))
	return true
}

// putOff puts verdicts off on the devices of all sources from which one can have moved to a source
// that leaves.
func (r *Registry) putOff(leaving *Source) {
	for _, s := range r.neighbours(leaving) {
		length := lostHello
		if s.wandersTo(leaving) {
			length = s.lostBeat()
		}
		s.spare(length)
	}
}

// neighbours returns the sources from which a device can have moved to another one.
func (r *Registry) neighbours(of *Source) (all []*Source) {
	if of.pool.Load() == nil {
		return nil
	}
	for _, s := range r.Sources() {
		if s != of && of.near(s) {
			all = append(all, s)
		}
	}
	return all
}

// wandersTo reports whether the source is of one kind with another, and their devices have no
// connections. Of a restored source only the kind is known.
func (s *Source) wandersTo(other *Source) bool {
	return (s.config.Load().Connectionless || other.config.Load().Connectionless) && s.kind() == other.kind()
}

// lostBeat is what lostHello is, for devices without connections: their next heartbeat comes in its own
// time, so they have all of their grace.
func (s *Source) lostBeat() time.Duration { return s.config.Load().ReconnectGraceMax }

// spare puts verdicts off, by a length or by their grace if that is less, on devices of the source that
// are not heard from now on.
func (s *Source) spare(length time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spareLocked(keep.Round(s.timeLocked(s.registry.clock.time()))+judgement.HeardTick, length, s.Now()) // beyond all heartbeats
}

// spareLocked puts verdicts off on devices of the source that are not heard from a listening time on, while
// the clock reads now.
func (s *Source) spareLocked(at, length, now time.Duration) {
	s.deafness.AddStall(at, length, now)
	s.recordBreakLocked(judgement.Break{Kind: judgement.BreakSpare, At: at, Length: length, To: s.registry.clock.time().Round(0)})
}

// advancePool advances the source's pool, if it has one.
func (s *Source) advancePool() {
	if p := s.pool.Load(); p != nil {
		p.advance()
	}
}
