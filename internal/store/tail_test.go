package store_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// failing is a process whose database loses commits.
type failing struct {
	*testing.T

	config config
	store  *store.Store
	outbox *outbox
}

// eachFailing runs a test on each kind of database.
func eachFailing(t *testing.T, test func(f *failing)) {
	t.Helper()
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // what it waits for are the pauses of the program
				f := &failing{T: t, outbox: &outbox{}}
				f.config = config{URL: db.URL(t), Outbox: f.outbox, Tail: new(store.Tail), Terms: new(sqldb.Terms)}
				f.store, _ = open(t, f.config)
				test(f)
			})
		})
	}
}

// replicated are the tables that lose rows; the lease goes on.
func replicated() []string {
	return []string{"meta", "names", "devices", "device_states", "forgotten", "events", "sources", "outages", "pages"}
}

// exec runs statements behind the store's back.
func (f *failing) exec(queries ...string) {
	f.Helper()
	for _, query := range queries {
		if err := f.store.Exec(f.Context(), query); err != nil {
			f.Fatalf("%s: %v", query, err)
		}
	}
}

// replicate makes a copy of the database.
func (f *failing) replicate() {
	f.Helper()
	for _, table := range replicated() {
		f.exec("DROP TABLE IF EXISTS old_"+table, "CREATE TABLE old_"+table+" AS SELECT * FROM "+table)
	}
}

// fail puts the copy in the place of the database.
func (f *failing) fail() {
	f.Helper()
	for _, table := range replicated() {
		f.exec("DELETE FROM "+table, "INSERT INTO "+table+" SELECT * FROM old_"+table)
	}
}

// again closes the store, and loads the fleet into another one of the same process.
func (f *failing) again() store.Lost {
	f.Helper()
	f.closeStore()
	s, loaded := open(f.T, f.config)
	f.store = s
	return loaded.Lost
}

func (f *failing) closeStore() {
	f.Helper()
	if err := f.store.Close(); err != nil {
		f.Fatal(err)
	}
}

// elsewhere gives the database to another process.
func (f *failing) elsewhere() {
	f.Helper()
	f.closeStore()
	cfg := f.config
	cfg.Tail, cfg.Terms, cfg.Outbox = nil, nil, nil
	f.store, _ = open(f.T, cfg)
}

// all is what the database has of a fleet, and what readers see of it.
func (f *failing) all() (rows []string, events []liveness.Event) {
	f.Helper()
	for _, query := range []string{
		"SELECT last_offset FROM meta",
		"SELECT d.num, d.id FROM devices d ORDER BY num",
		`SELECT s.num, s.state, s.reason, n.name, s.heard, s.until_at, s.since, s.seq, s.epoch, s.flags, s.head, s.announced, s.own, s.changes
			FROM device_states s LEFT JOIN names n ON n.id = s.source ORDER BY num`,
		"SELECT * FROM forgotten ORDER BY id",
		"SELECT name, seq FROM sources ORDER BY name",
		"SELECT * FROM outages ORDER BY name",
		"SELECT pos, prev FROM events ORDER BY pos",
	} {
		lines, err := f.store.Dump(f.Context(), query)
		if err != nil {
			f.Fatal(err)
		}
		rows = append(rows, lines...)
	}
	return rows, readAll(f.T, f.store)
}

// small is a sample of seven events, without the devices whose numbers those of more have.
func small() []liveness.Event {
	return slices.DeleteFunc(sample(), func(e liveness.Event) bool { return e.Subject == "job" || e.Subject == "back" })
}

// more appends what a fleet does after a replica was made: of everything that is kept something is new.
func (f *failing) more() {
	f.Helper()
	other := device(3, "dev-3", 1, liveness.DeviceOnline)
	other.Source, other.Record.Source, other.Group, other.Record.Quota = "mqtt", "mqtt", "hall", "port"
	other.Record.Own, other.Record.Changes = liveness.Policy{Timeout: 1e9}, []int64{1, 2}
	appendAll(f.T, f.store, device(1, "dev-1", 3, liveness.DeviceOnline), other)
	appendAll(f.T, f.store, device(2, "Gerät 2", 2, liveness.DeviceForgotten))
	appendAll(f.T, f.store,
		device(2, "dev-4", 1, liveness.DeviceOnline), // has its number now
		liveness.Event{Type: liveness.SourceDeaf, Subject: "gateway", Source: "gateway", Seq: 3, Time: base},
		liveness.Event{Type: liveness.GroupOutageStarted, Subject: "site", Group: "site", Seq: 3, Time: base, Members: 9, Silent: 8, From: base})
	appendAll(f.T, f.store, device(4, "Gerät 2", 3, liveness.DeviceOnline), device(1, "dev-1", 4, liveness.DeviceOffline)) // it is back
}

