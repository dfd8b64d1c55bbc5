package gateway

import (
	"cmp"
	"context"
	"hash/maphash"
	"math"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/liveness"
)

// When more heartbeats come than the gateway means to carry, it tells devices whose protocol can
// carry it to send fewer. How many fewer is one factor for the fleet, and a step is its place among
// the factors.
//
// A device is told with the answer to a heartbeat. Its timeout grows by the same factor just
// before; when it shrinks again, the device is told first, and the timeout follows with its next
// heartbeat. Over UDP it waits for an acknowledgement, see udpPace. What a device was told is announced for it as if it had said so itself, so it outlives
// the process, and yields to configured policies: devices that have one are left alone.

const (
	// Above raiseAbove of the ceiling, devices are told to send fewer heartbeats, so few that the
	// load falls below raiseTo. They are told to send more again when the load would stay below
	// lowerTo for a while.
	raiseAbove, raiseTo, lowerTo = 0.8, 0.7, 0.6
	// longestPaced bounds a stretched interval, unless it is no more than mostPaced times the
	// original one.
	longestPaced = 10 * time.Minute
	mostPaced    = 4
	paceTick     = time.Second
)

// halves returns the factors, times two. The last is that of outgrown.
func halves() [8]int64 { return [...]int64{2, 3, 4, 6, 8, 12, 16, 16} }

const (
	// lastStep is the step of the largest factor.
	lastStep = 6
	// outgrown is no step of the fleet: a device that follows it was told an interval while the
	// fleet's policy was a longer one.
	outgrown = 7
)

func factor(step uint8) float64 { return float64(halves()[step]) / 2 }

func stretched(d time.Duration, step uint8) time.Duration {
	return time.Duration(int64(d) * halves()[step] / 2)
}

// shrunk is the inverse of stretched.
func shrunk(d time.Duration, step uint8) time.Duration {
	h := halves()[step]
	return time.Duration((2*int64(d) + h/2) / h)
}

// load is the heartbeats per second. Hellos do not count: when a fleet comes back, there are many
// for a moment.
type load struct {
	fixed float64 // of devices that cannot be told anything
	free  float64 // of the others, as many as there were if none had been told
}

// at returns the rate once all devices have been told a step.
func (l load) at(step uint8) float64 { return l.fixed + l.free/factor(step) }

// pacing decides by which factor the fleet is to be slowed down.
type pacing struct {
	ceiling float64
	calmFor time.Duration // how long a smaller factor must have sufficed

	step    uint8
	changed time.Time
	calm    time.Time // since when a smaller one has sufficed; zero if it does not
	least   uint8     // that has, since then
}

// next returns the step at an instant. longest is the longest interval that devices were told since
// the last change. A smaller step is decided on only after they have been heard at that interval:
// while they change over, they send less than before and than after.
func (p *pacing) next(now time.Time, l load, longest time.Duration) uint8 {
	if l.at(p.step) > raiseAbove*p.ceiling {
		step := p.step
		for step < lastStep && l.at(step) >= raiseTo*p.ceiling {
			step++
		}
		if step != p.step {
			p.step, p.changed = step, now
		}
		p.calm = time.Time{}
		return p.step
	}
	least := uint8(0)
	for least < p.step && l.at(least) >= lowerTo*p.ceiling {
		least++
	}
	switch {
	case least == p.step || now.Sub(p.changed) < 2*longest:
		p.calm = time.Time{}
	case p.calm.IsZero():
		p.calm, p.least = now, least
	default:
		p.least = max(p.least, least)
	}
	if !p.calm.IsZero() && now.Sub(p.calm) >= p.calmFor {
		p.step, p.changed, p.calm = p.least, now, time.Time{}
	}
	return p.step
}

// pacer holds the step that devices are to be told.
type pacer struct {
	step    atomic.Uint32 // that devices are to be told
	changed atomic.Int64  // when that began, ns since the pacer did: the time of day may be set back
	longest atomic.Int64  // interval that any was told since, ns
	calmFor atomic.Int64  // ns
	seed    maphash.Seed
	began   time.Time

	fixed, weight atomic.Uint64 // of devices over TLS, see loopCounters
}

func (p *pacer) init() {
	p.seed, p.began = maphash.MakeSeed(), time.Now()
	p.calmFor.Store(int64(time.Minute))
}

// add takes what was counted in an exchange that several conversations share.
func (p *pacer) add(c *loopCounters) {
	p.fixed.Add(c.fixed.Swap(0))
	p.weight.Add(c.weight.Swap(0))
}

// paceTally is the counts at an instant.
type paceTally struct {
	at            time.Time
	fixed, weight uint64
}

// since returns the load between two instants.
func (t paceTally) since(before paceTally) load {
	seconds := max(t.at.Sub(before.at).Seconds(), 1e-3)
	return load{fixed: float64(t.fixed-before.fixed) / seconds, free: float64(t.weight-before.weight) / 2 / seconds}
}

