package liveness_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// clockOp is an operation on a fleet with two sources.
type clockOp struct {
	kind           string
	source, device int
	units          int
	burst          bool // while the sink takes nothing
}

var clockKinds = []string{
	"beat", "open", "sessionBeat", "close", "bye", "sessionBye", "sleep", "sessionSleep", "fail", "greet", "lost", "seed", "announce", "policy",
	"pass", "fill",
}

// gate is a sink that can be stopped.
type gate struct {
	*eventlog.Log

	open chan struct{} // closed while the sink takes events
}

func (g *gate) Append(ctx context.Context, events []liveness.Event) error {
	<-g.open
	return g.Log.Append(ctx, events)
}

// clockFleet runs operations on a fleet of which one source's clock is ahead, and returns the
// events of each subject.
func clockFleet(t *testing.T, ops []clockOp, ahead time.Duration) map[string][]string {
	t.Helper()
	told := make(map[string][]string)
	synctest.Test(t, func(t *testing.T) {
		sink := &gate{newLog(t, 0), make(chan struct{})}
		close(sink.open)
		r := newRegistry(t, sink, liveness.Config{Policy: liveness.Policy{Timeout: 30 * unit, LateAfter: 12 * unit, CloseGrace: 4 * unit}, Outbox: 3})
		stop := start(t, r)
		f := &clocks{sink: sink, registry: r, sessions: make(map[string]*liveness.Session)}
		for i, name := range []string{"a", "b"} {
			listened := unit + time.Duration(i)*ahead
			if err := r.Keeper().RestoreSource(keep.SourceRecord{Name: name, Listened: listened, At: time.Now()}); err != nil {
				t.Fatal(err)
			}
			f.sources[i] = addSource(t, r, liveness.SourceConfig{Name: name, MaxGap: unit, ReconnectGrace: unit})
		}
		f.pass(1)
		begin := time.Now()
		for _, op := range ops {
			f.do(op)
		}
		f.end()
		f.pass(100)
		stop()
		events, err := sink.Read(nil, 0, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		at := func(when time.Time) float64 { return inUnits(when.Sub(begin)) }
		for _, e := range events {
			line := fmt.Sprintf("%s %v %v at %g epoch %d by %s silent %g", e.ID(), e.Type, e.Reason, at(e.Time), e.Epoch, e.Source, inUnits(e.HeardSilence))
			if e.Record != nil {
				line += fmt.Sprintf(" seen %g due %g", at(e.LastSeen), at(e.Deadline))
			}
			told[e.Subject] = append(told[e.Subject], line)
		}
	})
	return told
}

// clocks holds two sources in use.
type clocks struct {
	sink     *gate
	registry *liveness.Registry
	sources  [2]*liveness.Source
	sessions map[string]*liveness.Session
	stopped  bool
	filled   int
}

func (f *clocks) pass(units int) {
	for range units {
		time.Sleep(unit)
		for _, s := range f.sources {
			s.Watermark(0, s.Pulse(time.Now()))
		}
		synctest.Wait()
	}
}

// end unblocks the sink.
func (f *clocks) end() {
	if f.stopped {
		f.stopped = false
		close(f.sink.open)
		synctest.Wait()
	}
}

func (f *clocks) do(op clockOp) {
	if op.burst && !f.stopped {
		f.stopped, f.sink.open = true, make(chan struct{})
	}
	if op.kind == "pass" || !op.burst { // no time passes while the sink is stopped: which source judges first would be chance
		f.end()
	}
	defer synctest.Wait()
	s, id := f.sources[op.source], fmt.Sprint("d", op.device)
	now, length := s.Time(time.Now()), time.Duration(op.units)*unit
	switch op.kind {
	case "pass":
		f.pass(op.units)
	case "fill":
		f.filled++
		_, _ = s.Apply(fmt.Sprint("more-", f.filled), liveness.Signal{At: now, Announced: liveness.Policy{Timeout: liveness.Never}})
	case "beat":
		_, _ = s.Apply(id, liveness.Signal{At: now})
	case "announce":
		_, _ = s.Apply(id, liveness.Signal{At: now, Announced: liveness.Policy{Timeout: length + 5*unit}})
	case "bye":
		_, _ = s.Apply(id, liveness.Signal{Kind: liveness.Goodbye, At: now})
	case "sleep":
		_, _ = s.Apply(id, liveness.Signal{Kind: liveness.Sleep, At: now, Length: length})
	case "fail":
		_, _ = s.Apply(id, liveness.Signal{Kind: liveness.Failure, At: now, Message: "broken"})
	case "greet":
		_, _ = s.Apply(id, liveness.Signal{At: now, Epoch: uint64(op.units)})
	case "lost":
		_, _ = s.Apply(id, liveness.Signal{Kind: liveness.Disconnected, At: now, Epoch: uint64(op.units), Reason: liveness.Will})
	case "seed":
		_, _ = s.Apply(id, liveness.Signal{Kind: liveness.Retained, At: now})
	case "policy":
		_ = f.registry.SetPolicy(id, liveness.Policy{Timeout: length + 3*unit})
	default:
		f.inSession(op, s, id, now, length)
	}
}

// inSession runs an operation on the device's session, if it has one.
func (f *clocks) inSession(op clockOp, s *liveness.Source, id string, now, length time.Duration) {
	session := f.sessions[id]
	if op.kind == "open" {
		session = new(liveness.Session)
		if _, err := s.Open(session, id, liveness.Hello{}, nil, now); err == nil {
			f.sessions[id] = session
		}
		return
	}
	if session == nil {
		return
	}
	for _, by := range f.sources { // a session is stamped with its own source's clock
		if v, err := f.registry.Device(id); err == nil && v.Source == by.Name() {
			now = by.Time(time.Now())
		}
	}
	switch op.kind {
	case "sessionBeat":
		session.Beat(now)
	case "close":
		session.Close(now, liveness.Closed)
	case "sessionBye":
		session.Bye(now)
	case "sessionSleep":
		_, _ = session.Sleep(now, length)
	}
}

// TestClocksDoNotMatter runs operations on a fleet of two sources twice, with clocks that agree and
// with one that is far ahead, also while too many events wait: the events are the same.
func TestClocksDoNotMatter(t *testing.T) {
	fewer(t, 40)
	rapid.Check(t, func(rt *rapid.T) {
		ops := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) clockOp {
			return clockOp{
				kind: rapid.SampledFrom(clockKinds).Draw(t, "kind"), source: rapid.IntRange(0, 1).Draw(t, "source"),
				device: rapid.IntRange(0, 2).Draw(t, "device"), units: rapid.IntRange(1, 40).Draw(t, "units"), burst: rapid.IntRange(0, 2).Draw(t, "burst") > 0,
			}
		}), 1, 60).Draw(rt, "ops")
		want, got := clockFleet(t, ops, 0), clockFleet(t, ops, 1_000_000*unit)
		for subject, lines := range want {
			if !slices.Equal(lines, got[subject]) {
				rt.Fatalf("%s with clocks that differ:\n%s\nwith clocks that agree:\n%s", subject, strings.Join(got[subject], "\n"), strings.Join(lines, "\n"))
			}
		}
	})
}

