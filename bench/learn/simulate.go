package learn

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	warmup = 3 * day          // which does not count
	step   = time.Hour        // devices are heard in turns, so that they learn from each other as they would in reality
	dying  = 10 * time.Minute // how often a device dies, on average, to see when that would be noticed
)

// simulation is a group of devices that all contenders judge.
type simulation struct {
	streams []stream
	devices int // of each stream
	outages bool
	seed    uint64
	days    int

	contenders []contender
}

// simulated is a device with its detectors, one for each contender.
type simulated struct {
	source

	stream    int
	detectors []detector
	death     time.Duration   // the next instant for which it is noted when a death would be noticed
	deaths    []time.Duration // those of a gap, from its beginning
}

// run returns a tally for each contender and stream.
func (s simulation) run(ctx context.Context) ([][]tally, error) {
	tallies := make([][]tally, len(s.contenders))
	groups := make([]group, len(tallies))
	for i, c := range s.contenders {
		groups[i] = c.begin()
		tallies[i] = make([]tally, len(s.streams))
	}
	devices := s.prepare(groups)
	for until := step; until <= time.Duration(s.days)*day; until += step {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for _, d := range devices {
			for d.now < until {
				s.beat(d, tallies)
			}
		}
		if until%(7*day) == 0 {
			for _, g := range groups {
				g.weekly()
			}
		}
	}
	return tallies, nil
}

// prepare makes the devices. What happens to a device does not depend on who judges it.
func (s simulation) prepare(groups []group) []*simulated {
	var devices []*simulated
	for i := range s.devices * len(s.streams) {
		kind := i % len(s.streams)
		d := &simulated{stream: kind}
		d.r = rand.New(rand.NewPCG(s.seed, uint64(s.streams[kind].name[0])<<32|uint64(i)))
		d.now = time.Duration(d.r.Float64() * float64(time.Minute))
		for j, g := range groups {
			r := rand.New(rand.NewPCG(s.seed+1, uint64(i)<<8|uint64(j)))
			d.detectors = append(d.detectors, g.detector(s.streams[kind].policy, r))
		}
		devices = append(devices, d)
	}
	return devices
}

// beat simulates a gap of a device, and the heartbeat that ends it.
func (s simulation) beat(d *simulated, tallies [][]tally) {
	gap, outage := s.streams[d.stream].next(&d.source), time.Duration(0)
	if s.outages {
		outage = d.outage(gap)
	}
	if d.now >= warmup {
		s.count(d, gap, outage, tallies)
	}
	d.now += gap + outage
	for _, detector := range d.detectors {
		detector.heard(d.now, gap+outage)
	}
}

// count counts a gap for all contenders.
func (s simulation) count(d *simulated, gap, outage time.Duration, tallies [][]tally) {
	d.deaths = d.deaths[:0]
	d.death = max(d.death, d.now)
	for end := d.now + gap + outage; d.death < end; d.death += time.Duration(d.r.ExpFloat64() * float64(dying)) {
		d.deaths = append(d.deaths, d.death-d.now)
	}
	for i, detector := range d.detectors {
		t, deadline := &tallies[i][d.stream], detector.deadline()
		if outage > 0 {
			t.out(gap+outage, deadline)
			continue
		}
		t.living(gap, deadline)
		for _, after := range d.deaths {
			t.dies(after, deadline)
		}
	}
}