func (g *Gateway) paceTally(now time.Time) paceTally {
	t := paceTally{now, g.pacer.fixed.Load(), g.pacer.weight.Load()}
	for i := range g.counts.loops {
		c := &g.counts.loops[i]
		t.fixed += c.fixed.Load()
		t.weight += c.weight.Load()
	}
	return t
}

// recent is the counts of the last seconds. Over several seconds chance evens out; over one, a
// small fleet would seem to send now too much, now too little.
type recent []paceTally

const recentSeconds = 10

// load adds the latest counts, and returns the load since the oldest.
func (r *recent) load(now paceTally) load {
	*r = append(*r, now)
	if n := len(*r) - recentSeconds - 1; n > 0 {
		*r = append((*r)[:0], (*r)[n:]...)
	}
	return now.since((*r)[0])
}

// keepPace looks at the load once a second until ctx is done.
func (g *Gateway) keepPace(ctx context.Context) error {
	if g.config.MaxBeatRate == 0 {
		return nil
	}
	p := pacing{ceiling: float64(g.config.MaxBeatRate)}
	tick := time.NewTicker(paceTick)
	defer tick.Stop()
	for last := (recent{g.paceTally(time.Now())}); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		now := g.paceTally(time.Now())
		l := last.load(now)
		was := p.step
		p.calmFor = time.Duration(g.pacer.calmFor.Load())
		if p.next(now.at, l, time.Duration(g.pacer.longest.Load())) == was {
			continue
		}
		g.pacer.set(now.at, p.step)
		g.log.Warn("devices whose protocol and policy allow it are told a new heartbeat interval: their own times the factor",
			"factor", factor(p.step), "beats_per_second", math.Round(l.at(was)), "expected", math.Round(l.at(p.step)), "max_beat_rate", g.config.MaxBeatRate)
	}
}

// pace is what a device was told, in a byte. The lowest three bits are the step of the fleet that
// it was told, or left alone at; above them is the step by which its policy is stretched. The
// latter is less if the interval would become too long, and more from when the device is told a
// shorter interval until it is heard again.
type pace uint8

const leftAlone pace = 1 << 6

func paceOf(told, held uint8) pace { return pace(told | held<<3) }

func (p pace) told() uint8 { return uint8(p & 7) }

func (p pace) held() uint8 { return uint8(p >> 3 & 7) }

// step returns the step that the device follows.
func (p pace) step() uint8 { return min(p.told(), p.held()) }

// settled reports whether nothing is to be done.
func (p pace) settled(step uint8) bool { return p.told() == step && p.held() <= step }

// paceBeat counts a heartbeat on the open session, and tells the device another interval if that is
// due.
func (t *conversation) paceBeat(x *exchange) {
	g := x.gateway
	if g.config.MaxBeatRate > 0 {
		c := x.counts // only this goroutine writes it
		if _, ok := t.codec.(codec.Pacer); ok && t.pace&leftAlone == 0 && (x.udpSession == nil || x.udpSession.provenLocked()) {
			c.weight.Store(c.weight.Load() + uint64(halves()[t.pace.step()]))
		} else {
			c.fixed.Store(c.fixed.Load() + 1)
		}
	}
	if step := uint8(g.pacer.step.Load()); x.udpSession == nil && !t.pace.settled(step) {
		t.repace(x, step)
	}
}

// repace tells a device on a connection an interval, and changes its policy.
func (t *conversation) repace(x *exchange, step uint8) {
	p, ok := t.codec.(codec.Pacer)
	announced, holds, free := x.gateway.registry.Operator().Announced(t.id())
	held := t.pace.held()
	base := announced
	base.Interval = shrunk(cmp.Or(announced.Interval, holds.Interval), held)
	base.Timeout = shrunk(cmp.Or(announced.Timeout, holds.Timeout), held)
	if held == outgrown {
		fleet := x.gateway.registry.Operator().Policy()
		base.Interval, base.Timeout = fleet.Interval, fleet.Timeout
	}
	goal := min(step, x.gateway.furthest(base))
	if t.pace.told() != step {
		switch {
		case !ok || !free || base.Timeout >= liveness.Never:
			t.pace = paceOf(step, held) | leftAlone
			return
		case goal > held && !x.gateway.pacer.turn(t.id(), x.wall, stretched(base.Interval, goal)):
			return
		}
		begin := len(x.out)
		if goal != t.pace.step() {
			if x.out = p.Pace(x.out, stretched(base.Interval, goal), stretched(base.Timeout, goal)); len(x.out) == begin {
				t.pace = paceOf(step, held) | leftAlone
				return
			}
		}
		if goal > held {
			holds, err := t.stretch(x, base, goal)
			if err != nil || !holds {
				x.out = x.out[:begin]
			}
			if err != nil {
				return // it is told with a later heartbeat
			}
			if !holds { // it was configured just now
				t.pace = paceOf(step, goal) | leftAlone
				return
			}
		}
		x.gateway.pacer.note(stretched(base.Interval, max(goal, held)))
		t.pace = paceOf(step, max(goal, held))
		return
	}
	if _, err := t.stretch(x, base, goal); err == nil { // it was told before, and was heard since
		t.pace = t.pace&leftAlone | paceOf(step, goal)
	}
}

