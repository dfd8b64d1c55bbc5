package httpapi_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/httpapi/auth"
	"github.com/holter-iot/holter/liveness"
)

func newSecrets() *secrets {
	return &secrets{known: map[string]auth.Role{"r": auth.RoleRead, "b": auth.RoleBeat, "a": auth.RoleAdmin, "x": "auditor"}}
}

// set changes what is known.
func (s *secrets) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *secrets) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func bearing(secret string) []string { return []string{"Authorization", "Bearer " + secret} }

func TestRoles(t *testing.T) {
	tests := []struct {
		method, target string
		role           string // the one it needs, nothing for nobody's
	}{
		{"GET", "/healthz", ""},
		{"GET", "/readyz", ""},
		{"GET", "/metrics", "read"},
		{"GET", "/openapi.json", "read"},
		{"GET", "/docs", "read"},
		{"GET", "/v1/devices", "read"},
		{"HEAD", "/v1/devices", "read"},
		{"GET", "/v1/devices/dev", "read"},
		{"GET", "/v1/devices/%2F", "read"},
		{"GET", "/v1/devices/dev/explain", "read"},
		{"GET", "/v1/devices/dev/events", "read"},
		{"GET", "/v1/events", "read"},
		{"HEAD", "/v1/events/stream", "read"},
		{"GET", "/v1/stats", "read"},
		{"GET", "/v1/groups", "read"},
		{"GET", "/v1/policies", "read"},
		{"GET", "/v1/sources", "read"},
		{"POST", "/v1/beat/dev", "beat"},
		{"GET", "/v1/beat/dev", "beat"},
		{"POST", "/v1/beat/%2F", "beat"},
		{"POST", "/v1/beat/dev/fail", "beat"},
		{"POST", "/v1/beat/dev/bye", "beat"},
		{"POST", "/v1/beat/dev/sleep?for=1h", "beat"},
		{"POST", "/v1/beats", "beat"},
		{"PUT", "/v1/devices/dev/policy", "admin"},
		{"DELETE", "/v1/devices/dev/policy", "admin"},
		{"PUT", "/v1/devices/dev/maintenance", "admin"},
		{"DELETE", "/v1/devices/dev/maintenance", "admin"},
		{"DELETE", "/v1/devices/%2F/maintenance", "admin"},
		{"POST", "/v1/devices/dev/send", "admin"},
		{"POST", "/v1/devices/%2F/send", "admin"},
		{"DELETE", "/v1/devices/dev", "admin"},
		{"DELETE", "/v1/devices/%2F", "admin"},
		{"GET", "/debug/pprof/", "admin"},
		{"GET", "/debug/pprof/cmdline", "admin"},
		{"GET", "/debug/pprof/heap?debug=1", "admin"},
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.beating(httpapi.Config{Auth: newSecrets(), Sender: &post{}}).Handler()
		f.pulse()
		body := func(target string) string {
			if target == "/v1/beats" {
				return `["dev"]`
			}
			if strings.HasSuffix(target, "/send") {
				return `{"text": "on"}`
			}
			if strings.HasSuffix(target, "/policy") {
				return `{"timeout_ms": 60000}`
			}
			return ""
		}
		for _, tt := range tests {
			what := tt.method + " " + tt.target
			for secret, role := range map[string]string{"": "", "r": "read", "b": "beat", "x": "auditor", "a": "admin"} {
				send(h, "POST", "/v1/beats", `["dev", "/"]`, bearing("b")...) // so that they are there
				var headers []string
				if secret != "" {
					headers = bearing(secret)
				}
				w := send(h, tt.method, tt.target, body(tt.target), headers...)
				switch {
				case tt.role == "" || role == tt.role || role == "admin":
					if w.Code >= 300 {
						t.Errorf("%s as %q = %d %.200s", what, role, w.Code, w.Body)
					}
				case role == "":
					wantProblem(t, w, what, 401, "this needs a token with the role "+tt.role+"; send the header Authorization: Bearer")
					if got := w.Header().Get("WWW-Authenticate"); got != `Bearer realm="holter"` {
						t.Errorf("%s: WWW-Authenticate: %s", what, got)
					}
				default:
					wantProblem(t, w, what, 403, fmt.Sprintf("this needs a token with the role %s; the role of %q is %s", tt.role, "the "+role, role))
					if got := w.Header().Get("WWW-Authenticate"); got != `Bearer realm="holter", error="insufficient_scope", scope="`+tt.role+`"` {
						t.Errorf("%s: WWW-Authenticate: %s", what, got)
					}
				}
			}
		}
	})
}

