package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness"
)

// damages are what may have become of the row of device 1 of three, by kind of database where they differ. They are done one by one.
var damages = []struct {
	name string
	only string // the kind of database that allows it
	sql  []string
	seq  uint64 // that its next event has; 0: the device is not known any more, and begins anew
}{
	{"policy", "", []string{"UPDATE device_states SET own = 'nonsense' WHERE num = 1"}, 3},
	{"announced policy", "", []string{"UPDATE device_states SET announced = 'timeout=-1s' WHERE num = 1"}, 3},
	{"state", "", []string{"UPDATE device_states SET state = 77 WHERE num = 1"}, 3},
	{"reason", "", []string{"UPDATE device_states SET reason = -3 WHERE num = 1"}, 3},
	{"listening time", "", []string{"UPDATE device_states SET heard = -5 WHERE num = 1"}, 3},
	{"seq", "", []string{"UPDATE device_states SET seq = -2 WHERE num = 1"}, 3},
	{"epoch is text", "sqlite", []string{"UPDATE device_states SET epoch = 'two' WHERE num = 1"}, 3},
	{"no latest event", "", []string{"UPDATE device_states SET head = 0 WHERE num = 1"}, 3},
	{"a latest event that cannot be", "", []string{"UPDATE device_states SET head = -4 WHERE num = 1"}, 3},
	{"a latest event to come", "", []string{"UPDATE device_states SET head = 1000 WHERE num = 1"}, 3},
	{"history", "sqlite", []string{"UPDATE device_states SET changes = 'zzz\xff' WHERE num = 1"}, 3},
	{"no such source", "", []string{"UPDATE device_states SET source = 999 WHERE num = 1"}, 3},
	{"source is null", "postgres", []string{
		"ALTER TABLE device_states ALTER source DROP NOT NULL", "UPDATE device_states SET source = NULL WHERE num = 1",
	}, 3},
	{"source is null", "mariadb", []string{
		"ALTER TABLE device_states MODIFY source BIGINT", "UPDATE device_states SET source = NULL WHERE num = 1",
	}, 3},
	{"source is text", "sqlite", []string{"UPDATE device_states SET source = 'gateway' WHERE num = 1"}, 3},
	{"seq and head are text", "sqlite", []string{"UPDATE device_states SET seq = 'two', head = x'00ff' WHERE num = 1"}, 3},
	{"policy is null", "postgres", []string{
		"ALTER TABLE device_states ALTER own DROP NOT NULL", "UPDATE device_states SET own = NULL WHERE num = 1",
	}, 3},
	{"no state", "", []string{"DELETE FROM device_states WHERE num = 1"}, 3},
	{"no device", "", []string{"DELETE FROM devices WHERE num = 1"}, 0},
	{"number beyond all", "", []string{"UPDATE devices SET num = 4000000000 WHERE num = 1", "UPDATE device_states SET num = 4000000000 WHERE num = 1"}, 3},
	{"number zero", "", []string{"UPDATE devices SET num = 0 WHERE num = 1", "UPDATE device_states SET num = 0 WHERE num = 1"}, 3},
	{"negative number", "", []string{"UPDATE devices SET num = -7 WHERE num = 1", "UPDATE device_states SET num = -7 WHERE num = 1"}, 3},
	{"id that cannot be", "", []string{"UPDATE devices SET id = '' WHERE num = 1"}, 0},
}

