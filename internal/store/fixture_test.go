package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/liveness"
)

// base is an instant that the tests' events are after, without a monotonic reading.
var base = time.Unix(0, time.Now().Add(-24*time.Hour).UnixNano())

// config is that of a database and of the store in it.
type config struct {
	URL, Dir   string
	AcceptLoss bool
	Patience   time.Duration
	Wall       func() time.Time

	Memory     string
	Checkpoint time.Duration
	Keep       int
	MaxAge     time.Duration
	Cache      int
	Outbox     store.Outbox
	Follower   *store.Follower
	Tail       *store.Tail
	MaxBytes   int
	GapsMaxAge time.Duration
	GapsBytes  int
	Terms      *sqldb.Terms
}

func (c config) database() sqldb.Config {
	return sqldb.Config{URL: c.URL, Dir: c.Dir, AcceptLoss: c.AcceptLoss, Patience: c.Patience, Wall: c.Wall, Terms: c.Terms}
}

// shared opens the database beside a store.
func (c config) shared(ctx context.Context) (*sqldb.DB, error) {
	return sqldb.OpenShared(ctx, c.database())
}

// missing looks whether the database is there.
func (c config) missing() error {
	db, err := sqldb.New(c.database())
	if err != nil {
		return err
	}
	return db.Missing()
}

func (c config) store() (*store.Store, error) {
	db, err := sqldb.New(c.database())
	if err != nil {
		return nil, err
	}
	return store.New(db, store.Config{
		Memory: c.Memory, Checkpoint: c.Checkpoint, Keep: c.Keep, MaxAge: c.MaxAge, Cache: c.Cache, Outbox: c.Outbox, Follower: c.Follower, Tail: c.Tail,
		MaxBytes: c.MaxBytes, GapsMaxAge: c.GapsMaxAge, GapsMaxBytes: c.GapsBytes,
	})
}

// newStore returns a store that is not open.
func newStore(tb testing.TB, cfg config) *store.Store {
	tb.Helper()
	s, err := cfg.store()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return s
}

// open opens a store and loads it into a registry that is not used.
func open(tb testing.TB, cfg config) (*store.Store, store.Loaded) {
	tb.Helper()
	s := newStore(tb, cfg)
	return s, reopen(tb, s)
}

func reopen(tb testing.TB, s *store.Store) store.Loaded {
	tb.Helper()
	if err := s.Open(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	loaded, err := s.Load(tb.Context(), registry(tb, s))
	if err != nil {
		tb.Fatal(err)
	}
	return loaded
}

// registry returns a registry that is never run.
func registry(tb testing.TB, s *store.Store) *liveness.Registry {
	tb.Helper()
	r, err := liveness.New(s, liveness.Config{Groups: []liveness.GroupConfig{{Name: "site", Match: "dev-*"}}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { stop(tb, r) })
	return r
}

// stop ends a registry that is not running, and the timers of its sources with it.
func stop(tb testing.TB, r *liveness.Registry) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Run(ctx); err != nil {
		tb.Errorf("Run: %v", err)
	}
}

// device returns an event of a device, with a record that says of it what the event does.
func device(num uint32, id string, seq uint64, typ liveness.Type) liveness.Event {
	at := base.Add(time.Duration(seq) * time.Second)
	rec := &keep.Record{
		Num: num, ID: id, State: liveness.Online, Source: "gateway", Last: time.Duration(seq) * time.Second,
		Since: at, Seq: seq, Epoch: 7,
	}
	ev := liveness.Event{
		Type: typ, Subject: id, Seq: seq, Epoch: 7, Time: at, Source: "gateway", Group: "site", Policy: "group site",
		LastSeen: at.Add(-time.Second), Deadline: at.Add(time.Minute), HeardSilence: 1500 * time.Millisecond, Timeout: 90 * time.Second,
		Record: rec,
	}
	switch typ {
	case liveness.DeviceOffline:
		ev.Reason, rec.State, rec.Reason = liveness.Silence, liveness.Offline, liveness.Silence
	case liveness.DeviceForgotten:
		rec.Forgotten = true
	case liveness.DeviceOnline:
		ev.OfflineFor = time.Duration(seq-1) * time.Hour
	default:
	}
	return ev
}

// appendAll appends events, and checks that they got the offsets that come next.
func appendAll(tb testing.TB, s *store.Store, events ...liveness.Event) {
	tb.Helper()
	_, last := s.Bounds()
	if err := s.Append(tb.Context(), events); err != nil {
		tb.Fatalf("Append: %v", err)
	}
	for i := range events {
		if want := last + uint64(i) + 1; events[i].Offset != want {
			tb.Fatalf("event %d got offset %d, want %d", i, events[i].Offset, want)
		}
	}
}

// readAll reads all events that are kept.
func readAll(tb testing.TB, s *store.Store) []liveness.Event {
	tb.Helper()
	var all []liveness.Event
	oldest, latest := s.Bounds()
	for after := oldest - 1; after < latest; after = all[len(all)-1].Offset {
		got, err := s.Read(tb.Context(), all, after, 1000)
		if err != nil {
			tb.Fatalf("Read: %v", err)
		}
		if len(got) == len(all) {
			tb.Fatalf("Read after %d gave nothing, although the latest is %d", after, latest)
		}
		all = got
	}
	return all
}

// summary says of events what they are, as "offset id type".
func summary(events []liveness.Event) []string {
	lines := make([]string, len(events))
	for i := range events {
		lines[i] = fmt.Sprintf("%d %s %v", events[i].Offset, events[i].ID(), events[i].Type)
	}
	return lines
}

// row is what a device's row says, as the tests look at it.
type row struct {
	id                string
	state, seq, flags int64
	head              int64
}

// rowOf reads a device's row; it is zero if there is none.
func rowOf(tb testing.TB, s *store.Store, num uint32) row {
	tb.Helper()
	var r row
	err := s.Scan(tb.Context(), fmt.Sprintf(
		"SELECT d.id, s.state, s.seq, s.flags, s.head FROM devices d JOIN device_states s ON s.num = d.num WHERE d.num = %d", num),
		&r.id, &r.state, &r.seq, &r.flags, &r.head)
	if errors.Is(err, errNoRows) {
		return row{}
	}
	if err != nil {
		tb.Fatal(err)
	}
	return r
}
