package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

var errNoRows = sql.ErrNoRows

// sample returns events with something in every field.
func sample() []liveness.Event {
	offline := device(1, "dev-1", 2, liveness.DeviceOffline)
	offline.Flapping, offline.Outage, offline.Maintenance = true, true, true
	failed := device(2, "Gerät 2", 1, liveness.DeviceFailed)
	failed.Message = "Akku: 3 % — it's \\low\\ 'here' ☃"
	failed.Epoch = 1<<64 - 1
	failed.Record.Epoch = failed.Epoch
	failed.ExitStatus, failed.Duration = 255, 3*time.Hour+1
	finished := device(3, "job", 4, liveness.DeviceRunFinished)
	finished.Message, finished.Duration = strings.Repeat("Zeile ☃\n", liveness.MaxMessage/11), 12*time.Minute+3500*time.Millisecond
	return []liveness.Event{
		device(1, "dev-1", 1, liveness.DeviceOnline), offline, failed,
		device(3, "job", 1, liveness.DeviceOnline), device(3, "job", 2, liveness.DeviceRunStarted), finished, device(4, "back", 3, liveness.DeviceOnline),
		{Type: liveness.SourceDeaf, Subject: "gateway", Source: "gateway", Seq: 1, Time: base, Deaf: 3 * time.Second},
		{Type: liveness.SourceHeard, Subject: "gateway", Source: "gateway", Seq: 2, Time: base.Add(3 * time.Second), Deaf: 3 * time.Second},
		{Type: liveness.GroupOutageStarted, Subject: "site", Group: "site", Seq: 1, Time: base, Members: 100, Silent: 50, Before: 3},
		{Type: liveness.GroupOutageEnded, Subject: "site", Group: "site", Seq: 2, Time: base.Add(time.Hour), Members: 100, Silent: 1},
	}
}

// bare returns events as readers get them.
func bare(events []liveness.Event) []liveness.Event {
	events = slices.Clone(events)
	for i := range events {
		events[i].Record = nil
	}
	return events
}

func TestAppendAndRead(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			url := db.URL(t)
			s, loaded := open(t, config{URL: url})
			if loaded.Devices != 0 || !loaded.Checkpoint.IsZero() || len(loaded.Corrupt) != 0 {
				t.Errorf("Load of an empty database = %+v", loaded)
			}
			if oldest, latest := s.Bounds(); oldest != 1 || latest != 0 {
				t.Errorf("Bounds() = %d, %d, want 1, 0", oldest, latest)
			}
			events := sample()
			appendAll(t, s, events...)
			want := bare(events)
			if got := readAll(t, s); !reflect.DeepEqual(got, want) {
				t.Errorf("from the database:\n%+v\nwant\n%+v", got, want)
			}
			if got, err := s.Read(t.Context(), nil, 1, 3); err != nil || !reflect.DeepEqual(got, want[1:4]) {
				t.Errorf("from memory, after 1: %+v, %v, want %+v", got, err, want[1:4])
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if loaded := reopen(t, s); loaded.Devices != 4 {
				t.Errorf("Load gave %d devices, want 4", loaded.Devices)
			}
			if oldest, latest := s.Bounds(); oldest != 1 || latest != uint64(len(events)) {
				t.Errorf("Bounds() = %d, %d, want 1, %d", oldest, latest, len(events))
			}
			if got := readAll(t, s); !reflect.DeepEqual(got, want) {
				t.Errorf("after a restart:\n%+v\nwant\n%+v", got, want)
			}
			appendAll(t, s, device(5, "dev-5", 1, liveness.DeviceOnline))
			if got, err := s.Read(t.Context(), nil, uint64(len(events))-1, 10); err != nil || len(got) != 2 {
				t.Errorf("across database and memory: %v, %v", summary(got), err)
			}
		})
	}
}

