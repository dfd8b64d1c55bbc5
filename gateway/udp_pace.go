package gateway

import (
	"cmp"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/liveness"
)

const (
	// maxTells is how many times in a row a device over UDP is told an interval, each time with the
	// answer to a heartbeat, if it has never acknowledged one.
	maxTells = 5
	// maxFlight is how long a datagram may be on its way.
	maxFlight = time.Minute
)

// udpPace is how a device over UDP follows the pace of the fleet. What it is told may be lost, so it
// acknowledges an interval by announcing it, and is told again until it does. Its policy is
// stretched before it is told a longer interval, and shrinks only once the device has acknowledged
// a shorter one, and no datagram with a longer one can be on its way.
//
// A device that has never acknowledged anything may follow all the same. If it does not acknowledge
// a longer interval, it is told its own again before its policy shrinks.
type udpPace struct {
	announced liveness.Policy // what the device announced by itself,
	base      liveness.Policy // and the interval and timeout that held then
	wanted    uint8           // the step that it is to follow
	follows   uint8           // the one that it acknowledged last
	held      uint8           // the one by which its policy is stretched
	tells     uint8           // how many times in a row it was told something without an acknowledgement
	answers   bool            // it has acknowledged anything yet
	confirmed bool            // it has acknowledged something since it was told a longer interval
	refused   bool            // it did not acknowledge a longer interval
	raised    time.Duration   // when it was told a longer interval last, since the gateway's start
}

// next returns the step that the device is to be told now, if one is due, and changes held. goal is
// the step that it should follow, turn whether it may be told a longer interval now, and flight how
// long a datagram may be on its way.
func (s *udpPace) next(goal uint8, turn bool, now, flight time.Duration) (tell uint8, due bool) {
	if goal != s.wanted {
		s.wanted, s.tells, s.refused = goal, 0, false
	}
	if s.refused {
		goal = s.follows
	}
	if goal > s.follows {
		switch {
		case s.mayTell() && turn:
			s.tells++
			s.raised, s.confirmed = now, false
			s.held = max(s.held, goal)
			return goal, true
		case s.mayTell():
			return 0, false
		}
		s.refused, s.tells, goal = true, 0, s.follows
	}
	if (goal < s.follows || !s.confirmed) && s.mayTell() {
		s.tells++
		return goal, true
	}
	if now-s.raised >= flight {
		s.follows, s.held = goal, goal
	}
	return 0, false
}

func (s *udpPace) mayTell() bool { return s.answers || s.tells < maxTells }

// stepOf returns the step that a timeout follows from, if there is one.
func (s *udpPace) stepOf(timeout time.Duration) (step uint8, ok bool) {
	for step := range uint8(lastStep + 1) {
		if d := timeout - stretched(s.base.Timeout, step); d.Abs() < time.Millisecond {
			return step, true
		}
	}
	return 0, false
}

// policy returns the device's own policy, stretched.
func (s *udpPace) policy(step uint8) liveness.Policy {
	return liveness.Policy{Interval: stretched(s.base.Interval, step), Timeout: stretched(s.base.Timeout, step)}
}

// followsLocked handles the announcement of a timeout that the device may have been told. ok is
// false if it was not; then it is one of its own. It returns the policy that the device follows.
func (v *udpSession) followsLocked(x *exchange, timeout time.Duration) (p liveness.Policy, ok bool) {
	s := v.paced
	if s == nil {
		return p, false
	}
	step, ok := s.stepOf(timeout)
	if !ok {
		v.paced, v.conversation.pace = nil, 0
		return p, false
	}
	s.follows, s.answers, s.confirmed = step, true, true
	if step > s.held {
		before := s.held
		if s.held = step; !v.stretchLocked(x) {
			s.held = before
		}
	}
	return s.policy(step), true
}

