package store_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/liveness"
)

// life is a program's life: a store, a registry that runs, and a source that listens when it is told to.
type life struct {
	*testing.T

	store    *store.Store
	registry *liveness.Registry
	source   *liveness.Source
	loaded   store.Loaded
	now      time.Time
	end      func()
}

// begin begins a life at an instant. The source does not listen yet.
func begin(t *testing.T, cfg config, now time.Time) *life {
	t.Helper()
	l := &life{T: t, store: newStore(t, cfg), now: now}
	var err error
	l.registry, err = liveness.New(l.store, liveness.Config{
		Policy: liveness.Policy{Timeout: 30 * time.Second},
		Groups: []liveness.GroupConfig{{Name: "site", Match: "dev-*", Outage: liveness.OutageConfig{Share: 0.9, MinDevices: 10}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.store.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l.loaded, err = l.store.Load(t.Context(), l.registry); err != nil {
		t.Fatal(err)
	}
	if l.source, err = l.registry.AddSource(liveness.SourceConfig{Name: "gateway", ReconnectGrace: 10 * time.Second}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.registry.Run(ctx) }()
	l.end = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := l.store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	return l
}

// pulse lets the source listen.
func (l *life) pulse() { l.source.Watermark(0, l.source.Pulse(l.now)) }

// listen lets time pass in which the source listens.
func (l *life) listen(d time.Duration) {
	for range d / time.Second {
		l.now = l.now.Add(time.Second)
		l.pulse()
	}
}

// beat beats for the devices of a range.
func (l *life) beat(from, to int) {
	l.Helper()
	for i := from; i < to; i++ {
		if _, err := l.source.Apply(name(i), liveness.Signal{At: l.source.Time(l.now)}); err != nil {
			l.Fatal(err)
		}
	}
}

func name(i int) string { return fmt.Sprintf("dev-%03d", i) }

// await waits until there are n events.
func (l *life) await(n uint64) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), time.Minute)
	defer cancel()
	for {
		_, latest := l.store.Bounds()
		if latest >= n {
			return
		}
		if _, err := l.store.Wait(ctx, nil, latest, 1); err != nil {
			l.Fatalf("waiting for event %d: %v; there are %d", n, err, latest)
		}
	}
}

func (l *life) view(i int) liveness.View {
	l.Helper()
	if err := l.registry.Commit(l.Context()); err != nil { // an event may be read a moment before the registry knows that it can be
		l.Fatal(err)
	}
	v, err := l.registry.Device(name(i))
	if err != nil {
		l.Fatal(err)
	}
	return v
}

// TestRestart shows at each level that the store works with each kind of database: what is appended is read, checkpoints are loaded,
// and one process at a time writes.
func TestRestart(t *testing.T) {
	for _, db := range testdb.All() {
		t.Run("db="+db.Name, func(t *testing.T) {
			url := db.URL(t)
			cfg := config{URL: url, Memory: store.NoMemory}
			start := base.Add(-time.Hour)

			first := begin(t, cfg, start)
			first.pulse()
			first.beat(0, 100)
			first.listen(10 * time.Second)
			first.beat(0, 50) // the checkpoint alone knows of these
			first.await(100)
			for _, err := range []error{
				first.registry.SetPolicy(name(7), liveness.Policy{Timeout: time.Hour}),
				first.registry.SetMaintenance(name(8), true),
				first.registry.Forget(name(9)),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			first.await(103)
			if err := first.store.Finish(t.Context(), first.registry); err != nil {
				t.Fatal(err)
			}
			heard := first.view(3).Last
			first.listen(5 * time.Second) // lost
			first.beat(0, 9)
			first.end()

			second := begin(t, cfg, start.Add(time.Hour))
			if second.loaded.Devices != 99 || second.loaded.Checkpoint.IsZero() || len(second.loaded.Corrupt) != 0 {
				t.Errorf("Load = %+v", second.loaded)
			}
			if got := second.view(3); got.State != liveness.Unknown || (got.Last-heard).Abs() > 2*time.Millisecond || got.Seq != 1 {
				t.Errorf("device 3 is %v, heard at %v, seq %d, want unknown, %v, 1", got.State, got.Last, got.Seq, heard)
			}
			if got := second.view(7); got.Policy.Timeout != time.Hour || !got.Own {
				t.Errorf("device 7 has the policy %+v, its own: %v", got.Policy, got.Own)
			}
			if !second.view(8).Maintenance {
				t.Error("device 8 is no longer in maintenance")
			}
			if _, err := second.registry.Device(name(9)); !errors.Is(err, liveness.ErrUnknownDevice) {
				t.Errorf("device 9 was forgotten, and is back: %v", err)
			}
			second.pulse()
			second.await(105) // the source was deaf
			deaf := second.source.View()
			if len(deaf.Deaf) != 1 || deaf.DeafTotal < 59*time.Minute || deaf.DeafTotal > time.Hour || deaf.Listened > 11*time.Second {
				t.Errorf("the source: %+v", deaf)
			}
			second.beat(0, 9)
			second.beat(10, 50)
			second.listen(29 * time.Second)
			second.await(105 + 50)
			for i := range 100 {
				if i == 9 {
					continue
				}
				want, seq := liveness.Online, uint64(1)
				if i >= 50 {
					want, seq = liveness.Offline, 2
				}
				if i == 7 || i == 8 {
					seq = 2
				}
				if got := second.view(i); got.State != want || got.Seq != seq {
					t.Errorf("device %d is %v, seq %d, want %v, %d", i, got.State, got.Seq, want, seq)
				}
			}
			checkSeqs(t, readAll(t, second.store))
			second.end()

			third := begin(t, cfg, start.Add(2*time.Hour)) // without any checkpoint since
			third.pulse()
			third.beat(50, 100)
			third.await(155 + 2 + 50)
			all := readAll(t, third.store)
			checkSeqs(t, all)
			if last := all[len(all)-1]; last.Seq != 3 || last.Type != liveness.DeviceOnline {
				t.Errorf("the last event is %v %v", last.ID(), last.Type)
			}
			if err := newStore(t, cfg).Open(t.Context()); !errors.Is(err, sqldb.ErrLocked) {
				t.Errorf("Open of what is open: %v, want ErrLocked", err)
			}
			if err := third.store.Exec(t.Context(), "UPDATE meta SET fence = fence + 1"); err != nil { // as another store's Open does
				t.Fatal(err)
			}
			if err := third.store.Checkpoint(t.Context(), third.registry); !errors.Is(err, sqldb.ErrFenced) {
				t.Errorf("Checkpoint of a writer that was overtaken: %v, want ErrFenced", err)
			}
			third.end()
		})
	}
}

// checkSeqs checks that the events of each subject are numbered from 1 without gaps, also after it was forgotten.
func checkSeqs(t *testing.T, events []liveness.Event) {
	t.Helper()
	last := make(map[string]uint64)
	for i := range events {
		subject, _, _ := strings.Cut(events[i].ID(), ":")
		if events[i].Seq != last[subject]+1 {
			t.Errorf("%s comes after %s:%d", events[i].ID(), subject, last[subject])
		}
		last[subject] = events[i].Seq
	}
}

// A run that is under way is measured from its start, whichever process heard that.
func TestRunAcrossRestart(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			cfg := config{URL: db.URL(t), Memory: store.NoMemory}
			start := base.Add(-time.Hour)
			first := begin(t, cfg, start)
			first.pulse()
			if _, err := first.source.Apply(name(0), liveness.Signal{Kind: liveness.Start, At: first.source.Time(start)}); err != nil {
				t.Fatal(err)
			}
			first.await(2)
			began := first.view(0).Started
			first.end() // without a checkpoint

			second := begin(t, cfg, start.Add(time.Hour))
			if got := second.view(0).Started; began.IsZero() || got.Sub(began).Abs() > 2*time.Millisecond {
				t.Errorf("the run began at %v, want %v", got, began)
			}
			second.pulse()
			if _, err := second.source.Apply(name(0), liveness.Signal{Kind: liveness.Failure, ExitStatus: 3, Message: "disk full"}); err != nil {
				t.Fatal(err)
			}
			if got := second.view(0).Started; !got.IsZero() {
				t.Errorf("the run of %v has not ended", got)
			}
			second.end()

			third := begin(t, cfg, start.Add(2*time.Hour))
			all := readAll(t, third.store)
			failed := slices.IndexFunc(all, func(e liveness.Event) bool { return e.Type == liveness.DeviceFailed })
			if failed < 0 {
				t.Fatalf("no failure in %v", summary(all))
			}
			if e := all[failed]; e.ExitStatus != 3 || e.Message != "disk full" || e.Duration <= 0 {
				t.Errorf("the failure: %+v", e)
			}
			if got := third.view(0).Started; !got.IsZero() {
				t.Errorf("the run of %v came back", got)
			}
			third.end()
		})
	}
}

