package gateway

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/holter-iot/holter/liveness"
)

func TestStretched(t *testing.T) {
	want := [...]float64{1, 1.5, 2, 3, 4, 6, 8}
	for step := range uint8(len(want)) {
		if got := factor(step); got != want[step] {
			t.Errorf("factor(%d) = %v, want %v", step, got, want[step])
		}
		for _, d := range []time.Duration{0, 1, 2, 3, 5, 7, time.Second / 3, 30 * time.Second, 90*time.Second + 1, 366 * 24 * time.Hour} {
			if got := shrunk(stretched(d, step), step); got != d {
				t.Errorf("%v by %v and back = %v", d, want[step], got)
			}
		}
	}
}

func TestPacingUp(t *testing.T) {
	tests := []struct {
		name        string
		from        uint8
		fixed, free float64
		want        float64
	}{
		{"little", 0, 0, 500, 1},
		{"at the threshold", 0, 0, 800, 1},
		{"above it", 0, 0, 801, 1.5},
		{"1.5 is not enough", 0, 0, 1050, 2},
		{"just enough", 0, 0, 1049, 1.5},
		{"2", 0, 0, 1399, 2},
		{"3", 0, 0, 1400, 3},
		{"8", 0, 0, 5000, 8},
		{"more than all can do", 0, 0, 50_000, 8},
		{"some cannot be told", 0, 300, 700, 2},
		{"none can be told", 0, 900, 0, 8},
		{"further", 3, 0, 2500, 4},
		{"not yet further", 3, 0, 2400, 3},
		{"at the end", 6, 0, 9999, 8},
	}
	for _, tt := range tests {
		p := pacing{ceiling: 1000, calmFor: time.Minute, step: tt.from}
		if got := factor(p.next(time.Unix(1000, 0), load{tt.fixed, tt.free}, 0)); got != tt.want {
			t.Errorf("%s: factor = %v, want %v", tt.name, got, tt.want)
		}
	}
}

// The way back is taken when a smaller factor would have sufficed for a minute; what it would have
// been then, not just at the end.
func TestPacingDown(t *testing.T) {
	start := time.Unix(1000, 0)
	p := pacing{ceiling: 1000, calmFor: time.Minute}
	at := func(second int, free float64, longest time.Duration, want float64) {
		t.Helper()
		if got := factor(p.next(start.Add(time.Duration(second)*time.Second), load{0, free}, longest)); got != want {
			t.Fatalf("at %d, %v/s: factor = %v, want %v", second, free, got, want)
		}
	}
	at(0, 2500, 0, 4)
	at(1, 100, time.Minute, 4) // they are changing over: the load seems to be less than it is
	for s := 2; s < 180; s++ {
		at(s, 1000, time.Minute, 4)
	}
	at(180, 1000, time.Minute, 2) // 120 s after the change, and a minute of calm
	for s := 181; s < 240; s++ {
		at(s, 400, time.Second, 2)
	}
	at(240, 1199, time.Second, 2) // no calm any more: 599 by a factor of 2, 799 by 1.5
	for s := 241; s < 300; s++ {
		at(s, 800, time.Second, 2)
	}
	at(300, 400, time.Second, 2)
	at(301, 400, time.Second, 1.5) // for a second it would have been 1, for the others 1.5
	at(302, 1201, time.Second, 2)  // up at once
}

// A fleet whose devices do what they are told stays below the ceiling, and is told to send more
// again when there is room.
func TestPacingOfAFleet(t *testing.T) {
	const (
		devices  = 3000
		interval = 10 * time.Second
		second   = time.Second
	)
	type member struct {
		next, follows time.Duration
		share         float64
		pace          pace
	}
	shares := rand.New(rand.NewPCG(1, 2))
	fleet := make([]member, devices)
	for i := range fleet {
		fleet[i] = member{next: interval * time.Duration(i) / devices, follows: interval, share: shares.Float64()}
	}
	p := pacing{ceiling: 150, calmFor: time.Minute} // of 300 beats/s
	var keeper pacer
	keeper.init()
	start := time.Unix(1_000_000, 0)
	var counted recent
	tally := paceTally{at: start}
	counted.load(tally)
	worst, last := 0, 0
	for now := second; now < 40*time.Minute; now += second {
		beats := 0
		tally.at = start.Add(now)
		for i := range fleet {
			if now > 20*time.Minute && i%3 > 0 { // they have gone
				continue
			}
			m := &fleet[i]
			for ; m.next <= now; m.next += m.follows {
				beats++
				tally.weight += uint64(halves()[m.pace.step()])
				if step := uint8(keeper.step.Load()); m.pace.told() != step {
					if step > m.pace.held() && !hasTurn(m.share, start.Add(m.next).Sub(p.changed), stretched(interval, step)) {
						continue
					}
					m.pace, m.follows = paceOf(step, step), stretched(interval, step)
					keeper.note(m.follows)
				}
			}
		}
		before := p.step
		if step := p.next(start.Add(now), counted.load(tally), time.Duration(keeper.longest.Load())); step != before {
			keeper.longest.Store(0)
			keeper.step.Store(uint32(step))
			t.Logf("at %v: factor %v", now, factor(step))
		}
		if now > 2*time.Minute && now < 20*time.Minute {
			worst = max(worst, beats)
		}
		last = beats
	}
	if worst >= 150 { // they would be 300 if all were told with their next heartbeat
		t.Errorf("%d beats in a second", worst)
	}
	if p.step > 2 { // 1.5 would do, but they do not come evenly
		t.Errorf("at the end the factor is %v", factor(p.step))
	}
	t.Logf("at most %d beats in a second, %d in the last", worst, last)
}