// changed makes sure that the store notices.
func (f *failing) changed() {
	f.Helper()
	err := f.store.Append(f.Context(), []liveness.Event{device(1, "dev-1", 5, liveness.DeviceOnline)})
	if !errors.Is(err, store.ErrChanged) || errors.Is(err, sqldb.ErrFenced) {
		f.Errorf("Append: %v, want ErrChanged", err)
	}
	if err := f.store.Health(); !errors.Is(err, store.ErrChanged) || strings.Contains(err.Error(), "nothing is lost") {
		f.Errorf("Health: %v, want ErrChanged", err)
	}
}

// What the database has lost is there again: for readers nothing has changed. It may be lost once more.
func TestLostEventsComeAgain(t *testing.T) {
	eachFailing(t, func(f *failing) {
		appendAll(f.T, f.store, small()...)
		f.replicate()
		f.more()
		rows, events := f.all()
		last := uint64(len(events))
		f.fail()
		f.changed()
		*f.outbox = outbox{}
		if lost, want := f.again(), (store.Lost{From: 8, To: last}); lost != want {
			f.Fatalf("Lost = %+v, want %+v", lost, want)
		}
		check := func() {
			f.Helper()
			gotRows, gotEvents := f.all()
			if !slices.Equal(gotRows, rows) {
				f.Errorf("the database has\n%s\nwant\n%s", strings.Join(gotRows, "\n"), strings.Join(rows, "\n"))
			}
			if !reflect.DeepEqual(gotEvents, events) {
				f.Errorf("readers get\n%+v\nwant\n%+v", gotEvents, events)
			}
			for _, id := range []string{"dev-1", "Gerät 2", "dev-3", "dev-4"} {
				of := slices.DeleteFunc(slices.Clone(events), func(e liveness.Event) bool { return e.Subject != id })
				if got, err := f.store.DeviceEvents(f.Context(), id, 0, 10); err != nil || !reflect.DeepEqual(got, of) {
					f.Errorf("%s has the events %+v, %v, want %+v", id, got, err, of)
				}
			}
		}
		check()
		want := []uint64{8, 9, 10, 11, 12, 13, 14, 15}
		if !slices.Equal(f.outbox.inserted, want) || !slices.Equal(f.outbox.committed, want) {
			f.Errorf("the outbox got %d, committed %d, want %d", f.outbox.inserted, f.outbox.committed, want)
		}
		f.fail() // the fence is that of the first store, too
		if err := f.store.Append(f.Context(), []liveness.Event{device(1, "dev-1", 5, liveness.DeviceOnline)}); !errors.Is(err, sqldb.ErrFenced) {
			f.Errorf("Append: %v, want ErrFenced", err)
		}
		if lost, want := f.again(), (store.Lost{From: 8, To: last}); lost != want {
			f.Fatalf("Lost = %+v, want %+v", lost, want)
		}
		check()
		if got, want := f.store.Stats().Lost, (store.LostStats{Times: 2, Events: 16, Again: 16}); got != want {
			f.Errorf("Stats = %+v, want %+v", got, want)
		}
		next := []liveness.Event{device(1, "dev-1", 5, liveness.DeviceOnline)}
		appendAll(f.T, f.store, next...)
		if before := events[last-1].Term; next[0].Term <= before {
			f.Errorf("the term is %d after %d", next[0].Term, before)
		}
		if lost := f.again(); lost != (store.Lost{}) {
			f.Errorf("Lost = %+v, and nothing was", lost)
		}
	})
}

// Many events come again in several transactions.
func TestManyLostEventsComeAgain(t *testing.T) {
	eachFailing(t, func(f *failing) {
		f.replicate()
		const n = 8192
		batch := make([]liveness.Event, n)
		for round := range uint64(2) {
			for i := range batch {
				batch[i] = device(uint32(i+1), fmt.Sprint("dev-", i+1), round+1, liveness.DeviceOnline)
			}
			appendAll(f.T, f.store, batch...)
		}
		appendAll(f.T, f.store, device(7, "dev-7", 3, liveness.DeviceOffline))
		rows, _ := f.all()
		f.fail()
		if lost, want := f.again(), (store.Lost{From: 1, To: 2*n + 1}); lost != want {
			f.Fatalf("Lost = %+v, want %+v", lost, want)
		}
		if got, _ := f.all(); !slices.Equal(got, rows) {
			f.Error("the database is not as it was")
		}
		if got := f.store.Stats().Devices; got != n {
			f.Errorf("%d devices, want %d", got, n)
		}
	})
}

