package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	// startWithin is how long a stream waits for the process to start.
	startWithin = 30 * time.Second
	// startPoll is how often it looks.
	startPoll = 100 * time.Millisecond
)

// afterStart holds requests for a stream while the process starts. They count as streams meanwhile.
// If it takes too long the answer is a stream that tells its reader to come back, and ends: an
// EventSource that is answered 503 gives up for good.
func (a *API) afterStart(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if a.config.Starting() == nil {
			next(w, r)
			return
		}
		if !a.takeStream(w) {
			return
		}
		expectNoInput(r.Context())
		why := a.awaitStart(r.Context())
		a.streams.Add(-1)
		if why == nil {
			next(w, r)
			return
		}
		setStreamHeader(w)
		_, _ = fmt.Fprintf(w, "retry: 5000\n: starting: %s\n\n", strings.ReplaceAll(why.Error(), "\n", "; ")) // the client may be gone
	}
}

// awaitStart returns nil once the process has started, and otherwise what it waits for.
func (a *API) awaitStart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	look := time.NewTicker(startPoll)
	defer look.Stop()
	for {
		why := a.config.Starting()
		if why == nil {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return why
		}
	}
}
