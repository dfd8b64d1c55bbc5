package gateway

import (
	"math/rand/v2"
	"testing"
	"time"
)

// lossy is a device over UDP and a network that loses and delays what both send.
type lossy struct {
	s       udpPace
	random  *rand.Rand
	loss    float64
	answers bool // it acknowledges
	follows uint8
	acks    bool // it has to acknowledge
	told    []told
}

// told is a datagram on its way to the device.
type told struct {
	at   time.Duration
	step uint8
}

// until delivers what arrives until now.
func (d *lossy) until(now time.Duration) {
	var later []told
	for _, w := range d.told {
		if w.at > now {
			later = append(later, w)
			continue
		}
		d.follows, d.acks = w.step, d.answers
	}
	d.told = later
}

// beat is one heartbeat of the device, and the answer to it.
func (d *lossy) beat(now time.Duration, goal uint8) {
	d.until(now)
	acks := d.acks
	d.acks = false
	if d.random.Float64() < d.loss {
		return
	}
	if acks {
		d.s.follows, d.s.answers, d.s.confirmed = d.follows, true, true
		d.s.held = max(d.s.held, d.follows)
	}
	if step, due := d.s.next(goal, true, now, maxFlight); due && d.random.Float64() >= d.loss {
		d.told = append(d.told, told{now + time.Duration(d.random.Int64N(int64(500*time.Millisecond))), step})
	}
}

// Whatever is lost, a device that acknowledges never follows a longer interval than its policy
// allows, and follows what it is to in the end.
func TestUDPPaceNeverTooShort(t *testing.T) {
	for seed := range uint64(300) {
		d := &lossy{random: rand.New(rand.NewPCG(seed, 1)), loss: 0.4, answers: true, s: udpPace{confirmed: true}}
		now := time.Hour
		for _, goal := range []uint8{2, 0, 4, 1, 6, 0} {
			for range 5 + d.random.IntN(100) {
				now += time.Duration(1+d.random.IntN(20)) * time.Second
				d.beat(now, goal)
				d.until(now + time.Second)
				if d.s.held < d.follows {
					t.Fatalf("seed %d: the policy is stretched by step %d, and the device follows %d", seed, d.s.held, d.follows)
				}
			}
		}
		for range 200 {
			now += 10 * time.Second
			d.beat(now, 0)
		}
		if d.follows != 0 || d.s.held != 0 || d.s.follows != 0 {
			t.Errorf("seed %d: in the end the device follows %d, and %+v", seed, d.follows, d.s)
		}
	}
}

// A device that acknowledges nothing gets its own policy back, and is told its own interval before,
// because it may follow what it is told.
func TestUDPPaceWithoutAnswers(t *testing.T) {
	d := &lossy{random: rand.New(rand.NewPCG(1, 1)), s: udpPace{confirmed: true}}
	now, most := time.Hour, uint8(0)
	for range 40 {
		now += 10 * time.Second
		d.beat(now, 4)
		d.until(now + time.Second)
		if most = max(most, d.follows); d.s.held < d.follows {
			t.Fatalf("the policy is stretched by step %d, and the device follows %d", d.s.held, d.follows)
		}
	}
	if most != 4 || d.follows != 0 || d.s.held != 0 || !d.s.refused {
		t.Errorf("the device was told %d at most and follows %d; %+v", most, d.follows, d.s)
	}
	d.beat(now+time.Minute, 2) // it gets another chance when the fleet's pace changes
	if d.s.held != 2 || d.s.refused {
		t.Errorf("at another pace: %+v", d.s)
	}
}

// A policy does not shrink while a datagram with a longer interval may be on its way.
func TestUDPPaceWaits(t *testing.T) {
	s := udpPace{confirmed: true}
	now := time.Hour
	if step, due := s.next(4, true, now, maxFlight); step != 4 || !due || s.held != 4 {
		t.Fatalf("next = %d, %v; %+v", step, due, s)
	}
	s.follows, s.answers, s.confirmed = 0, true, true // it says that it follows its own
	for range 3 {
		now += 19 * time.Second
		if _, due := s.next(0, true, now, maxFlight); due || s.held != 4 {
			t.Fatalf("after %v: %+v", now-time.Hour, s)
		}
	}
	if s.next(0, true, now+10*time.Second, maxFlight); s.held != 0 {
		t.Errorf("after a minute: %+v", s)
	}
}
