//go:build race

package timer_test

// raceEnabled says that the race detector runs, which is slow and allows some 8,000 goroutines at a
// time.
const raceEnabled = true
