package liveness_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// shelf is a sink that persists what a store persists.
type shelf struct {
	*eventlog.Log

	mu      sync.Mutex // guards the fields below: a registry appends while it is restored
	devices map[string]keep.Record
	groups  map[string]keep.GroupRecord
	ended   map[string]uint64
	sources map[string]keep.SourceRecord
	heard   []keep.Heard
	names   []string // of the sources of heard
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	return &shelf{
		Log: newLog(t, 0), devices: map[string]keep.Record{}, groups: map[string]keep.GroupRecord{},
		sources: map[string]keep.SourceRecord{}, ended: map[string]uint64{},
	}
}

func (k *shelf) Append(ctx context.Context, events []liveness.Event) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range events {
		switch e.Type {
		case liveness.SourceDeaf, liveness.SourceHeard:
			s := k.sources[e.Subject]
			s.Name, s.Seq = e.Subject, e.Seq
			k.sources[e.Subject] = s
		case liveness.GroupOutageStarted, liveness.GroupOutageEnded:
			k.groups[e.Subject] = keep.GroupRecord{
				Name: e.Subject, Seq: e.Seq, Outage: e.Type == liveness.GroupOutageStarted, From: e.From,
			}
		case liveness.DeviceForgotten:
			delete(k.devices, e.Subject)
			k.ended[e.Subject] = e.Seq
		default:
			k.devices[e.Subject] = *e.Record
		}
	}
	return k.Log.Append(ctx, events)
}

// checkpoint takes a snapshot.
func (k *shelf) checkpoint(r *liveness.Registry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var sources []keep.SourceRecord
	sources, k.heard = r.Keeper().Snapshot(k.heard)
	k.names = nil
	for _, s := range sources {
		k.names = append(k.names, s.Name)
		s.Seq = k.sources[s.Name].Seq
		k.sources[s.Name] = s
	}
}

// restore gives a registry what was kept.
func (k *shelf) restore(r *liveness.Registry) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.sources {
		if err := r.Keeper().RestoreSource(s); err != nil {
			return err
		}
	}
	for _, g := range k.groups {
		r.Keeper().RestoreGroup(g)
	}
	for id, seq := range k.ended {
		r.Keeper().RestoreForgotten(id, seq)
	}
	for _, d := range k.devices {
		if int(d.Num) < len(k.heard) {
			if h := k.heard[d.Num]; h != 0 && (d.HeardBy == "" || d.HeardBy == k.names[h.Source()]) {
				d.Heard, d.HeardBy = max(d.Heard, h.Last()), k.names[h.Source()]
			}
		}
		if err := r.Keeper().Restore(d); err != nil {
			return err
		}
	}
	return nil
}

// life is one run of a process.
type life struct {
	*rig

	shelf *shelf
	stop  func()
}

// begin starts a process on what was kept.
func begin(t *testing.T, k *shelf, fleet liveness.Config, start0 time.Time) *life {
	t.Helper()
	if fleet.Policy.Timeout == 0 {
		fleet.Policy.Timeout = 30 * unit
	}
	_, read := k.Bounds()
	l := &life{rig: &rig{T: t, log: k.Log, start: start0, read: read, sessions: map[string]*liveness.Session{}}, shelf: k}
	l.registry = newRegistry(t, k, fleet)
	l.stop = start(t, l.registry)
	l.source = addSource(t, l.registry, liveness.SourceConfig{Name: "edge", MaxGap: unit, ReconnectGrace: 10 * unit})
	if err := k.restore(l.registry); err != nil {
		t.Fatal(err)
	}
	return l
}

// A device has its grace after each restart, and however often there is one, its silence adds up.
func TestCrashLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, origin := newShelf(t), time.Now()
		for life := range 4 {
			l := begin(t, k, liveness.Config{Policy: liveness.Policy{Interval: unit}}, origin)
			l.pulse()
			if life == 0 {
				l.open("dead")
				k.checkpoint(l.registry)
			}
			for range 12 { // a little longer than the grace
				l.listen(unit)
				k.checkpoint(l.registry)
				v := l.device("dead")
				silence := inUnits(v.HeardSilence)
				if silence != 34 && (v.State == liveness.Offline) != (silence > 34) { // at 34 it waits for the timer's rounding
					t.Errorf("life %d: %v after %g units of silence", life, v.State, silence)
				}
			}
			l.stop()
		}
		if d := k.devices["dead"]; d.State != liveness.Offline || d.Seq != 2 {
			t.Errorf("at the end: %+v", d)
		}
	})
}

