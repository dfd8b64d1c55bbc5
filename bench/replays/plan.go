//go:build linux

package replays

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// rules are what the servers are told beside their timeouts, and the timeouts.
type rules struct {
	recorded   time.Duration   // the timeout of the server whose records are replayed
	timeouts   []time.Duration // those of all servers
	interval   time.Duration
	lateAfter  time.Duration
	closeGrace time.Duration
}

// late returns when a silent device is late by a timeout, 0 if it is not before it is offline.
func (r *rules) late(timeout time.Duration) time.Duration {
	if r.lateAfter >= timeout {
		return 0
	}
	return r.lateAfter
}

// stall is a time in which the servers are stopped.
type stall struct{ at, length time.Duration }

// plan is what happens to a fleet, in time since its beginning. The same plan is played against each server.
type plan struct {
	rules

	devices  []string
	length   time.Duration // what comes later are heartbeats only, and is not judged
	stalls   []stall
	acts     [][]act // by device, in order
	silences []silence
}

// kind is what a device does.
type kind int

const (
	open   kind = iota // a new session; the connection before, if there is one, ends afterwards
	beat               // a heartbeat
	closes             // the connection ends
	bye                // it says goodbye
)

type act struct {
	at   time.Duration
	kind kind
}

// silence is a time without a heartbeat that somebody could judge.
type silence struct {
	device      int
	start       time.Duration
	end         time.Duration // 0: it does not end
	closed      time.Duration // when the connection ended, 0 if it did not
	ending      kind          // what ends it
	sessionless bool          // the device has no sessions
}

// Transports of devices, the first part of their names.
const (
	site = "site" // over TCP; all fall silent together once
	tcp  = "tcp"
	udp  = "udp"
	web  = "http"
)

// margin is how far a silence stays away from all deadlines, and from the edges of stalls. A server notices
// a heartbeat and a deadline some 50 to 100 ms apart, so closer ones may go either way.
const margin = 500 * time.Millisecond

// dice draws a plan.
type dice struct {
	*plan

	random *rand.Rand
	unit   float64 // 1; less in a quick run, whose times are shorter
}

// newPlan draws a plan for so many devices. unit shortens all times but those of stalls.
func newPlan(seed uint64, devices int, unit float64, stalls []stall) *plan {
	d := dice{plan: &plan{stalls: stalls}, random: rand.New(rand.NewPCG(seed, 1)), unit: unit}
	d.recorded, d.interval, d.closeGrace, d.lateAfter = d.seconds(20), d.seconds(2), d.seconds(5), d.seconds(15)
	for _, seconds := range []float64{7, 10, 13, 20, 30, 45, 60} {
		d.timeouts = append(d.timeouts, d.seconds(seconds))
	}
	d.length = d.seconds(300)
	for i := range devices {
		transport := tcp
		switch i % 10 {
		case 0:
			transport = udp
		case 1:
			transport = web
		case 2:
			transport = site
		}
		d.devices = append(d.devices, fmt.Sprintf("%s-%03d", transport, i))
		d.acts = append(d.acts, nil)
		d.live(i, transport)
	}
	slices.SortFunc(d.silences, func(a, b silence) int { return cmp.Or(a.device-b.device, cmp.Compare(a.start, b.start)) })
	return d.plan
}

func (d *dice) seconds(s float64) time.Duration {
	return time.Duration(s * d.unit * float64(time.Second)).Round(time.Millisecond)
}

// between draws a duration, in seconds of the plan; short ones are as likely as long ones.
func (d *dice) between(from, to float64) time.Duration {
	return d.seconds(from * math.Exp(d.random.Float64()*math.Log(to/from)))
}

// live draws the life of a device.
func (d *dice) live(i int, transport string) {
	at := d.between(0.1, 2)
	d.do(i, at, open)
	lead, tail := d.seconds(20), d.length+time.Minute
	outage := transport == site
	for at < tail {
		for range 3 + d.random.IntN(6) {
			at += d.between(1.8, 2.2)
			d.do(i, at, beat)
		}
		switch {
		case at < lead || at > d.length-d.seconds(15):
		case outage && at > d.seconds(140):
			outage = false
			at = d.quiet(i, at, transport, 34, 40)
		case d.random.IntN(100) < 4 && at < d.length-d.seconds(75):
			if d.add(silence{device: i, start: at, sessionless: transport == web}) {
				return // it is gone for good
			}
		case i%7 == 0: // it flaps
			at = d.quiet(i, at, transport, 10.5, 16)
		case d.random.IntN(2) == 0: // some heartbeats are lost
			at = d.quiet(i, at, transport, 3.5, 8)
		default:
			at = d.quiet(i, at, transport, 8, 80)
		}
	}
}

func (d *dice) do(i int, at time.Duration, k kind) { d.acts[i] = append(d.acts[i], act{at, k}) }

// quiet lets a device be silent for a time between two, in seconds of the plan, if it is clear then what each
// timeout says of it. It returns when the device is back.
func (d *dice) quiet(i int, at time.Duration, transport string, from, to float64) time.Duration {
	for range 100 {
		s := silence{device: i, start: at, end: at + d.between(from, to), ending: beat, sessionless: transport == web}
		if transport == tcp {
			d.endOf(&s)
		}
		if s.end < d.length-d.seconds(5) && d.add(s) {
			return d.back(&s)
		}
	}
	return at
}

// endOf draws how a silence ends, and whether the connection ends in it.
func (d *dice) endOf(s *silence) {
	switch x := d.random.IntN(10); {
	case x < 3:
		s.ending = open
	case x < 6:
		s.ending = open
		s.closed = s.start + margin/2 + time.Duration(d.random.Float64()*float64(s.end-s.start-margin))
	case x < 7:
		s.ending = bye
	}
}

// add adds a silence if it is clear what each timeout says of it.
func (d *dice) add(s silence) bool {
	if !d.clear(&s) {
		return false
	}
	d.silences = append(d.silences, s)
	return true
}

// back adds what happens in and after a silence. It returns when the device is heard.
func (d *dice) back(s *silence) time.Duration {
	if s.closed > 0 {
		d.do(s.device, s.closed, closes)
	}
	d.do(s.device, s.end, s.ending)
	if s.ending != bye {
		return s.end
	}
	at := s.end + d.between(1, 4)
	d.do(s.device, at, open)
	return at
}
