package httpapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/liveness"
)

func cookie(secret string) []string { return []string{"Cookie", "holter_session=" + secret} }

// cookieOf returns the one cookie that an answer sets; nil if it sets none.
func cookieOf(t *testing.T, w *httptest.ResponseRecorder) *http.Cookie {
	t.Helper()
	all := w.Result().Cookies() //nolint:bodyclose // it is in memory
	if len(all) == 0 {
		return nil
	}
	c := all[0]
	if len(all) != 1 || c.Name != "holter_session" || c.Path != "/" || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Domain != "" {
		t.Errorf("cookies %v, want one holter_session for this host alone, HttpOnly and SameSite=Strict", w.Header().Values("Set-Cookie"))
	}
	return c
}

func wantDropped(t *testing.T, w *httptest.ResponseRecorder, what string, want bool) {
	t.Helper()
	c := cookieOf(t, w)
	if got := c != nil && c.MaxAge < 0 && c.Value == ""; got != want {
		t.Errorf("%s: Set-Cookie: %v, want the cookie removed: %v", what, w.Header().Values("Set-Cookie"), want)
	}
}

func TestLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		var log bytes.Buffer
		h := f.api(httpapi.Config{Auth: newSecrets(), Logger: slog.New(slog.NewTextHandler(&log, nil))}).Handler()
		w := send(h, "POST", "/v1/session", `{"token": " r\n"}`)
		c := cookieOf(t, w)
		if w.Code != 204 || c == nil || c.Value != "r" || c.Secure || c.MaxAge != 0 || !c.Expires.IsZero() {
			t.Fatalf("login = %d %s, %v", w.Code, w.Body, w.Header())
		}
		w = send(h, "GET", "/v1/session", "", cookie(c.Value)...)
		if got, want := strings.TrimSpace(w.Body.String()), `{"required":true,"role":"read","name":"the read"}`; w.Code != 200 || got != want {
			t.Errorf("session = %d %s, want %s", w.Code, got, want)
		}
		for _, headers := range [][]string{nil, cookie("r")} {
			w = send(h, "DELETE", "/v1/session", "", headers...)
			if w.Code != 204 {
				t.Errorf("logout = %d %s", w.Code, w.Body)
			}
			wantDropped(t, w, "logout", true)
		}
		wantProblem(t, get(h, "/v1/session"), "without a token", 401, "this needs a token; send")
		w = send(h, "POST", "/v1/session", `{"token": "hunter2"}`)
		wantProblem(t, w, "wrong token", 401, "this token is not known, or was revoked")
		wantDropped(t, w, "wrong token", false)
		if strings.Contains(log.String(), "hunter2") {
			t.Errorf("the log shows a token:\n%s", log.String())
		}
		for body, part := range map[string]string{
			"": "the JSON ends too early", `{}`: "the token is missing", `{"token": " "}`: "the token is missing", `{"token": 1}`: "token must not be a number",
			`{"secret": "r"}`: "unknown field", `"r"`: "it must not be a string", `{"token":"r"} {}`: "after the JSON value",
		} {
			w := send(h, "POST", "/v1/session", body)
			wantProblem(t, w, body, 422, part)
			if cookieOf(t, w) != nil {
				t.Errorf("%s sets a cookie", body)
			}
		}
		wantProblem(t, send(h, "POST", "/v1/session", `{"token": "`+strings.Repeat("a", 1<<20)+`"}`), "long token", 413, "more than")
		wantProblem(t, send(h, "PUT", "/v1/session", ""), "another method", 405, "this path takes GET, HEAD, POST, DELETE")
	})
}

// Whoever is sent by a page of another site is not logged in or out.
func TestLoginFromElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mine = "https://board.example"
		h := newFleet(t, liveness.Config{}, 0).api(httpapi.Config{Auth: newSecrets(), AllowOrigins: []string{mine}}).Handler()
		for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", mine}, {"Origin", "null"}} {
			for _, method := range []string{"POST", "DELETE"} {
				w := send(h, method, "/v1/session", `{"token": "r"}`, headers...)
				wantProblem(t, w, fmt.Sprint(method, headers), 403, "a page of another site asked the browser for this")
				if cookieOf(t, w) != nil {
					t.Errorf("%s %v sets a cookie", method, headers)
				}
			}
		}
	})
}

func TestLoginSecure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFleet(t, liveness.Config{}, 0).api(httpapi.Config{Auth: newSecrets()}).Handler()
		for _, c := range []struct {
			target, proxy string
			want          bool
		}{
			{"http://holter/v1/session", "", false},
			{"https://holter/v1/session", "", true},
			{"http://holter/v1/session", "https", true},
			{"http://holter/v1/session", "HTTPS", true},
			{"https://holter/v1/session", "http", false},
		} {
			var headers []string
			if c.proxy != "" {
				headers = []string{"X-Forwarded-Proto", c.proxy}
			}
			if got := cookieOf(t, send(h, "POST", c.target, `{"token": "r"}`, headers...)); got == nil || got.Secure != c.want {
				t.Errorf("%+v: %v", c, got)
			}
		}
	})
}

func TestLoginGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSecrets()
		h := newFleet(t, liveness.Config{}, 0).api(httpapi.Config{Auth: s}).Handler()
		for i := range 10 {
			wantProblem(t, send(h, "POST", "/v1/session", fmt.Sprintf(`{"token": "guess%d"}`, i)), "guess", 401, "this token is not known")
		}
		w := send(h, "POST", "/v1/session", `{"token": "more"}`)
		wantProblem(t, w, "guess", 429, "too many wrong tokens came from this address")
		if w.Header().Get("Retry-After") != "6" {
			t.Errorf("Retry-After: %s", w.Header().Get("Retry-After"))
		}
		w = send(h, "GET", "/v1/stats", "", cookie("more")...)
		wantProblem(t, w, "guess by cookie", 429, "too many wrong tokens came from this address")
		wantDropped(t, w, "guess by cookie", true)
		if w := send(h, "POST", "/v1/session", `{"token": "r"}`); w.Code != 204 {
			t.Errorf("a right token = %d %s", w.Code, w.Body)
		}
		s.set(func() { s.fail = errors.New("the database does not answer") })
		w = send(h, "POST", "/v1/session", `{"token": "a"}`)
		wantProblem(t, w, "no database", 503, "tokens cannot be checked just now")
		w = send(h, "GET", "/v1/stats", "", cookie("a")...)
		wantProblem(t, w, "no database", 503, "tokens cannot be checked just now")
		wantDropped(t, w, "no database", false)
	})
}

func TestSessionNotRequired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		s := newSecrets()
		want := func(h http.Handler, what string) {
			t.Helper()
			for _, headers := range [][]string{nil, cookie("wrong"), cookie("r")} {
				var got httpapi.Session
				w := send(h, "GET", "/v1/session", "", headers...)
				if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || got != (httpapi.Session{}) {
					t.Errorf("%s: %d %s, %v", what, w.Code, w.Body, err)
				}
			}
		}
		h := f.api(httpapi.Config{Auth: s}).Handler()
		s.set(func() { s.none = true })
		want(h, "none is needed")
		if w := send(h, "POST", "/v1/session", `{"token": "r"}`); w.Code != 204 || cookieOf(t, w) == nil {
			t.Errorf("login = %d %s", w.Code, w.Body)
		}
		wantProblem(t, send(h, "POST", "/v1/session", `{"token": "wrong"}`), "login", 401, "this token is not known")
		s.set(func() { s.none, s.early = false, true })
		wantProblem(t, get(h, "/v1/session"), "not known yet", 503, "it is not known yet whether a token is needed")

		h = f.api(httpapi.Config{}).Handler()
		want(h, "there are no tokens")
		if w := send(h, "POST", "/v1/session", `{"token": "r"}`); w.Code != 204 || cookieOf(t, w) != nil {
			t.Errorf("login without Auth = %d %s, %v", w.Code, w.Body, w.Header())
		}
	})
}

