package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// serveExamined is serveWith with an examination, which counts the sources and asks the database.
func serveExamined(t *testing.T, line string) *served {
	t.Helper()
	s := serveExamine(t, "j", fmt.Sprintf("listen: ['127.0.0.1:0']\ndatabase: %q\n%s\n", testdb.SQLite(t), line), func(ctx context.Context, r Running) []httpapi.Finding {
		aside, err := store.CountSetAside(ctx, r.Database)
		return []httpapi.Finding{{Check: r.Config.Node, Level: "ok", Text: fmt.Sprintf("%v %s %d %v %v", len(r.Sources) > 0, r.Stats.Node, aside, err, r.Ready)}}
	}, io.Discard)
	testwait.Until(t, "the server", s.judges)
	return s
}

// with asks with a cookie, and returns the status, the answer and the cookie that it sets.
func (s *served) with(cookie, method, path, body string) (status int, answer, set string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.api+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Close = true
	if cookie != "" {
		request.Header.Set("Cookie", "holter_session="+cookie)
	}
	w, err := http.DefaultTransport.RoundTrip(request) // which follows no redirect
	if err != nil {
		s.t.Fatal(err)
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range w.Cookies() {
		set = c.Value
	}
	return w.StatusCode, string(text), set
}

// The first token is needed at once, and the last one that goes opens the API to this machine again.
func TestFirstAndLastToken(t *testing.T) {
	t.Parallel()
	s := serveExamined(t, "")
	create := func(cookie, name string) httpapi.NewToken {
		t.Helper()
		status, body, _ := s.with(cookie, "POST", "/v1/tokens", fmt.Sprintf(`{"name": %q, "role": "admin"}`, name))
		var made httpapi.NewToken
		if err := json.Unmarshal([]byte(body), &made); err != nil || status != 200 || !strings.HasPrefix(made.Secret, "holter_") {
			t.Fatalf("create = %d %s, %v", status, body, err)
		}
		return made
	}
	first := create("", "first")
	if status, body, _ := s.with("", "GET", "/v1/session", ""); status != 401 {
		t.Errorf("without the token: %d %s", status, body)
	}
	status, body, cookie := s.with("", "POST", "/v1/session", fmt.Sprintf(`{"token": %q}`, first.Secret))
	if status != 204 || cookie != first.Secret {
		t.Fatalf("login = %d %s, %q", status, body, cookie)
	}
	second := create(cookie, "second")
	status, body, _ = s.with(cookie, "GET", "/v1/tokens", "")
	var list struct{ Tokens []httpapi.Token }
	if err := json.Unmarshal([]byte(body), &list); err != nil || status != 200 || len(list.Tokens) != 2 || !list.Tokens[0].Current || list.Tokens[1].Current {
		t.Errorf("list = %d %s, %v", status, body, err)
	}
	for _, id := range []string{second.ID, first.ID} {
		if status, body, _ := s.with(cookie, "DELETE", "/v1/tokens/"+id, ""); status != 204 {
			t.Errorf("delete = %d %s", status, body)
		}
	}
	if status, body, _ := s.with("", "GET", "/v1/session", ""); status != 200 || !strings.Contains(body, `"required":false`) {
		t.Errorf("without tokens: %d %s", status, body)
	}
	if status, body, _ := s.with("", "POST", "/v1/tokens", `{"name": " ", "role": "read"}`); status != 422 || !strings.Contains(body, "a token needs a name") {
		t.Errorf("a blank name: %d %s", status, body)
	}
}

func TestSettingsAndExamination(t *testing.T) {
	t.Parallel()
	s := serveExamined(t, "token: hunter2\npolicy: {timeout: 7m}\nhttp_console: on")
	var settings httpapi.Settings
	status, body, _ := s.with("", "GET", "/v1/config", "")
	if err := json.Unmarshal([]byte(body), &settings); err != nil || status != 200 || strings.Contains(body, "hunter2") {
		t.Fatalf("%d %s, %v", status, body, err)
	}
	got := map[string]httpapi.Setting{}
	for _, one := range settings.Settings {
		got[one.Key] = one
	}
	for key, want := range map[string]httpapi.Setting{
		"token": {Value: "***", From: "file"}, "policy.timeout": {Value: "7m", From: "file"}, "events.max_age": {Value: "30d", From: "default"},
	} {
		one := got[key]
		if (one.At != "") != (one.From == "file") {
			t.Errorf("the place of %s is %q", key, one.At)
		}
		one.At = ""
		if want.Key = key; one != want {
			t.Errorf("%+v, want %+v", one, want)
		}
	}
	if !strings.HasPrefix(settings.File, "/") {
		t.Errorf("the file is %q", settings.File)
	}
	const found = `{"findings":[{"check":"j","level":"ok","text":"true j 0 <nil> <nil>"}]}`
	if status, body, _ := s.with("", "GET", "/v1/doctor", ""); status != 200 || strings.TrimSpace(body) != found {
		t.Errorf("%d %s, want %s", status, body, found)
	}
}

func TestConsole(t *testing.T) {
	t.Parallel()
	s := serveExamined(t, "")
	if status, body, _ := s.with("", "GET", "/console/", ""); status != 200 || !strings.Contains(body, "<title>Holter") {
		t.Errorf("%d %s", status, body)
	}
	if status, body, _ := s.with("", "GET", "/", ""); status != 302 {
		t.Errorf("/ = %d %s", status, body)
	}
	s = serveExamined(t, "http_console: off")
	for _, path := range []string{"/", "/console/"} {
		if status, body, _ := s.with("", "GET", path, ""); status != 404 {
			t.Errorf("%s without a console = %d %s", path, status, body)
		}
	}
	if _, err := config.Resolve("", []config.Setting{{Key: "http_console", Value: "maybe", Origin: "--http-console"}}); err == nil ||
		err.Error() != `--http-console: "maybe" is not allowed; write on or off` {
		t.Errorf("maybe: %v", err)
	}
}
