package httpapi

import (
	"net/http"
	"runtime"
	"time"
)

const (
	// turnsPerThread is the number of requests in progress for each thread that runs Go.
	turnsPerThread = 2
	// turnLength is the longest turn of a request. One that waits for a database or for its client
	// does no work.
	turnLength = 250 * time.Millisecond
)

// turns bounds the number of expensive requests in progress. The Go scheduler runs each runnable
// goroutine for up to 10 ms in turn, so that a thousand of them would delay everything else in the
// process for seconds, including the listening clocks of other sources. Requests get their turns in
// the order of their arrival. A single heartbeat is too short to need one.
type turns chan struct{}

func newTurns() turns { return make(turns, turnsPerThread*runtime.GOMAXPROCS(0)) }

// takeTurn waits for a turn. It returns a function that ends it.
func (t turns) takeTurn() (end func()) {
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
		defer t.takeTurn()()
		next(w, r)
	}
}
