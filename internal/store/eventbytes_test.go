package store_test

import (
	rand "crypto/rand"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness"
)

// largeEvents appends events of devices, each with a message.
func largeEvents(t *testing.T, s *store.Store, n, message int) {
	t.Helper()
	_, last := s.Bounds()
	events := make([]liveness.Event, n)
	for i := range events {
		num := uint32(i%1000) + 1
		events[i] = device(num, fmt.Sprintf("device-%08d", num), uint64(i/1000)+1+last, liveness.DeviceOffline)
		events[i].Message = noise(message)
	}
	appendAll(t, s, events...)
}

// noise returns a text that cannot be packed.
func noise(n int) string {
	raw := make([]byte, n)
	_, _ = rand.Read(raw) // never fails
	return base64.StdEncoding.EncodeToString(raw)[:n]
}

// Events never take more bytes than they may, also when a process finds more.
func TestMaxBytes(t *testing.T) {
	const most = 1 << 20
	for _, kind := range testdb.Databases() {
		t.Run(kind.Name, func(t *testing.T) {
			url := kind.URL(t)
			cfg := config{URL: url, Dir: t.TempDir(), MaxBytes: most, MaxAge: 1000 * time.Hour}
			s, _ := open(t, cfg)
			prune := func() {
				t.Helper()
				if err := s.Prune(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			prune()
			if st := s.Stats(); st.EventBytes != 0 {
				t.Errorf("none take %d bytes", st.EventBytes)
			}
			largeEvents(t, s, 8000, 300)
			prune()
			oldest, latest := s.Bounds()
			kept := s.Stats().EventBytes
			if kept > most || kept < most*8/10 || latest != 8000 || int64(latest-oldest+1)*310 > kept {
				t.Errorf("events %d to %d take %d bytes, and may take %d", oldest, latest, kept, most)
			}
			if events := readAll(t, s); len(events) != int(latest-oldest+1) || events[0].Offset != oldest {
				t.Errorf("%d events are read", len(events))
			}
			prune()
			if again, _ := s.Bounds(); again != oldest {
				t.Errorf("pruned once more, they begin at %d instead of %d", again, oldest)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			cfg.MaxBytes = most / 2
			s, _ = open(t, cfg)
			prune()
			if st := s.Stats(); st.EventBytes > most/2 || st.EventBytes < most/3 {
				t.Errorf("after a start they take %d bytes", st.EventBytes)
			}
			if err := s.SetRetention(store.Config{MaxBytes: most / 4}); err != nil {
				t.Fatal(err)
			}
			prune()
			if st := s.Stats(); st.EventBytes > most/4 || st.EventBytes < most/6 {
				t.Errorf("after a change they take %d bytes", st.EventBytes)
			}
		})
	}
}

// What events are said to take is no less than what they take, and not much more.
func TestEventBytesIsRight(t *testing.T) {
	asked := map[string]string{
		"sqlite":   "SELECT SUM(pgsize) FROM dbstat WHERE name = 'events'",
		"postgres": "SELECT pg_total_relation_size('events')",
		"mariadb":  "SELECT data_length + index_length FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'events'",
	}
	for _, kind := range testdb.Databases() {
		for _, message := range []int{100, 2000} {
			t.Run(fmt.Sprintf("%s/message=%d", kind.Name, message), func(t *testing.T) {
				s, _ := open(t, config{URL: kind.URL(t), Dir: t.TempDir(), MaxAge: 1000 * time.Hour})
				for range 2 {
					largeEvents(t, s, 2000, message)
				}
				if err := s.Prune(t.Context()); err != nil {
					t.Fatal(err)
				}
				if kind.Name == "mariadb" {
					if err := s.Exec(t.Context(), "ANALYZE TABLE events"); err != nil {
						t.Fatal(err)
					}
				}
				var there int64
				if err := s.Scan(t.Context(), asked[kind.Name], &there); err != nil {
					t.Fatal(err)
				}
				got := s.Stats().EventBytes
				t.Logf("%d bytes, said to be %d", there, got)
				if got < there || got > 5*there/2 {
					t.Errorf("events take %d bytes, and are said to take %d", there, got)
				}
			})
		}
	}
}