func TestOutageAcrossRestart(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			url := db.URL(t)
			cfg := config{URL: url}
			first := begin(t, cfg, base)
			first.pulse()
			first.beat(0, 20)
			first.listen(31 * time.Second)
			first.await(41) // online, offline, and the outage
			first.end()

			second := begin(t, cfg, base.Add(time.Minute))
			if g := second.registry.Groups()[0]; !g.Outage || g.Members != 20 || g.Silent != 20 {
				t.Errorf("the group: %+v, want an outage with 20 of 20 silent", g)
			}
			second.pulse()
			second.beat(0, 20)
			second.await(41 + 20 + 1)
			checkSeqs(t, readAll(t, second.store))
			second.end()
		})
	}
}

func TestCheckpointWritesWhatChanged(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			url := db.URL(t)
			l := begin(t, config{URL: url}, base)
			defer l.end()
			l.pulse()
			l.beat(0, 10)
			l.await(10)
			for i, want := range []int{1, 0, 1, 1} {
				if i > 1 {
					l.listen(time.Second)
					l.beat(0, 1)
				}
				if err := l.store.Checkpoint(t.Context(), l.registry); err != nil {
					t.Fatal(err)
				}
				if st := l.store.Stats().Checkpoint; st.Pages != want || st.Written != uint64(i+1) {
					t.Errorf("checkpoint %d: %+v, want %d pages", i+1, st, want)
				}
			}
		})
	}
}