// beyond begins a process that listens for 5 units, has a checkpoint made, and listens for some more.
func beyond(t *testing.T, k *shelf, origin time.Time, more time.Duration) *life {
	t.Helper()
	l := begin(t, k, liveness.Config{}, origin)
	l.pulse()
	l.listen(5 * unit)
	k.checkpoint(l.registry)
	l.listen(more)
	return l
}

// A crash leaves events that are newer than the checkpoint, of heartbeats that the checkpoint does
// not have.
func TestRestartAfterTheCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, origin := newShelf(t), time.Now()
		l := beyond(t, k, origin, 4*unit)
		l.open("late") // kept by its event, at 9; the clock goes on at 5
		l.stop()
		l = begin(t, k, liveness.Config{}, origin)
		defer func() { l.stop() }()
		l.wantState("late", liveness.Unknown)
		l.pulse()
		l.listen(30*unit + step)
		v := l.device("late")
		if v.State != liveness.Offline || v.Seq != 2 {
			t.Errorf("%+v", v)
		}
	})
}

// A device that falls asleep after a crash stays asleep after the next one, although the clock went back
// in the first, behind when it was heard before.
func TestAsleepAfterTwoCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, origin := newShelf(t), time.Now()
		l := beyond(t, k, origin, 6*unit)
		l.open("a").Sleep(l.now(), 100*unit) // at 11; the clock goes on at 5
		l.stop()
		l = begin(t, k, liveness.Config{}, origin)
		l.pulse()
		k.checkpoint(l.registry)
		l.listen(2 * unit)
		l.open("a").Sleep(l.now(), 100*unit) // at 7
		l.stop()
		l = begin(t, k, liveness.Config{}, origin)
		defer func() { l.stop() }()
		l.wantState("a", liveness.Sleeping)
		l.pulse()
		l.listen(60 * unit)
		l.wantState("a", liveness.Sleeping)
	})
}

// Flapping, maintenance, policies and outages go on as they were.
func TestRestartKeepsAll(t *testing.T) {
	fleet := liveness.Config{
		Groups:   []liveness.GroupConfig{{Name: "site", Match: "site/*", Outage: liveness.OutageConfig{Share: 0.5, MinDevices: 2, Window: 100 * unit}}},
		Flapping: liveness.FlappingConfig{Threshold: 4, Window: 1000 * unit},
		Devices:  map[string]liveness.Policy{"configured": {Timeout: 7 * unit}},
	}
	synctest.Test(t, func(t *testing.T) {
		k, origin := newShelf(t), time.Now()
		l := begin(t, k, fleet, origin)
		l.pulse()
		for range 3 {
			l.open("flapper").Bye(l.now())
		}
		l.openAs("paced", liveness.Hello{Epoch: 7, Announced: liveness.Policy{Timeout: 500 * unit}}, nil)
		for i := range 3 {
			l.open(fmt.Sprint("site/", i))
		}
		l.open("own")
		for _, err := range []error{
			l.registry.SetPolicy("own", liveness.Policy{Timeout: 300 * unit}),
			l.registry.SetPolicy("configured", liveness.Policy{Timeout: 8 * unit}), // never seen
			l.registry.SetMaintenance("own", true),
			l.registry.SetMaintenance("own", true), // no event
		} {
			if err != nil {
				t.Error(err)
			}
		}
		l.listen(31 * unit)
		k.checkpoint(l.registry)
		views := func() map[string]liveness.View {
			all := map[string]liveness.View{}
			views, _ := l.registry.List(nil, 0, 100)
			for _, v := range views {
				v.Deaf, v.NotBefore, v.Now, v.HeardSilence, v.Deadline, v.LastSeen, v.Last = nil, 0, 0, 0, time.Time{}, time.Time{}, 0
				v.Grace, v.GraceMax = 0, 0
				if v.Connected = false; v.State == liveness.Unknown {
					v.State = liveness.Online
				}
				all[v.ID] = v
			}
			return all
		}
		before, groups, stats := views(), l.registry.Groups(), l.registry.Stats()
		l.stop()

		l = begin(t, k, fleet, origin)
		defer func() { l.stop() }()
		after := views()
		for _, id := range slices.Sorted(maps.Keys(before)) {
			a, b := fmt.Sprintf("%+v", after[id]), fmt.Sprintf("%+v", before[id])
			if a != b {
				t.Errorf("%s is\n%s, was\n%s", id, a, b)
			}
		}
		if len(after) != 7 || !after["flapper"].Flapping || !after["own"].Maintenance || !after["own"].Own || after["paced"].Epoch != 7 ||
			after["paced"].Policy.Timeout != 500*unit || after["configured"].Policy.Timeout != 8*unit || after["configured"].State != liveness.NeverSeen {
			t.Errorf("after: %+v", after)
		}
		if got := l.registry.Groups(); !slices.Equal(got, groups) || !got[0].Outage || got[0].Members != 3 {
			t.Errorf("groups %+v, before %+v", got, groups)
		}
		stats.States[liveness.Unknown], stats.States[liveness.Online] = stats.States[liveness.Online], 0
		maps.DeleteFunc(stats.States, func(_ liveness.State, n int) bool { return n == 0 })
		if got := l.registry.Stats(); !maps.Equal(got.States, stats.States) || got.Flaps != 1 {
			t.Errorf("stats %+v, before %+v", got, stats)
		}
		l.pulse()
		l.events()
		l.open("site/0")
		l.open("site/1")
		l.open("site/2")
		if got := l.events(); len(got) != 4 || l.registry.Groups()[0].Outage {
			t.Errorf("the outage goes on: %v", got)
		}
		if k.groups["site"].Seq != 2 {
			t.Errorf("group: %+v", k.groups["site"])
		}
	})
}

