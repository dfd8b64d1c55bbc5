package liveness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/liveness/judgement"
	"github.com/holter-iot/holter/timer"
)

// SourceConfig describes a source of heartbeats.
type SourceConfig struct {
	// Name identifies the source in events and views, as [ValidateID] allows. Required.
	Name string
	// Note describes for people what kind of source it is, and what its watermark rests on.
	Note string
	// Parts is the number of independent inputs of the source, for instance event loops. The
	// source's watermark is the least of theirs. Default: 1.
	Parts int
	// MaxGap is the longest time between two pulses that counts as listening; what exceeds it is
	// deaf time. Default: 1 s.
	MaxGap time.Duration
	// ReconnectGrace is how much time a device has, beside its own interval, to be heard once the
	// source listens again after its connections were lost. Default: 10 s.
	ReconnectGrace time.Duration
	// ReconnectGraceMax bounds the sum of both. Default: 5 min.
	ReconnectGraceMax time.Duration
	// Pool names the sources among which devices move, for instance the gateways behind one
	// balancer. No clock of a pool passes an instant before all sources of the pool that listen have
	// handled what had reached them by then, so a source that falls behind holds the others up.
	// Default: none.
	Pool string
	// Connectionless: devices are heard here without connections, so what a device says may come now to
	// this source, now to another such one of its pool. That is no event, and keeps the session's epoch.
	// When one of them is deaf or lost, the devices of those of its kind are spared, too.
	Connectionless bool
	// Every bounds the time between two pulses: [Source.Next] returns no later listening time than
	// that after the latest. While several sources of a pool listen, it is 50 ms at most. Default: 0,
	// no bound but Idle of package watermark.
	Every time.Duration
}

// Source is where heartbeats come from. Its listening clock counts the time for which it was
// listening.
//
// The owner of the input calls [Source.Pulse] much more often than MaxGap, and passes the listening
// time that it returns through each part of the input, behind all that has arrived. When it comes
// out, that part calls [Source.Watermark]. No deadline passes before all parts have done so.
//
// A source that is behind with its input is not deaf: its pulses go on, and its clock follows when
// the input does.
type Source struct {
	registry *Registry
	index    int // among the registry's
	name     string
	config   atomic.Pointer[SourceConfig] // replaced under mu
	clock    timer.Manual                 // the listening clock: the least watermark
	engine   *timer.Engine
	group    *timer.Group

	latest   atomic.Pointer[pulse]
	pool     atomic.Pointer[pool] // nil if it has none; changed under the registry's mu
	deafness judgement.Deafness
	alive    atomic.Int64                    // devices that it heard last and whose heartbeats are waited for
	outlived atomic.Int64                    // listening time at which this process went on with it, see Continue; 0 if it did not
	skipped  atomic.Int64                    // listening time that had passed then since the reading that was restored
	kept     atomic.Pointer[[]atomic.Uint64] // where the clock's reading outlives the process; nil if it does not

	mu        sync.Mutex // guards the fields below; taken after a device shard's
	marks     []time.Duration
	deaf      []judgement.DeafInterval // the latest, oldest first
	deafTotal time.Duration
	course    judgement.Course
	instants  judgement.Course // as the pulses were passed
	keptTurn  judgement.Turn   // the latest of the course that is in kept
	seq       uint64
	past      time.Time         // of a restored source: until when it listened
	whole     time.Duration     // listening time since which its owner knows all, see [operate.Owner]
	wentOn    time.Time         // what the wall clock showed then
	breaks    []judgement.Break // to be recorded, see keep.Registry
	stamped   time.Time         // the latest instant that was stamped by timeInGap

	quieted atomic.Bool // the wall clock, see judgement.Pace, has put off what is to be done about a device
	turned  atomic.Bool // the wall clock and the listening clock have parted since, see [Registry.watchTurns]

	stands atomic.Uint32 // its phase
	missed atomic.Int64  // for how long the process has listened without it, in ns
}

// pulse ties an instant to the listening time at it.
type pulse struct {
	at       time.Time // as it was passed
	wall     time.Time // what the wall clock showed, see wallAt
	listened time.Duration
	deaf     bool // the source has not listened since
}

// wallAt returns what the wall clock shows at an instant.
//
// [time.Now] reads the wall clock first and the monotonic clock second. A goroutine that is held up
// in between gets a wall reading that is too old for its monotonic one, on a busy machine by a
// tenth of a second. The pulse before, carried on by the monotonic clock, corrects that. It also
// hides a clock that was set back, for as long as one pulse.
func (p *pulse) wallAt(now time.Time) time.Time {
	wall, carried := now.Round(0), p.at.Round(0).Add(now.Sub(p.at))
	if carried.After(wall) {
		return carried
	}
	return wall
}

// AddSource adds a source, which begins to listen with its first pulse. It fails with a bad config,
// a name that is taken, or once Run has ended.
func (r *Registry) AddSource(cfg SourceConfig) (*Source, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sourceLocked(cfg.Name); s != nil && !s.phase().present() {
		s.reclaim(cfg)
		r.joinLocked(s, cfg.Pool)
		return s, nil
	}
	return r.addSourceLocked(cfg)
}

