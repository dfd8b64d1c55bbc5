package score

import (
	"context"
	"net"
	"net/url"
	"slices"
	"sync/atomic"
	"time"
)

// Times of measuring a clock.
const (
	clockEvery   = 2 * time.Second
	clockTimeout = 2 * time.Second
	// The latest clockKept readings are looked at. Before the first event there are clockFirst, or up to
	// clockKept until they differ by less than clockGood.
	clockFirst, clockKept = 5, 12
	clockGood             = 10 * time.Millisecond
	// clockDrift is what two clocks may move apart between two readings, or be set wrong by whoever
	// says how far they are.
	clockDrift = time.Millisecond
	// clockWorst bounds what a slow answer excuses.
	clockWorst = 250 * time.Millisecond
)

// reading is one measurement of a gateway's clock, which is ahead by something between the two.
type reading struct{ least, most time.Duration }

// estimate is what is known of a clock: it is ahead by skew, which may be wrong by err.
type estimate struct{ skew, err time.Duration }

// clockwork measures the clock of a gateway. One goroutine calls measure; now may be called
// concurrently.
type clockwork struct {
	stream  *stream
	here    bool // the gateway is on this machine, as far as its address tells
	recent  []reading
	current atomic.Pointer[estimate]
}

func newClockwork(s *stream) *clockwork {
	c := &clockwork{stream: s}
	if u, err := url.Parse(s.config.URL); err == nil {
		ip := net.ParseIP(u.Hostname())
		c.here = u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	}
	if skew := s.config.ClockSkew; skew != nil {
		e := estimate{skew: *skew}
		if e.skew != 0 {
			e.err = clockDrift
		}
		c.current.Store(&e)
	}
	return c
}

// begin measures before anything is followed. It reports whether to go on measuring.
func (c *clockwork) begin(ctx context.Context) bool {
	if e := c.current.Load(); e != nil {
		c.stream.tell(Verdict{URL: c.stream.config.URL, Kind: Clock, Skew: e.skew, Error: e.err, Reason: "set", Seen: time.Now()})
		return false
	}
	for len(c.recent) < clockFirst || len(c.recent) < clockKept && common(c.recent).width() > clockGood {
		if !c.look(ctx) {
			break
		}
	}
	return len(c.recent) > 0
}

// run measures again and again until ctx is done. If the gateway does not answer, the last estimate
// stays.
func (c *clockwork) run(ctx context.Context) error {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			c.look(ctx)
		}
	}
}

// look measures once, and tells the new estimate.
func (c *clockwork) look(ctx context.Context) bool {
	r, ok := c.read(ctx)
	if !ok {
		return false
	}
	if len(c.recent) == clockKept {
		c.recent = append(c.recent[:0], c.recent[1:]...)
	}
	c.recent = append(c.recent, r)
	e := judgeClock(c.recent, c.here)
	c.current.Store(&e)
	c.stream.tell(Verdict{URL: c.stream.config.URL, Kind: Clock, Skew: e.skew, Error: e.err, Seen: time.Now()})
	return true
}

// width is how much is not known.
func (r reading) width() time.Duration { return r.most - r.least }

// common returns what the latest readings have in common (algorithm IM of Marzullo and Owicki,
// "Maintaining the time in a distributed system", PODC 1983). One that has nothing in common with those
// after it was taken before the clock was set.
func common(recent []reading) reading {
	last := len(recent) - 1
	known := recent[last]
	for _, r := range slices.Backward(recent[:last]) {
		both := reading{max(known.least, r.least), min(known.most, r.most)}
		if both.least > both.most {
			break
		}
		known = both
	}
	return known
}

// judgeClock says what follows from the latest readings. On one machine there is one clock, unless they
// say that it cannot be.
func judgeClock(recent []reading, here bool) estimate {
	known := common(recent)
	if here && known.least <= 0 && known.most >= 0 {
		return estimate{}
	}
	half := known.width() / 2
	return estimate{skew: known.least + half, err: min(half+clockDrift, clockWorst)}
}

// read asks the gateway for its time. HTTP's Date has whole seconds only.
func (c *clockwork) read(ctx context.Context) (reading, bool) {
	var answer struct {
		AsOf time.Time `json:"as_of"`
	}
	sent := time.Now()
	err := c.stream.ask(ctx, clockTimeout, "/v1/stats", &answer)
	received := time.Now()
	if err != nil || answer.AsOf.IsZero() {
		return reading{}, false
	}
	return reading{least: answer.AsOf.Sub(received.Round(0)), most: answer.AsOf.Sub(sent.Round(0))}, true
}

// correct converts the times of a verdict to this machine's clock.
func (c *clockwork) correct(v *Verdict) {
	e := c.current.Load()
	if e == nil {
		return
	}
	v.Error = e.err
	for _, t := range []*time.Time{&v.Time, &v.Deadline, &v.LastSeen} {
		if !t.IsZero() {
			*t = t.Add(-e.skew)
		}
	}
}