// A session that is resumed elsewhere while the sink is too slow counts as heard when it was, not now.
func TestBusyResumeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &gate{newLog(t, 0), make(chan struct{})}
		close(sink.open)
		r := newRegistry(t, sink, liveness.Config{Policy: liveness.Policy{Timeout: 30 * unit}, Outbox: 3})
		defer start(t, r)()
		f := &clocks{sink: sink, registry: r}
		for i, name := range []string{"a", "b"} {
			f.sources[i] = addSource(t, r, liveness.SourceConfig{Name: name, MaxGap: unit, Pool: "gateway"})
		}
		f.pass(1)
		a, b, session := f.sources[0], f.sources[1], new(liveness.Session)
		if _, err := a.Open(session, "x", liveness.Hello{}, nil, a.Time(time.Now())); err != nil {
			t.Fatal(err)
		}
		f.pass(1)
		session.Abandon()
		heard := b.Time(time.Now())
		f.pass(8)
		sink.open = make(chan struct{})
		for full := error(nil); full == nil; { // until it is busy
			_, full = a.Apply("noise", liveness.Signal{Kind: liveness.Failure, At: a.Time(time.Now()), Message: "n"})
		}
		if err := b.Resume(new(liveness.Session), "x", liveness.Hello{Epoch: 2}, nil, heard, false); !errors.Is(err, liveness.ErrBusy) {
			t.Errorf("Resume = %v, want ErrBusy", err)
		}
		close(sink.open)
		synctest.Wait()
		if v, err := r.Device("x"); err != nil || v.HeardSilence.Round(unit) != 8*unit {
			t.Errorf("a silence of %g units (%v), want 8", inUnits(v.HeardSilence), err)
		}
	})
}

