package store_test

import (
	"math"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/liveness"
)

// Instants that no number of nanoseconds since 1970 stands for, and the zero time, which stands for none.
var (
	longAgo  = time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC)
	farAhead = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
)

// isFar reports whether an instant is kept as the last one that can be, or the first.
func isFar(t, like time.Time) bool {
	if like.After(time.Now()) {
		return t.Year() == 2262
	}
	return t.Year() == 1677
}

// Events, rows of devices and runs keep instants as near to what they were as can be.
func TestFarEvents(t *testing.T) {
	eachDatabase(t, config{Cache: 1}, func(t *testing.T, s *store.Store) {
		t.Helper()
		for i, at := range []time.Time{longAgo, farAhead, {}} {
			ev := device(uint32(i+1), name(i), 1, liveness.DeviceOnline)
			ev.Time, ev.LastSeen, ev.Deadline, ev.Record.Since = at, at, at, at
			appendAll(t, s, ev)
		}
		appendAll(t, s, device(9, "last", 1, liveness.DeviceOnline)) // so that the others are not in memory
		events := readAll(t, s)
		for i, at := range []time.Time{longAgo, farAhead} {
			if ev := events[i]; !isFar(ev.Time, at) || !isFar(ev.LastSeen, at) || !isFar(ev.Deadline, at) {
				t.Errorf("of %v: at %v, last seen %v, deadline %v", at, ev.Time, ev.LastSeen, ev.Deadline)
			}
		}
		if ev := events[2]; !ev.Time.IsZero() || !ev.LastSeen.IsZero() || !ev.Deadline.IsZero() {
			t.Errorf("of no time: at %v, last seen %v, deadline %v", ev.Time, ev.LastSeen, ev.Deadline)
		}
		var since int64
		if err := s.Scan(t.Context(), "SELECT since FROM device_states WHERE num = 2", &since); err != nil || since != math.MaxInt64 {
			t.Errorf("since %d, %v, want %d", since, err, math.MaxInt64)
		}
	})
}

// Numbers that no database has are asked for in vain.
func TestFarNumbers(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *store.Store) {
		t.Helper()
		appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline))
		ctx := t.Context()
		if list, err := s.EventsAt(ctx, []uint64{0, math.MaxUint64}); err != nil || len(list) != 0 {
			t.Errorf("events: %v, %v", list, err)
		}
		if list, err := s.DeviceEvents(ctx, "dev-1", math.MaxUint64, 10); err != nil || len(list) != 0 {
			t.Errorf("events of a device: %v, %v", list, err)
		}
		if list, err := s.Read(ctx, nil, math.MaxUint64, math.MaxInt); err == nil || len(list) != 0 {
			t.Errorf("Read: %v, %v", list, err)
		}
		if list, err := s.Read(ctx, nil, 0, math.MaxInt); err != nil || len(list) != 1 {
			t.Errorf("Read: %v, %v", list, err)
		}
		if list, err := s.DeviceEvents(ctx, "dev-1", 0, math.MaxInt); err != nil || len(list) != 1 {
			t.Errorf("events of a device: %v, %v", list, err)
		}
	})
}
