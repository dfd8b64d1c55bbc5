package rivals

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// stepped is a wheel whose time a test moves.
type stepped struct {
	tick  time.Duration // how late a timer may be
	reach int           // a bit more than the bits of the longest timeout
	arm   func(at time.Duration, f func()) (touch func(at time.Duration), cancel func())
	step  func(now time.Duration)
}

func call(funcs []func()) {
	for _, f := range funcs {
		f()
	}
}

func steppedWheels() map[string]func() stepped {
	return map[string]func() stepped{
		"caffeine": func() stepped {
			w := newCaffeineWheel()
			return stepped{
				1 << caffeineShift, 44, // all levels
				func(at time.Duration, f func()) (func(time.Duration), func()) {
					e := w.arm(at, f)
					return func(at time.Duration) { w.touch(e, at) }, func() { w.cancel(e) }
				},
				func(now time.Duration) { w.step(now, call) },
			}
		},
		"pingora": func() stepped {
			p := &pingoraTimers{}
			return stepped{
				wheelTick, 36,
				func(at time.Duration, f func()) (func(time.Duration), func()) {
					e := p.arm(at, f)
					cancel := func() { pingoraDrop(e) }
					return func(at time.Duration) { cancel(); e = p.arm(at, f) }, func() { cancel() }
				},
				func(now time.Duration) { p.step(now, call) },
			}
		},
		"netty": func() stepped {
			w := newNettyWheel(wheelTick, 5) // many rounds
			return stepped{
				wheelTick, 36,
				func(at time.Duration, f func()) (func(time.Duration), func()) {
					e := w.arm(at, f)
					cancel := func() { w.cancel(e) }
					return func(at time.Duration) { cancel(); e = w.arm(at, f) }, func() { cancel() }
				},
				w.step,
			}
		},
	}
}

// TestModel holds that the wheels told anew fire what a naive model fires: what is due, within a tick
// after its deadline, once, and nothing that was cancelled.
func TestModel(t *testing.T) {
	for name, open := range steppedWheels() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(20) {
				testModel(t, open(), rand.New(rand.NewPCG(seed, 0)))
			}
		})
	}
}

type modelTimer struct {
	at     time.Duration
	touch  func(at time.Duration)
	cancel func()
}

func testModel(t *testing.T, w stepped, random *rand.Rand) {
	t.Helper()
	live := make(map[int]*modelTimer)
	var ended []func() // cancels what has fired or is cancelled
	now, last := time.Duration(0), time.Duration(0)
	timeout := func() time.Duration { return 1 + time.Duration(random.Int64N(1<<random.IntN(w.reach))) }
	for i := range 4000 {
		switch k := random.IntN(i + 1); random.IntN(4) {
		case 0, 1:
			m := &modelTimer{at: now + timeout()}
			if random.IntN(8) == 0 {
				m.at = max(0, now-timeout()) // it is due before it is armed
			}
			live[i] = m
			m.touch, m.cancel = w.arm(m.at, func() {
				if live[i] != m {
					t.Fatalf("timer %d fires at %v, and has fired or is cancelled", i, now)
				}
				if m.at > now {
					t.Fatalf("timer %d fires at %v, before %v", i, now, m.at)
				}
				delete(live, i)
				ended = append(ended, m.cancel)
			})
		case 2:
			if m := live[k]; m != nil {
				m.at = max(m.at, now+timeout())
				m.touch(m.at)
			}
		case 3:
			if m := live[k]; m != nil {
				m.cancel()
				delete(live, k)
				ended = append(ended, m.cancel)
			} else if len(ended) > 0 {
				ended[random.IntN(len(ended))]()
			}
		}
		if i%8 > 0 {
			continue
		}
		last = now
		now += time.Duration(random.Int64N(1 << random.IntN(w.reach-6)))
		w.step(now)
		for i, m := range live {
			// A timer that was armed or renewed since the last step has its tick from there.
			if max(m.at, last)+w.tick <= now {
				t.Fatalf("timer %d has not fired at %v, is due at %v", i, now, m.at)
			}
		}
	}
	now += 1 << w.reach
	w.step(now)
	w.step(now + 2*w.tick)
	if len(live) > 0 {
		t.Fatalf("%d timers have not fired in the end", len(live))
	}
}

