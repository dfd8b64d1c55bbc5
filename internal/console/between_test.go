package console_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"
)

// between stands between browser and server, and answers instead of the server when it is to.
type between struct {
	server *httptest.Server
	proxy  *httputil.ReverseProxy // to the server

	mu       sync.Mutex // guards the fields below
	instead  http.HandlerFunc
	requests map[string][]time.Time // those that were not answered by the server, by their paths
}

func newBetween(t *testing.T, s *server) *between {
	t.Helper()
	target, err := url.Parse(s.url(""))
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	p := &between{proxy: proxy}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		instead := p.instead
		if instead != nil {
			p.requests[r.URL.Path] = append(p.requests[r.URL.Path], time.Now())
		}
		p.mu.Unlock()
		if instead == nil {
			proxy.ServeHTTP(w, r)
			return
		}
		instead(w, r)
	}))
	t.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// answer has all requests answered by a function from now on, and ends those that last; nil for the server.
func (p *between) answer(f http.HandlerFunc) {
	p.mu.Lock()
	p.instead, p.requests = f, make(map[string][]time.Time)
	p.mu.Unlock()
	if f != nil {
		p.server.CloseClientConnections()
	}
}

// asked returns the requests that were not answered by the server, by their paths.
func (p *between) asked() map[string][]time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.requests)
}