// TestDamagedCheckpoint damages versions of a page of which one says that device 3 was heard at 1 s, and a newer one that it was at 2 s.
func TestDamagedCheckpoint(t *testing.T) {
	const newest = "number = (SELECT n FROM (SELECT MAX(number) AS n FROM pages) AS p)"
	for _, c := range []struct {
		name   string
		damage string
		want   time.Duration
		errors int
	}{
		{"none", "", 2 * time.Second, 0},
		{"the newest is empty", "UPDATE pages SET data = '' WHERE " + newest, time.Second, 1},
		{"the newest is gone", "DELETE FROM pages WHERE " + newest, time.Second, 0},
		{"the newest is of another page", "UPDATE pages SET page = 5 WHERE " + newest, time.Second, 1},
		{"the newest is of another checkpoint", "UPDATE pages SET number = 99 WHERE " + newest, time.Second, 1},
		{"both are empty", "UPDATE pages SET data = ''", 0, 2},
		{"both are gone", "DELETE FROM pages", 0, 0},
		{"all are of another database", "UPDATE meta SET store_id = '000102030405060708090a0b0c0d0e0f'", 0, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, db := range testdb.Databases() {
				t.Run("db="+db.Name, func(t *testing.T) {
					url := db.URL(t)
					cfg := config{URL: url, Memory: store.NoMemory}
					first := begin(t, cfg, base)
					first.pulse()
					first.beat(0, 10)
					first.await(10)
					for range 2 {
						first.listen(time.Second)
						first.beat(0, 10)
						if err := first.store.Checkpoint(t.Context(), first.registry); err != nil {
							t.Fatal(err)
						}
					}
					if c.damage != "" {
						if err := first.store.Exec(t.Context(), c.damage); err != nil {
							t.Fatal(err)
						}
					}
					first.end()

					cfg.AcceptLoss = true // of another database
					second := begin(t, cfg, base.Add(time.Hour))
					defer second.end()
					if got := second.view(3).Last.Round(100 * time.Millisecond); got != c.want {
						t.Errorf("device 3 was heard at %v, want %v", got, c.want)
					}
					if len(second.loaded.Corrupt) != c.errors || second.loaded.Devices != 10 {
						t.Errorf("Load = %+v, want %d errors", second.loaded, c.errors)
					}
					second.pulse()
					second.beat(0, 10)
					if err := second.store.Checkpoint(t.Context(), second.registry); err != nil {
						t.Errorf("the next checkpoint: %v", err)
					}
				})
			}
		})
	}
}

