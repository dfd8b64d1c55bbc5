package store_test

import (
	"testing"

	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/liveness"
)

// That a device was never verified is in its row, and so is its quota. A row of before that was known is one of a verified
// device.
func TestUnverifiedRow(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *store.Store) {
		t.Helper()
		stranger, known := device(1, "stranger", 1, liveness.DeviceOnline), device(2, "known", 1, liveness.DeviceOnline)
		stranger.Record.Unverified, stranger.Record.Window, stranger.Record.Quota = true, true, "gateway/tcp/[::]:7700"
		appendAll(t, s, stranger, known)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := registry(t, s)
		q, err := r.Operator().AddQuota("gateway/tcp/[::]:7700", 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Load(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]bool{"stranger": true, "known": false} {
			if v, err := r.Device(id); err != nil || v.Unverified != want || v.Window != want {
				t.Errorf("%s: %+v, %v, want unverified %v", id, v, err, want)
			}
		}
		if q.Devices() != 1 {
			t.Errorf("the quota has %d devices, want 1", q.Devices())
		}
	})
}