// reclaim makes a source that was restored, or has left, one that listens.
func (s *Source) reclaim(cfg SourceConfig) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missed.Store(0)
	before := s.phase()
	next := added
	if before == awaited {
		next = returning
	}
	s.stands.Store(uint32(next))
	if before == retired {
		at := s.timeLocked(time.Time{}) // of the latest pulse
		s.deafness.AddCut(at)
		s.recordBreakLocked(judgement.Break{Kind: judgement.BreakCut, At: at, To: s.registry.clock.time().Round(0)})
	}
	s.config.Store(&cfg)
	s.marks = slices.Repeat(s.marks[:1], cfg.Parts)
}

func (r *Registry) addSourceLocked(cfg SourceConfig) (*Source, error) {
	s := &Source{registry: r, index: len(r.sources), name: cfg.Name, marks: make([]time.Duration, cfg.Parts)}
	s.config.Store(&cfg)
	s.deafness.Init()
	if r.closed {
		return nil, errors.New("liveness: the registry is closed")
	}
	if r.sourceLocked(cfg.Name) != nil {
		return nil, fmt.Errorf("liveness: source %q exists", cfg.Name)
	}
	var err error
	if s.engine, err = timer.Start(timer.Config{Clock: &s.clock, Memory: timerMemory{r, uint32(s.index)}}); err != nil {
		return nil, fmt.Errorf("liveness: source %q: %w", cfg.Name, err)
	}
	if s.group, err = s.engine.Group(s.expired); err != nil {
		return nil, fmt.Errorf("liveness: source %q: %w", cfg.Name, err)
	}
	r.sources = append(r.sources, s)
	r.keepSource(s)
	r.joinLocked(s, cfg.Pool)
	return s, nil
}

// longestGap is the default of MaxGap. An owner pulses every 200 ms at least (watermark.Idle), so a second without a
// pulse means that the process was stopped, starved or suspended, and heard nothing.
const longestGap = time.Second

func (c SourceConfig) withDefaults() (SourceConfig, error) {
	c.Parts = cmp.Or(c.Parts, 1)
	c.MaxGap = cmp.Or(c.MaxGap, longestGap)
	c.ReconnectGrace = cmp.Or(c.ReconnectGrace, 10*time.Second)
	c.ReconnectGraceMax = cmp.Or(c.ReconnectGraceMax, 5*time.Minute)
	var errs []error
	if err := ValidateID(c.Name); err != nil {
		errs = append(errs, fmt.Errorf("liveness: source name: %w", err))
	}
	if c.Parts < 0 {
		errs = append(errs, fmt.Errorf("liveness: Parts is %d, want 1 or more", c.Parts))
	}
	span := func(name string, d time.Duration) {
		if d < 0 || d > judgement.MaxSpan {
			errs = append(errs, fmt.Errorf("liveness: %s is %v, want up to %v", name, d, judgement.MaxSpan))
		}
	}
	span("MaxGap", c.MaxGap)
	span("Every", c.Every)
	span("ReconnectGrace", c.ReconnectGrace)
	span("ReconnectGraceMax", c.ReconnectGraceMax)
	return c, errors.Join(errs...)
}

// SetNote implements [operate.Owner].
func (s owner) SetNote(note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cfg := *s.config.Load()
	cfg.Note = note
	s.config.Store(&cfg)
}

// Name returns the source's name.
func (s *Source) Name() string { return s.name }

