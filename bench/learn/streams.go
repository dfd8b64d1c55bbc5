package learn

import (
	"math"
	"math/rand/v2"
	"time"
)

// stream is a kind of device: how its heartbeats arrive.
type stream struct {
	name, text string
	policy     time.Duration // the timeout that an operator would set: three times the interval that the device is known for
	next       func(s *source) time.Duration
}

// source is one device of a stream.
type source struct {
	r     *rand.Rand
	now   time.Duration // since the beginning: the instant of the last heartbeat
	moves bool          // a vehicle: it drives
	turns time.Duration // when a vehicle parks or drives off
}

// normal returns a gap of a device that beats regularly, at least a second.
func (s *source) normal(mean, deviation time.Duration) time.Duration {
	return max(mean+time.Duration(s.r.NormFloat64()*float64(deviation)), time.Second)
}

// lossy returns a gap from one heartbeat that arrives to the next, where each is lost with probability p.
func (s *source) lossy(p float64, mean, deviation time.Duration) time.Duration {
	gap := s.normal(mean, deviation)
	for s.r.Float64() < p {
		gap += s.normal(mean, deviation)
	}
	return gap
}

const day = 24 * time.Hour

// streams are all streams.
func streams() []stream {
	return []stream{
		{"A", "every 60 s, 0.1 % lost", 3 * time.Minute, func(s *source) time.Duration {
			return s.lossy(0.001, time.Minute, time.Second)
		}},
		{"B", "every 60 s, lost in bursts of 4 on average", 3 * time.Minute, bursts},
		{"C", "LoRaWAN, every 15 min, 10 % lost", 45 * time.Minute, func(s *source) time.Duration {
			return s.lossy(0.1, 15*time.Minute, 30*time.Second)
		}},
		{"D", "events, by day every 2 min on average, by night every 30 min", 90 * time.Minute, events},
		{"E", "a phone: lognormal, median 30 s, σ 1.2", 90 * time.Second, func(s *source) time.Duration {
			return time.Duration(30 * float64(time.Second) * math.Exp(1.2*s.r.NormFloat64()))
		}},
		{"F", "a vehicle: every 30 s while it drives, every hour while it is parked, 1 % lost", 3 * time.Hour, vehicle},
		{"G", "every 60 s, from day 15 on every 5 min, 0.2 % lost", 3 * time.Minute, func(s *source) time.Duration {
			if s.now > 15*day {
				return s.lossy(0.002, 5*time.Minute, 5*time.Second)
			}
			return s.lossy(0.002, time.Minute, time.Second)
		}},
	}
}

// bursts loses heartbeats in a row: a row begins at one of 250 heartbeats, and each of its losses is followed
// by another one with probability 3/4.
func bursts(s *source) time.Duration {
	gap := s.normal(time.Minute, 2*time.Second)
	if s.r.Float64() >= 0.004 {
		return gap
	}
	gap += time.Minute
	for s.r.Float64() < 0.75 {
		gap += time.Minute
	}
	return gap
}

// events come by chance, but after two hours without one there is a sign of life.
func events(s *source) time.Duration {
	mean := 2 * time.Minute
	if hour := s.now % day; hour < 6*time.Hour || hour > 20*time.Hour {
		mean = 30 * time.Minute
	}
	return min(time.Second+time.Duration(s.r.ExpFloat64()*float64(mean)), 2*time.Hour)
}

// vehicle drives or is parked, for one to eight hours each time.
func vehicle(s *source) time.Duration {
	if s.now >= s.turns {
		s.turns = s.now + time.Hour + time.Duration(s.r.Float64()*float64(7*time.Hour))
		s.moves = s.r.IntN(2) == 0
	}
	if s.moves {
		return s.lossy(0.01, 30*time.Second, time.Second)
	}
	return s.lossy(0.01, time.Hour, 20*time.Second)
}

// perDay is how many outages a device has a day in the group with outages.
const perDay = 0.01

// outage returns how long a device is out after a gap, nearly always 0: it begins with probability perDay a
// day, and takes 1 to 24 hours.
func (s *source) outage(gap time.Duration) time.Duration {
	if s.r.Float64() >= perDay*float64(gap)/float64(day) {
		return 0
	}
	return time.Hour + time.Duration(s.r.Float64()*float64(23*time.Hour))
}