// keepPaceLocked tells the device another interval at the end of a datagram, if that is due, and
// changes its policy.
func (v *udpSession) keepPaceLocked(x *exchange) {
	g, t := x.gateway, &v.conversation
	step := uint8(g.pacer.step.Load())
	p, ok := t.codec.(codec.Pacer)
	if step == 0 && v.paced == nil || !ok || !v.provenLocked() || x.held != nil {
		return
	}
	if v.paced == nil && t.pace == paceOf(step, 0)|leftAlone {
		return
	}
	announced, holds, free := g.registry.Operator().Announced(v.id)
	if v.paced == nil {
		if !free || holds.Timeout >= liveness.Never {
			t.pace = paceOf(step, 0) | leftAlone
			return
		}
		v.paced = &udpPace{announced: announced, base: liveness.Policy{Interval: holds.Interval, Timeout: holds.Timeout}, confirmed: true}
	}
	s, before := v.paced, *v.paced
	if !free {
		step = 0
	}
	goal := min(step, g.furthest(s.base))
	turn := goal <= s.held || g.pacer.turn(v.id, x.wall, s.policy(goal).Interval)
	tell, due := s.next(goal, turn, x.wall.Sub(g.began), g.udp.flight)
	if s.held != before.held && !v.stretchLocked(x) {
		*s = before // it is told with a later heartbeat
		return
	}
	if due {
		told := s.policy(tell)
		x.out = p.Pace(x.out, told.Interval, told.Timeout)
		g.pacer.note(told.Interval)
	}
	v.pacedLocked(before.refused)
}

// pacedLocked notes what the device follows, for the load, and logs that it follows nothing, the
// 1st, 2nd, 4th, 8th … time.
func (v *udpSession) pacedLocked(refusedBefore bool) {
	s, g := v.paced, v.udp.gateway
	v.conversation.pace = paceOf(s.follows, s.follows)
	if s.refused {
		v.conversation.pace |= leftAlone
	}
	if s.refused && !refusedBefore {
		if n := v.udp.counts.unpaced.Add(1); n&(n-1) == 0 {
			g.log.Warn("a device over UDP does not acknowledge the interval that it is told; it keeps its own",
				"device", v.id, "times", n, "help", "a device acknowledges an interval by announcing it, see docs/reference/protocols.md")
		}
	}
	if s.wanted == 0 && s.held == 0 && s.follows == 0 {
		v.paced = nil
	}
}

// stretchLocked sets the policy that udpPace.held asks for, and reports whether it is in effect.
func (v *udpSession) stretchLocked(x *exchange) bool {
	if v.paced.held == 0 {
		_, err := v.conversation.session.UpdatePolicy(x.now, v.paced.announced)
		return err == nil
	}
	want := v.paced.policy(v.paced.held)
	p, err := v.conversation.session.UpdatePolicy(x.now, want)
	return err == nil && p.Interval == want.Interval && p.Timeout >= want.Timeout // a longer deadline may have been learned
}

// resumedLocked returns the announcement of a device that opens a session. If it was told an
// interval in an earlier session, it may still follow that: then that is announced for it, until it
// is told otherwise.
func (v *udpSession) resumedLocked(x *exchange, said liveness.Policy) liveness.Policy {
	v.paced = nil
	before, _, _ := x.gateway.registry.Operator().Announced(v.id)
	if _, ok := v.conversation.codec.(codec.Pacer); !ok || !v.provenLocked() || before.Interval == 0 {
		return said
	}
	s := udpPace{announced: said, answers: true, confirmed: true}
	fleet := x.gateway.registry.Operator().Policy()
	s.base.Timeout = cmp.Or(said.Timeout, fleet.Timeout)
	step, ok := s.stepOf(before.Timeout)
	switch {
	case !ok && said.Timeout == 0 && before.Timeout > fleet.Timeout: // the fleet's policy was another one
		return liveness.Policy{Interval: before.Interval, Timeout: before.Timeout}
	case !ok || step == 0:
		return said
	}
	s.base.Interval = shrunk(before.Interval, step)
	s.wanted, s.follows, s.held = step, step, step
	v.paced, v.conversation.pace = &s, paceOf(step, step)
	return s.policy(step)
}
