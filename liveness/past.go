package liveness

import (
	"time"

	"github.com/holter-iot/holter/liveness/judgement"
)

// Past tells when, in listening time, somebody else heard something: an age ago. See [Source.Past].
type Past struct {
	source   *Source
	latest   *pulse
	now      time.Time
	listened time.Duration // when listening time went on after the latest gap; from then on it passes as time does
}

// Past returns what stamps things that were heard before an instant, which is close to the last pulse.
// It takes a lock, and serves a batch.
func (s *Source) Past(now time.Time) Past {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := Past{source: s, latest: s.latest.Load(), now: now, listened: s.restarted()}
	if n := len(s.course.Turns); n > 0 {
		p.listened = s.course.Turns[n-1].Listened
	}
	if on := s.outlived.Load(); on > 0 && p.listened <= time.Duration(on) {
		p.listened = s.whole // gaps of the process before were not gaps of the source
	}
	return p
}

// At returns the listening time of the instant an age ago. In a gap listening time stands still; that
// of an instant before the latest gap is up to 50 ms too late, so that it is never too early: the wall
// clock may have been set. It takes a lock if the age reaches beyond that gap.
func (p *Past) At(age time.Duration) time.Duration {
	latest, instant := p.latest, p.now.Add(-max(age, 0))
	if latest == nil || !instant.Before(latest.at) {
		return p.source.Time(instant)
	}
	if at := latest.listened - latest.at.Sub(instant); at >= p.listened {
		return at
	}
	s := p.source
	s.mu.Lock()
	defer s.mu.Unlock()
	wall := latest.wallAt(p.now).Add(-age)
	at, ok := s.course.Listened(wall)
	switch on := time.Duration(s.outlived.Load()); {
	case on > 0 && wall.Before(s.wentOn):
		at = max(on-s.wentOn.Sub(wall), 0)
	case !ok:
		at = s.course.Before(wall)
	}
	return min(at+judgement.DriftTolerance, p.listened)
}