// Many devices that are due at once are judged in batches.
func TestRestoredAreSpread(t *testing.T) {
	const devices = 50_000
	synctest.Test(t, func(t *testing.T) {
		log := newLog(t, 0)
		r := newRegistry(t, log, liveness.Config{Policy: liveness.Policy{Timeout: 30 * time.Second, Interval: time.Second}})
		defer start(t, r)()
		source := addSource(t, r, liveness.SourceConfig{Name: "edge"})
		if err := r.Keeper().RestoreSource(keep.SourceRecord{Name: "edge", Listened: time.Hour, At: time.Now().Add(-time.Hour)}); err != nil {
			t.Fatal(err)
		}
		for i := range devices {
			err := r.Keeper().Restore(keep.Record{Num: uint32(i + 1), ID: strconv.Itoa(i), State: liveness.Online, Source: "edge", Last: time.Hour - 40*time.Second, Seq: 1})
			if err != nil {
				t.Fatal(err)
			}
		}
		listen := func(d time.Duration) int {
			for range d / (100 * time.Millisecond) {
				time.Sleep(100 * time.Millisecond)
				source.Watermark(0, source.Pulse(time.Now()))
				synctest.Wait()
			}
			return r.Stats().States[liveness.Offline]
		}
		source.Pulse(time.Now())
		if n := listen(11 * time.Second); n > 100 {
			t.Errorf("%d are offline before the grace has passed", n)
		}
		if n := listen(time.Second); n < 15_000 || n > 25_000 {
			t.Errorf("%d are offline a second later, want some 20,000", n)
		}
		if n := listen(2 * time.Second); n != devices {
			t.Errorf("%d are offline in the end", n)
		}
	})
}

