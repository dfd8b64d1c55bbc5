package liveness_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

const stressDevices = 50

// stress holds a registry whose devices are heard, closed and judged within milliseconds, by many
// goroutines.
type stress struct {
	registry *liveness.Registry
	source   *liveness.Source
	timeout  time.Duration
	now      atomic.Pointer[time.Time] // what the driver calls now
	replaced atomic.Int64
	epochs   [stressDevices]atomic.Uint64
}

// stressPeer fails if it is told of a replacement twice.
type stressPeer struct {
	s    *stress
	t    *testing.T
	once atomic.Bool
}

func (p *stressPeer) Replaced() {
	p.s.replaced.Add(1)
	if p.once.Swap(true) {
		p.t.Error("Replaced was called twice")
	}
}

func (p *stressPeer) Judged()    {}
func (p *stressPeer) Dismissed() {}
func (p *stressPeer) Committed() {}

func (p *stressPeer) Probe() bool { return rand.N(4) > 0 }

// work applies random operations to random devices, mostly heartbeats.
func (s *stress) work(t *testing.T, rounds int) {
	t.Helper()
	var session *liveness.Session
	device := 0
	for range rounds {
		now := s.source.Time(*s.now.Load())
		if session == nil || rand.N(200) == 0 {
			device = rand.N(stressDevices)
			session = s.open(t, device, now)
			continue
		}
		switch rand.N(40) {
		case 0:
			session.Close(now, liveness.Closed)
			session = nil
		case 1:
			session.Bye(now)
			session = nil
		case 2:
			session.Sleep(now, time.Millisecond)
		case 3:
			session.Fail(now, "x")
		case 4:
			_, err := session.UpdatePolicy(now, liveness.Policy{Timeout: s.timeout + rand.N(s.timeout)})
			if err != nil && !errors.Is(err, liveness.ErrReplaced) && !errors.Is(err, liveness.ErrBusy) {
				t.Error(err)
			}
		case 5:
			if _, err := s.registry.Device(fmt.Sprint("device/", device)); err != nil {
				t.Error(err)
			}
		case 6:
			s.registry.Stats()
		case 7:
			for s.source.Now() < now+2*s.timeout {
				runtime.Gosched()
			}
		default:
			session.Prefetch()
			session.Beat(now)
		}
	}
}