// A device that announces the same sleep once more, at a source whose clock is ahead, has changed its source, and no more.
func TestSleepElsewhere(t *testing.T) {
	ops := []clockOp{{kind: "sleep", units: 4}, {kind: "sleep", source: 1, units: 4}}
	for _, ahead := range []time.Duration{0, 1_000_000 * unit} {
		lines := clockFleet(t, ops, ahead)["d0"]
		if len(lines) < 2 || !strings.HasPrefix(lines[1], "d0:2 device.changed ") {
			t.Errorf("ahead by %v: %q", ahead, lines)
		}
	}
}

// A hello, a failure or a heartbeat at another source that is refused because the sink is too slow
// counts as heard.
func TestBusyCounts(t *testing.T) {
	for _, by := range []string{"beat elsewhere", "hello elsewhere", "hello", "failure", "failure in its session"} {
		t.Run(by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := &gate{newLog(t, 0), make(chan struct{})}
				close(sink.open)
				r := newRegistry(t, sink, liveness.Config{Policy: liveness.Policy{Timeout: 30 * unit}, Outbox: 3})
				defer start(t, r)()
				f := &clocks{sink: sink, registry: r}
				for i, name := range []string{"a", "b"} {
					f.sources[i] = addSource(t, r, liveness.SourceConfig{Name: name, MaxGap: unit, ReconnectGrace: unit})
				}
				f.pass(1)
				a, b, session := f.sources[0], f.sources[1], new(liveness.Session)
				now := func(s *liveness.Source) time.Duration { return s.Time(time.Now()) }
				_, err := a.Open(session, "x", liveness.Hello{}, nil, now(a))
				if err != nil {
					t.Fatal(err)
				}
				if by != "failure in its session" {
					session.Close(now(a), liveness.Closed)
					if _, err = a.Apply("x", liveness.Signal{At: now(a)}); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				sink.open = make(chan struct{})
				for i := range 40 {
					for full := error(nil); full == nil; { // until it is busy
						_, full = a.Apply("noise", liveness.Signal{Kind: liveness.Failure, At: now(a), Message: "n"})
					}
					switch by {
					case "beat elsewhere":
						_, err = b.Apply("x", liveness.Signal{At: now(b)})
					case "hello elsewhere":
						_, err = b.Open(new(liveness.Session), "x", liveness.Hello{}, nil, now(b))
					case "hello":
						_, err = a.Open(new(liveness.Session), "x", liveness.Hello{Epoch: 7}, nil, now(a))
					case "failure":
						_, err = a.Apply("x", liveness.Signal{Kind: liveness.Failure, At: now(a), Message: "hot"})
					case "failure in its session":
						err = session.Fail(now(a), "hot")
					}
					if !errors.Is(err, liveness.ErrBusy) {
						t.Fatalf("try %d: %v, want ErrBusy", i, err)
					}
					f.pass(1)
					if i%2 == 1 {
						sink.open <- struct{}{} // it is slow, not stalled
					}
					synctest.Wait()
				}
				close(sink.open)
				f.pass(3)
				events, err := sink.Read(nil, 0, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range events {
					if e.Subject == "x" && e.Type == liveness.DeviceOffline {
						t.Errorf("it is judged offline after a silence of %g units, though it spoke in each", inUnits(e.HeardSilence))
					}
				}
			})
		})
	}
}