func TestReadErrors(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			url := db.URL(t)
			s, _ := open(t, config{URL: url, Keep: 10, Cache: 4})
			for i := range uint64(25) {
				appendAll(t, s, device(1, "dev-1", i+1, liveness.DeviceOnline))
			}
			if err := s.Prune(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				name         string
				after        uint64
				limit        int
				first, count int
				missed       bool
			}{
				{name: "the beginning", limit: 100, first: 16, count: 10},
				{name: "just before the oldest", after: 15, limit: 100, first: 16, count: 10},
				{name: "gone", after: 14, limit: 100, missed: true},
				{name: "from the database", after: 17, limit: 2, first: 18, count: 2},
				{name: "from memory", after: 22, limit: 2, first: 23, count: 2},
				{name: "at the end", after: 25, limit: 10},
				{name: "not given yet", after: 26, limit: 10, missed: true},
				{name: "no limit", after: 20},
			} {
				t.Run(c.name, func(t *testing.T) {
					got, err := s.Read(t.Context(), nil, c.after, c.limit)
					if errors.Is(err, eventlog.ErrMissed) != c.missed || !c.missed && err != nil {
						t.Fatalf("Read: %v", err)
					}
					if len(got) != c.count || c.count > 0 && got[0].Offset != uint64(c.first) {
						t.Errorf("Read gave %v, want %d from %d on", summary(got), c.count, c.first)
					}
				})
			}
		})
	}
}

func TestWait(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			url := db.URL(t)
			s, _ := open(t, config{URL: url, Cache: 2})
			type answer struct {
				events []liveness.Event
				err    error
			}
			answers := make(chan answer)
			go func() {
				events, err := s.Wait(t.Context(), nil, 0, 10)
				answers <- answer{events, err}
			}()
			appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline))
			if a := <-answers; a.err != nil || len(a.events) != 1 {
				t.Errorf("Wait = %v, %v", summary(a.events), a.err)
			}
			appendAll(t, s, device(1, "dev-1", 2, liveness.DeviceOnline), device(1, "dev-1", 3, liveness.DeviceOnline), device(1, "dev-1", 4, liveness.DeviceOnline))
			if events, err := s.Wait(t.Context(), nil, 1, 10); err != nil || len(events) != 3 {
				t.Errorf("Wait for what is no longer in memory = %v, %v", summary(events), err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := errors.New("enough")
			cancel(cause)
			if _, err := s.Wait(ctx, nil, 4, 10); !errors.Is(err, cause) {
				t.Errorf("Wait after its context ended: %v", err)
			}
		})
	}
}

func TestRowsAreLastRecords(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			url := db.URL(t)
			s, _ := open(t, config{URL: url})
			maintained := device(1, "dev-1", 3, liveness.DeviceMaintenanceStarted)
			maintained.Record.Maintenance = true
			maintained.Record.Flapping = true
			appendAll(t, s,
				device(1, "dev-1", 1, liveness.DeviceOnline), device(2, "dev-2", 1, liveness.DeviceOnline),
				device(1, "dev-1", 2, liveness.DeviceOffline), maintained)
			if got, want := rowOf(t, s, 1), (row{"dev-1", 1, 3, 3, 4}); got != want {
				t.Errorf("row 1 = %+v, want %+v", got, want)
			}
			appendAll(t, s, device(2, "dev-2", 2, liveness.DeviceOffline))
			if got, want := rowOf(t, s, 2), (row{"dev-2", 4, 2, 0, 5}); got != want {
				t.Errorf("row 2 = %+v, want %+v", got, want)
			}
			if n := s.Stats().Devices; n != 2 {
				t.Errorf("Stats().Devices = %d, want 2", n)
			}
		})
	}
}