func TestFurthest(t *testing.T) {
	tests := []struct {
		interval, timeout, idle time.Duration
		want                    float64
	}{
		{30 * time.Second, 90 * time.Second, 0, 8},
		{75 * time.Second, 4 * time.Minute, 0, 8},
		{90 * time.Second, 5 * time.Minute, 0, 6},
		{5 * time.Minute, 15 * time.Minute, 0, 4},
		{time.Hour, 3 * time.Hour, 0, 4},
		{24 * time.Hour, 200 * 24 * time.Hour, 0, 1.5},
		{30 * time.Second, 90 * time.Second, 5 * time.Minute, 4},
		{30 * time.Second, 90 * time.Second, 50 * time.Second, 1},
	}
	for _, tt := range tests {
		g := &Gateway{config: Config{IdleTimeout: tt.idle}}
		if got := factor(g.furthest(liveness.Policy{Interval: tt.interval, Timeout: tt.timeout})); got != tt.want {
			t.Errorf("interval %v, timeout %v, idle timeout %v: %v, want %v", tt.interval, tt.timeout, tt.idle, got, tt.want)
		}
	}
}

// A device that was told an interval goes on with it, whatever the fleet's policy is now, and is
// told that one.
func TestResumption(t *testing.T) {
	policy := func(interval, timeout int64) liveness.Policy {
		return liveness.Policy{Interval: time.Duration(interval) * time.Second, Timeout: time.Duration(timeout) * time.Second}
	}
	tests := []struct {
		name                string
		before, fleet, want liveness.Policy
		pace                pace
	}{
		{"told a step", policy(90, 270), policy(30, 90), policy(90, 270), paceOf(3, 3)},
		{"told the last", policy(240, 720), policy(30, 90), policy(240, 720), paceOf(lastStep, lastStep)},
		{"told the fleet's", policy(30, 90), policy(30, 90), policy(0, 0), 0},
		{"the fleet's is longer now", policy(90, 270), policy(100, 300), policy(0, 0), 0},
		{"shorter", policy(90, 270), policy(20, 60), policy(120, 360), paceOf(5, 5)},
		{"far shorter", policy(80, 240), policy(5, 15), policy(80, 240), paceOf(outgrown, outgrown)},
		{"never", policy(80, 240), liveness.Policy{Interval: 30 * time.Second, Timeout: liveness.Never}, policy(0, 0), 0},
		{"nearly never", policy(80, 366*24*3600-1), policy(30, 366*24*3600-2), policy(80, 366*24*3600-1), paceOf(outgrown, outgrown)},
	}
	for _, tt := range tests {
		got, pace := resumption(tt.before, tt.fleet)
		if got != tt.want || pace != tt.pace || pace&leftAlone != 0 {
			t.Errorf("%s: %+v, %b, want %+v, %b", tt.name, got, pace, tt.want, tt.pace)
		}
	}
}

// The load is that of the last ten seconds.
func TestPaceTally(t *testing.T) {
	at := time.Unix(1, 0)
	r := recent{{at, 100, 1000}}
	for i, want := range []load{{50, 100}, {50, 100}, {50, 100}} {
		i := uint64(i + 1)
		got := r.load(paceTally{at.Add(2 * time.Second * time.Duration(i)), 100 + 100*i, 1000 + 400*i})
		if math.Abs(got.fixed-want.fixed) > 1e-9 || math.Abs(got.free-want.free) > 1e-9 {
			t.Errorf("load = %+v, want %+v", got, want)
		}
	}
	for i := range 20 {
		got := r.load(paceTally{at.Add(time.Minute + time.Duration(i)*time.Second), 1000, 9000})
		if calm := got.fixed == 0 && got.free == 0; calm != (i >= 10) {
			t.Errorf("after %d s: %+v", i, got)
		}
	}
	if got := (paceTally{at, 1, 2}).since(paceTally{at, 1, 2}); got.fixed != 0 || got.free != 0 {
		t.Errorf("load = %+v", got)
	}
}

// setBack returns the same instant by a clock whose time of day was set back by seconds.
func setBack(t time.Time, seconds uint64) time.Time {
	const nanoBits = 30 // time.Time: below the seconds, which are below a bit that says that there is a monotonic reading
	*(*uint64)(unsafe.Pointer(&t)) -= seconds << nanoBits
	return t
}

// Devices have their turn also when the time of day was set back meanwhile.
func TestTurnsAfterTheClockWasSetBack(t *testing.T) {
	var p pacer
	p.init()
	now := time.Now()
	p.set(now, 2)
	later := setBack(now.Add(time.Hour), 24*60*60)
	if since := later.Sub(now); since != time.Hour || !later.Before(now.Add(2*time.Hour)) || later.Unix() >= now.Unix() {
		t.Fatalf("the clock was not set back: %v, %v later", later, since)
	}
	if !p.turn("a", later, time.Minute) {
		t.Error("an hour later it is not the turn of a device to be told an interval of a minute")
	}
}

// The gateway looks at its load once a second: devices are told a longer interval when it rises, and a shorter one when it has been
// low for a while.
func TestKeepPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gateway{config: Config{MaxBeatRate: 100}, log: slog.New(slog.DiscardHandler)}
		g.pacer.init()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = g.keepPace(ctx) })
		told := func(perSecond uint64, length time.Duration, want float64) {
			t.Helper()
			for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				g.pacer.weight.Add(2 * perSecond / 10) // as many as there were if none had been told
			}
			if got := factor(uint8(g.pacer.step.Load())); got != want {
				t.Errorf("after %v of %d heartbeats a second the factor is %v, want %v", length, perSecond, got, want)
			}
		}
		told(60, 20*time.Second, 1)
		told(130, 20*time.Second, 2)
		told(40, 30*time.Second, 2)
		told(40, 2*time.Minute, 1)
		cancel()
		running.Wait()
	})
}