func TestRestoreRejects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog(t, 0)
		r := newRegistry(t, log, liveness.Config{MaxDevices: 2})
		defer start(t, r)()
		if err := r.Keeper().RestoreSource(keep.SourceRecord{Name: "edge", Listened: time.Hour, At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		good := keep.Record{Num: 1, ID: "a", State: liveness.Online, Source: "edge", Last: time.Minute, Seq: 1}
		if err := r.Keeper().Restore(good); err != nil {
			t.Fatal(err)
		}
		for name, bad := range map[string]func(*keep.Record){
			"id twice":     func(rec *keep.Record) { rec.ID = "a" },
			"number twice": func(rec *keep.Record) { rec.Num = 1 },
			"no number":    func(rec *keep.Record) { rec.Num = 0 },
			"huge number":  func(rec *keep.Record) { rec.Num = 1 << 31 },
			"no id":        func(rec *keep.Record) { rec.ID = "" },
			"no source":    func(rec *keep.Record) { rec.Source = "" },
			"other source": func(rec *keep.Record) { rec.Source = "else" },
			"unknown":      func(rec *keep.Record) { rec.State = liveness.Unknown },
			"reason":       func(rec *keep.Record) { rec.Reason = 99 },
			"past":         func(rec *keep.Record) { rec.Last = -1 },
			"far future":   func(rec *keep.Record) { rec.Until = 1<<63 - 1 },
			"policy":       func(rec *keep.Record) { rec.Announced.Timeout = -1 },
			"changes":      func(rec *keep.Record) { rec.Changes = make([]int64, 65) },
		} {
			rec := good
			rec.ID, rec.Num = "b", 2
			bad(&rec)
			if err := r.Keeper().Restore(rec); err == nil {
				t.Errorf("%s: Restore = nil", name)
			}
		}
		source := addSource(t, r, liveness.SourceConfig{Name: "edge"})
		source.Pulse(time.Now())
		if err := r.Keeper().RestoreSource(keep.SourceRecord{Name: "edge"}); err == nil {
			t.Error("RestoreSource of one that listens = nil")
		}
		if err := r.Keeper().RestoreSource(keep.SourceRecord{Name: "x", Listened: -1}); err == nil {
			t.Error("RestoreSource with a negative time = nil")
		}
		if err := r.Keeper().RestoreSource(keep.SourceRecord{}); err == nil {
			t.Error("RestoreSource without a name = nil")
		}
		if n := r.Stats().Devices; n > 2 {
			t.Errorf("%d devices", n)
		}
	})
}

// A source that is added while a snapshot is taken is in none of its parts, or in both.
func TestSnapshotWhileSourcesCome(t *testing.T) {
	r := newRegistry(t, discard{}, liveness.Config{})
	defer start(t, r)()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 100 {
			s, err := r.AddSource(liveness.SourceConfig{Name: strconv.Itoa(i)})
			if err != nil {
				t.Error(err)
				return
			}
			s.Pulse(time.Now())
			for j := range 20 {
				if _, err := s.Apply(strconv.Itoa(j), liveness.Signal{At: time.Second}); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		sources, heard := r.Keeper().Snapshot(nil)
		for _, h := range heard {
			if h != 0 && h.Source() >= len(sources) {
				t.Fatalf("a device was heard by source %d of %d", h.Source(), len(sources))
			}
		}
	}
}

// A record that cannot be restored leaves nothing behind, and its number is free.
func TestRestoreFails(t *testing.T) {
	r := newRegistry(t, discard{}, liveness.Config{MaxDevices: 2})
	defer func() { start(t, r)() }()
	if err := r.Keeper().RestoreSource(keep.SourceRecord{Name: "edge", Listened: time.Hour, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	record := func(num uint32, id string) keep.Record {
		return keep.Record{Num: num, ID: id, State: liveness.Online, Source: "edge", Last: time.Minute, Seq: 1}
	}
	for _, tt := range []struct {
		rec  keep.Record
		want bool
	}{
		{record(1, "a"), true}, {record(1, "b"), false}, {record(2, "a"), false}, {record(2, "c"), true}, {record(3, "d"), false},
	} {
		if err := r.Keeper().Restore(tt.rec); (err == nil) != tt.want {
			t.Errorf("Restore of %s as number %d = %v", tt.rec.ID, tt.rec.Num, err)
		}
	}
	if n := r.Stats().Devices; n != 2 || r.Operator().Known("b") || r.Operator().Known("d") {
		t.Errorf("%d devices, b known: %v, d known: %v", n, r.Operator().Known("b"), r.Operator().Known("d"))
	}
	if err := r.Forget("a"); err != nil {
		t.Fatal(err)
	}
	if err := r.Keeper().Restore(record(3, "d")); err != nil {
		t.Errorf("the number of a device that was refused is gone: %v", err)
	}
}

// A device's own number of its session is kept though nothing else happens with it, and a lower one
// is refused after a restart.
func TestEpochIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, origin := newShelf(t), time.Now()
		l := begin(t, k, liveness.Config{}, origin)
		l.pulse()
		l.openAs("d", liveness.Hello{Epoch: 5}, nil).Close(l.now(), liveness.Closed)
		l.openAs("d", liveness.Hello{Epoch: 9}, nil)
		l.want("d:1 device.online at 0 seen 0 due 30 silent 0", "d:2 device.changed at 0 seen 0 due 30 silent 0")
		k.checkpoint(l.registry)
		l.stop()

		l = begin(t, k, liveness.Config{}, origin)
		l.pulse()
		if _, err := l.source.Open(new(liveness.Session), "d", liveness.Hello{Epoch: 6}, nil, l.now()); !errors.Is(err, liveness.ErrStaleEpoch) {
			t.Errorf("Open with a lower number: %v", err)
		}
		l.openAs("d", liveness.Hello{Epoch: 9}, nil)
		l.want("source/edge:1 source.deaf at 0 deaf 0", "source/edge:2 source.heard at 0 deaf 0")
		l.stop()
	})
}

