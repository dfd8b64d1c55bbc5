package store_test

import (
	"fmt"
	"testing"

	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness"
)

// Events that were in memory for a while are read from the database.
func TestTrim(t *testing.T) {
	s, _ := open(t, config{URL: testdb.SQLite(t)})
	some := func(round uint64) {
		t.Helper()
		var events []liveness.Event
		for num := range uint32(1500) {
			events = append(events, device(num+1, fmt.Sprint("d", num), round, liveness.DeviceOnline))
		}
		appendAll(t, s, events...)
	}
	cached := func(seen, want, latest uint64) {
		t.Helper()
		if got := s.Trim(seen); got != latest || s.Cached() != want {
			t.Errorf("Trim(%d) = %d, and events are in memory from %d on; want %d and %d", seen, got, s.Cached(), latest, want)
		}
	}
	some(1)
	cached(0, 1, 1500)
	some(2)
	cached(1500, 1501, 3000)
	cached(3000, 2001, 3000) // the latest 1,000 stay
	if events := readAll(t, s); len(events) != 3000 || events[0].Offset != 1 || events[2999].Offset != 3000 {
		t.Errorf("%d events are read", len(events))
	}
	s, _ = open(t, config{URL: testdb.SQLite(t)})
	cached(0, 1, 0)
	appendAll(t, s, device(1, "d", 1, liveness.DeviceOnline))
	cached(1, 1, 1)
}