func TestForgetAndReuse(t *testing.T) {
	const forgotten = liveness.DeviceForgotten
	online := func(num uint32, id string) liveness.Event { return device(num, id, 1, liveness.DeviceOnline) }
	for _, c := range []struct {
		name    string
		batches [][]liveness.Event
		want    map[uint32]row
	}{
		{"forgotten", [][]liveness.Event{{online(1, "a")}, {device(1, "a", 2, forgotten)}}, map[uint32]row{1: {}}},
		{"made and forgotten at once", [][]liveness.Event{{online(1, "a"), device(1, "a", 2, forgotten)}}, map[uint32]row{1: {}}},
		{
			"another takes the number, in one batch",
			[][]liveness.Event{{online(1, "a")}, {device(1, "a", 2, forgotten), online(1, "b")}},
			map[uint32]row{1: {"b", 1, 1, 0, 3}},
		},
		{
			"another number takes the id, in one batch",
			[][]liveness.Event{{online(1, "a"), online(2, "b")}, {device(1, "a", 2, forgotten), online(3, "a"), device(2, "b", 2, forgotten), online(1, "b")}},
			map[uint32]row{1: {"b", 1, 1, 0, 6}, 2: {}, 3: {"a", 1, 1, 0, 4}},
		},
		{
			"the same again, twice",
			[][]liveness.Event{{online(1, "a")}, {device(1, "a", 2, forgotten), online(1, "a"), device(1, "a", 2, forgotten), online(1, "a")}, {device(1, "a", 2, liveness.DeviceOffline)}},
			map[uint32]row{1: {"a", 4, 2, 0, 6}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, db := range testdb.Databases() {
				t.Run("db="+db.Name, func(t *testing.T) {
					url := db.URL(t)
					s, _ := open(t, config{URL: url})
					n := 0
					for _, batch := range c.batches {
						for i := range batch { // each database gets its own
							rec := *batch[i].Record
							batch[i].Record = &rec
						}
						appendAll(t, s, slices.Clone(batch)...)
						n += len(batch)
					}
					rows := 0
					for num, want := range c.want {
						if got := rowOf(t, s, num); got != want {
							t.Errorf("row %d = %+v, want %+v", num, got, want)
						}
						if want != (row{}) {
							rows++
						}
					}
					if got := s.Stats().Devices; got != rows {
						t.Errorf("Stats().Devices = %d, want %d", got, rows)
					}
					if got := readAll(t, s); len(got) != n {
						t.Errorf("%d events, want %d", len(got), n)
					}
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					if loaded := reopen(t, s); loaded.Devices != rows {
						t.Errorf("Load gave %d devices, want %d", loaded.Devices, rows)
					}
				})
			}
		})
	}
}

func TestDeviceEvents(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			url := db.URL(t)
			s, _ := open(t, config{URL: url, Keep: 3000})
			const n = 1300 // more than one query follows
			var events []liveness.Event
			for seq := range uint64(n) {
				events = append(events, device(1, "dev-1", seq+1, liveness.DeviceOnline), device(2, "dev-2", seq+1, liveness.DeviceOnline))
			}
			appendAll(t, s, events[:1000]...)
			appendAll(t, s, events[1000:]...)
			check := func(id string, after uint64, limit int, first, count uint64) {
				t.Helper()
				got, err := s.DeviceEvents(t.Context(), id, after, limit)
				if err != nil {
					t.Fatal(err)
				}
				if uint64(len(got)) != count {
					t.Fatalf("DeviceEvents(%s, %d, %d) gave %d events, want %d", id, after, limit, len(got), count)
				}
				for i := range got {
					if got[i].Subject != id || got[i].Seq != first+uint64(i) {
						t.Fatalf("event %d is %s, want %s:%d", i, got[i].ID(), id, first+uint64(i))
					}
				}
			}
			check("dev-1", 0, 10, 1, 10)
			check("dev-2", 0, 5000, 1, n)
			check("dev-1", 700, 100, 701, 100)
			check("dev-1", n-1, 100, n, 1)
			check("dev-1", n, 100, 0, 0)
			check("dev-1", 1<<63, 100, 0, 0)
			check("dev-3", 0, 100, 0, 0)
			check("dev-1", 0, 0, 0, 0)

			appendAll(t, s, device(1, "dev-1", n+1, liveness.DeviceForgotten))
			check("dev-1", n-1, 100, n, 2)
			appendAll(t, s, device(1, "dev-9", 1, liveness.DeviceOnline), device(3, "dev-1", n+2, liveness.DeviceOnline))
			check("dev-9", 0, 100, 1, 1)
			check("dev-1", 0, 100, 1, 100) // from before it was forgotten
			check("dev-1", n, 100, n+1, 2)

			more := make([]liveness.Event, 2000)
			for i := range more {
				more[i] = device(3, "dev-1", n+3+uint64(i), liveness.DeviceOnline)
			}
			appendAll(t, s, more...)
			if err := s.Prune(t.Context()); err != nil {
				t.Fatal(err)
			}
			oldest, _ := s.Bounds()
			got, err := s.DeviceEvents(t.Context(), "dev-2", 0, 5000)
			if err != nil || len(got) == 0 || len(got) >= n || got[0].Offset < oldest || got[0].Offset > oldest+1 {
				t.Errorf("after a pruning up to %d: %d events, %v", oldest, len(got), err)
			}
		})
	}
}

