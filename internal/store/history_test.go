package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// histories reads the events of devices, and returns those of each as "seq type", the latest first; most is
// how many are wanted of each.
func histories(tb testing.TB, s *store.Store, most int, ids ...string) [][]string {
	tb.Helper()
	got := make([][]string, len(ids))
	offsets := make([]uint64, len(ids))
	err := s.Histories(tb.Context(), ids, func(device int, e *liveness.Event) bool {
		if offsets[device] != 0 && e.Offset >= offsets[device] {
			tb.Errorf("device %d: offset %d after %d", device, e.Offset, offsets[device])
		}
		offsets[device] = e.Offset
		got[device] = append(got[device], fmt.Sprint(int(e.Time.Sub(base)/time.Second), " ", strings.TrimPrefix(e.Type.String(), "device.")))
		return len(got[device]) < most
	})
	if err != nil {
		tb.Fatalf("Histories: %v", err)
	}
	return got
}

func TestHistories(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run(db.Name, func(t *testing.T) {
			s, _ := open(t, config{URL: db.URL(t)})
			kept := device(1, "dev-1", 2, liveness.DeviceMaintenanceStarted)
			kept.Maintenance, kept.Source = true, "other"
			appendAll(t, s,
				device(1, "dev-1", 1, liveness.DeviceOnline), device(2, "dev-2", 1, liveness.DeviceOnline), kept,
				device(1, "dev-1", 3, liveness.DeviceOffline), device(3, "dev-3", 1, liveness.DeviceOnline), device(3, "dev-3", 2, liveness.DeviceForgotten))
			appendAll(t, s, device(1, "dev-1", 4, liveness.DeviceChanged))
			none := []string(nil)
			tests := []struct {
				name string
				most int
				ids  []string
				want [][]string
			}{
				{"all", 100, []string{"dev-1", "dev-2", "dev-3", "dev-4", ""}, [][]string{
					{"4 changed", "3 offline", "2 maintenance.started", "1 online"}, {"1 online"}, {"2 forgotten", "1 online"}, none, none,
				}},
				{"no more than wanted", 2, []string{"dev-2", "dev-1"}, [][]string{{"1 online"}, {"4 changed", "3 offline"}}},
				{"no devices", 100, nil, [][]string{}},
			}
			for _, tt := range tests {
				t.Run(tt.name, func(t *testing.T) {
					got := histories(t, s, tt.most, tt.ids...)
					if !slices.EqualFunc(got, tt.want, slices.Equal) {
						t.Errorf("Histories = %q, want %q", got, tt.want)
					}
				})
			}
			historyFields(t, s)
		})
	}
}

// historyFields looks at all that is set of an event.
func historyFields(t *testing.T, s *store.Store) {
	t.Helper()
	var got []liveness.Event
	err := s.Histories(t.Context(), []string{"dev-1"}, func(_ int, e *liveness.Event) bool {
		got = append(got, *e)
		return true
	})
	want := []liveness.Event{
		{Offset: 7, Type: liveness.DeviceChanged, Time: base.Add(4 * time.Second), Source: "gateway"},
		{Offset: 4, Type: liveness.DeviceOffline, Reason: liveness.Silence, Time: base.Add(3 * time.Second), Source: "gateway"},
		{Offset: 3, Type: liveness.DeviceMaintenanceStarted, Time: base.Add(2 * time.Second), Source: "other", Maintenance: true},
		{Offset: 1, Type: liveness.DeviceOnline, Time: base.Add(time.Second), Source: "gateway"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("Histories of dev-1 = %+v, %v, want %+v", got, err, want)
	}
}

// TestHistoriesLong follows more events than one query returns, of more devices than one query asks for.
func TestHistoriesLong(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run(db.Name, func(t *testing.T) {
			s, _ := open(t, config{URL: db.URL(t)})
			const devices, long = 600, 1300
			var ids []string
			var events []liveness.Event
			seqs := make([]int, devices)
			for num := range devices {
				ids = append(ids, fmt.Sprint("dev-", num))
			}
			for seq := 1; seq <= long; seq++ {
				for num := 0; num < devices; num += 1 + min(seq/2, 1)*(devices/4-1) { // four of them have many
					seqs[num] = seq
					events = append(events, device(uint32(num+1), ids[num], uint64(seq), liveness.DeviceOnline))
				}
			}
			for chunk := range slices.Chunk(events, 8000) {
				appendAll(t, s, chunk...)
			}
			counts := make([]int, devices)
			last := make([]time.Time, devices)
			err := s.Histories(t.Context(), ids, func(device int, e *liveness.Event) bool {
				if counts[device]++; counts[device] > 1 && !e.Time.Before(last[device]) {
					t.Fatalf("device %d: %v after %v", device, e.Time, last[device])
				}
				last[device] = e.Time
				return true
			})
			if err != nil || !slices.Equal(counts, seqs) {
				t.Errorf("Histories: %v events, %v, want %v", counts, err, seqs)
			}
			if err := s.Histories(t.Context(), ids[:1], func(int, *liveness.Event) bool { counts[0]--; return counts[0] > 200 }); err != nil || counts[0] != 200 {
				t.Errorf("after take wanted no more: %v, %v", counts[0], err)
			}
		})
	}
}

