package replay_test

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

const (
	maxGap     = 4 * time.Second
	pulseEvery = 2 * time.Second
	takeEvery  = 20 * time.Second
)

// verdict is what a registry said of a device.
type verdict struct {
	device string
	due    time.Duration // listening time
	reason liveness.Reason
	late   bool
	may    bool // it may be missing
	at     time.Time

	maintained bool // the device was in maintenance
}

// told is how often a registry said something of a device.
type told struct{ offline, online, late, maintained int }

// of counts what was said of a device, and apart what was in maintenance.
func (s *sink) of(id string) (n told) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.verdicts {
		switch {
		case v.device != id:
		case v.maintained:
			n.maintained++
		case v.late:
			n.late++
		default:
			n.offline++
		}
	}
	for _, v := range s.returns {
		switch {
		case v.device != id:
		case v.maintained:
			n.maintained++
		default:
			n.online++
		}
	}
	return n
}

// sink keeps the verdicts of the events that it gets.
type sink struct {
	mu       sync.Mutex // guards the fields below
	verdicts []verdict
	returns  []verdict       // what was said of devices that were judged and are back
	judged   map[string]bool // devices that are not
}

// Append implements liveness.Sink.
func (s *sink) Append(_ context.Context, events []liveness.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range events {
		e := &events[i]
		switch {
		case e.Type == liveness.DeviceOffline && e.Record.Until != 0:
			s.verdicts = append(s.verdicts, verdict{device: e.Subject, due: e.Record.Until, reason: e.Reason, at: e.Time, maintained: e.Maintenance})
			s.judged[e.Subject] = true
		case e.Type == liveness.DeviceOnline || e.Type == liveness.DeviceSleeping:
			if s.judged[e.Subject] {
				s.returns = append(s.returns, verdict{device: e.Subject, maintained: e.Maintenance})
			}
			delete(s.judged, e.Subject)
		case e.Type == liveness.DeviceLate:
			s.verdicts = append(s.verdicts, verdict{device: e.Subject, due: e.Record.Last + e.HeardSilence, late: true, at: e.Time, maintained: e.Maintenance})
		}
	}
	return nil
}

// memory is a fake of what keeps gaps.
type memory struct {
	gaps    []judgement.Gap
	breaks  []judgement.Break
	from    time.Time
	read    int // how often gaps were read
	damaged int // how many parts cannot be read
	err     error
	wait    chan struct{} // not nil: Gaps waits until it is closed
}

func (m *memory) take(t *testing.T, r *liveness.Registry) {
	t.Helper()
	gaps, breaks, dropped := r.Keeper().TakeGaps()
	if dropped > 0 {
		t.Fatalf("%d gaps were dropped", dropped)
	}
	m.gaps, m.breaks = append(m.gaps, gaps...), append(m.breaks, breaks...)
}

func (m *memory) Gaps(ctx context.Context, from, to time.Time, want func(uint32) bool) iter.Seq2[judgement.Gap, error] {
	return func(yield func(judgement.Gap, error) bool) {
		m.read++
		if m.wait != nil {
			select {
			case <-m.wait:
			case <-ctx.Done():
			}
		}
		for i, g := range m.gaps {
			if i < m.damaged && !yield(judgement.Gap{}, fmt.Errorf("a page: %w", judgement.ErrDamagedGaps)) {
				return
			}
			if !g.At.Before(from) && g.At.Before(to) && (want == nil || want(g.Num)) && !yield(g, nil) {
				return
			}
		}
		if m.err != nil {
			yield(judgement.Gap{}, m.err)
		}
	}
}

func (m *memory) Breaks(_ context.Context, from, to time.Time) (all []judgement.Break, err error) {
	for _, b := range m.breaks {
		if !b.To.Before(from) && b.To.Before(to) {
			all = append(all, b)
		}
	}
	return all, nil
}

func (m *memory) GapsKept(context.Context) (from time.Time, err error) { return m.from, nil }

// rig is a running registry in a bubble of made-up time, whose gaps are taken as a store takes them.
type rig struct {
	*testing.T

	registry *liveness.Registry
	source   *liveness.Source
	sink     sink
	memory   memory
	heard    []keep.Heard
	taken    time.Time
	sessions map[string]*liveness.Session
	stop     func()
}

// newRig returns a rig. Call it in a bubble, and stop at its end.
func newRig(t *testing.T, cfg liveness.Config) *rig {
	t.Helper()
	r := &rig{T: t, sessions: make(map[string]*liveness.Session)}
	r.sink.judged = make(map[string]bool)
	var err error
	if r.registry, err = liveness.New(&r.sink, cfg); err != nil {
		t.Fatal(err)
	}
	r.registry.Keeper().RecordGaps()
	r.memory.from, r.taken = time.Now(), time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.registry.Run(ctx) }()
	r.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if r.source, err = r.registry.AddSource(liveness.SourceConfig{Name: "edge", MaxGap: maxGap}); err != nil {
		t.Fatal(err)
	}
	r.source.Pulse(time.Now())
	return r
}

// pulse lets the source listen until now; do handles what has arrived.
func (r *rig) pulse(do func()) {
	listened := r.source.Pulse(time.Now())
	if do != nil {
		do()
	}
	r.source.Watermark(0, listened)
	synctest.Wait()
	if time.Since(r.taken) >= takeEvery {
		r.checkpoint()
	}
}

// checkpoint takes the gaps.
func (r *rig) checkpoint() {
	r.taken = time.Now()
	_, r.heard = r.registry.Keeper().Snapshot(r.heard)
	r.memory.take(r.T, r.registry)
}

// listen lets time pass in which the source listens.
func (r *rig) listen(d time.Duration) {
	for ; d > 0; d -= pulseEvery {
		time.Sleep(min(d, pulseEvery))
		r.pulse(nil)
	}
}

func (r *rig) now() time.Duration { return r.source.Time(time.Now()) }

// open opens a session.
func (r *rig) open(id string) {
	r.Helper()
	s := new(liveness.Session)
	if _, err := r.source.Open(s, id, liveness.Hello{}, nil, r.now()); err != nil {
		r.Fatal(err)
	}
	r.sessions[id] = s
}
