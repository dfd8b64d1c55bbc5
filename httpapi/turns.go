package httpapi

import (
	"net/http"
	"runtime"
	"time"
)

const (
	// turnsPerThread is how many requests are worked at for each thread that runs Go.
	turnsPerThread = 2
	// turnLength is how long a request keeps its turn at most: one that waits for a database, or for its client, is no work.
	turnLength = 250 * time.Millisecond
)

// turns bounds how many requests with much work are worked at. The scheduler lets each goroutine that has work run for up to 10 ms, one after
// the other, so a thousand of them would hold up all else in the process for seconds, the listening clocks of other sources, too. Who waits
// for a turn gets one in the order of coming. A heartbeat by itself is too short to need one.
type turns chan struct{}

func newTurns() turns { return make(turns, turnsPerThread*runtime.GOMAXPROCS(0)) }

// take waits for a turn, and returns what ends it.
func (t turns) take() (end func()) {
	t <- struct{}{}
	free := func() { <-t }
	late := time.AfterFunc(turnLength, free)
	return func() {
		if late.Stop() {
			free()
		}
	}
}

// handler lets a handler work in turns.
func (t turns) handler(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer t.take()()
		next(w, r)
	}
}
