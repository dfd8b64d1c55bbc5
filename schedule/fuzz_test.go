package schedule_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/schedule"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// FuzzParse checks that no text makes Parse or Next panic or hang, that what Parse accepts fires, and that errors are its own.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"* * * * *", "0 0 29 2 *", "*/5 9-17 * * MON-FRI", "30 15 10 1,15 JAN-JUN ?", "CRON_TZ=Europe/Berlin 30 2 * * *", "TZ=UTC @daily",
		"@every 1h30m", "@every 1ns", "0 25 * * *", "22-2 5/7 28-3 NOV-FEB FRI-SUN", "1,,2 * * * *", "*-5 * * * *", "0 0 30 2 *", "TZ=/etc 0 0 * * *",
		"*/90 0 L,L-3,15W,LW,L-3W * 5L,FRI#2", "0 0 0 29 2 * 2027-2040/4", "H H(0-7)/3 H * H", "0 0 * * 5-1/2", "0 0 LW * */6", "0 0 L-30 2 7#5", "H(5-9 * * * L",
	} {
		f.Add(text, int64(1_700_000_000))
	}
	f.Fuzz(func(t *testing.T, text string, unix int64) {
		s, err := schedule.ParseNamed("name", text, time.UTC)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "schedule: ") {
				t.Fatalf("ParseIn(%q): %v", text, err)
			}
			return
		}
		after := time.Unix(unix%4e9, 0)
		for range 3 {
			next := s.Next(after)
			if next.IsZero() && len(strings.Fields(text)) >= 7 {
				return // its years have passed
			}
			if !next.After(after) {
				t.Fatalf("%q: Next(%v) = %v", text, after, next)
			}
			after = next
		}
		s.Next(time.Unix(unix, 0))
	})
}
