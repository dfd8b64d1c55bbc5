package httpapi_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/liveness"
)

// Long JSON is compressed for those who accept it, and nothing else is.
func TestCompression(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.api(httpapi.Config{}).Handler()
		for i := range 5 {
			f.open(fmt.Sprint("dev-", i))
		}
		for target, want := range map[string]bool{
			"/v1/devices": true, "/openapi.json": true, "/v1/devices?limit=1": false, "/healthz": false, "/docs": false, "/debug/pprof/goroutine?debug=1": false,
		} {
			plain := get(h, target)
			packed := send(h, "GET", target, "", "Accept-Encoding", "gzip")
			if got := packed.Header().Get("Content-Encoding") == "gzip"; got != want {
				t.Errorf("%s of %d bytes: compressed %t, want %t", target, plain.Body.Len(), got, want)
				continue
			}
			varies := !strings.HasPrefix(target, "/debug/")
			if got := slices.Contains(plain.Header().Values("Vary"), "Accept-Encoding"); got != varies || plain.Header().Get("Content-Encoding") != "" {
				t.Errorf("%s for others: %v", target, plain.Header())
			}
			if !want {
				continue
			}
			unpacked, err := gzip.NewReader(packed.Body)
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(unpacked); err != nil || string(text) != plain.Body.String() {
				t.Errorf("%s: %.100s…, %v, want %.100s…", target, text, err, plain.Body)
			}
		}
	})
}

// A stream is never compressed, whatever its reader accepts.
func TestStreamIsNotCompressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		s := serve(t, f.api(httpapi.Config{}))
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://holter/v1/events/stream", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept-Encoding", "gzip")
		answer, err := s.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		hello := make([]byte, 6)
		if _, err := io.ReadFull(answer.Body, hello); err != nil || string(hello) != "retry:" || answer.Header.Get("Content-Encoding") != "" {
			t.Errorf("%q, %v, %v", hello, err, answer.Header)
		}
	})
}

// A client that has the description is not sent it again.
func TestDescriptionIsCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFleet(t, liveness.Config{}, 0).api(httpapi.Config{}).Handler()
		tag := get(h, "/openapi.json").Header().Get("ETag")
		if !strings.HasPrefix(tag, `W/"`) {
			t.Errorf("tag %s", tag)
		}
		for headers, want := range map[[2]string]int{
			{"If-None-Match", tag}: 304, {"If-None-Match", `"x", ` + tag}: 304, {"If-None-Match", `W/"x"`}: 200, {"Accept-Encoding", "gzip"}: 200,
		} {
			w := send(h, "GET", "/openapi.json", "", headers[:]...)
			if w.Code != want || w.Header().Get("ETag") != tag || w.Header().Get("Cache-Control") != "private, no-cache" || (want == 304) != (w.Body.Len() == 0) {
				t.Errorf("%s = %d of %d bytes, %v, want %d", headers, w.Code, w.Body.Len(), w.Header(), want)
			}
		}
	})
}
