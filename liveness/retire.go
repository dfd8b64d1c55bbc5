package liveness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holter-iot/holter/liveness/judgement"
)

var (
	// ErrUnknownSource is returned to who retires a source that there is not.
	ErrUnknownSource = errors.New("liveness: unknown source")
	// ErrSourceInUse is returned to who retires a source that was added.
	ErrSourceInUse = errors.New("liveness: the source is in use")
)

const (
	// followEvery is how often the clocks of retired sources are moved.
	followEvery = 500 * time.Millisecond
	// followGap is the MaxGap of a retired source. It hears nothing itself, so its clock may be
	// coarse.
	followGap = 5 * time.Second
)

// Retire implements [operate.Registry].
func (r operator) Retire(name string) error {
	s := r.source(name)
	switch {
	case s == nil:
		return fmt.Errorf("%w: %q", ErrUnknownSource, name)
	case s.phase() == awaited:
		r.putOff(s) // as when it leaves: the clocks of its pool go on
	}
	if !s.depart(absent, awaited) && s.phase().present() { // it may have been added just now
		return fmt.Errorf("%w: %q", ErrSourceInUse, name)
	}
	r.retire(s)
	s.advancePool()
	return nil
}

// retire makes an absent source one that follows the clock of others.
func (r *Registry) retire(s *Source) {
	s.mu.Lock()
	ends := s.phase() == absent
	if ends {
		s.stands.Store(uint32(retired))
		cfg := *s.config.Load()
		cfg.MaxGap = followGap
		s.config.Store(&cfg)
	}
	s.mu.Unlock()
	if !ends {
		return
	}
	r.each(func(sh *deviceShard, d *device) {
		if d.source == s && d.rule.Value().Timeout == Never { // it has a timeout now
			r.rearmLocked(sh, d)
		}
	})
}

// fleetTimeout returns the timeout of devices whose broker does not track them any more.
func (r *Registry) fleetTimeout() time.Duration {
	if p := r.rules.Load().fleet.Complete(); p.Timeout != Never {
		return p.Timeout
	}
	return judgement.DefaultTimeout
}

// watchAbsent retires the sources that were restored and not added for long, and moves their
// clocks, until ctx is done.
func (r *Registry) watchAbsent(ctx context.Context) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	f := follower{registry: r, last: r.clock.time(), read: make(map[*Source]time.Duration), sent: make(map[*Source]*mark)}
	for {
		select {
		case now := <-tick.C:
			f.step(now)
		case <-ctx.Done():
			return
		}
	}
}

// follower moves the clocks of retired sources after those of others.
type follower struct {
	registry *Registry
	last     time.Time                 // when one of the clocks in read had advanced
	read     map[*Source]time.Duration // the clocks of the sources that were added, at last
	sent     map[*Source]*mark         // by retired source: its mark that waits for others
}

// mark is a listening time of a retired source, and how far the other sources' clocks have to be
// for it.
type mark struct {
	listened time.Duration
	others   map[*Source]time.Duration
}

// step reads all clocks once.
func (f *follower) step(now time.Time) {
	var present, gone, heard []*Source
	for _, s := range f.registry.Sources() {
		if !s.phase().present() {
			gone = append(gone, s)
			continue
		}
		present = append(present, s)
		clock := s.Now()
		if clock > f.read[s] {
			heard = append(heard, s)
		}
		f.read[s] = clock
	}
	if len(heard) == 0 {
		return
	}
	passed := min(now.Sub(f.last), followGap)
	f.last = now
	for _, s := range gone {
		switch p := s.phase(); {
		case p == retired:
		case time.Duration(s.missed.Add(int64(passed))) < f.registry.rules.Load().patience, p == awaited: // who awaits it lets it leave
			continue
		default:
			f.registry.retire(s)
		}
		f.follow(s, now, sameKind(s, present), heard)
	}
}

// sameKind returns those of the sources that are of the same kind as s, or all if none is.
func sameKind(s *Source, sources []*Source) []*Source {
	var same []*Source
	for _, other := range sources {
		if other.kind() == s.kind() {
			same = append(same, other)
		}
	}
	if len(same) == 0 {
		return sources
	}
	return same
}

func (s *Source) kind() string {
	if i := strings.IndexAny(s.name, ":/"); i >= 0 {
		return s.name[:i]
	}
	return s.name
}

// follow lets a retired source listen while one of the others does. Its clock passes an instant
// once the others have processed all that reached them by then, since one of its devices may be
// among that.
func (f *follower) follow(s *Source, now time.Time, others, heard []*Source) {
	listening := false
	for _, other := range others {
		for _, h := range heard {
			listening = listening || h == other
		}
	}
	if !listening {
		return
	}
	listened := s.Pulse(now)
	if m := f.sent[s]; m != nil {
		for other, want := range m.others {
			if other.Now() < want && !other.isDeaf() {
				return
			}
		}
		s.follow(m.listened)
	}
	m := &mark{listened: listened, others: make(map[*Source]time.Duration)}
	for _, other := range others {
		m.others[other] = other.Time(now)
	}
	f.sent[s] = m
}

// follow moves the clock of a retired source.
func (s *Source) follow(listened time.Duration) {
	s.mu.Lock()
	gone := !s.phase().present()
	if gone {
		s.keepLocked(max(listened, s.Now()))
	}
	s.mu.Unlock()
	if gone {
		s.clock.Set(listened)
	}
}

// isDeaf reports whether the source hears nothing at all.
func (s *Source) isDeaf() bool {
	p := s.latest.Load()
	return p == nil || p.deaf
}
