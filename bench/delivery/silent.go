package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/watermark"
	"github.com/holter-iot/holter/store"
	"github.com/holter-iot/holter/timer"
)

// The measurements of a fleet that falls silent at one instant.
const (
	silentHeld      = "silent/held"      // the queue is paused: jobs are made, and nothing is delivered
	silentDelivered = "silent/delivered" // webhooks of many events go out meanwhile
)

const (
	fleetTimeout = time.Minute
	// others is the number of devices beside the fleet, at a source of their own. The first is due lead after all were heard, and then one
	// every otherEvery.
	others     = 1000
	otherEvery = 10 * time.Millisecond
	lead       = 2 * time.Second
)

// silent is what happened when a fleet fell silent.
type silent struct {
	Verdicts  int           // stored, with a job each
	Committed time.Duration // from the instant at which all are due to the last commit
	Delivered time.Duration // to the last delivery; 0 if there were none
	CPU       time.Duration // of this process, until the last commit

	Before, Peak int // bytes in RAM before, and at most until the last commit

	Others     int           // devices beside the fleet that were due meanwhile
	TimerP99   time.Duration // how long after its deadline a timer of theirs was found due, as of the engine's own histogram
	TimerMax   time.Duration
	InTime     float64       // share of those that were found due within inTime
	VerdictP50 time.Duration // how long after the deadline the verdict was made
	VerdictP99 time.Duration
}

// inTime is the largest bound of the histogram of timers below the target of 50 ms.
const inTime = time.Microsecond << 15

// countingSink stands between a registry and a store, and counts what was committed.
type countingSink struct {
	store *store.Store

	verdicts atomic.Int64 // on the fleet

	mu   sync.Mutex // guards the fields below
	due  time.Time  // when the fleet was
	last time.Time  // commit
	lags []time.Duration
}