func TestAmbiguousCommit(t *testing.T) {
	for _, c := range []struct {
		name  string
		again int // events offered again
	}{{"the same batch", 4}, {"a longer batch", 5}} {
		t.Run(c.name, func(t *testing.T) {
			for _, db := range testdb.Databases() {
				t.Run("db="+db.Name, func(t *testing.T) {
					url := db.URL(t)
					s, _ := open(t, config{URL: url})
					appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline))
					batch := []liveness.Event{
						device(1, "dev-1", 2, liveness.DeviceForgotten), device(1, "dev-2", 1, liveness.DeviceOnline),
						device(2, "dev-3", 1, liveness.DeviceOnline),
						{Type: liveness.SourceDeaf, Subject: "new", Source: "new", Seq: 1, Time: base},
						device(2, "dev-3", 2, liveness.DeviceOffline),
					}
					if err := s.Ambiguous(t.Context(), slices.Clone(batch[:4])); err != nil {
						t.Fatal(err)
					}
					appendAll(t, s, batch[:c.again]...)
					want := []string{
						"1 dev-1:1 device.online", "2 dev-1:2 device.forgotten", "3 dev-2:1 device.online", "4 dev-3:1 device.online",
						"5 source/new:1 source.deaf", "6 dev-3:2 device.offline",
					}[:c.again+1]
					if got := summary(readAll(t, s)); !slices.Equal(got, want) {
						t.Errorf("events:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
					}
					if got, err := s.Read(t.Context(), nil, 1, 10); err != nil || !slices.Equal(summary(got), want[1:]) {
						t.Errorf("from memory: %v, %v, want %v", summary(got), err, want[1:])
					}
					appendAll(t, s, device(2, "dev-3", 3, liveness.DeviceOnline))
					events, err := s.DeviceEvents(t.Context(), "dev-3", 0, 10)
					if err != nil || len(events) != c.again-2 {
						t.Errorf("events of dev-3: %v, %v", summary(events), err)
					}
				})
			}
		})
	}
}

// A batch of which the first part turns out to be committed, and the rest cannot be: offered once more, no event of it is
// there twice.
func TestAmbiguousCommitInParts(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			s, _ := open(t, config{URL: db.URL(t)})
			batch := []liveness.Event{
				device(1, "dev-1", 1, liveness.DeviceOnline), device(2, "dev-2", 1, liveness.DeviceOnline), device(3, "dev-3", 1, liveness.DeviceOnline),
			}
			if err := s.Ambiguous(t.Context(), slices.Clone(batch[:2])); err != nil {
				t.Fatal(err)
			}
			const taken = "INSERT INTO events (pos, prev, at, type, reason, seq, epoch, source, grp, policy, last_seen, deadline, silence, timeout, flags, subject, message) " +
				"VALUES (3, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'x', '')"
			if err := s.Exec(t.Context(), taken); err != nil { // so that the rest cannot be written
				t.Fatal(err)
			}
			for range 2 {
				if err := s.Append(t.Context(), batch); err == nil {
					t.Fatal("Append: no error")
				}
			}
			if err := s.Exec(t.Context(), "DELETE FROM events WHERE pos = 3"); err != nil {
				t.Fatal(err)
			}
			if err := s.Append(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			want := []string{"1 dev-1:1 device.online", "2 dev-2:1 device.online", "3 dev-3:1 device.online"}
			if got := summary(readAll(t, s)); !slices.Equal(got, want) || !slices.Equal(summary(batch), want) {
				t.Errorf("events %q, offered as %q, want %q", got, summary(batch), want)
			}
		})
	}
}

// The names of a batch that turns out to be committed are known by the numbers that they were written with.
func TestAmbiguousNames(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			s, _ := open(t, config{URL: db.URL(t)})
			batch := make([]liveness.Event, 20)
			for i := range batch {
				batch[i] = device(uint32(i+1), name(i), 1, liveness.DeviceOnline)
				batch[i].Record.Source = "source-" + name(i) // it is another one's by now
			}
			if err := s.Ambiguous(t.Context(), slices.Clone(batch)); err != nil {
				t.Fatal(err)
			}
			appendAll(t, s, batch...)
			for i := range batch {
				batch[i] = device(uint32(i+1), name(i), 2, liveness.DeviceOffline)
				batch[i].Record.Source = "source-" + name(i)
			}
			appendAll(t, s, batch...)
			wrong := 0
			const query = "SELECT COUNT(*) FROM devices d JOIN device_states s ON s.num = d.num JOIN names n ON n.id = s.source WHERE n.name <> CONCAT('source-', d.id)"
			if err := s.Scan(t.Context(), query, &wrong); err != nil || wrong != 0 {
				t.Errorf("%d of %d devices have the source of another one, %v", wrong, len(batch), err)
			}
		})
	}
}