// A hello that is refused because too many events wait counts as a heartbeat: the device is not
// judged for a connection that ended.
func TestBusyHelloCounts(t *testing.T) {
	for _, own := range []uint64{0, 7} {
		synctest.Test(t, func(t *testing.T) {
			k := newShelf(t)
			l := begin(t, k, liveness.Config{Outbox: 2}, time.Now())
			l.pulse()
			l.open("d").Close(l.now(), liveness.Closed)
			synctest.Wait()
			k.mu.Lock() // the sink stops
			for i := range 5 {
				_, _ = l.source.Apply(fmt.Sprint("more-", i), liveness.Signal{At: l.now()})
			}
			_, err := l.source.Open(new(liveness.Session), "d", liveness.Hello{Epoch: own, Announced: liveness.Policy{Timeout: 40 * unit}}, nil, l.now())
			if !errors.Is(err, liveness.ErrBusy) {
				t.Errorf("Open = %v, want ErrBusy", err)
			}
			k.mu.Unlock()
			synctest.Wait()
			l.listen(20 * unit) // past the close grace
			l.wantState("d", liveness.Online)
			l.stop()
		})
	}
}

// A checkpoint that was made while a device was being judged may say that it was heard a little later than
// it was. That is no heartbeat since.
func TestRestoreJudgedAtCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog(t, 0)
		r := newRegistry(t, log, liveness.Config{Policy: liveness.Policy{Timeout: 30 * unit, LateAfter: 10 * unit}})
		defer start(t, r)()
		if err := r.Keeper().RestoreSource(keep.SourceRecord{Name: "edge", Listened: 100 * unit, At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		for i, tt := range []struct {
			state liveness.State
			until time.Duration
			heard time.Duration
			want  liveness.State
			seen  time.Duration
		}{
			{liveness.Offline, 40 * unit, 11 * unit, liveness.Offline, 10 * unit},
			{liveness.Offline, 40 * unit, 41 * unit, liveness.Online, 41 * unit},
			{liveness.Offline, 0, 11 * unit, liveness.Online, 11 * unit}, // after a goodbye
			{liveness.Late, 0, 11 * unit, liveness.Late, 10 * unit},
			{liveness.Late, 0, 21 * unit, liveness.Online, 21 * unit},
		} {
			rec := keep.Record{
				Num: uint32(i) + 1, ID: strconv.Itoa(i), State: tt.state, Until: tt.until, Source: "edge", Seq: 1,
				Last: 10 * unit, Heard: tt.heard, HeardBy: "edge",
			}
			if tt.state == liveness.Offline {
				rec.Reason = liveness.Silence
			}
			if err := r.Keeper().Restore(rec); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			events, err := log.Read(nil, 0, 100)
			if err != nil {
				t.Fatal(err)
			}
			woken := len(events) > 0 && events[len(events)-1].Subject == rec.ID && events[len(events)-1].Type == liveness.DeviceOnline
			v, err := r.Device(rec.ID)
			if err != nil || woken != (tt.want == liveness.Online) || v.Last != tt.seen {
				t.Errorf("%v, heard at %g: online %v, last at %g, %v", tt.state, inUnits(tt.heard), woken, inUnits(v.Last), err)
			}
		}
	})
}
