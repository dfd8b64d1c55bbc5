package liveness

import "time"

// Since returns the listening time at which the source went on after its latest gap. From then on,
// listening time passes as time does. It takes a lock; one call serves a batch.
func (s *Source) Since() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.course.turns); n > 0 {
		return s.course.turns[n-1].listened
	}
	return s.restarted()
}

// TimeAt returns the listening time of an earlier instant, with which to stamp what somebody else
// heard at it: an age before now, which is close to the last pulse. In a gap the listening time stands
// still. That of an instant before the latest gap is up to 50 ms too late, so that it is never too
// early: the wall clock may have been set. It takes a lock; see [Source.Since].
func (s *Source) TimeAt(now time.Time, age time.Duration) time.Duration {
	age = max(age, 0)
	listened, since := s.Time(now), s.Since()
	if at := listened - age; at >= since {
		return at
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.latest.Load()
	if p == nil {
		return listened
	}
	at, _ := s.course.listened(p.wallAt(now).Add(-age))
	return min(at+driftTolerance, since)
}
