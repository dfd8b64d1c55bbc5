package eventlog_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/holter-iot/holter/liveness/eventlog"
)

// Trim drops what a reader is told it has missed, and new events go on as before.
func TestTrim(t *testing.T) {
	for _, tt := range []struct {
		name                         string
		keep, first                  int
		through                      uint64
		then                         int
		wantOldest, wantLatest, from uint64
	}{
		{"none", 5000, 2000, 0, 0, 1, 2000, 1},
		{"some", 5000, 2000, 700, 0, 701, 2000, 701},
		{"a whole page", 5000, 2000, 512, 10, 513, 2010, 513},
		{"all", 5000, 2000, 2000, 0, 2001, 2000, 0},
		{"all of whole pages", 5000, 1024, 1024, 3, 1025, 1027, 1025},
		{"all, and more come", 5000, 2000, 2000, 3, 2001, 2003, 2001},
		{"beyond the latest", 5000, 2000, 9000, 3, 2001, 2003, 2001},
		{"a full log", 1000, 2000, 1200, 900, 1901, 2900, 1901},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := newLog(t, tt.keep)
			fill(log, tt.first)
			log.Trim(tt.through)
			fill(log, tt.then)
			if oldest, latest := log.Bounds(); oldest != tt.wantOldest || latest != tt.wantLatest {
				t.Errorf("Bounds = %d, %d, want %d, %d", oldest, latest, tt.wantOldest, tt.wantLatest)
			}
			got, err := log.Read(nil, 0, 10_000)
			if err != nil {
				t.Fatal(err)
			}
			var want []uint64
			for at := tt.from; at != 0 && at <= tt.wantLatest; at++ {
				want = append(want, at)
			}
			if offsets := check(t, got); !slices.Equal(offsets, want) {
				t.Errorf("%d events from %d on, want %d from %d on", len(offsets), offsets[:min(1, len(offsets))], len(want), tt.from)
			}
			if tt.wantOldest > 2 {
				if _, err := log.Read(nil, tt.wantOldest-2, 1); !errors.Is(err, eventlog.ErrMissed) {
					t.Errorf("Read of what was dropped = %v", err)
				}
			}
		})
	}
}