// Append implements liveness.Sink.
func (t *countingSink) Append(ctx context.Context, events []liveness.Event) error {
	if err := t.store.Append(ctx, events); err != nil {
		return err
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range events {
		ev := &events[i]
		switch {
		case ev.Type != liveness.DeviceOffline:
		case ev.Source == otherSource:
			t.lags = append(t.lags, ev.Time.Sub(ev.Deadline))
		default:
			t.last = now
			t.verdicts.Add(1)
		}
	}
	return nil
}

const (
	fleetSource = "gateway"
	otherSource = "other"
)

// silent makes the fleet fall silent.
func (s *workspace) silent(ctx context.Context, delivered bool) (result silent, err error) {
	endpoint, err := startReceiver(ctx)
	if err != nil {
		return result, err
	}
	defer endpoint.Stop()
	var sink *countingSink
	r, err := s.open(ctx, liveness.Config{Policy: liveness.Policy{Timeout: fleetTimeout}}, func(st *store.Store) liveness.Sink {
		sink = &countingSink{store: st}
		return sink
	})
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.endpoint(ctx, endpoint.url(hooksPath), manyAtOnce); err != nil {
		return result, err
	}
	r.start(ctx, true)
	f, err := newFleet(r, s.n) //nolint:contextcheck // its timers end with the registry
	if err != nil {
		return result, err
	}
	if err := f.heard(ctx); err != nil {
		return result, err
	}
	if err := r.pause(ctx, !delivered); err != nil {
		return result, err
	}
	err = result.fall(ctx, f, sink)
	if err != nil || !delivered {
		return result, err
	}
	if err := r.idle(ctx); err != nil {
		return result, err
	}
	result.Delivered = time.Since(sink.due)
	return result, endpoint.expect(s.n)
}

// fleet is the devices, each heard once.
type fleet struct {
	rig   *rig
	size  int
	now   time.Time // of the fleet's source: simulated, so that the silence takes no time
	fleet *liveness.Source
	other *liveness.Source // it follows the real clock
}

func newFleet(r *rig, size int) (*fleet, error) {
	f := &fleet{rig: r, size: size, now: time.Now()}
	var err error
	if f.fleet, err = r.registry.AddSource(liveness.SourceConfig{Name: fleetSource, MaxGap: time.Hour}); err != nil {
		return nil, err
	}
	if f.other, err = r.registry.AddSource(liveness.SourceConfig{Name: otherSource}); err != nil {
		return nil, err
	}
	f.pulse(0)
	return f, nil
}

func (f *fleet) pulse(d time.Duration) {
	f.now = f.now.Add(d)
	f.fleet.Watermark(0, f.fleet.Pulse(f.now))
}

// heard sends a heartbeat of each device of the fleet, no faster than the events can be stored, and waits until they are.
func (f *fleet) heard(ctx context.Context) error {
	now := f.fleet.Time(f.now)
	for i := range f.size {
		if i%1024 == 0 {
			if err := until(ctx, func() bool { return f.rig.registry.Stats().Queued < 1<<16 }); err != nil {
				return err
			}
		}
		if _, err := f.fleet.Apply(deviceID(i), liveness.Signal{At: now}); err != nil {
			return err
		}
	}
	return until(ctx, func() bool { return f.rig.registry.Stats().Queued == 0 })
}

// listen keeps the clock of the other devices until stop, as a source does that is always listening.
func (f *fleet) listen(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	loop := watermark.Loop{Source: f.other, Pulse: func(now time.Time) (time.Duration, error) {
		f.other.Watermark(0, f.other.Pulse(now))
		return f.other.Time(now), nil
	}}
	var listening sync.WaitGroup
	listening.Go(func() { _ = loop.Run(ctx) }) // Pulse never fails
	return func() {
		cancel()
		listening.Wait()
	}
}

// fall makes the fleet fall silent while other devices are due one after the other.
func (r *silent) fall(ctx context.Context, f *fleet, sink *countingSink) error {
	stop := f.listen(ctx)
	defer stop()
	if err := until(ctx, func() bool { return f.other.View().Listened > 0 }); err != nil {
		return err
	}
	var err error
	if r.Before, err = measured.Settle(); err != nil {
		return err
	}
	now := f.other.Time(time.Now())
	for i := range others {
		if _, err := f.other.Apply(fmt.Sprintf("other-%04d", i), liveness.Signal{At: now, Announced: liveness.Policy{Timeout: lead + time.Duration(i)*otherEvery}}); err != nil {
			return err
		}
	}
	if err := until(ctx, func() bool { return f.other.Time(time.Now()) >= now+lead && f.rig.registry.Stats().Queued == 0 }); err != nil {
		return err
	}
	used, late := cpuTime(), f.other.View().Timers.Lateness
	sink.mu.Lock()
	sink.lags, sink.due = nil, time.Now()
	sink.mu.Unlock()
	f.pulse(fleetTimeout + time.Millisecond)
	if err := until(ctx, func() bool { return sink.verdicts.Load() >= int64(f.size) }); err != nil {
		return err
	}
	r.CPU = cpuTime() - used
	if r.Peak, err = measured.Peak(); err != nil {
		return err
	}
	r.timers(late, f.other.View().Timers.Lateness)
	sink.mu.Lock()
	defer sink.mu.Unlock()
	r.Verdicts, r.Committed = int(sink.verdicts.Load()), sink.last.Sub(sink.due)
	slices.Sort(sink.lags)
	if n := len(sink.lags); n > 0 {
		r.VerdictP50, r.VerdictP99 = sink.lags[n/2], sink.lags[n*99/100]
	}
	return nil
}

// timers fills in how late the timers of the others were, from the histograms before and after.
func (r *silent) timers(before, after timer.Lateness) {
	found := 0
	for i := range after {
		after[i] -= before[i]
		r.Others += int(after[i])
		if time.Microsecond<<i <= inTime {
			found += int(after[i])
		}
	}
	r.InTime = float64(found) / float64(max(r.Others, 1))
	r.TimerP99, r.TimerMax = after.Quantile(0.99), after.Quantile(1)
}
