package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/liveness"
)

// Pages of the origins that are allowed may read, those of others may not, and none may change
// anything.
func TestOrigins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		const mine, other = "https://board.example:8443", "https://other.example"
		h := f.beating(httpapi.Config{AllowOrigins: []string{"https://a.example", mine}, Auth: newSecrets()}).Handler()
		for _, c := range []struct {
			method, target, origin string
			preflight              string // the method that is asked for; empty: this is no preflight
			code                   int
			allowed                bool
		}{
			{"OPTIONS", "/v1/devices", mine, "GET", 204, true},
			{"OPTIONS", "/v1/events/stream", mine, "GET", 204, true},
			{"OPTIONS", "/v1/devices", other, "GET", 204, false},
			{"GET", "/v1/devices", mine, "", 200, true},
			{"HEAD", "/v1/devices", mine, "", 200, true},
			{"GET", "/v1/devices/none", mine, "", 404, true},
			{"GET", "/v1/devices", other, "", 200, false},
			{"GET", "/v1/devices", strings.ToUpper(mine), "", 200, false},
			{"GET", "/v1/devices", "null", "", 200, false},
			{"GET", "/v1/beat/a", mine, "", 403, true},
			{"POST", "/v1/beat/a", mine, "", 403, true},
			{"PUT", "/v1/devices/a/maintenance", mine, "", 403, true},
		} {
			headers := append(bearing("a"), "Origin", c.origin, "Sec-Fetch-Site", "cross-site")
			if c.preflight != "" {
				headers = []string{"Origin", c.origin, "Access-Control-Request-Method", c.preflight, "Access-Control-Request-Headers", "authorization"}
			}
			w := send(h, c.method, c.target, "", headers...)
			header := w.Header()
			allowed := header.Get("Access-Control-Allow-Origin")
			if w.Code != c.code || (allowed == c.origin) != c.allowed || !c.allowed && allowed != "" || header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%+v = %d %s, %v", c, w.Code, w.Body, header)
			}
			if !strings.Contains(strings.Join(header.Values("Vary"), ","), "Origin") {
				t.Errorf("%+v: Vary: %v", c, header.Values("Vary"))
			}
			if methods := header.Get("Access-Control-Allow-Methods"); (methods == "GET, HEAD") != (c.preflight != "" && c.allowed) {
				t.Errorf("%+v allows %q", c, methods)
			}
		}
		w := send(f.api(httpapi.Config{}).Handler(), "GET", "/v1/devices", "", "Origin", mine)
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("without AllowOrigins, %s is allowed", got)
		}
	})
}

// Each path says which methods it has, and answers HEAD where it answers GET.
func TestMethods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		f.open("a")
		h := f.api(httpapi.Config{}).Handler()
		spec := getJSON[struct {
			Paths map[string]map[string]struct{}
		}](t, h, "/openapi.json")
		for path, item := range spec.Paths {
			target := strings.NewReplacer("{id}", "a", "{name}", "line", "{profile}", "heap").Replace(path)
			w := ask(h, http.MethodOptions, target)
			if w.Code != http.StatusNoContent {
				t.Errorf("OPTIONS %s = %d %s", path, w.Code, w.Body)
			}
			if got := ask(h, http.MethodPatch, target).Header().Get("Allow"); got == "" || !strings.HasPrefix(w.Header().Get("Allow"), got) {
				t.Errorf("%s: a method that it has not is told of %q, OPTIONS of %q", path, got, w.Header().Get("Allow"))
			}
			for method := range item {
				if !strings.Contains(w.Header().Get("Allow"), strings.ToUpper(method)) {
					t.Errorf("OPTIONS %s: Allow: %s, want also %s", path, w.Header().Get("Allow"), method)
				}
			}
			if _, ok := item["get"]; !ok {
				continue
			}
			if w := ask(h, http.MethodHead, target); w.Code != http.StatusOK || !strings.Contains(ask(h, "PATCH", target).Header().Get("Allow"), "HEAD") {
				t.Errorf("HEAD %s = %d %s", path, w.Code, w.Body)
			}
		}
	})
}