func TestChangedBehindOurBack(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			url := db.URL(t)
			s, _ := open(t, config{URL: url})
			appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline))
			if err := s.Exec(t.Context(), "UPDATE meta SET last_offset = 9"); err != nil {
				t.Fatal(err)
			}
			err := s.Append(t.Context(), []liveness.Event{device(1, "dev-1", 2, liveness.DeviceOnline)})
			if !errors.Is(err, store.ErrChanged) || errors.Is(err, sqldb.ErrFenced) {
				t.Errorf("Append: %v", err)
			}
		})
	}
}

func TestStrangeText(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			url := db.URL(t)
			s, _ := open(t, config{URL: url})
			ids := []string{"a", "A", "a b", "ä", "%", "'; DROP TABLE events; --", `\`, `\'`, "☃", "𝄞", strings.Repeat("x", liveness.MaxID), "?"}
			var events []liveness.Event
			for i, id := range ids {
				ev := device(uint32(i+1), id, 1, liveness.DeviceFailed)
				ev.Message = "nul \x00, no UTF-8 \xff\xfe, " + id + strings.Repeat("\xff", i*1000)
				events = append(events, ev)
			}
			appendAll(t, s, events...)
			forgotten := device(1, "a", 2, liveness.DeviceForgotten)
			appendAll(t, s, forgotten)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			reopen(t, s)
			for i, id := range ids {
				got, err := s.DeviceEvents(t.Context(), id, 0, 10)
				if err != nil || len(got) == 0 || got[0].Subject != id || got[0].Message != events[i].Message {
					t.Errorf("%q: %+v, %v", id, got, err)
				}
			}
			for _, id := range []string{"", "b", "a ", "a\u0308", "\xff", "a\x00"} {
				if got, err := s.DeviceEvents(t.Context(), id, 0, 10); err != nil || len(got) != 0 {
					t.Errorf("%q: %+v, %v", id, got, err)
				}
			}
		})
	}
}

func TestLargeBatches(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			url := db.URL(t)
			s, _ := open(t, config{URL: url})
			const n = 8192
			batch := make([]liveness.Event, n)
			for round := range uint64(2) {
				for i := range batch {
					batch[i] = device(uint32((i*4093)%n+1), fmt.Sprintf("dev-%d", (i*4093)%n+1), round+1, liveness.DeviceOnline)
				}
				appendAll(t, s, batch...)
			}
			for i := range batch { // all go
				batch[i] = device(uint32(i+1), fmt.Sprintf("dev-%d", i+1), 3, liveness.DeviceForgotten)
			}
			appendAll(t, s, batch...)
			if got := s.Stats().Devices; got != 0 {
				t.Errorf("%d devices are left", got)
			}
			if got := len(readAll(t, s)); got != 3*n {
				t.Errorf("%d events, want %d", got, 3*n)
			}
		})
	}
}

func TestViews(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			url := db.URL(t)
			s, _ := open(t, config{URL: url})
			appendAll(t, s, sample()...)
			for typ := range store.Types() {
				if !strings.HasPrefix(typ.String(), "device.") || typ == liveness.DeviceForgotten {
					continue
				}
				appendAll(t, s, device(9, "dev-9", uint64(typ)+1, typ))
				var text string
				if err := s.Scan(t.Context(), "SELECT type FROM event_list ORDER BY pos DESC LIMIT 1", &text); err != nil || text != typ.String() {
					t.Errorf("event_list says %q, %v, want %q", text, err, typ)
				}
			}
			for i := range liveness.Reported + 1 {
				e := device(9, "dev-9", 100+uint64(i), liveness.DeviceOffline)
				e.Reason = i
				appendAll(t, s, e)
				var text string
				if err := s.Scan(t.Context(), "SELECT reason FROM event_list ORDER BY pos DESC LIMIT 1", &text); err != nil || text != i.String() {
					t.Errorf("event_list says %q, %v, want %q", text, err, i)
				}
			}
			var id, state, reason, at string
			err := s.Scan(t.Context(), "SELECT id, state, reason, since FROM device_list WHERE num = 1", &id, &state, &reason, &at)
			if err != nil || id != "dev-1" || state != "offline" || reason != "silence" || !strings.HasPrefix(at, base.UTC().Format(time.DateOnly)) {
				t.Errorf("device_list says %q, %q, %q, %q, %v", id, state, reason, at, err)
			}
		})
	}
}
