package schedules

import (
	"fmt"
	"runtime"
	"time"
)

// berlin is the zone of what is measured.
const berlin = "Europe/Berlin"

// usual are expressions as people write them.
func usual() []string {
	return []string{
		"* * * * *", "*/5 * * * *", "0 * * * *", "0 0 * * *", "30 2 * * *", "0 9 * * 1-5", "30 9-17 * * MON-FRI", "0 0 1 * *", "0 0 13 * 5",
		"0 0 1 1 *", "0 0 29 2 *",
	}
}

// speed is what an expression takes.
type speed struct {
	Parse, ParseAllocs float64 // in nanoseconds; allocations
	Next, NextAllocs   float64
}

// speeds measures a library, each figure for a while.
func (of library) speeds(length time.Duration) (map[string]speed, error) {
	loc, err := time.LoadLocation(berlin)
	if err != nil {
		return nil, err
	}
	found := make(map[string]speed)
	for _, text := range usual() {
		var s speed
		var parsed next
		s.Parse, s.ParseAllocs = each(length, func() {
			parsed, err = of.parse(text, loc)
		})
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, loc)
		after := start
		s.Next, s.NextAllocs = each(length, func() {
			if after = parsed.Next(after); after.Year() > 2090 { // beyond, a leap day is further than robfig/cron looks
				after = start
			}
		})
		found[text] = s
	}
	return found, nil
}

// each returns the nanoseconds and the allocations of a call of do, which it calls for a while.
func each(length time.Duration, do func()) (nanos, allocs float64) {
	const together = 64 // calls between two looks at the clock
	var first, last runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&first)
	n, begin := 0, time.Now()
	for time.Since(begin) < length {
		for range together {
			do()
		}
		n += together
	}
	took := time.Since(begin)
	runtime.ReadMemStats(&last)
	return float64(took.Nanoseconds()) / float64(n), float64(last.Mallocs-first.Mallocs) / float64(n)
}