func (s *stress) open(t *testing.T, device int, now time.Duration) *liveness.Session {
	t.Helper()
	session := new(liveness.Session)
	hello := liveness.Hello{Announced: liveness.Policy{Timeout: s.timeout}}
	if rand.N(4) == 0 {
		hello.Epoch = s.epochs[device].Load() // often stale
	}
	w, err := s.source.Open(session, fmt.Sprint("device/", device), hello, &stressPeer{s: s, t: t}, now)
	if errors.Is(err, liveness.ErrStaleEpoch) || errors.Is(err, liveness.ErrBusy) {
		return nil
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	s.epochs[device].Store(w.Epoch)
	return session
}

// pulse drives the source's clock, with a deaf interval now and then, until ctx is done.
func (s *stress) pulse(ctx context.Context) {
	for now := time.Now(); ctx.Err() == nil; runtime.Gosched() {
		if rand.N(1000) == 0 {
			now = now.Add(50 * time.Millisecond) // deaf
		}
		now = now.Add(rand.N(200 * time.Microsecond))
		s.now.Store(&now)
		s.source.Watermark(0, s.source.Pulse(now))
	}
}

// Each device's events are without gaps, in order and consistent under concurrent operations.
func TestStress(t *testing.T) {
	log := newLog(t, 1<<21)
	registry := newRegistry(t, log, liveness.Config{
		Policy:   liveness.Policy{CloseGrace: time.Millisecond, LateAfter: 2 * time.Millisecond, Interval: time.Millisecond, Probes: 3, ProbeWait: time.Millisecond},
		Groups:   []liveness.GroupConfig{{Name: "all", Match: "*", Outage: liveness.OutageConfig{Share: 0.2, Window: 50 * time.Millisecond, MinDevices: 3}}},
		Flapping: liveness.FlappingConfig{Threshold: 20, Window: time.Second},
		Outbox:   64,
	})
	stop := start(t, registry)
	s := &stress{registry: registry, timeout: 4 * time.Millisecond}
	s.source = addSource(t, registry, liveness.SourceConfig{Name: "edge", MaxGap: 10 * time.Millisecond, ReconnectGrace: time.Millisecond})
	s.now.Store(new(time.Now()))
	ctx, cancel := context.WithCancel(t.Context())
	var driver, workers sync.WaitGroup
	driver.Go(func() { s.pulse(ctx) })
	for range 12 {
		workers.Go(func() { s.work(t, 3000) })
	}
	workers.Wait()
	cancel()
	driver.Wait()
	stop()
	checkStress(t, registry, log, s.replaced.Load())
}

func checkStress(t *testing.T, registry *liveness.Registry, log *eventlog.Log, replaced int64) {
	t.Helper()
	events, err := log.Read(nil, 0, 1<<21)
	if err != nil {
		t.Fatal(err)
	}
	kinds := make(map[liveness.Type]int)
	ids := make(map[string]bool)
	last := make(map[string]*liveness.Event) // of a subject
	state := make(map[string]*liveness.Event)
	for i := range events {
		e := &events[i]
		kinds[e.Type]++
		if ids[e.ID()] {
			t.Errorf("%s comes twice", e.ID())
		}
		ids[e.ID()] = true
		before := last[e.Subject]
		last[e.Subject] = e
		if before == nil && e.Seq != 1 || before != nil && (e.Seq != before.Seq+1 || e.Epoch < before.Epoch) {
			t.Fatalf("%+v comes after %+v", e, before)
		}
		checkState(t, state, e)
	}
	if kinds[liveness.DeviceSessionReplaced] != int(replaced) {
		t.Errorf("%d replacements, peers were told of %d", kinds[liveness.DeviceSessionReplaced], replaced)
	}
	for i := range stressDevices {
		id := fmt.Sprint("device/", i)
		v, err := registry.Device(id)
		if err != nil {
			continue // never opened
		}
		e := state[id]
		want := map[liveness.Type]liveness.State{
			liveness.DeviceOnline: liveness.Online, liveness.DeviceLate: liveness.Late,
			liveness.DeviceSleeping: liveness.Sleeping, liveness.DeviceOffline: liveness.Offline,
		}[e.Type]
		if v.State != want && v.State != liveness.Unknown && (v.State != liveness.Suspect || v.Asked == 0 || want == liveness.Offline) || v.Seq != last[id].Seq || v.Reason != e.Reason {
			t.Errorf("%s is %v for %v at %d after %+v", id, v.State, v.Reason, v.Seq, last[id])
		}
	}
	t.Logf("%d events: %v", len(events), kinds)
}

// checkState checks that an event may follow the one before that reported a state.
func checkState(t *testing.T, state map[string]*liveness.Event, e *liveness.Event) {
	t.Helper()
	before := state[e.Subject]
	switch e.Type {
	case liveness.DeviceOnline, liveness.DeviceSleeping:
	case liveness.DeviceLate:
		if before.Type != liveness.DeviceOnline {
			t.Errorf("%+v comes after %+v", e, before)
		}
	case liveness.DeviceOffline:
		if before.Type == liveness.DeviceOffline || e.Reason == liveness.NoReason {
			t.Errorf("%+v comes after %+v", e, before)
		}
		if e.Reason == liveness.Silence && e.HeardSilence < e.Timeout {
			t.Errorf("%+v: false offline", e)
		}
	default:
		return
	}
	if e.Type == liveness.DeviceOnline && before != nil && before.Type == liveness.DeviceOnline {
		t.Errorf("%+v comes after %+v", e, before)
	}
	state[e.Subject] = e
}