// TestDamagedDevice damages the row of a device. The others are there after a start; it counts as never seen, and its events go on.
func TestDamagedDevice(t *testing.T) {
	for _, db := range testdb.Databases() {
		for _, c := range damages {
			if c.only != "" && c.only != db.Name {
				continue
			}
			t.Run("db="+db.Name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				cfg := config{URL: db.URL(t)}
				first := begin(t, cfg, base)
				first.pulse()
				first.beat(1, 4)
				first.await(3)
				if err := first.registry.SetMaintenance(name(1), true); err != nil {
					t.Fatal(err)
				}
				first.await(4)
				num := first.numOf(1)
				for _, query := range c.sql {
					query = strings.ReplaceAll(query, "num = 1", fmt.Sprint("num = ", num))
					if err := first.store.Exec(t.Context(), query); err != nil {
						t.Fatal(err)
					}
				}
				first.end()

				second := begin(t, cfg, base.Add(time.Minute))
				wantDevices := 3
				if c.seq == 0 {
					wantDevices = 2
				}
				if l := second.loaded; len(l.SetAside) != 1 || l.Devices != wantDevices {
					t.Fatalf("Load = %+v, want one set aside and %d devices", l, wantDevices)
				}
				t.Log(second.loaded.SetAside[0])
				if st := second.store.Stats(); st.SetAside != 1 || st.Devices != wantDevices {
					t.Errorf("Stats: %d set aside, %d devices", st.SetAside, st.Devices)
				}
				if c.seq > 0 {
					if v := second.view(1); v.State != liveness.NeverSeen || v.Seq != c.seq-1 {
						t.Errorf("it is %v, seq %d, want never_seen, %d", v.State, v.Seq, c.seq-1)
					}
				} else if _, err := second.registry.Device(name(1)); !errors.Is(err, liveness.ErrUnknownDevice) {
					t.Errorf("it is there: %v", err)
				}
				_, latest := second.store.Bounds()
				second.pulse()
				second.beat(0, 10) // new ones, too, which must not collide with it

				second.await(latest + 8)
				if v := second.view(1); v.State != liveness.Online || v.Seq != max(c.seq, 1) {
					t.Errorf("it is %v, seq %d, want online, %d", v.State, v.Seq, max(c.seq, 1))
				}
				if c.seq > 0 {
					events, err := second.store.DeviceEvents(t.Context(), name(1), 0, 10)
					if err != nil || len(events) != int(c.seq) {
						t.Errorf("%d events, %v, want %d", len(events), err, c.seq)
					}
					checkSeqs(t, readAll(t, second.store))
				}
				second.end()

				third := begin(t, cfg, base.Add(2*time.Minute))
				if l := third.loaded; len(l.SetAside) != 0 || l.Devices != 10 || third.store.Stats().SetAside != 1 {
					t.Errorf("Load = %+v, %d set aside; want 10 devices, and the row where it is", l, third.store.Stats().SetAside)
				}
				third.end()
				beside, err := cfg.shared(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = beside.Close() }()
				if n, err := store.CountSetAside(t.Context(), beside); n != 1 || err != nil {
					t.Errorf("CountSetAside = %d, %v", n, err)
				}
			})
		}
	}
}

// numOf returns the number of a device.
func (l *life) numOf(i int) (num int64) {
	l.Helper()
	if err := l.store.Scan(l.Context(), "SELECT num FROM devices WHERE id = '"+name(i)+"'", &num); err != nil {
		l.Fatal(err)
	}
	return num
}

// TestDamagedSource damages the row of a source. Its devices are there, and its events go on.
func TestDamagedSource(t *testing.T) {
	for _, db := range testdb.Databases() {
		for what, query := range map[string]string{
			"deaf": "UPDATE sources SET deaf = 'no JSON'", "numbers": "UPDATE sources SET seq = -1, listened = -1, at = -1",
		} {
			t.Run("db="+db.Name+"/"+what, func(t *testing.T) {
				cfg := config{URL: db.URL(t)}
				for life := range 3 {
					l := begin(t, cfg, base.Add(time.Duration(life)*time.Hour))
					if got := len(l.loaded.Corrupt); got != life/2 {
						t.Errorf("in life %d: %v", life, l.loaded.Corrupt)
					}
					if life > 0 && l.loaded.Devices != 3 {
						t.Errorf("in life %d: %+v", life, l.loaded)
					}
					_, latest := l.store.Bounds()
					l.pulse()
					l.beat(0, 3)
					l.await(latest + []uint64{3, 2, 0}[life]) // online, or the deaf time and its end
					if err := l.store.Checkpoint(t.Context(), l.registry); err != nil {
						t.Fatal(err)
					}
					checkSeqs(t, readAll(t, l.store))
					if life == 1 {
						if err := l.store.Exec(t.Context(), query); err != nil {
							t.Fatal(err)
						}
					}
					l.end()
				}
			})
		}
	}
}