// Where the database is not what this process had written, nothing is written into it, and it is said what
// was lost.
func TestLostEventsCannotComeAgain(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(f *failing)
		from      uint64
		why       string
	}{
		"another process wrote fewer": {func(f *failing) {
			f.elsewhere()
			appendAll(f.T, f.store, device(1, "dev-1", 3, liveness.DeviceLate))
		}, 8, "other events"},
		"another process wrote more": {func(f *failing) {
			f.elsewhere()
			for seq := range uint64(20) {
				appendAll(f.T, f.store, device(1, "dev-1", 3+seq, liveness.DeviceLate))
			}
		}, 8, "other events"},
		"another process wrote nothing": {(*failing).elsewhere, 8, "another process has had the database"},
		"too old":                       {func(f *failing) { f.store.Forget(9) }, 8, "only those from 10 on"},
		"the rows of events differ": {func(f *failing) {
			f.exec("UPDATE events SET seq = 100 WHERE pos >= 6")
		}, 6, "other events"},
		"the rows of events are gone": {func(f *failing) {
			f.exec("DELETE FROM events WHERE pos >= 6")
		}, 6, "other events"},
		"no event is kept": {func(f *failing) {
			f.exec("DELETE FROM events", "UPDATE meta SET oldest = 8")
		}, 8, "no event that could be compared"},
	} {
		t.Run(name, func(t *testing.T) {
			eachFailing(t, func(f *failing) {
				appendAll(f.T, f.store, small()...)
				f.replicate()
				f.more()
				f.fail()
				test.meanwhile(f)
				lost := f.again()
				if lost.From != test.from || lost.To != 15 || lost.Why == nil || !strings.Contains(lost.Why.Error(), test.why) {
					f.Errorf("Lost = %+v, want those from %d to 15, since %s", lost, test.from, test.why)
				}
				if got, want := f.store.Stats().Lost, (store.LostStats{Times: 1, Events: 16 - test.from}); got != want {
					f.Errorf("Stats = %+v, want %+v", got, want)
				}
				_, latest := f.store.Bounds()
				appendAll(f.T, f.store, device(1, "dev-1", 50, liveness.DeviceOnline))
				if lost := f.again(); lost != (store.Lost{}) {
					f.Errorf("Lost = %+v is said again, after event %d", lost, latest)
				}
			})
		})
	}
}

