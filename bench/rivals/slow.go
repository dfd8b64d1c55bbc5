package rivals

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/timer"
)

const (
	slowEngineP99 metric = "slow_engine_p99_ms"
	slowRunP99    metric = "slow_run_p99_ms"
	slowArmMax    metric = "slow_arm_max_ms"
	slowTouchMax  metric = "slow_touch_max_ms"
	slowCancelMax metric = "slow_cancel_max_ms"
	slowMissing   metric = "slow_missing"
)

// slowCallback measures what else comes late while one callback blocks, with one worker: other timers that fall due meanwhile,
// and operations that have nothing to do with it.
func (b *bench) slowCallback(_ context.Context, round int, c contender) error {
	n := b.others
	freeMemory()
	w := &watched{due: make([]time.Time, n), late: make([]time.Duration, n), done: make(chan struct{})}
	begun, ended := make(chan struct{}), make(chan struct{})
	s := newSetup(n+2, func(i int) {
		switch i {
		case n:
			close(begun)
			time.Sleep(b.block)
			close(ended)
		default:
			w.fire(i)
		}
	})
	s.each, s.workers = true, 1
	r, err := c.open(s)
	if err != nil {
		return err
	}
	defer r.close()

	begin := time.Now().Add(200 * time.Millisecond)
	for i := range n {
		w.due[i] = begin.Add(b.block/8 + b.block/2/time.Duration(n)*time.Duration(i))
		if err := armAt(r, i, w.due[i]); err != nil {
			return err
		}
	}
	if err := armAt(r, n, begin); err != nil {
		return err
	}
	if _, ok := await(begun, func() int64 { return 0 }, b.patience); !ok {
		return errSilent
	}
	longest, err := probe(r, n+1, ended)
	if err != nil {
		return err
	}
	add := func(m metric, v float64) { b.add(round, c.name, m, v) }
	add(slowArmMax, figures.Millis(longest.arm))
	add(slowTouchMax, figures.Millis(longest.touch))
	add(slowCancelMax, figures.Millis(longest.cancel))
	if e, ok := r.(interface{ lateness() timer.Lateness }); ok {
		l := e.lateness()
		add(slowEngineP99, figures.Millis(l.Quantile(0.99)))
	}
	missing := w.wait(b.patience)
	add(slowMissing, float64(missing))
	if missing == 0 {
		slices.Sort(w.late)
		add(slowRunP99, figures.Millis(quantile(w.late, 0.99)))
	}
	return nil
}

type opTimes struct{ arm, touch, cancel time.Duration }

// probe arms, touches and cancels a timer again and again until a channel is closed, and returns the longest time of each.
func probe(r rival, i int, until <-chan struct{}) (longest opTimes, err error) {
	for {
		select {
		case <-until:
			return longest, nil
		case <-time.After(time.Millisecond):
		}
		batch(r)
		start := time.Now()
		if err := r.arm(i, time.Minute); err != nil {
			return longest, err
		}
		armed := time.Now()
		r.touch(i, time.Minute)
		touched := time.Now()
		r.cancel(i)
		longest.arm = max(longest.arm, armed.Sub(start))
		longest.touch = max(longest.touch, touched.Sub(armed))
		longest.cancel = max(longest.cancel, time.Since(touched))
	}
}

// errSilent is returned when a rival has done nothing for a long time.
var errSilent = errors.New("nothing happens")
