package liveness_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
	"github.com/holter-iot/holter/timer"
)

const (
	// unit is a second or so. All spans of the tests are multiples of it or of step, so that the
	// timers round nothing.
	unit = 8192 * timer.Resolution
	step = unit / 4
)

// rig is a running registry in a synctest bubble, with a log and one source that listens when the
// test says so.
type rig struct {
	*testing.T

	registry *liveness.Registry
	log      *eventlog.Log
	source   *liveness.Source
	start    time.Time
	read     uint64 // offset of the last event that was looked at
	sessions map[string]*liveness.Session
}

func newLog(t *testing.T, keep int) *eventlog.Log {
	t.Helper()
	log, err := eventlog.New(keep)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// inRig runs a test with a running registry. Its source has a MaxGap of a unit and a ReconnectGrace
// of ten, unless cfg says otherwise.
func inRig(t *testing.T, fleet liveness.Config, cfg liveness.SourceConfig, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := newLog(t, 0)
		if fleet.Policy.Timeout == 0 {
			fleet.Policy.Timeout = 30 * unit
		}
		r := &rig{T: t, log: log, start: time.Now(), sessions: make(map[string]*liveness.Session)}
		r.registry = newRegistry(t, log, fleet)
		stop := start(t, r.registry)
		defer stop()
		if cfg.Name == "" {
			cfg.Name = "edge"
		}
		r.source = r.addSource(cfg)
		f(r)
	})
}

// newRegistry returns a registry that is not run yet.
func newRegistry(t *testing.T, sink liveness.Sink, cfg liveness.Config) *liveness.Registry {
	t.Helper()
	r, err := liveness.New(sink, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func addSource(t *testing.T, r *liveness.Registry, cfg liveness.SourceConfig) *liveness.Source {
	t.Helper()
	s, err := r.AddSource(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// start runs a registry and returns the function that ends it.
func start(t *testing.T, registry *liveness.Registry) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- registry.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	}
}

func (r *rig) addSource(cfg liveness.SourceConfig) *liveness.Source {
	r.Helper()
	if cfg.MaxGap == 0 {
		cfg.MaxGap = unit
	}
	if cfg.ReconnectGrace == 0 {
		cfg.ReconnectGrace = 10 * unit
	}
	s := addSource(r.T, r.registry, cfg)
	s.Pulse(time.Now())
	return s
}

// pulse lets the source listen until now, and waits for the consequences.
func (r *rig) pulse() {
	r.source.Watermark(0, r.source.Pulse(time.Now()))
	synctest.Wait()
}

// listen lets time pass in which the source listens.
func (r *rig) listen(d time.Duration) {
	for ; d > 0; d -= step {
		time.Sleep(min(d, step))
		r.pulse()
	}
}

// cut lets time pass in which the source is deaf and has lost its connections.
func (r *rig) cut(d time.Duration) {
	r.source.Deafen(time.Now())
	time.Sleep(d)
	r.pulse()
}

// deafen lets time pass in which the source is stalled; MaxGap more passes of which the source has
// listened.
func (r *rig) deafen(d time.Duration) {
	time.Sleep(unit + d)
	r.pulse()
}

// now returns the listening time with which to stamp heartbeats.
func (r *rig) now() time.Duration { return r.source.Time(time.Now()) }

// open opens a new session of a device, without a peer.
func (r *rig) open(id string) *liveness.Session {
	r.Helper()
	return r.openAs(id, liveness.Hello{}, nil)
}

func (r *rig) openAs(id string, h liveness.Hello, peer liveness.Peer) *liveness.Session {
	r.Helper()
	s := new(liveness.Session)
	if _, err := r.source.Open(s, id, h, peer, r.now()); err != nil {
		r.Fatalf("Open(%q) = %v", id, err)
	}
	r.sessions[id] = s
	return s
}

func (r *rig) device(id string) liveness.View {
	r.Helper()
	synctest.Wait() // what is decided is committed then
	v, err := r.registry.Device(id)
	if err != nil {
		r.Fatalf("Device(%q) = %v", id, err)
	}
	return v
}

func (r *rig) wantState(id string, want liveness.State) {
	r.Helper()
	if v := r.device(id); v.State != want {
		r.Errorf("%s at %g is %v, want %v", id, r.units(time.Now()), v.State, want)
	}
}

// units returns an instant in units since the beginning.
func (r *rig) units(at time.Time) float64 { return inUnits(at.Sub(r.start)) }

// inUnits returns a span in units, to a thousandth: the clock of a source that was restored is a
// nanosecond ahead.
func inUnits(d time.Duration) float64 { return math.Round(float64(d)/float64(unit)*1000)/1000 + 0 }

// events returns what the log has received since the last call.
func (r *rig) events() []liveness.Event {
	r.Helper()
	synctest.Wait()
	events, err := r.log.Read(nil, r.read, 1<<20)
	if err != nil {
		r.Fatal(err)
	}
	if len(events) > 0 {
		r.read = events[len(events)-1].Offset
	}
	return events
}

// line formats an event for comparison: id, type, reason, time, and what it reports of the device;
// times in units.
func (r *rig) line(e *liveness.Event) string {
	s := fmt.Sprintf("%s %v", e.ID(), e.Type)
	if e.Reason != liveness.NoReason {
		s += " " + e.Reason.String()
	}
	s += fmt.Sprintf(" at %g", r.units(e.Time))
	switch e.Type {
	case liveness.SourceDeaf, liveness.SourceHeard:
		return s + fmt.Sprintf(" deaf %g", inUnits(e.Deaf))
	case liveness.GroupOutageStarted, liveness.GroupOutageEnded:
		return s + fmt.Sprintf(" %d of %d", e.Silent, e.Members)
	default:
		return s + fmt.Sprintf(" seen %g due %g silent %g", r.units(e.LastSeen), r.units(e.Deadline), inUnits(e.HeardSilence))
	}
}

// want compares what the log has received since the last call.
func (r *rig) want(lines ...string) {
	r.Helper()
	var got []string
	for _, e := range r.events() {
		got = append(got, r.line(&e))
	}
	if !slices.Equal(got, lines) {
		r.Errorf("events:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(lines, "\n\t"))
	}
}

// jump returns an instant as a clock would read it whose wall reading was set, and whose monotonic
// reading was not. The time package offers no way to make one: the first word of a Time has the
// seconds of the wall reading above its 30 bits of nanoseconds.
func jump(at time.Time, d time.Duration) time.Time {
	const nanos = 1<<30 - 1
	word := (*uint64)(unsafe.Pointer(&at))
	seconds, ns := int64(d/time.Second), int64(*word&nanos)+int64(d%time.Second)
	switch {
	case ns < 0:
		seconds, ns = seconds-1, ns+int64(time.Second)
	case ns >= int64(time.Second):
		seconds, ns = seconds+1, ns-int64(time.Second)
	}
	*word = *word&^nanos + uint64(seconds)<<30 + uint64(ns)
	return at
}