func TestRun(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			url := db.URL(t)
			l := begin(t, config{URL: url, Checkpoint: time.Millisecond, Keep: 5}, base)
			defer l.end()
			l.pulse()
			l.beat(0, 20)
			l.await(20)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- l.store.Run(ctx, l.registry) }()
			for oldest := uint64(0); oldest != 16; oldest, _ = l.store.Bounds() {
				if err := l.store.Append(t.Context(), nil); err != nil { // nothing to do, but it lets others work
					t.Fatal(err)
				}
			}
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
			if st := l.store.Stats(); st.Pruned != 15 || st.Checkpoint.Written == 0 || st.Failures != 0 {
				t.Errorf("Stats = %+v", st)
			}
			if got := readAll(t, l.store); len(got) != 5 {
				t.Errorf("%d events are left, want 5", len(got))
			}
		})
	}
}

func TestPruneByAge(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			url := db.URL(t)
			s, _ := open(t, config{URL: url, MaxAge: time.Hour})
			const old, young = 12_000, 10
			events := make([]liveness.Event, 0, old+young)
			for i := range old + young {
				ev := device(uint32(i%100+1), strconv.Itoa(i%100+1), uint64(i/100+1), liveness.DeviceOnline)
				if ev.Time = base; i >= old {
					ev.Time = time.Now()
				}
				events = append(events, ev)
			}
			appendAll(t, s, events[:8000]...)
			appendAll(t, s, events[8000:]...)
			if err := s.Prune(t.Context()); err != nil {
				t.Fatal(err)
			}
			if oldest, latest := s.Bounds(); oldest != old+1 || latest != old+young {
				t.Errorf("Bounds() = %d, %d, want %d, %d", oldest, latest, old+1, old+young)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			reopen(t, s)
			if oldest, _ := s.Bounds(); oldest != old+1 {
				t.Errorf("after a restart the oldest is %d, want %d", oldest, old+1)
			}
			if err := s.Exec(t.Context(), "UPDATE events SET at = 1"); err != nil {
				t.Fatal(err)
			}
			if err := s.Prune(t.Context()); err != nil {
				t.Fatal(err)
			}
			if oldest, latest := s.Bounds(); oldest != latest+1 {
				t.Errorf("with nothing left: Bounds() = %d, %d", oldest, latest)
			}
			appendAll(t, s, device(1, "1", 999, liveness.DeviceOnline))
			if got := readAll(t, s); len(got) != 1 {
				t.Errorf("then one more: %v", summary(got))
			}
		})
	}
}