// Pulse declares that the source is listening, and returns the listening time of the instant now.
// What lies between this pulse and the one before beyond MaxGap was deaf time: it does not count,
// and is reported with a pair of events. A pulse that is not later than the one before is ignored.
// The first pulse after a deaf time ends it at the latest instant for which [Source.Time] was asked in
// it, if that is later than now.
//
// While the sink is stalled, see [Config.Outbox], pulses are ignored: the clock stands still, and
// that is deaf time, too.
//
// Pass what [time.Now] returns. Its monotonic reading protects the source from a clock that is set
// back; its wall reading shows the sleep of a machine, during which the monotonic clock stands
// still. A clock that is set forward looks the same.
func (s *Source) Pulse(now time.Time) time.Duration {
	if p := s.pool.Load(); p != nil { // its clocks do not move while a source begins to listen
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := now
	if s.stamped.After(at) {
		at = s.stamped
	}
	last := s.latest.Load()
	if last == nil {
		return s.beginLocked(at)
	}
	if !now.After(last.at) || s.registry.outbox.stalled() > 0 {
		return last.listened
	}
	if last.deaf {
		s.resumeLocked(last, at)
		return last.listened
	}
	gap, maxGap := at.Sub(last.at), s.config.Load().MaxGap
	counts := min(gap, maxGap)
	next := &pulse{at: at, wall: last.wallAt(at), listened: last.listened + counts}
	if gap = max(gap, next.wall.Sub(last.wall)); gap > maxGap {
		s.deafness.AddStall(next.listened, gap-counts, s.Now())
		s.recordBreakLocked(judgement.Break{Kind: judgement.BreakStall, At: next.listened, Length: gap - counts, To: next.wall})
		s.deafLocked(judgement.DeafInterval{From: next.wall.Add(counts - gap), To: next.wall, Listened: next.listened})
	} else {
		if s.course.KeepUp(next.listened, next.wall) {
			s.turnedLocked()
		}
	}
	s.keepCourseLocked(&s.course)
	s.goOnLocked(next)
	return last.listened + min(now.Sub(last.at), counts)
}

// Watermark declares that all that had reached a part of the source (0 to Parts-1) before the
// instant of a pulse is processed; listened is what that pulse returned. It moves the listening
// clock once all parts, and the other sources of the pool, have come so far, and starts what is due
// without waiting for it.
func (s *Source) Watermark(part int, listened time.Duration) {
	s.mu.Lock()
	s.marks[part] = max(s.marks[part], listened)
	least := slices.Min(s.marks)
	p := s.pool.Load()
	if p == nil {
		s.keepLocked(max(least, s.Now()))
	}
	s.mu.Unlock()
	if p == nil {
		s.clock.Set(least)
		return
	}
	p.advance()
}

// Time returns the listening time of an instant close to the last pulse, with which to stamp
// heartbeats. It takes no lock, unless the source is deaf or the last pulse was more than MaxGap
// before; one call serves a batch of heartbeats.
func (s *Source) Time(now time.Time) time.Duration {
	if p := s.latest.Load(); p != nil && !p.deaf {
		if on := now.Sub(p.at); on <= s.config.Load().MaxGap {
			return p.listened + max(on, 0)
		}
	}
	return s.timeInGap(now)
}

// timeInGap is Time while listening time stands still, as far as is known. A pulse of an instant before
// now may be on its way. Listening time must not go on from there: what is heard now would be stamped too
// early. An instant that is still to come is none at which something was heard.
func (s *Source) timeInGap(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	listened := s.timeLocked(now)
	if now.After(s.stamped) && !now.After(s.registry.clock.time()) {
		s.stamped = now
		if s.latest.Load() == nil { // the first pulse, which may never come, ends the deaf time no earlier
			s.keepCourseLocked(&judgement.Course{Turns: []judgement.Turn{{Listened: listened, At: now.Round(0)}}})
		}
	}
	return listened
}

func (s *Source) timeLocked(now time.Time) time.Duration {
	p := s.latest.Load()
	switch {
	case p == nil:
		return s.restarted()
	case p.deaf:
		return p.listened
	}
	return p.listened + min(max(now.Sub(p.at), 0), s.config.Load().MaxGap)
}

// Now reads the listening clock: the time up to which everything that reached the source is
// processed.
func (s *Source) Now() time.Duration { return s.clock.Now() }

// Next returns the listening time of the next deadline, and whether there is one. A source need not
// pulse before that, except for MaxGap. SourceConfig.Every makes it earlier.
func (s *Source) Next() (time.Duration, bool) {
	next, ok := s.clock.Next()
	every, always := s.every()
	latest := s.latest.Load()
	if every == 0 || latest == nil {
		return next, ok
	}
	if at := latest.listened + every; always || !ok || at < next {
		return at, true
	}
	return next, ok
}

// Sooner returns a channel that receives when Next has become an earlier instant.
func (s *Source) Sooner() <-chan struct{} { return s.clock.Sooner() }

// SourceView is a picture of a source.
type SourceView struct {
	Name      string
	Note      string
	Listened  time.Duration            // what the listening clock reads
	Behind    time.Duration            // how far the clock is behind the last pulse: unread input, here or in its pool
	Held      bool                     // the clock stands still because the sink is stalled
	DeafSince time.Time                // when the source stopped listening; zero while it listens
	Absent    bool                     // the source was restored after a restart and not added since, or it has left
	Retired   bool                     // it is absent, and its devices are judged by the clock of others
	Missed    time.Duration            // of an absent source: for how long the process has listened without it
	Deaf      []judgement.DeafInterval // the latest, oldest first
	DeafTotal time.Duration
	Timers    timer.Stats
	Devices   int // that it heard last and whose heartbeats are waited for
}

// View returns a picture of the source.
func (s *Source) View() SourceView {
	v := SourceView{Name: s.name, Listened: s.Now(), Timers: s.engine.Stats(), Held: s.registry.outbox.stalled() > 0}
	v.Devices = int(s.alive.Load())
	v.Absent, v.Retired, v.Missed = !s.phase().present(), s.phase() == retired, time.Duration(s.missed.Load())
	if p := s.latest.Load(); p != nil {
		v.Behind = max(p.listened-v.Listened, 0)
		if p.deaf {
			v.DeafSince, v.Behind = p.wall, 0
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v.Deaf = append(v.Deaf, s.deaf...)
	v.DeafTotal = s.deafTotal
	v.Note = s.config.Load().Note
	return v
}

// close ends the source's timers; a deadline that has passed is still judged.
func (s *Source) close(ctx context.Context) error {
	if err := s.engine.Close(ctx); err != nil {
		return fmt.Errorf("liveness: source %q: %w", s.name, err)
	}
	return nil
}
