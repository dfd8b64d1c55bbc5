package mqttstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/mqttstore"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testsqldb"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/mqtt"
)

// largest is the default of a broker's largest packet.
const largest = 256 << 10

func openDB(tb testing.TB, url string) *sqldb.DB {
	tb.Helper()
	return testsqldb.Open(tb, sqldb.Config{URL: url})
}

// records are what a store should have: values by kind and key.
type records map[string]string

func name(c mqtt.Change) string { return fmt.Sprintf("%d/%s", c.Kind, c.Key) }

func (r records) apply(changes []mqtt.Change) {
	for _, c := range changes {
		if c.Value == nil {
			delete(r, name(c))
		} else {
			r[name(c)] = string(c.Value)
		}
	}
}

func commit(tb testing.TB, s *mqttstore.Store, changes ...mqtt.Change) {
	tb.Helper()
	if err := s.Commit(tb.Context(), changes); err != nil {
		tb.Fatal(err)
	}
}

// load returns what a store has, and sees to it that nothing comes twice.
func load(tb testing.TB, s *mqttstore.Store) records {
	tb.Helper()
	r := make(records)
	err := s.Load(tb.Context(), func(c mqtt.Change) error {
		if _, twice := r[name(c)]; twice || c.Value == nil {
			tb.Errorf("Load has %q twice, or without a value", name(c))
		}
		r[name(c)] = string(c.Value)
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func wants(tb testing.TB, s *mqttstore.Store, want records) {
	tb.Helper()
	if got := load(tb, s); !maps.Equal(got, want) {
		tb.Errorf("the store has %d records that are not the %d that it should have", len(got), len(want))
	}
}

func put(kind mqtt.Kind, key, value string) mqtt.Change {
	return mqtt.Change{Kind: kind, Key: []byte(key), Value: []byte(value)}
}

func remove(kind mqtt.Kind, key string) mqtt.Change { return mqtt.Change{Kind: kind, Key: []byte(key)} }

// everyByte is a text with each byte that there is.
func everyByte() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}

func TestRecords(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			s := mqttstore.New(openDB(t, kind.URL(t)), largest)
			wants(t, s, records{})
			longest := strings.Repeat("\xff", 1031)
			want := make(records)
			for _, changes := range [][]mqtt.Change{
				{put(1, "a", "1"), put(2, "a", "2"), put(255, "a", "3"), put(6, everyByte(), everyByte()+everyByte())},
				{put(1, "a", ""), put(1, "A", "case counts"), put(1, "a ", "spaces count"), put(1, "a\x00", "NUL counts")},
				{put(1, longest+"1", "x"), put(1, longest+"2", "y"), put(1, "", "no key"), remove(2, "a"), remove(2, "never there")},
				{put(1, "a", "it's a \"☃\" \\ ? $1"), remove(1, longest+"1"), remove(255, "a"), remove(6, everyByte()), remove(1, "a ")},
				{put(3, "large", strings.Repeat("'\\\x00", 7<<20/3)), put(3, "small", "x"), put(3, "zoo", strings.Repeat("\x00", 256<<10+64))},
				{remove(3, "large")},
			} {
				want.apply(changes)
				for range 2 { // also if they were made before
					commit(t, s, changes...)
					wants(t, s, want)
				}
			}
		})
	}
}

// TestRandomRecords makes random changes of any number, and compares with a map.
func TestRandomRecords(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			s, want, random := mqttstore.New(openDB(t, kind.URL(t)), largest), make(records), rand.New(rand.NewPCG(1, 2))
			for range 30 {
				changes := make(map[string]mqtt.Change)
				for range random.IntN(1 << random.IntN(13)) {
					c := put(mqtt.Kind(1+random.IntN(6)), strconv.Itoa(random.IntN(3000)), strings.Repeat("v", random.IntN(1<<random.IntN(12))))
					if random.IntN(2) == 0 {
						c.Value = nil
					}
					changes[name(c)] = c
				}
				list := slices.Collect(maps.Values(changes))
				commit(t, s, list...)
				want.apply(list)
			}
			wants(t, s, want)
		})
	}
}

// TestManyRecords loads more than is read at a time, and has the whole of it changed and deleted.
func TestManyRecords(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			s, want := mqttstore.New(openDB(t, kind.URL(t)), largest), make(records)
			var puts, deletes []mqtt.Change
			for i := range 6000 {
				puts = append(puts, put(mqtt.Kind(1+i%2), strconv.Itoa(i), strconv.Itoa(i)))
				deletes = append(deletes, remove(mqtt.Kind(1+i%2), strconv.Itoa(i)))
			}
			for _, changes := range [][]mqtt.Change{puts, deletes[:5000], puts, deletes} {
				commit(t, s, changes...)
				want.apply(changes)
				wants(t, s, want)
			}
		})
	}
}