// When a device was heard last does not move while its source is deaf again and again, through restarts, too.
func TestOftenDeaf(t *testing.T) {
	cfg := config{URL: testdb.Databases()[0].URL(t), Dir: filepath.Join(t.TempDir(), "data")}
	l := begin(t, cfg, time.Now())
	l.pulse()
	l.beat(0, 1)
	l.await(1)
	seen := l.view(0).LastSeen
	for range 5 {
		for range 200 {
			l.now = l.now.Add(10 * time.Second)
			l.pulse() // it listens for a second of ten
		}
		before := l.view(0)
		l.end()
		l = begin(t, cfg, l.now)
		l.pulse()
		after := l.view(0)
		if !before.LastSeen.Equal(seen) || !after.LastSeen.Equal(seen) {
			t.Errorf("last seen at %v, after a restart at %v; it was at %v", before.LastSeen, after.LastSeen, seen)
		}
	}
	l.end()
}

// What was heard after the last checkpoint of a process that was killed is known from its memory; without that, its devices count as heard
// a little later than the restart. That is still so after a further restart. After an orderly end nothing is forgiven.
func TestDisorderlyEnd(t *testing.T) {
	for _, tt := range []struct {
		name     string
		memory   string
		finish   bool
		silence  time.Duration // that is known afterwards
		deadline time.Duration // after the restart
		want     store.Loaded
	}{
		{"killed", "", false, 5 * time.Second, 25 * time.Second, store.Loaded{Recalled: true}},
		{"no memory", store.NoMemory, false, 10 * time.Second, 33 * time.Second, store.Loaded{Forgotten: errors.New("")}},
		{"in order", "", true, 5 * time.Second, 25 * time.Second, store.Loaded{}},
		{"in order without memory", store.NoMemory, true, 5 * time.Second, 25 * time.Second, store.Loaded{}},
	} {
		for _, db := range testdb.Databases() {
			t.Run(tt.name+"/db="+db.Name, func(t *testing.T) {
				if tt.memory == "" {
					testenv.SharedMemory(t)
				}
				cfg := config{URL: db.URL(t), Dir: filepath.Join(t.TempDir(), "data"), Memory: tt.memory}
				l := begin(t, cfg, time.Now())
				l.pulse()
				l.beat(0, 1)
				l.listen(10 * time.Second)
				l.await(1)
				if err := l.store.Checkpoint(t.Context(), l.registry); err != nil {
					t.Fatal(err)
				}
				l.beat(0, 1) // no checkpoint has this
				l.listen(5 * time.Second)
				if tt.finish {
					if err := l.store.Finish(t.Context(), l.registry); err != nil {
						t.Fatal(err)
					}
				}
				l.end()

				l = begin(t, cfg, l.now.Add(time.Hour))
				defer func() { l.end() }()
				if got := l.loaded; got.Recalled != tt.want.Recalled || (got.Forgotten != nil) != (tt.want.Forgotten != nil) || got.NoMemory != nil {
					t.Errorf("Load = %+v, want %+v", got, tt.want)
				}
				l.pulse()
				v := l.view(0)
				if got := v.HeardSilence.Round(time.Second); v.State != liveness.Unknown || got != tt.silence {
					t.Errorf("%v after %v of heard silence, want unknown after %v", v.State, got, tt.silence)
				}
				if got := v.Deadline.Sub(l.now).Round(time.Second); got != tt.deadline {
					t.Errorf("judged in %v, want %v", got, tt.deadline)
				}
				l.listen(5 * time.Second)
				if err := l.store.Finish(t.Context(), l.registry); err != nil {
					t.Fatal(err)
				}
				l.end()
				l = begin(t, cfg, l.now.Add(time.Hour))
				l.pulse()
				if got := l.view(0).Deadline.Sub(l.now).Round(time.Second); got != tt.deadline-5*time.Second {
					t.Errorf("judged in %v after another restart, want %v", got, tt.deadline-5*time.Second)
				}
			})
		}
	}
}

