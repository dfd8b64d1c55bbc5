package mqttbridge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holter-iot/holter/liveness"
)

const (
	// nearPause is the least time between two watermarks.
	nearPause = 10 * time.Millisecond
	// leastLag is the least lag of the clock behind what a watermark has shown. lagFor is how long
	// a slow watermark increases the lag.
	leastLag = 50 * time.Millisecond
	lagFor   = 10 * time.Second
	// maxProbes is how many watermarks may be under way. One more is sent for each ProbeTimeout in which none came back.
	maxProbes = 12
	// maxGateways bounds the sources of gateways. Devices behind further gateways belong to the
	// bridge's own source.
	maxGateways = 4096
)

// clock moves the listening clocks of the bridge's source and of the sources of gateways.
type clock struct {
	registry *liveness.Registry
	config   *Config
	returned chan struct{} // capacity 1, never closed; receives when a watermark came back

	mu       sync.Mutex // guards the fields below; taken before a source's
	main     *ear
	gateways map[string]*ear
	proved   bool // a watermark came back on this connection
	silent   bool // nothing has come since, although a watermark is under way
	gap      bool // a message was dropped
	pulsed   time.Time
	number   uint64 // of the latest watermark; the first is random, so that watermarks of other bridges and earlier runs are not mistaken for this one's
	probes   []probe
	slow     time.Duration // the longest recent round trip of a watermark
	slowAt   time.Time
}

// ear is a source with the listening time of its latest pulse.
type ear struct {
	source   *liveness.Source
	deaf     bool // its gateway cannot hear its devices
	listened time.Duration
}

// probe is a watermark that is under way.
type probe struct {
	number uint64
	sent   time.Time
	shows  []mark
}

// mark says that a watermark proves that a source has heard everything before an instant of its
// listening time.
type mark struct {
	ear      *ear
	listened time.Duration
}

func newClock(registry *liveness.Registry, cfg *Config) (*clock, error) {
	c := &clock{registry: registry, config: cfg, returned: make(chan struct{}, 1), gateways: make(map[string]*ear), number: rand.Uint64()} // no secret
	main, err := c.add(cfg.Name, "")
	c.main = main
	return c, err
}

func (c *clock) add(name, note string) (*ear, error) {
	source, err := c.registry.AddSource(liveness.SourceConfig{
		Name: name, Note: note,
		MaxGap: c.config.MaxGap, ReconnectGrace: c.config.ReconnectGrace, ReconnectGraceMax: c.config.ReconnectGraceMax,
	})
	if err != nil {
		return nil, fmt.Errorf("mqttbridge: %w", err)
	}
	return &ear{source: source}, nil
}

// sourceOf returns the source of the devices behind a gateway. It returns the bridge's source if
// gateway is empty or cannot have a source of its own.
func (c *clock) sourceOf(gateway string) *liveness.Source { return c.earOf(gateway).source }

func (c *clock) earOf(gateway string) *ear {
	if gateway == "" {
		return c.main
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.gateways[gateway]
	if e == nil && len(c.gateways) < maxGateways {
		var err error
		if e, err = c.add(c.config.Name+"/"+gateway, "what is behind "+gateway+", heard through "+c.config.Name); err == nil {
			c.gateways[gateway] = e
			if c.listeningLocked() {
				e.listened = e.source.Pulse(time.Now())
			}
		}
	}
	if e == nil {
		return c.main
	}
	return e
}

// cover records whether the devices behind a gateway can be heard through it.
func (c *clock) cover(gateway string, deaf bool, at time.Time) {
	e := c.earOf(gateway)
	c.mu.Lock()
	defer c.mu.Unlock()
	if e == c.main || e.deaf == deaf {
		return
	}
	e.deaf = deaf
	if deaf {
		c.deafenEarLocked(e, at)
	}
}

func (c *clock) listeningLocked() bool { return c.proved && !c.silent && !c.gap }

// eachLocked calls f with the sources that hear whatever the broker sends.
func (c *clock) eachLocked(f func(*ear)) {
	f(c.main)
	for _, e := range c.gateways {
		if !e.deaf {
			f(e)
		}
	}
}

func (c *clock) deafenLocked(at time.Time) {
	c.eachLocked(func(e *ear) { c.deafenEarLocked(e, at) })
}

// deafenEarLocked records that an ear has heard nothing since an instant. Watermarks under way then
// prove nothing about it: one that was sent after that instant would count time in which nothing
// was heard.
func (c *clock) deafenEarLocked(e *ear, at time.Time) {
	e.source.Deafen(at)
	for i := range c.probes {
		p := &c.probes[i]
		p.shows = slices.DeleteFunc(p.shows, func(m mark) bool { return m.ear == e })
	}
}

// lost records that there has been no connection since an instant.
func (c *clock) lost(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deafenLocked(at)
	c.proved, c.silent, c.probes = false, false, nil
}

// gapped records that messages were dropped, the first of them at an instant.
func (c *clock) gapped(since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gap {
		c.gap, c.probes = true, nil // watermarks under way prove nothing
		c.deafenLocked(since)
	}
}

// whole records that no message was dropped since the queue was last empty.
func (c *clock) whole() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gap = false
}