func TestCookie(t *testing.T) {
	const mine, other = "https://board.example", "https://other.example"
	site := func(s string) []string { return []string{"Sec-Fetch-Site", s} }
	tests := []struct {
		name, method, target, secret string
		headers                      []string
		code                         int
		dropped                      bool
	}{
		{"read", "GET", "/v1/devices", "r", nil, 200, false},
		{"own page", "GET", "/v1/devices", "r", site("same-origin"), 200, false},
		{"typed", "GET", "/v1/devices", "r", site("none"), 200, false},
		{"stream", "HEAD", "/v1/events/stream", "r", nil, 200, false},
		{"metrics", "GET", "/metrics", "r", nil, 200, false},
		{"admin", "GET", "/debug/pprof/cmdline", "a", nil, 200, false},
		{"change", "PUT", "/v1/devices/a/maintenance", "a", site("same-origin"), 200, false},
		{"change, old browser", "PUT", "/v1/devices/a/maintenance", "a", []string{"Origin", "http://example.com"}, 200, false},
		{"role", "PUT", "/v1/devices/a/maintenance", "r", site("same-origin"), 403, false},
		{"beat", "POST", "/v1/beat/a", "b", site("same-origin"), 200, false},
		{"beat, script", "POST", "/v1/beat/a", "b", nil, 200, false},
		{"beat by GET", "GET", "/v1/beat/a", "b", site("same-origin"), 200, false},
		{"beat by GET, typed", "GET", "/v1/beat/a", "b", site("none"), 200, false},

		{"header wins", "GET", "/v1/devices", "wrong", bearing("r"), 200, false},
		{"wrong header wins", "GET", "/v1/devices", "r", bearing("wrong"), 401, false},
		{"header of another scheme", "GET", "/v1/devices", "r", []string{"Authorization", "Basic cjpy"}, 200, false},
		{"query wins", "GET", "/v1/beat/a?token=b", "r", site("same-origin"), 200, false},
		{"query elsewhere", "GET", "/v1/devices?token=r", "", nil, 401, false},
		{"empty", "GET", "/v1/devices", "", nil, 401, false},
		{"wrong", "GET", "/v1/devices", "wrong", nil, 401, true},
		{"wrong, of a beat", "POST", "/v1/beat/a", "wrong", nil, 401, true},
		{"wrong, of a session", "GET", "/v1/session", "wrong", nil, 401, true},

		{"page of another site reads", "GET", "/v1/devices", "r", site("cross-site"), 401, false},
		{"page of another port reads", "GET", "/v1/devices", "r", site("same-site"), 401, false},
		{"page of an origin that is allowed reads", "GET", "/v1/devices", "r", []string{"Origin", mine, "Sec-Fetch-Site", "cross-site"}, 401, false},
		{"the same, old browser", "GET", "/v1/devices", "r", []string{"Origin", mine}, 401, false},
		{"page of another origin, old browser", "GET", "/v1/devices", "r", []string{"Origin", other}, 401, false},
		{"page without an origin", "GET", "/v1/devices", "r", []string{"Origin", "null"}, 401, false},
		{"stream of another site", "GET", "/v1/events/stream", "r", site("cross-site"), 401, false},
		{"session of another site", "GET", "/v1/session", "r", site("cross-site"), 401, false},
		{"wrong, of another site", "GET", "/v1/devices", "wrong", site("cross-site"), 401, false},
		{"other site with a header", "GET", "/v1/devices", "wrong", append(bearing("r"), "Origin", mine, "Sec-Fetch-Site", "cross-site"), 200, false},
		{"other site changes", "PUT", "/v1/devices/a/maintenance", "a", site("cross-site"), 403, false},
		{"other site changes, old browser", "PUT", "/v1/devices/a/maintenance", "a", []string{"Origin", other}, 403, false},
		{"other site beats", "POST", "/v1/beat/a", "b", site("cross-site"), 403, false},
		{"other site beats by GET", "GET", "/v1/beat/a", "b", site("cross-site"), 403, false},
		{"other port beats by GET", "GET", "/v1/beat/a", "b", site("same-site"), 403, false},
		{"other origin beats by GET", "GET", "/v1/beat/a", "b", []string{"Origin", mine}, 403, false},
		{"nobody knows who beats by GET", "GET", "/v1/beat/a", "b", nil, 401, false},
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.beating(httpapi.Config{Auth: newSecrets(), AllowOrigins: []string{mine}}).Handler()
		f.pulse()
		send(h, "POST", "/v1/beat/a", "", bearing("b")...)
		for _, tt := range tests {
			w := send(h, tt.method, tt.target, "", append(tt.headers, cookie(tt.secret)...)...)
			if w.Code != tt.code {
				t.Errorf("%s: %d %s, want %d", tt.name, w.Code, w.Body, tt.code)
			}
			wantDropped(t, w, tt.name, tt.dropped)
			if w.Header().Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s: credentials are allowed to other origins", tt.name)
			}
			time.Sleep(7 * time.Second) // so that wrong tokens are not too many
		}
	})
}

// A stream that was opened with a cookie ends when its token is revoked, and the next request loses the
// cookie.
func TestCookieOfStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 100)
		s := newSecrets()
		server := serve(t, f.api(httpapi.Config{Auth: s}))
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://holter/v1/events/stream", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.AddCookie(&http.Cookie{Name: "holter_session", Value: "r"})
		answer, err := server.client.Do(request)
		if err != nil || answer.StatusCode != 200 {
			t.Fatalf("%v, %v", answer, err)
		}
		defer answer.Body.Close()
		time.Sleep(10 * time.Second)
		s.set(func() { delete(s.known, "r") })
		var text bytes.Buffer
		began := time.Now()
		if _, err := text.ReadFrom(answer.Body); err != nil || !strings.HasSuffix(text.String(), ": the token was revoked\n\n") {
			t.Errorf("%v, the stream ends with %q", err, text.String())
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the stream ends after %v", took)
		}
		again, err := server.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer again.Body.Close()
		if cookies := again.Cookies(); again.StatusCode != 401 || len(cookies) != 1 || cookies[0].MaxAge >= 0 {
			t.Errorf("%s, %v", again.Status, cookies)
		}
	})
}
