package httpapi

import (
	"sync"
	"time"

	"github.com/holter-iot/holter/liveness"
)

const (
	// countedFor is how long counts are reused. Counting takes at most one countShare-th of the
	// time.
	countedFor = time.Second
	countShare = 20
	countBatch = 512
)

// groupCounts counts the devices of each group by state, on request.
type groupCounts struct {
	mu     sync.Mutex // guards the fields below; held while counting, because waiting requests want the same counts
	counts map[string]map[string]int
	at     time.Time
	until  time.Time
}

// count returns the numbers of devices by group and state at a recent instant. They must not be
// changed.
func (g *groupCounts) count(registry *liveness.Registry) (map[string]map[string]int, time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.counts != nil && time.Now().Before(g.until) {
		return g.counts, g.at
	}
	g.at = time.Now()
	counts := make(map[string]*[int(liveness.Pending) + 1]int)
	var views []liveness.View
	for cursor, more := liveness.Cursor(0), true; more; more = cursor != 0 {
		views, cursor = registry.List(views[:0], cursor, countBatch)
		for i := range views {
			of := counts[views[i].Group]
			if of == nil {
				of = new([int(liveness.Pending) + 1]int)
				counts[views[i].Group] = of
			}
			of[views[i].State]++
		}
	}
	g.counts = make(map[string]map[string]int, len(counts))
	for group, of := range counts {
		g.counts[group] = statesOf(func(s liveness.State) int { return of[s] })
	}
	took := time.Since(g.at)
	g.until = g.at.Add(took + max(countedFor, countShare*took))
	return g.counts, g.at
}

// statesOf returns the counts of all states by name.
func statesOf(count func(liveness.State) int) map[string]int {
	states := make(map[string]int)
	for s := liveness.NeverSeen; s <= liveness.Pending; s++ {
		states[s.String()] = count(s)
	}
	return states
}
