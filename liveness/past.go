package liveness

import (
	"time"

	"github.com/holter-iot/holter/internal/operate"
	"github.com/holter-iot/holter/liveness/judgement"
)

// past is an [operate.Past].
type past struct {
	source   *Source
	latest   *pulse
	now      time.Time
	listened time.Duration // when listening time went on after the latest gap; from then on it passes as time does
}

// Past implements [operate.Owner].
func (s owner) Past(now time.Time) operate.Past { return s.pastOf(now) }

func (s *Source) pastOf(now time.Time) *past {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &past{source: s, latest: s.latest.Load(), now: now, listened: s.restarted()}
	if n := len(s.course.Turns); n > 0 {
		p.listened = s.course.Turns[n-1].Listened
	}
	if on := s.outlived.Load(); on > 0 && p.listened <= time.Duration(on) {
		p.listened = s.whole // gaps of the process before were not gaps of the source
	}
	return p
}

// At implements [operate.Past].
func (p *past) At(age time.Duration) time.Duration {
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
