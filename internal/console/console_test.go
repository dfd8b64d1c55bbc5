package console_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/console"
)

func handler(t *testing.T, api http.HandlerFunc) http.Handler {
	t.Helper()
	h, err := console.Handler(api)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func get(t *testing.T, h http.Handler, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func bodyOf(t *testing.T, answer *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestHandler(t *testing.T) {
	h := handler(t, http.NotFound)
	scripts, err := filepath.Glob("dist/main-*.js")
	if err != nil || len(scripts) != 1 {
		t.Fatalf("scripts: %v, %v", scripts, err)
	}
	script := "/console/" + filepath.Base(scripts[0])
	tests := []struct {
		path        string
		status      int
		kind, keeps string
	}{
		{"/console/", 200, "text/html; charset=utf-8", "no-cache"},
		{"/console/devices", 200, "text/html; charset=utf-8", "no-cache"},
		{"/console/devices/a%2Fb.js", 200, "text/html; charset=utf-8", "no-cache"},
		{"/console/devices/sensor.1", 200, "text/html; charset=utf-8", "no-cache"},
		{script, 200, "text/javascript; charset=utf-8", "public, max-age=31536000, immutable"},
		{"/console/main-OLD.js", 404, "text/plain; charset=utf-8", ""},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			answer := get(t, h, tt.path)
			if answer.StatusCode != tt.status || answer.Header.Get("Content-Type") != tt.kind || answer.Header.Get("Cache-Control") != tt.keeps {
				t.Errorf("status %d, %q, %q", answer.StatusCode, answer.Header.Get("Content-Type"), answer.Header.Get("Cache-Control"))
			}
			if p := answer.Header.Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'self'") || strings.Contains(p, "unsafe") {
				t.Errorf("policy %q", p)
			}
		})
	}
}

func TestCompressed(t *testing.T) {
	h := handler(t, http.NotFound)
	whole, zipped := get(t, h, "/console/"), get(t, h, "/console/", "Accept-Encoding", "gzip, br")
	if zipped.Header.Get("Content-Encoding") != "gzip" || zipped.Header.Get("Vary") != "Accept-Encoding" {
		t.Fatalf("headers %v", zipped.Header)
	}
	z, err := gzip.NewReader(zipped.Body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil || string(text) != bodyOf(t, whole) {
		t.Errorf("the compressed page is not the page: %v", err)
	}
}

// The budgets of the first page and of all files, as they are sent.
func TestBudget(t *testing.T) {
	h := handler(t, http.NotFound)
	page := bodyOf(t, get(t, h, "/console/"))
	size := func(path string) int {
		answer := get(t, h, path, "Accept-Encoding", "gzip")
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", path, answer.Status)
		}
		return len(bodyOf(t, answer))
	}
	first, requests := size("/console/"), 1
	for _, m := range regexp.MustCompile(`(?:href|src)="(/console/[^"]+\.(?:js|css))"`).FindAllStringSubmatch(page, -1) {
		first += size(m[1])
		requests++
	}
	files, err := os.ReadDir("dist")
	if err != nil {
		t.Fatal(err)
	}
	all := size("/console/")
	for _, f := range files {
		if f.Name() != "index.html" {
			all += size("/console/" + f.Name())
		}
	}
	t.Logf("first page: %d bytes in %d requests; all: %d bytes", first, requests, all)
	if first > 45_000 || requests > 4 || all > 90_000 {
		t.Errorf("first page %d bytes in %d requests, all %d bytes; want at most 45000 in 4, and 90000", first, requests, all)
	}
}

func TestPlain(t *testing.T) {
	const evil = `"><img src=x onerror=alert(1)>`
	var asked []string
	h := handler(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String()+" "+r.Header.Get("Cookie"))
		switch r.URL.Path {
		case "/v1/stats":
			_, _ = io.WriteString(w, `{"devices":2,"states":{"online":1,"offline":1,"late":0},"as_of":"2026-01-02T03:04:05Z"}`)
		default:
			_, _ = io.WriteString(w, `{"devices":[{"id":"\"><img src=x onerror=alert(1)>","state":"offline","reason":"silence"}],"next":"c2"}`)
		}
	})
	text := bodyOf(t, get(t, h, "/console/plain?state=offline&after=c1", "Cookie", "holter_session=x", "Accept-Encoding", "gzip"))
	for _, want := range []string{"2 devices", "1 offline", "&lt;img src=x", "?after=c2&amp;state=offline", "silence"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing from\n%s", want, text)
		}
	}
	if strings.Contains(text, evil) {
		t.Errorf("the id is not escaped:\n%s", text)
	}
	want := "/v1/stats holter_session=x|/v1/devices?after=c1&limit=200&sort=id&state=offline holter_session=x"
	if got := strings.Join(asked, "|"); got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
}

func TestPlainProblem(t *testing.T) {
	h := handler(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"detail":"this needs a token"}`)
	})
	if text := bodyOf(t, get(t, h, "/console/plain")); !strings.Contains(text, "401: this needs a token") {
		t.Errorf("got\n%s", text)
	}
}