// stretch changes the device's policy, and reports whether the new one is in effect.
func (t *conversation) stretch(x *exchange, base liveness.Policy, step uint8) (holds bool, err error) {
	base.Interval, base.Timeout = stretched(base.Interval, step), stretched(base.Timeout, step)
	p, err := t.session.UpdatePolicy(x.now, base)
	return p.Interval == base.Interval && p.Timeout >= base.Timeout, err // a longer deadline may have been learned
}

// furthest returns the largest step by which a policy may be stretched.
func (g *Gateway) furthest(base liveness.Policy) uint8 {
	limit := max(longestPaced, mostPaced*base.Interval)
	if idle := g.config.IdleTimeout; idle > 0 { // it would end connections
		limit = min(limit, idle/2)
	}
	step := uint8(lastStep)
	for step > 0 && (stretched(base.Interval, step) > limit || stretched(base.Timeout, step) >= liveness.Never) {
		step--
	}
	return step
}

// set makes a step the one that devices are to be told.
func (p *pacer) set(now time.Time, step uint8) {
	p.longest.Store(0)
	p.changed.Store(int64(now.Sub(p.began)))
	p.step.Store(uint32(step))
}

// turn reports whether a device is to be told a longer interval now.
func (p *pacer) turn(id string, now time.Time, interval time.Duration) bool {
	share := float64(maphash.String(p.seed, id)>>11) / (1 << 53)
	return hasTurn(share, now.Sub(p.began)-time.Duration(p.changed.Load()), interval)
}

// hasTurn reports whether a device with a share, from 0 to 1, is to be told some time after the
// step changed. If all were told with their next heartbeat, they would go on to send as many per
// second as before, only with long breaks; so each is told at some time within the new interval.
func hasTurn(share float64, since, interval time.Duration) bool {
	return float64(since) >= share*float64(interval)
}

// note records an interval that a device was told.
func (p *pacer) note(interval time.Duration) {
	for {
		longest := p.longest.Load()
		if int64(interval) <= longest || p.longest.CompareAndSwap(longest, int64(interval)) {
			return
		}
	}
}

// announce passes on a policy that a device announces. If it repeats what it was told, nothing
// changes.
func (t *conversation) announce(x *exchange, p liveness.Policy) (liveness.Policy, error) {
	if v := x.udpSession; v != nil {
		if follows, ok := v.followsLocked(x, p.Timeout); ok {
			return follows, nil
		}
	}
	repeated := false
	if t.pace.held() > 0 {
		_, holds, _ := x.gateway.registry.Operator().Announced(t.id())
		repeated = p.Timeout == holds.Timeout
	}
	holds, err := t.session.UpdatePolicy(x.now, p)
	if err == nil && !repeated {
		t.pace = 0
	}
	return holds, err
}

// resumed returns the announcement of a device that opens a session. If the device announces
// nothing, it may still follow what it was told in an earlier session; then that is announced for
// it again, until it is told otherwise.
func (t *conversation) resumed(x *exchange, id string, said liveness.Policy) (liveness.Policy, pace) {
	if v := x.udpSession; v != nil {
		said = v.resumedLocked(x, said)
		return said, t.pace
	}
	if _, ok := t.codec.(codec.Pacer); !ok || said.Timeout != 0 || said.Interval != 0 {
		return said, 0
	}
	before, _, _ := x.gateway.registry.Operator().Announced(id)
	if before.Interval == 0 { // it was told nothing
		return said, 0
	}
	return resumption(before, x.gateway.registry.Operator().Policy())
}

// resumption returns the announcement for a device that was told a policy before, and the pace that
// goes with it: the fleet's policy, stretched at least as far. The fleet's may have been another
// one when the device was told.
func resumption(before, fleet liveness.Policy) (liveness.Policy, pace) {
	if before.Timeout <= fleet.Timeout {
		return liveness.Policy{}, 0
	}
	for step := uint8(1); step <= lastStep; step++ {
		p := liveness.Policy{Interval: stretched(fleet.Interval, step), Timeout: stretched(fleet.Timeout, step)}
		if p.Timeout >= before.Timeout && p.Timeout < liveness.Never {
			return p, paceOf(step, step)
		}
	}
	return liveness.Policy{Interval: before.Interval, Timeout: before.Timeout}, paceOf(outgrown, outgrown)
}