// pulse tells the sources that the bridge listens, if it does. It deafens them if nothing has come
// since heard although a watermark is under way.
func (c *clock) pulse(now, heard time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	waited := len(c.probes) > 0 && now.Sub(c.probes[0].sent) > c.config.ProbeTimeout
	if c.proved && !c.silent && waited && now.Sub(heard) > c.config.ProbeTimeout {
		c.silent = true
		c.deafenLocked(heard)
	}
	if c.listeningLocked() {
		c.pulsed = now
		c.eachLocked(func(e *ear) { e.listened = e.source.Pulse(now) })
	}
}

// overdueLocked reports whether the latest watermark should have come back by now.
func (c *clock) overdueLocked(now time.Time) bool {
	n := len(c.probes)
	return n > 0 && now.Sub(c.probes[n-1].sent) >= c.config.ProbeTimeout
}

// probe starts a watermark if one is due: when the previous one is back, or overdue.
func (c *clock) probe(now time.Time) (number uint64, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.probes) > 0 && !c.overdueLocked(now) || len(c.probes) == 0 && c.listeningLocked() && !c.pulsed.Equal(now) {
		return 0, false
	}
	if len(c.probes) == maxProbes {
		c.probes = append(c.probes[:0], c.probes[1:]...)
	}
	c.number++
	p := probe{number: c.number, sent: now}
	if c.listeningLocked() {
		lag := c.lagLocked(now)
		c.eachLocked(func(e *ear) { p.shows = append(p.shows, mark{e, e.listened - lag}) })
	}
	c.probes = append(c.probes, p)
	return p.number, true
}

func (c *clock) lagLocked(now time.Time) time.Duration {
	if now.Sub(c.slowAt) > lagFor {
		c.slow = 0
	}
	return max(leastLag, 2*c.slow)
}

// back records that a watermark came back at an instant, and that everything received before it has
// been applied.
func (c *clock) back(number uint64, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := slices.IndexFunc(c.probes, func(p probe) bool { return p.number == number })
	if found < 0 {
		return // of an earlier connection, or abandoned
	}
	p := c.probes[found]
	c.probes = append(c.probes[:0], c.probes[found+1:]...)
	c.proved, c.silent = true, false
	if took := min(at.Sub(p.sent), c.config.ProbeTimeout); took > c.slow || at.Sub(c.slowAt) > lagFor {
		c.slow, c.slowAt = took, at
	}
	for _, m := range p.shows {
		m.ear.source.Watermark(0, m.listened)
	}
	select {
	case c.returned <- struct{}{}:
	default:
	}
}

// listening reports whether the clock moves.
func (c *clock) listening() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listeningLocked()
}

// forget abandons the watermarks that are under way.
func (c *clock) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probes = nil
}

// late reports whether the first watermark of the connection was not back within ProbeTimeout.
func (c *clock) late(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.proved && len(c.probes) > 0 && now.Sub(c.probes[0].sent) > c.config.ProbeTimeout
}

// stuck reports whether maxProbes watermarks are under way and none of them comes back.
func (c *clock) stuck(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.probes) == maxProbes && c.overdueLocked(now)
}

// hasProved reports whether a watermark came back on this connection.
func (c *clock) hasProved() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proved
}

// Next returns how long after the latest pulse the earliest deadline of a source can be passed. While
// the bridge does not listen, that is at once: it may begin to.
func (c *clock) Next() (next time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.listeningLocked() {
		return 0, true
	}
	lag := max(leastLag, 2*c.slow)
	c.eachLocked(func(e *ear) {
		if at, has := e.source.Next(); has && (!ok || at+lag-e.listened < next) {
			next, ok = at+lag-e.listened, true
		}
	})
	return next, ok
}

// Sooner returns the channel of the bridge's own source.
func (c *clock) Sooner() <-chan struct{} { return c.main.source.Sooner() }