// The database has lost the claim of this process, too. Its last event is that of the process before.
func TestLostClaim(t *testing.T) {
	eachFailing(t, func(f *failing) {
		f.elsewhere()
		appendAll(f.T, f.store, small()...)
		f.replicate()
		if lost := f.again(); lost != (store.Lost{}) {
			f.Fatalf("Lost = %+v", lost)
		}
		f.more()
		rows, events := f.all()
		f.fail()
		if lost, want := f.again(), (store.Lost{From: 8, To: 15}); lost != want {
			f.Fatalf("Lost = %+v, want %+v", lost, want)
		}
		if got, _ := f.all(); !slices.Equal(got, rows) {
			f.Errorf("the database has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(rows, "\n"))
		}
		next := []liveness.Event{device(1, "dev-1", 5, liveness.DeviceOnline)}
		appendAll(f.T, f.store, next...)
		if before := events[len(events)-1].Term; next[0].Term <= before {
			f.Errorf("the term is %d after %d", next[0].Term, before)
		}
	})
}

// A batch of which it is not known whether it was committed was seen by nobody: it is not among what comes
// again.
func TestLostAttempt(t *testing.T) {
	eachFailing(t, func(f *failing) {
		appendAll(f.T, f.store, small()...)
		f.replicate()
		f.more()
		rows, events := f.all()
		batch := []liveness.Event{device(1, "dev-1", 5, liveness.DeviceOnline), device(3, "dev-3", 2, liveness.DeviceOffline)}
		if err := f.store.Ambiguous(f.Context(), slices.Clone(batch)); err != nil {
			f.Fatal(err)
		}
		f.fail()
		if err := f.store.Append(f.Context(), batch); !errors.Is(err, store.ErrChanged) {
			f.Errorf("Append: %v, want ErrChanged", err)
		}
		if lost, want := f.again(), (store.Lost{From: 8, To: 15}); lost != want {
			f.Fatalf("Lost = %+v, want %+v", lost, want)
		}
		if got, _ := f.all(); !slices.Equal(got, rows) {
			f.Errorf("the database has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(rows, "\n"))
		}
		other := device(4, "Gerät 2", 4, liveness.DeviceOffline)
		appendAll(f.T, f.store, other)
		if got := readAll(f.T, f.store); got[15].Subject != "Gerät 2" || got[15].Term <= events[14].Term {
			f.Errorf("event 16 is %+v", got[15])
		}
	})
}

// A checkpoint notices a loss, too, also of checkpoints alone.
func TestCheckpointNoticesLoss(t *testing.T) {
	eachFailing(t, func(f *failing) {
		r := registry(f, f.store)
		checkpoint := func(want error) {
			f.Helper()
			if err := f.store.Checkpoint(f.Context(), r); !errors.Is(err, want) {
				f.Errorf("Checkpoint: %v, want %v", err, want)
			}
		}
		f.replicate()
		checkpoint(nil)
		f.fail()
		checkpoint(store.ErrChanged)
		if err := f.store.Run(f.Context(), r); !errors.Is(err, store.ErrChanged) {
			f.Errorf("Run: %v", err)
		}
		if lost := f.again(); lost != (store.Lost{}) {
			f.Errorf("Lost = %+v, and no event was", lost)
		}
		r = registry(f, f.store)
		f.replicate()
		appendAll(f.T, f.store, small()...)
		checkpoint(nil)
		f.exec("UPDATE meta SET last_offset = 6")
		checkpoint(store.ErrChanged)
	})
}

// stubborn is an outbox that takes no event for a while.
type stubborn struct {
	outbox

	refuse int
}

var errStubborn = errors.New("no")

func (o *stubborn) Insert(ctx context.Context, tx sqldb.Tx, first uint64, events []liveness.Event) (func(), error) {
	if o.refuse > 0 {
		o.refuse--
		return nil, errStubborn
	}
	return o.outbox.Insert(ctx, tx, first, events)
}

// What fails is tried again, but a database that refuses it for long goes on without.
func TestLostEventsAreRefused(t *testing.T) {
	eachFailing(t, func(f *failing) {
		o := new(stubborn)
		f.config.Outbox = o
		f.again()
		appendAll(f.T, f.store, small()...)
		f.replicate()
		f.more()
		f.fail()
		o.refuse = 3
		if lost, want := f.again(), (store.Lost{From: 8, To: 15}); lost != want {
			f.Fatalf("Lost = %+v, want %+v", lost, want)
		}
		f.replicate()
		appendAll(f.T, f.store, device(1, "dev-1", 5, liveness.DeviceOnline))
		f.fail()
		f.closeStore()
		o.refuse = 1000
		f.store = newStore(f, f.config)
		if err := f.store.Open(f.Context()); err != nil {
			f.Fatal(err)
		}
		if _, err := f.store.Load(f.Context(), registry(f, f.store)); !errors.Is(err, store.ErrChanged) || !errors.Is(err, errStubborn) {
			f.Errorf("Load: %v, want ErrChanged", err)
		}
		o.refuse = 0
		if lost := f.again(); lost != (store.Lost{}) {
			f.Errorf("Lost = %+v", lost)
		}
		if got, want := f.store.Stats().Lost, (store.LostStats{Times: 2, Events: 9, Again: 8}); got != want {
			f.Errorf("Stats = %+v, want %+v", got, want)
		}
		appendAll(f.T, f.store, device(1, "dev-1", 5, liveness.DeviceOffline))
	})
}

// A standby that takes over knows up to which event the database had all, and says what is lost.
func TestFollowerKnowsWhatIsLost(t *testing.T) {
	eachFailing(t, func(f *failing) {
		appendAll(f.T, f.store, small()...)
		f.replicate()
		f.more()
		beside, err := f.config.shared(f.Context())
		if err != nil {
			f.Fatal(err)
		}
		defer func() { _ = beside.Close() }()
		follow := func() {
			f.Helper()
			if err := f.config.Follower.Follow(f.Context(), beside); err != nil {
				f.Fatal(err)
			}
		}
		f.config.Follower, f.config.Tail, f.config.Terms = new(store.Follower), new(store.Tail), new(sqldb.Terms)
		follow()
		f.fail()
		follow()
		if lost := f.again(); lost.From != 8 || lost.To != 15 || lost.Why == nil {
			f.Errorf("Lost = %+v, want those from 8 to 15", lost)
		}
		if lost := f.again(); lost != (store.Lost{}) {
			f.Errorf("Lost = %+v is said again", lost)
		}
	})
}

// A reader that waits at the place of an event that was lost finds it again.
func TestReaderAfterLoss(t *testing.T) {
	eachFailing(t, func(f *failing) {
		appendAll(f.T, f.store, small()...)
		f.replicate()
		f.more()
		f.fail()
		f.again()
		if got, err := f.store.Read(f.Context(), nil, 15, 10); err != nil || len(got) != 0 {
			f.Errorf("Read: %+v, %v", got, err)
		}
		if _, err := f.store.Read(f.Context(), nil, 16, 10); !errors.Is(err, eventlog.ErrMissed) {
			f.Errorf("Read: %v, want ErrMissed", err)
		}
	})
}
