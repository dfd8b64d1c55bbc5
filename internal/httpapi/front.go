package httpapi

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/net/sockets"
)

// beginRequest marks that a request has been read. While connections wait for a place, each
// connection is closed after its next answer, so that they take turns.
func beginRequest(of *sockets.Set, w http.ResponseWriter, r *http.Request) {
	if c := connOf(r.Context()); c != nil {
		c.Begin()
	}
	if of.Crowded() {
		w.Header().Set("Connection", "close")
	}
}

// front handles each request before it is routed.
func (a *API) front(next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer runtime.Gosched() // else a client that pipelines requests occupies a thread until the scheduler intervenes
		beginRequest(a.sockets, w, r)
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")
		if a.share(w, r) || !a.admit(w, r) || !a.isMeant(w, r) {
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
			case bulkJobsPath:
				most = maxBulkBody
			}
			r.Body = http.MaxBytesReader(w, r.Body, most)
		}
		next.ServeHTTP(w, r)
	})
}

// isMeant refuses a request for another host that this machine alone may ask, see [Config.Local].
func (a *API) isMeant(w http.ResponseWriter, r *http.Request) bool {
	if !a.config.Local || isLoopback(r.Host) {
		return true
	}
	if a.needsToken() {
		return true
	}
	a.denied.Add(1)
	writeProblem(w, http.StatusMisdirectedRequest, fmt.Sprintf(
		"without tokens only localhost is answered, and this asks for %.100q; ask for localhost, make a token (holter tokens create), or start with --open", r.Host))
	return false
}

// needsToken reports whether it is known that requests need a token.
func (a *API) needsToken() bool {
	if a.tokens == nil {
		return false
	}
	required, err := a.config.Auth.Required()
	return required && err == nil
}

// isLoopback reports whether a request's host is this machine. A request without one is no browser's.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") { // RFC 6761, 6.3
		return true
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.Unmap().IsLoopback()
}

// asChange returns a request as a POST if it is a heartbeat by GET, because that changes something.
func asChange(r *http.Request) *http.Request {
	if r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, beatPath) {
		return r
	}
	change := *r
	change.Method = http.MethodPost
	return &change
}

// admit refuses requests, except for streams, while the process starts, and all requests beyond the rate limit.
func (a *API) admit(w http.ResponseWriter, r *http.Request) bool {
	if path := r.URL.Path; path == "/healthz" || path == "/readyz" {
		return true
	}
	if rates := a.rates.Load(); rates != nil && !rates.allow(addressOf(r), a.now()) {
		a.limited.Add(1)
		writeLater(w, http.StatusTooManyRequests, time.Second, "this address makes more requests than it may; "+
			"make fewer, put heartbeats together in POST /v1/beats, or raise the limit")
		return false
	}
	waits := isStream(r.URL.Path) && r.Method == http.MethodGet // see afterStart
	if strings.HasPrefix(r.URL.Path, "/v1/") && !waits {
		if err := a.config.Starting(); err != nil {
			writeLater(w, http.StatusServiceUnavailable, time.Second, "starting: "+err.Error())
			return false
		}
	}
	return true
}

// writeLater answers with a problem and Retry-After.
func writeLater(w http.ResponseWriter, status int, after time.Duration, detail string) {
	w.Header().Set("Retry-After", strconv.Itoa(int((after+time.Second-1)/time.Second)))
	writeProblem(w, status, detail)
}