func TestTokenPlaces(t *testing.T) {
	tests := []struct {
		name, method, target string
		headers              []string
		code                 int
	}{
		{"query of GET", "GET", "/v1/beat/a?token=b", nil, 200},
		{"wrong in query", "GET", "/v1/beat/a?token=wrong", nil, 401},
		{"query of POST", "POST", "/v1/beat/a?token=b", nil, 401},
		{"query of fail", "POST", "/v1/beat/a/fail?token=b", nil, 401},
		{"query elsewhere", "GET", "/v1/devices?token=r", nil, 401},
		{"query of stream", "GET", "/v1/events/stream?token=r", nil, 401},
		{"header first", "GET", "/v1/beat/a?token=b", bearing("wrong"), 401},
		{"case", "GET", "/v1/devices", []string{"Authorization", "bearer r"}, 200},
		{"spaces", "GET", "/v1/devices", []string{"Authorization", "Bearer   r "}, 200},
		{"basic", "GET", "/v1/devices", []string{"Authorization", "Basic cjpy"}, 401},
		{"bare", "GET", "/v1/devices", []string{"Authorization", "r"}, 401},
		{"empty", "GET", "/v1/devices", []string{"Authorization", "Bearer "}, 401},
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.beating(httpapi.Config{Auth: newSecrets()}).Handler()
		for _, tt := range tests {
			if w := send(h, tt.method, tt.target, "", tt.headers...); w.Code != tt.code {
				t.Errorf("%s: %d %s, want %d", tt.name, w.Code, w.Body, tt.code)
			}
		}
	})
}

func TestTokenNotRequired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		s := newSecrets()
		h := f.beating(httpapi.Config{Auth: s}).Handler()
		s.set(func() { s.none = true })
		for _, headers := range [][]string{nil, bearing("wrong")} {
			if w := send(h, "GET", "/debug/pprof/cmdline", "", headers...); w.Code != 200 {
				t.Errorf("no token is needed: %d %s", w.Code, w.Body)
			}
		}
		s.set(func() { s.none = false })
		wantProblem(t, get(h, "/v1/devices"), "now one is", 401, "this needs a token")
		s.set(func() { s.early = true })
		w := get(h, "/v1/devices")
		wantProblem(t, w, "not known yet", 503, "it is not known yet whether a token is needed")
		if w.Header().Get("Retry-After") == "" {
			t.Error("a 503 without Retry-After")
		}
	})
}

// TestTokenRemembered wants tokens to be asked for every few seconds, revoked ones to be refused then, and good ones to do while nobody can
// be asked.
func TestTokenRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		s := newSecrets()
		var log bytes.Buffer
		h := f.beating(httpapi.Config{Auth: s, Logger: slog.New(slog.NewTextHandler(&log, nil))}).Handler()
		ask := func(want int) {
			t.Helper()
			if w := send(h, "GET", "/v1/stats", "", bearing("r")...); w.Code != want {
				t.Errorf("%d %s, want %d", w.Code, w.Body, want)
			}
		}
		for range 100 {
			ask(200)
		}
		if n := s.count(); n != 1 {
			t.Errorf("asked %d times for 100 requests, want 1", n)
		}
		time.Sleep(5 * time.Second)
		ask(200)
		ask(200)
		if n := s.count(); n != 2 {
			t.Errorf("asked %d times after 5s, want 2", n)
		}
		s.set(func() { s.fail = errors.New("the database does not answer") })
		time.Sleep(10 * time.Minute)
		ask(200)
		w := send(h, "GET", "/v1/stats", "", bearing("a")...) // never asked for before
		wantProblem(t, w, "cannot be checked", 503, "tokens cannot be checked just now; try again")
		if w.Header().Get("Retry-After") != "1" || !strings.Contains(log.String(), "the database does not answer") {
			t.Errorf("headers %v, log %s", w.Header(), log.String())
		}
		time.Sleep(5 * time.Minute)
		ask(503)
		ask(503)
		s.set(func() { s.fail = nil })
		ask(200)
		s.set(func() { delete(s.known, "r") })
		ask(200)
		time.Sleep(5 * time.Second)
		ask(401)
		if strings.Contains(log.String(), "Bearer") || strings.Contains(log.String(), "token=r") {
			t.Errorf("a secret is in the log:\n%s", log.String())
		}
	})
}

