package httpapi

import (
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// front is what each request passes before its route is looked for.
//
// While connections wait for a place, each ends with the answer to its request, so that they take turns.
func (a *API) front(next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer runtime.Gosched() // else a client that does not wait for answers keeps a thread busy until the scheduler steps in
		if c := connOf(r.Context()); c != nil {
			c.Begin()
		}
		header := w.Header()
		if a.sockets.Crowded() {
			header.Set("Connection", "close")
		}
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")
		if !a.admit(w, r) {
			return
		}
		if err := crossOrigin.Check(asChange(r)); err != nil {
			writeProblem(w, http.StatusForbidden, "a page of another site asked the browser for this; ask without one, or from a page of this address")
			return
		}
		if r.Body != nil && r.Body != http.NoBody {
			most := int64(maxBody)
			switch r.URL.Path {
			case beatsPath:
				most = maxBatchBody
			case jobsPath:
				most = maxJobBody
			}
			r.Body = http.MaxBytesReader(w, r.Body, most)
		}
		next.ServeHTTP(w, r)
	})
}

// asChange returns a request so that it counts as one that changes something if it does: a heartbeat does so by GET, too.
func asChange(r *http.Request) *http.Request {
	if r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, beatPath) {
		return r
	}
	change := *r
	change.Method = http.MethodPost
	return &change
}

// admit refuses what comes too early or too often.
func (a *API) admit(w http.ResponseWriter, r *http.Request) bool {
	if path := r.URL.Path; path == "/healthz" || path == "/readyz" {
		return true
	}
	if a.rates != nil && !a.rates.allow(addressOf(r), a.now()) {
		a.limited.Add(1)
		writeLater(w, http.StatusTooManyRequests, time.Second, "this address makes more requests than it may; "+
			"make fewer, put heartbeats together in POST /v1/beats, or raise the limit")
		return false
	}
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		if err := a.config.Starting(); err != nil {
			writeLater(w, http.StatusServiceUnavailable, time.Second, "starting: "+err.Error())
			return false
		}
	}
	return true
}

// writeLater answers with a problem that is over after a while.
func writeLater(w http.ResponseWriter, status int, after time.Duration, detail string) {
	w.Header().Set("Retry-After", strconv.Itoa(int((after+time.Second-1)/time.Second)))
	writeProblem(w, status, detail)
}