// TestCaffeineLost holds that a renewal that finds the lock taken moves its timer all the same.
func TestCaffeineLost(t *testing.T) {
	w, fired := newCaffeineWheel(), 0
	e := w.arm(time.Second, func() { fired++ })
	w.mu.Lock()
	w.touch(e, time.Minute)
	w.mu.Unlock()
	for _, step := range []struct {
		now  time.Duration
		want int
	}{{2 * time.Second, 0}, {59 * time.Second, 0}, {time.Minute + 1<<caffeineShift, 1}} {
		if w.step(step.now, call); fired != step.want {
			t.Errorf("at %v the timer has fired %d times, want %d", step.now, fired, step.want)
		}
	}
}

// TestCancelBetween holds that timers can be cancelled and renewed between the batches of a step.
func TestCancelBetween(t *testing.T) {
	const n = 2*batchSize + 1
	caffeine, pingora := newCaffeineWheel(), &pingoraTimers{}
	var last func()
	for name, w := range map[string]struct {
		arm  func(at time.Duration, f func()) (cancel func())
		step func(now time.Duration, pass func([]func()))
	}{
		"caffeine": {func(at time.Duration, f func()) func() {
			e := caffeine.arm(at, f)
			return func() { caffeine.cancel(e) }
		}, caffeine.step},
		"pingora": {func(at time.Duration, f func()) func() {
			e := pingora.arm(at, f)
			return func() { pingoraDrop(e) }
		}, pingora.step},
	} {
		fired := 0
		for range n {
			last = w.arm(time.Second, func() { fired++ })
		}
		w.step(time.Minute, func(funcs []func()) {
			last()
			call(funcs)
		})
		if fired != n-1 {
			t.Errorf("%s: %d timers have fired, want %d", name, fired, n-1)
		}
	}
}

// TestNettyFull holds that a tick takes 100,000 new timers, and that one that is cancelled before it is
// taken does not fire.
func TestNettyFull(t *testing.T) {
	w, fired := newNettyWheel(wheelTick, 8), 0
	for range 100_000 {
		w.arm(0, func() { fired++ })
	}
	cancelled := w.arm(0, func() { t.Error("a cancelled timer has fired") })
	w.arm(0, func() { fired++ })
	w.step(wheelTick)
	if fired != 100_000 {
		t.Errorf("%d timers have fired at the first tick, want 100000", fired)
	}
	w.cancel(cancelled)
	w.step(3 * wheelTick)
	if fired != 100_001 {
		t.Errorf("%d timers have fired, want 100001", fired)
	}
}

// TestMPSC holds that nothing is lost or doubled, and that what a producer pushes keeps its order.
func TestMPSC(t *testing.T) {
	const producers, each = 4, 5000
	q := newMPSC[[2]int]()
	if v := q.pop(); v != nil {
		t.Fatalf("an empty queue has %v", *v)
	}
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for k := range each {
				q.push(&[2]int{p, k})
			}
		})
	}
	var next [producers]int
	check := func(v *[2]int) {
		if v[1] != next[v[0]] {
			t.Fatalf("producer %d: %d follows %d", v[0], v[1], next[v[0]]-1)
		}
		next[v[0]]++
	}
	for range each { // while they push
		if v := q.pop(); v != nil {
			check(v)
		}
	}
	wg.Wait()
	for v := q.pop(); v != nil; v = q.pop() {
		check(v)
	}
	if next != [producers]int{each, each, each, each} {
		t.Errorf("popped %v of each producer, want %d", next, each)
	}
}