// TestGuessing tries wrong tokens: an address is told of a few that they are wrong, then to come later. Who has a right one is let in, there
// and elsewhere.
func TestGuessing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		var log bytes.Buffer
		h := f.beating(httpapi.Config{Auth: newSecrets(), Logger: slog.New(slog.NewTextHandler(&log, nil))}).Handler()
		from := func(address, secret string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/stats", http.NoBody)
			r.RemoteAddr = address
			r.Header.Set("Authorization", "Bearer "+secret)
			h.ServeHTTP(w, r)
			return w
		}
		if w := from("10.0.0.1:1", "r"); w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		for i := range 10 {
			wantProblem(t, from("10.0.0.1:2", fmt.Sprint("guess", i)), "guess", 401, "this token is not known, or was revoked")
		}
		for i := range 1000 {
			w := from("10.0.0.1:3", fmt.Sprint("more", i))
			wantProblem(t, w, "guess", 429, "this token is wrong, and too many wrong tokens came from this address")
			if w.Header().Get("Retry-After") != "6" {
				t.Fatalf("Retry-After: %s", w.Header().Get("Retry-After"))
			}
		}
		for _, address := range []string{"10.0.0.1:4", "10.0.0.2:1", "[2001:db8::1]:1", "pipe"} {
			for _, secret := range []string{"r", "a"} { // one that was good here before, and one that was not
				if w := from(address, secret); w.Code != 200 {
					t.Errorf("%s with %s: %d %s", address, secret, w.Code, w.Body)
				}
			}
		}
		if n := strings.Count(log.String(), "not each of them is logged"); n != 10 || !strings.Contains(log.String(), "remote=10.0.0.1:3 times=512") {
			t.Errorf("%d warnings of 1000 guesses, want 10, with the address:\n%s", n, log.String())
		}
		time.Sleep(6 * time.Second)
		if w := from("10.0.0.1:5", "wrong"); w.Code != 401 {
			t.Errorf("after a while: %d %s", w.Code, w.Body)
		}
		for i := range 12 { // a network of IPv6 counts as one
			want := 401
			if i >= 10 {
				want = 429
			}
			if w := from(fmt.Sprintf("[2001:db8::%x]:1", i), "wrong"); w.Code != want {
				t.Errorf("guess %d: %d, want %d", i, w.Code, want)
			}
		}
	})
}

// TestManyAddresses guesses from more addresses than are watched one by one.
func TestManyAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.beating(httpapi.Config{Rate: 1}).Handler()
		from := func(i int) int {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/nothing", http.NoBody)
			r.RemoteAddr = fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255)
			h.ServeHTTP(w, r)
			return w.Code
		}
		for i := range 10_000 {
			if code := from(i); code != 404 {
				t.Fatalf("address %d: %d", i, code)
			}
		}
		refused := 0
		for i := 20_000; i < 20_100; i++ {
			if from(i) == 429 {
				refused++
			}
		}
		if refused != 98 {
			t.Errorf("%d of 100 addresses without a place were refused, want 98", refused)
		}
		time.Sleep(2 * time.Second)
		for i := 20_000; i < 20_100; i++ {
			if code := from(i); code != 404 {
				t.Fatalf("address %d after a while: %d", i, code)
			}
		}
	})
}

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.beating(httpapi.Config{Rate: 5}).Handler()
		for range 10 {
			if w := get(h, "/v1/stats"); w.Code != 200 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		w := send(h, "POST", "/v1/beat/a", "")
		wantProblem(t, w, "11th", 429, "this address makes more requests than it may")
		if w.Header().Get("Retry-After") != "1" {
			t.Error("no Retry-After")
		}
		if w := get(h, "/healthz"); w.Code != 200 {
			t.Errorf("health check: %d", w.Code)
		}
		time.Sleep(time.Second)
		if text := get(h, "/metrics").Body.String(); !strings.Contains(text, "holter_http_limited_total 1\n") {
			t.Errorf("metrics:\n%s", text)
		}
	})
}

func TestStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		s := newSecrets()
		starting := errors.New("restoring 300,000 of 1,000,000 devices")
		h := f.beating(httpapi.Config{Starting: func() error { return starting }, Auth: s}).Handler()
		for _, target := range []string{"/v1/stats", "/v1/devices/a", "/v1/nothing", "/v1/beat/a", "/readyz"} {
			w := get(h, target)
			wantProblem(t, w, target, 503, "starting: restoring 300,000 of 1,000,000 devices")
			if w.Header().Get("Retry-After") != "1" {
				t.Errorf("%s: Retry-After: %s", target, w.Header().Get("Retry-After"))
			}
		}
		wantProblem(t, send(h, "POST", "/v1/beats", `["a"]`), "beats", 503, "starting: ")
		if w := get(h, "/healthz"); w.Code != 200 {
			t.Errorf("GET /healthz = %d", w.Code)
		}
		if w := send(h, "GET", "/metrics", "", bearing("r")...); w.Code != 200 {
			t.Errorf("GET /metrics = %d", w.Code)
		}
		starting = nil
		if w := send(h, "GET", "/v1/stats", "", bearing("r")...); w.Code != 200 {
			t.Errorf("GET /v1/stats = %d", w.Code)
		}
		if w := get(h, "/readyz"); w.Code != 200 {
			t.Errorf("GET /readyz = %d", w.Code)
		}
	})
}

