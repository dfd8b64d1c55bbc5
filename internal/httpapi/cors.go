package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
)

// checkOrigins rejects what no browser sends as its Origin.
func checkOrigins(origins []string) error {
	for _, o := range origins {
		u, err := url.Parse(o)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || o != u.Scheme+"://"+u.Host {
			return fmt.Errorf("httpapi: AllowOrigins has %.80q, want https://HOST or https://HOST:PORT", o)
		}
	}
	return nil
}

// share tells a browser that a page of one of the AllowOrigins may read the answer, but not with
// credentials of the browser's own. It answers the question that a browser asks before such a request
// (CORS preflight), and reports whether it did. Pages of other sites may change nothing, see front.
func (a *API) share(w http.ResponseWriter, r *http.Request) (answered bool) {
	origins := *a.origins.Load()
	if len(origins) == 0 {
		return false
	}
	header, origin := w.Header(), r.Header.Get("Origin")
	header.Add("Vary", "Origin")
	if !slices.Contains(origins, origin) {
		return false
	}
	header.Set("Access-Control-Allow-Origin", origin)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		header.Set("Access-Control-Expose-Headers", "ETag, Retry-After, WWW-Authenticate")
		return false
	}
	header.Set("Access-Control-Allow-Methods", "GET, HEAD")
	header.Set("Access-Control-Allow-Headers", "Authorization, If-None-Match, Last-Event-ID")
	header.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
