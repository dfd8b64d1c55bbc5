package httpapi_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holter-iot/holter/internal/httpapi"
)

// What was read is replaced or deleted only if nobody has changed it since.
func TestEdits(t *testing.T) {
	h, _ := delivering(t, httpapi.Config{})
	hooked := `{"kind":"webhook","target":"https://example.org/1","settings":{"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}`
	for _, c := range []struct{ path, one, other string }{
		{"/v1/queues/q", `{"rate":1}`, `{"rate":2}`},
		{"/v1/endpoints/e", hooked, strings.Replace(hooked, "whsec_M", "whsec_N", 1)},
		{"/v1/routes/r", `{"endpoint":"to"}`, `{"endpoint":"to","all":true}`},
		{"/v1/schedules/s", `{"kind":"webhook","when":"@daily","settings":{"endpoint":"to"}}`, `{"kind":"webhook","when":"@hourly","settings":{"endpoint":"to"}}`},
	} {
		if w := send(h, "PUT", "/v1/endpoints/to", hook); w.Code != http.StatusNoContent {
			t.Fatal(w.Body)
		}
		ask := func(code int, method, body string, headers ...string) string {
			t.Helper()
			w := send(h, method, c.path, body, headers...)
			if code == http.StatusPreconditionFailed {
				wantProblem(t, w, method+" "+c.path, code, "nothing was changed")
			} else if w.Code/100*100 != code {
				t.Errorf("%s %s %s = %d %s, want %d", method, c.path, headers, w.Code, w.Body, code)
			}
			return w.Header().Get("ETag")
		}
		ask(412, "PUT", c.one, "If-Match", "*")
		ask(200, "PUT", c.one, "If-None-Match", "*")
		ask(412, "PUT", c.one, "If-None-Match", "*")
		first := ask(200, "GET", "")
		if again := ask(200, "GET", ""); first == "" || again != first {
			t.Errorf("%s: tags %s and %s, want the same", c.path, first, again)
		}
		ask(200, "PUT", c.other, "If-Match", first)
		second := ask(200, "GET", "")
		ask(412, "PUT", c.one, "If-Match", first)
		ask(412, "DELETE", "", "If-Match", first)
		if third := ask(200, "GET", ""); second == first || third != second {
			t.Errorf("%s: tags %s, %s, %s, want the last two to be the same", c.path, first, second, third)
		}
		ask(200, "PUT", c.one, "If-Match", `"x", `+second)
		ask(200, "PUT", c.other) // without a condition as ever
		ask(200, "DELETE", "", "If-Match", "*")
		ask(412, "DELETE", "", "If-Match", "*")
	}
}

// Of many edits of the same settings at the same time one is made.
func TestConcurrentEdits(t *testing.T) {
	h, _ := delivering(t, httpapi.Config{})
	tag := get(h, "/v1/queues/default").Header().Get("ETag")
	var made atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			switch w := send(h, "PUT", "/v1/queues/default", `{"rate":7}`, "If-Match", tag); w.Code {
			case http.StatusNoContent:
				made.Add(1)
			case http.StatusPreconditionFailed:
			default:
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	all.Wait()
	if n := made.Load(); n != 1 {
		t.Errorf("%d edits were made, want 1", n)
	}
}