// TestLoadStops checks that an error of the caller's ends Load, and comes back as it is.
func TestLoadStops(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			s := mqttstore.New(openDB(t, kind.URL(t)), largest)
			commit(t, s, put(1, "a", "1"), put(1, "b", "2"), put(2, "a", "3"))
			stop, calls := errors.New("stop"), 0
			err := s.Load(t.Context(), func(mqtt.Change) error {
				if calls++; calls == 2 {
					return stop
				}
				return nil
			})
			if err != stop || calls != 2 { //nolint:errorlint // as it is
				t.Errorf("Load = %v after %d calls", err, calls)
			}
			ended, end := context.WithCancel(t.Context())
			end()
			if err := s.Load(ended, func(mqtt.Change) error { return nil }); !errors.Is(err, context.Canceled) {
				t.Errorf("Load of somebody who has gone = %v", err)
			}
		})
	}
}

// TestTooLarge checks that a broker whose messages the database would refuse does not begin.
func TestTooLarge(t *testing.T) {
	testenv.Check(t)
	db := openDB(t, testdb.MariaDB(t))
	room, err := db.LargestValue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wants(t, mqttstore.New(db, int(room)-64), records{})
	err = mqttstore.New(db, int(room)-63).Load(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "max_allowed_packet") {
		t.Errorf("Load = %v", err)
	}
}

// TestFence checks that nobody writes, not even in part, who has lost the database.
func TestFence(t *testing.T) {
	for _, kind := range testdb.Databases() {
		t.Run("db="+kind.Name, func(t *testing.T) {
			db := testsqldb.New(t, sqldb.Config{URL: kind.URL(t)})
			s := mqttstore.New(db, largest)
			if err := s.Load(t.Context(), nil); !errors.Is(err, sqldb.ErrNotOpen) {
				t.Errorf("Load before Open = %v", err)
			}
			if err := s.Commit(t.Context(), []mqtt.Change{put(1, "a", "1")}); !errors.Is(err, sqldb.ErrNotOpen) {
				t.Errorf("Commit before Open = %v", err)
			}
			if err := db.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			commit(t, s, put(1, "a", "1"), put(1, "c", "3"))
			raise(t, db)
			if err := s.Commit(t.Context(), []mqtt.Change{put(1, "a", "2"), put(1, "b", "1"), remove(1, "c")}); !errors.Is(err, sqldb.ErrFenced) {
				t.Errorf("Commit of a process that was overtaken = %v", err)
			}
			wants(t, s, records{"1/a": "1", "1/c": "3"})
		})
	}
}

// raise raises the fence, as another process would.
func raise(t *testing.T, db *sqldb.DB) {
	t.Helper()
	err := db.WriteShared(t.Context(), "test", func(ctx context.Context, tx sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE meta SET fence = fence + 1")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLostConnection kills a server while records are loaded: each comes once all the same. What
// could not be committed can be when the server is there again.
func TestLostConnection(t *testing.T) {
	testenv.Check(t)
	for name, server := range map[string]func(testing.TB, bool) *testdb.Server{"postgres": testdb.NewPostgres, "mariadb": testdb.NewMariaDB} {
		t.Run("db="+name, func(t *testing.T) {
			t.Parallel()
			srv := server(t, true)
			s := mqttstore.New(openDB(t, srv.Database(t)), largest)
			want := make(records)
			var changes []mqtt.Change
			for i := range 3000 { // more than fits into buffers
				changes = append(changes, put(1, strconv.Itoa(i), string(bytes.Repeat([]byte{byte(i)}, 10_000))))
			}
			commit(t, s, changes...)
			want.apply(changes)
			got, again := make(records), 0
			err := s.Load(t.Context(), func(c mqtt.Change) error {
				if _, twice := got[string(c.Key)]; twice {
					t.Errorf("%s came twice", c.Key)
				}
				got[string(c.Key)] = string(c.Value)
				if len(got) == 500 {
					srv.Kill()
					srv.Start(t)
					again++
				}
				return nil
			})
			if err != nil || len(got) != len(want) || again != 1 {
				t.Errorf("Load = %v, with %d of %d records", err, len(got), len(want))
			}
			srv.Kill()
			changes = []mqtt.Change{put(1, "0", "changed"), remove(1, "1"), put(2, "new", "x")}
			if err := s.Commit(t.Context(), changes); err == nil {
				t.Error("Commit without a server succeeds")
			}
			srv.Start(t)
			want.apply(changes)
			testwait.Until(t, "the commit succeeds", func() bool { return s.Commit(t.Context(), changes) == nil })
			wants(t, s, want)
		})
	}
}