// TestRebinding refuses a page whose name was made to point to this machine, unless it shows a token.
func TestRebinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		auth := &secrets{none: true}
		h := f.beating(httpapi.Config{Auth: auth, Local: true}).Handler()
		ask := func(host string, headers ...string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/devices", nil)
			r.Host = host
			for i := 0; i+1 < len(headers); i += 2 {
				r.Header.Set(headers[i], headers[i+1])
			}
			h.ServeHTTP(w, r)
			return w
		}
		for _, host := range []string{"evil.example", "evil.example:8080", "localhost.evil.example", "192.0.2.1:8080", "127.0.0.1.evil.example", "[2001:db8::1]:80"} {
			wantProblem(t, ask(host), host, 421, "only localhost is answered")
		}
		for _, host := range []string{"", "localhost", "LOCALHOST:8080", "holter.localhost:8080", "127.0.0.1", "127.8.8.8:80", "[::1]:8080", "::1", "localhost."} {
			if w := ask(host); w.Code != 200 {
				t.Errorf("%q: %d %s", host, w.Code, w.Body)
			}
		}
		auth.set(func() { auth.none = false })
		if w := ask("evil.example"); w.Code != 401 {
			t.Errorf("with tokens: %d %s", w.Code, w.Body)
		}
	})
}

// TestStreamRevoked ends a stream whose token is revoked, also while wrong tokens come from its address.
func TestStreamRevoked(t *testing.T) {
	for _, guessing := range []bool{false, true} {
		t.Run(fmt.Sprint("guessing ", guessing), func(t *testing.T) { testStreamRevoked(t, guessing) })
	}
}

func testStreamRevoked(t *testing.T, guessing bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		auth := newSecrets()
		api := f.api(httpapi.Config{Auth: auth})
		s := serve(t, api)
		s.token = "r"
		r := s.follow(t, "", "")
		r.want("0", "", "")
		r.want("", "", "still here")
		auth.set(func() { auth.fail = errors.New("the database does not answer") })
		for range 3 {
			r.want("", "", "still here")
		}
		auth.set(func() { auth.fail = nil })
		if guessing {
			defer guess(t, api.Handler())()
		}
		r.want("", "", "still here")
		auth.set(func() { delete(auth.known, "r") })
		revoked := time.Now()
		m, err := r.next()
		if took := time.Since(revoked); err != nil || m.comment != "the token was revoked" || took > 5*time.Second {
			t.Errorf("%v after the token was revoked: %q, %v", took, m.comment, err)
		}
		if _, err := r.next(); !errors.Is(err, io.EOF) {
			t.Errorf("after the token was revoked: %v, want the end", err)
		}
		r.body.Close()
	})
}

// Of many streams with one token, all end within 5 s of its revocation, whenever they began; a stream
// without a token ends when one is needed.
func TestStreamsRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		auth := newSecrets()
		auth.none = true
		s := serve(t, f.api(httpapi.Config{Auth: auth}))
		without := s.follow(t, "", "")
		without.want("0", "", "")
		auth.set(func() { auth.none = false })
		if m, err := without.next(); err != nil || m.comment != "a token is needed now" {
			t.Errorf("a stream without a token: %q, %v", m.comment, err)
		}
		without.body.Close()
		s.token = "r"
		var streams []*reader
		for range 40 {
			r := s.follow(t, "", "")
			r.want("0", "", "")
			streams = append(streams, r)
			time.Sleep(170 * time.Millisecond)
		}
		before := auth.count()
		time.Sleep(4 * time.Second)
		if n := auth.count() - before; n > 5 {
			t.Errorf("40 streams looked the token up %d times in 4 s", n)
		}
		auth.set(func() { delete(auth.known, "r") })
		revoked := time.Now()
		for i, r := range streams {
			m, err := r.next()
			if took := time.Since(revoked); err != nil || m.comment != "the token was revoked" || took > 5*time.Second {
				t.Errorf("stream %d, after %v: %q, %v", i, took, m.comment, err)
			}
			r.body.Close()
		}
	})
}

// guess tries wrong tokens from the address of streams, again and again, until stop is called.
func guess(t *testing.T, h http.Handler) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	var guessing sync.WaitGroup
	guessing.Go(func() {
		for {
			select {
			case <-time.After(time.Second): // not at the instants at which the stream asks
			case <-done:
				return
			}
			for i := range 20 {
				r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/stats", http.NoBody)
				r.RemoteAddr = "pipe"
				r.Header.Set("Authorization", fmt.Sprint("Bearer guess", i))
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
		}
	})
	return func() {
		close(done)
		guessing.Wait()
	}
}