// What is not that of the process before is not used.
func TestForeignMemory(t *testing.T) {
	cfg := config{URL: testdb.SQLite(t)}
	l := begin(t, cfg, time.Now())
	l.pulse()
	l.beat(0, 1)
	l.await(1)
	l.end()
	other := cfg
	other.Memory = store.NoMemory // a life in between, of which the memory knows nothing
	l = begin(t, other, l.now.Add(time.Minute))
	l.end()
	l = begin(t, cfg, l.now.Add(time.Minute))
	defer func() { l.end() }()
	if l.loaded.Recalled || l.loaded.Forgotten == nil {
		t.Errorf("Load = %+v, want what was heard forgotten", l.loaded)
	}
}

// TestNumbersGoOn forgets devices that come back, at once, after a restart, and once their events are gone.
func TestNumbersGoOn(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			cfg := config{URL: db.URL(t), Keep: 10}
			first := begin(t, cfg, base)
			first.pulse()
			first.beat(0, 3)
			for _, i := range []int{0, 1} {
				if err := first.registry.Forget(name(i)); err != nil {
					t.Fatal(err)
				}
			}
			first.beat(0, 1)
			first.await(6)
			first.end()

			second := begin(t, cfg, base.Add(time.Minute))
			second.pulse()
			second.beat(1, 2)
			second.await(7)
			for i, want := range []int{3, 3} {
				got, err := second.store.DeviceEvents(t.Context(), name(i), 0, 100)
				if err != nil || len(got) != want {
					t.Errorf("%s has %d events, %v, want %d", name(i), len(got), err, want)
				}
			}
			checkSeqs(t, readAll(t, second.store))
			for i := range 30 { // the number of the last event is 33
				if err := second.registry.SetMaintenance(name(1), i%2 == 0); err != nil {
					t.Fatal(err)
				}
			}
			if err := second.registry.Forget(name(1)); err != nil {
				t.Fatal(err)
			}
			second.beat(10, 30)
			second.await(7 + 30 + 1 + 20)
			if err := second.store.Prune(t.Context()); err != nil {
				t.Fatal(err)
			}
			second.end()

			third := begin(t, cfg, base.Add(2*time.Minute))
			third.pulse()
			third.beat(1, 2)
			if v := third.view(1); v.Seq != 35 {
				t.Errorf("the first number of a device whose events are gone is %d, want 35", v.Seq)
			}
			third.end()
		})
	}
}

// TestGreatEpoch ends the life of a device that numbers its sessions beyond the half of 64 bits.
func TestGreatEpoch(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			for _, epoch := range []uint64{math.MaxInt64 + 1, math.MaxUint64} {
				cfg := config{URL: db.URL(t)}
				first := begin(t, cfg, base)
				first.pulse()
				if err := greet(first, epoch); err != nil {
					t.Fatal(err)
				}
				first.await(1)
				first.end()

				second := begin(t, cfg, base.Add(time.Minute))
				if l := second.loaded; len(l.SetAside) != 0 || l.Devices != 1 {
					t.Errorf("Load = %+v, want the device, and none set aside", l)
				}
				if v := second.view(0); v.State != liveness.Unknown || v.Epoch != epoch {
					t.Errorf("it is %v, epoch %d, want unknown, %d", v.State, v.Epoch, epoch)
				}
				second.pulse()
				if err := greet(second, epoch-1); !errors.Is(err, liveness.ErrStaleEpoch) {
					t.Errorf("a session from before: %v, want %v", err, liveness.ErrStaleEpoch)
				}
				if err := greet(second, epoch); err != nil {
					t.Error(err)
				}
				second.end()
			}
		})
	}
}

// greet opens a session of the first device.
func greet(l *life, epoch uint64) error {
	var session liveness.Session
	_, err := l.source.Open(&session, name(0), liveness.Hello{Epoch: epoch}, nil, l.source.Time(l.now))
	return err
}
