package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/httpapi/auth"
	"github.com/holter-iot/holter/liveness"
)

// keyring keeps tokens in memory. The secret of a token is its id.
type keyring struct {
	mu     sync.Mutex // guards the fields below
	tokens []auth.Token
	fail   error
}

// newKeyring has an administrator and a reader, whose secrets are a and r.
func newKeyring() *keyring {
	return &keyring{tokens: []auth.Token{{ID: "a", Name: "boss", Role: auth.RoleAdmin, Created: time.Unix(1, 0)}, {ID: "r", Name: "board", Role: auth.RoleRead}}}
}

func (k *keyring) Required() (bool, error) { return true, nil }

func (k *keyring) Lookup(_ context.Context, secret string) (auth.Token, bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, t := range k.tokens {
		if t.ID == secret {
			return t, true, nil
		}
	}
	return auth.Token{}, false, nil
}

func (k *keyring) List(context.Context) ([]auth.Token, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tokens, k.fail
}

func (k *keyring) Create(_ context.Context, name string, role auth.Role) (string, auth.Token, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if name == "bad" {
		return "", auth.Token{}, auth.ErrBad
	}
	t := auth.Token{ID: "new", Name: name, Role: role, Created: time.Unix(2, 0)}
	k.tokens = append(k.tokens, t)
	return "new", t, k.fail
}

func (k *keyring) Revoke(_ context.Context, id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, t := range k.tokens {
		if t.ID == id {
			k.tokens = append(k.tokens[:i:i], k.tokens[i+1:]...)
			return k.fail
		}
	}
	return auth.ErrUnknownToken
}

func TestTokensOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		k := newKeyring()
		h := newFleet(t, liveness.Config{}, 0).api(httpapi.Config{Auth: k, Tokens: k, Logger: slog.New(slog.NewTextHandler(&log, nil))}).Handler()
		list := func(want string) {
			t.Helper()
			if w := send(h, "GET", "/v1/tokens", "", cookie("a")...); w.Code != 200 || strings.TrimSpace(w.Body.String()) != want {
				t.Errorf("list = %d %s, want %s", w.Code, w.Body, want)
			}
		}
		const boss = `{"id":"a","name":"boss","role":"admin","created":"1970-01-01T00:00:01Z","current":true}`
		list(`{"tokens":[` + boss + `,{"id":"r","name":"board","role":"read","created":"0001-01-01T00:00:00Z"}]}`)

		w := send(h, "POST", "/v1/tokens", `{"name": "site 7", "role": "beat"}`, bearing("a")...)
		const made = `{"id":"new","name":"site 7","role":"beat","created":"1970-01-01T00:00:02Z","secret":"new"}`
		if got := strings.TrimSpace(w.Body.String()); w.Code != 200 || got != made {
			t.Errorf("create = %d %s, want %s", w.Code, got, made)
		}
		if w := send(h, "GET", "/v1/session", "", cookie("new")...); w.Code != 200 {
			t.Errorf("the new token: %d %s", w.Code, w.Body)
		}
		for _, id := range []string{"r", "new"} {
			send(h, "GET", "/v1/session", "", bearing(id)...)
			if w := send(h, "DELETE", "/v1/tokens/"+id, "", bearing("a")...); w.Code != 204 {
				t.Errorf("delete %s = %d %s", id, w.Code, w.Body)
			}
			wantProblem(t, send(h, "GET", "/v1/session", "", bearing(id)...), "at once after its deletion", 401, "was revoked")
		}
		list(`{"tokens":[` + boss + `]}`)
		for _, part := range []string{`what="token made" token=boss id=new name="site 7" role=beat`, `what="token deleted" token=boss id=new`} {
			if !strings.Contains(log.String(), part) {
				t.Errorf("the log has no %s:\n%s", part, log.String())
			}
		}
		if w := send(h, "DELETE", "/v1/tokens/a", "", bearing("a")...); w.Code != 204 {
			t.Errorf("delete the last = %d %s", w.Code, w.Body)
		}
	})
}

func TestTokensOverHTTPMistakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		k := newKeyring()
		h := f.api(httpapi.Config{Auth: k, Tokens: k}).Handler()
		for body, part := range map[string]string{
			`{"name": "n", "role": "root"}`: "body.role", `{"role": "read"}`: "name", `{"name": "", "role": "read"}`: "body.name",
			`{"name": "bad", "role": "read"}`: "auth: bad token", `{"name": "` + strings.Repeat("n", 101) + `", "role": "read"}`: "body.name",
		} {
			wantProblem(t, send(h, "POST", "/v1/tokens", body, bearing("a")...), body, 422, part)
		}
		wantProblem(t, send(h, "DELETE", "/v1/tokens/none", "", bearing("a")...), "unknown", 404, "unknown token")
		for _, route := range []string{"GET /v1/tokens", "POST /v1/tokens", "DELETE /v1/tokens/a"} {
			method, path, _ := strings.Cut(route, " ")
			wantProblem(t, send(h, method, path, `{"name": "n", "role": "admin"}`, bearing("r")...), route, 403, "this needs a token with the role admin")
			wantProblem(t, send(h, method, path, ""), route, 401, "this needs a token with the role admin")
		}
		k.fail = errors.New("the database is away")
		wantProblem(t, send(h, "GET", "/v1/tokens", "", bearing("a")...), "list", 503, "the database cannot be read or written just now")
		wantProblem(t, get(f.api(httpapi.Config{}).Handler(), "/v1/tokens"), "without them", 404, "there is nothing at this path")
	})
}

func TestSettingsInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.api(httpapi.Config{Auth: newSecrets(), Settings: func() httpapi.Settings {
			return httpapi.Settings{File: "fleet.yaml", Settings: []httpapi.Setting{{Key: "http", Value: ":80", From: "--http"}}}
		}}).Handler()
		const want = `{"file":"fleet.yaml","settings":[{"key":"http","value":":80","from":"--http"}]}`
		if w := send(h, "GET", "/v1/config", "", bearing("a")...); w.Code != 200 || strings.TrimSpace(w.Body.String()) != want {
			t.Errorf("%d %s, want %s", w.Code, w.Body, want)
		}
		wantProblem(t, send(h, "GET", "/v1/config", "", bearing("r")...), "reader", 403, "the role admin")
		wantProblem(t, get(f.api(httpapi.Config{}).Handler(), "/v1/config"), "without it", 404, "there is nothing at this path")
	})
}

// Examinations come one at a time, and one that hangs is answered after a while.
func TestExamine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		hang := make(chan struct{})
		h := f.api(httpapi.Config{Auth: newSecrets(), Examine: func(context.Context) []httpapi.Finding {
			<-hang
			return []httpapi.Finding{{Check: "clock", Level: "warn", Text: "t", Help: "h"}}
		}}).Handler()
		wantProblem(t, send(h, "GET", "/v1/doctor", "", bearing("r")...), "reader", 403, "the role admin")
		examine := func() *http.Response {
			return send(h, "GET", "/v1/doctor", "", bearing("a")...).Result()
		}
		began := time.Now()
		slow := examine()
		slow.Body.Close()
		if took := time.Since(began); slow.StatusCode != 503 || slow.Header.Get("Retry-After") == "" || took != 20*time.Second {
			t.Errorf("an examination that hangs = %s after %v, %v", slow.Status, took, slow.Header)
		}
		w := send(h, "GET", "/v1/doctor", "", bearing("a")...)
		wantProblem(t, w, "another one", 503, "another examination is under way")
		if w.Header().Get("Retry-After") == "" {
			t.Error("a 503 without Retry-After")
		}
		close(hang)
		synctest.Wait()
		answer := examine()
		defer answer.Body.Close()
		var got struct{ Findings []map[string]string }
		if err := json.NewDecoder(answer.Body).Decode(&got); err != nil || answer.StatusCode != 200 || len(got.Findings) != 1 || len(got.Findings[0]) != 4 || got.Findings[0]["check"] != "clock" {
			t.Errorf("%s %v, %v", answer.Status, got, err)
		}
		wantProblem(t, get(f.api(httpapi.Config{}).Handler(), "/v1/doctor"), "without it", 404, "there is nothing at this path")
	})
}

func TestConsoleIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		console := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60")
			_, _ = w.Write([]byte(r.URL.Path))
		})
		h := f.api(httpapi.Config{Auth: newSecrets(), Console: console, Starting: func() error { return errors.New("it starts") }}).Handler()
		for _, path := range []string{"/console/", "/console/deep/app.js"} {
			w := get(h, path)
			if header := w.Header(); w.Code != 200 || w.Body.String() != path || header.Get("Cache-Control") != "max-age=60" || header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s = %d %s, %v", path, w.Code, w.Body, header)
			}
			wantProblem(t, ask(h, "POST", path), "POST "+path, 405, "this path takes GET, HEAD")
		}
		if w := ask(h, "HEAD", "/console/"); w.Code != 200 {
			t.Errorf("HEAD = %d", w.Code)
		}
		for from, to := range map[string]string{"/": "/console/", "/console": "/console/"} {
			if w := get(h, from); w.Code/100 != 3 || w.Header().Get("Location") != to {
				t.Errorf("%s = %d, %v", from, w.Code, w.Header())
			}
		}
		wantProblem(t, get(h, "/other"), "another path", 404, "there is nothing at this path")
		wantProblem(t, ask(h, "POST", "/"), "POST /", 404, "there is nothing at this path")
		without := f.api(httpapi.Config{}).Handler()
		for _, path := range []string{"/", "/console/", "/console"} {
			wantProblem(t, get(without, path), "without a console "+path, 404, "there is nothing at this path")
		}
	})
}