// TestHistoriesPruned has devices whose events are no longer kept, wholly or in part.
func TestHistoriesPruned(t *testing.T) {
	s, _ := open(t, config{URL: testdb.SQLite(t)})
	appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline), device(2, "dev-2", 1, liveness.DeviceOnline), device(2, "dev-2", 2, liveness.DeviceOffline))
	if err := s.Exec(t.Context(), "DELETE FROM events WHERE pos < 3"); err != nil {
		t.Fatal(err)
	}
	got := histories(t, s, 100, "dev-1", "dev-2")
	if want := [][]string{nil, {"2 offline"}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("Histories = %q, want %q", got, want)
	}
	if err := s.Exec(t.Context(), "UPDATE events SET type = 99"); err != nil {
		t.Fatal(err)
	}
	err := s.Histories(t.Context(), []string{"dev-2"}, func(int, *liveness.Event) bool { return true })
	if err == nil || !strings.Contains(err.Error(), "event 3 is of type 99, which is not known") {
		t.Errorf("an event of an unknown type: %v", err)
	}
}

func TestBreaks(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run(db.Name, func(t *testing.T) {
			s, _ := open(t, config{URL: db.URL(t)})
			at := func(second int) time.Time { return base.Add(time.Duration(second) * time.Second) }
			for i, b := range []struct{ ended, length int }{{10, 10}, {20, 5}, {30, 25}, {40, 1}, {50, 100}} {
				insertBreak(t, s, judgement.Break{
					Source: fmt.Sprint("source ", i), Kind: judgement.BreakKind(i % 4), At: time.Duration(i), Clock: time.Duration(i + 1),
					Length: time.Duration(b.length) * time.Second, To: at(b.ended),
				})
			}
			tests := []struct {
				from, to int
				want     []int
			}{
				{0, 60, []int{0, 1, 2, 3, 4}}, {10, 15, []int{2, 4}}, {9, 16, []int{0, 1, 2, 4}}, {29, 30, []int{2, 4}}, {50, 60, nil}, {-100, -50, nil}, {-100, -49, []int{4}},
			}
			for _, tt := range tests {
				got, err := s.Breaks(t.Context(), at(tt.from), at(tt.to))
				if err != nil {
					t.Fatal(err)
				}
				var which []int
				for _, b := range got {
					which = append(which, int(b.At))
					if b.Clock != b.At+1 || b.Kind != judgement.BreakKind(b.At%4) || b.Source != fmt.Sprint("source ", int(b.At)) || b.Length < time.Second || b.To.Before(base) {
						t.Errorf("Breaks returns %+v", b)
					}
				}
				if !slices.Equal(which, tt.want) {
					t.Errorf("Breaks(%d, %d) = %v, want %v", tt.from, tt.to, which, tt.want)
				}
			}
		})
	}
}

// insertBreak inserts a row as a checkpoint does.
func insertBreak(tb testing.TB, s *store.Store, b judgement.Break) {
	tb.Helper()
	err := s.Exec(tb.Context(), fmt.Sprintf("INSERT INTO breaks (ended, source, kind, listened, clock, length) VALUES (%d, '%s', %d, %d, %d, %d)",
		sqldb.Nanos(b.To), b.Source, b.Kind, b.At, b.Clock, b.Length))
	if err != nil {
		tb.Fatal(err)
	}
}

func TestBreaksOfUnknownKind(t *testing.T) {
	s, _ := open(t, config{URL: testdb.SQLite(t)})
	insertBreak(t, s, judgement.Break{Source: "gateway", Kind: 77, To: base, Length: time.Second})
	_, err := s.Breaks(t.Context(), base.Add(-time.Hour), base)
	if err == nil || !strings.Contains(err.Error(), `a break of source "gateway" is of kind 77, which is not known`) {
		t.Errorf("Breaks: %v", err)
	}
}
