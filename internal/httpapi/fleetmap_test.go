package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/liveness"
)

// cells returns what a map has, a digit a device, without those at the end that are none.
func cells(body []byte) string {
	var text strings.Builder
	for _, b := range body {
		text.WriteByte('0' + b&0xf)
		text.WriteByte('0' + b>>4)
	}
	return strings.TrimRight(text.String(), "0")
}

// readMap wants a map.
func readMap(t *testing.T, h http.Handler, query string) (*httptest.ResponseRecorder, string) {
	t.Helper()
	w := get(h, "/v1/fleet/map"+query)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/octet-stream" {
		t.Fatalf("map%s = %d %v", query, w.Code, w.Header())
	}
	return w, cells(w.Body.Bytes())
}

func TestFleetMap(t *testing.T) {
	cfg := liveness.Config{
		Groups:  []liveness.GroupConfig{{Name: "g", Match: "g*"}, {Name: "empty", Match: "e*"}, {Name: "h", Match: "h*"}},
		Devices: map[string]liveness.Policy{"never": {}},
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, cfg, 0)
		h := f.api(httpapi.Config{}).Handler()
		if _, got := readMap(t, h, ""); got != "" {
			t.Errorf("the map of an empty fleet is %q", got)
		}
		for _, id := range []string{"h1", "a2", "g3", "h4", "g5"} { // the numbers
			f.open(id).Beat(f.source.Time(time.Now()))
		}
		f.open("h4").Bye(f.source.Time(time.Now()))
		if _, err := f.open("g5").Sleep(f.source.Time(time.Now()), time.Hour); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		f.listen(0)
		w, got := readMap(t, h, "")
		if got != "022254" {
			t.Errorf("map %s, want 022254", got)
		}
		version := w.Header().Get("Holter-Map-Version")

		if w, _ := readMap(t, h, "?of=group"); strings.TrimRight(w.Body.String(), "\x00") != "\x00\x00\x03\x00\x00\x00\x01\x00\x03\x00\x01" {
			t.Errorf("groups %q", w.Body)
		}
		if w, got := readMap(t, h, "?by=group"); got != "24252" || w.Header().Get("Holter-Map-Groups") != "2,0,2,1" {
			t.Errorf("by group %s, sizes %s", got, w.Header().Get("Holter-Map-Groups"))
		}

		if err := f.registry.Forget("a2"); err != nil {
			t.Fatal(err)
		}
		if _, got := readMap(t, h, ""); got != "022254" {
			t.Errorf("a map that was made a moment ago was made anew: %s", got)
		}
		time.Sleep(600 * time.Millisecond)
		f.listen(0)
		w, got = readMap(t, h, "")
		if got != "020254" {
			t.Errorf("map with a hole %s, want 020254", got)
		}
		before, _ := strconv.ParseUint(version, 10, 64)
		if after, err := strconv.ParseUint(w.Header().Get("Holter-Map-Version"), 10, 64); err != nil || after != before+1 || after > 1<<53 {
			t.Errorf("version %d after %d", after, before)
		}
		if w, got := readMap(t, h, "?by=group"); got != "2425" || w.Header().Get("Holter-Map-Groups") != "2,0,2,0" {
			t.Errorf("by group %s, sizes %s", got, w.Header().Get("Holter-Map-Groups"))
		}
	})
}

// Once a source has lost its connections, its devices are unknown.
func TestFleetMapUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.api(httpapi.Config{}).Handler()
		f.open("a")
		f.open("b").Bye(f.source.Time(time.Now()))
		synctest.Wait()
		f.source.Deafen(time.Now())
		if _, got := readMap(t, h, ""); got != "065" {
			t.Errorf("map %s, want 065", got)
		}
	})
}

func TestFleetMapTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{Groups: []liveness.GroupConfig{{Name: "g", Match: "g*"}}}, 0)
		h := f.api(httpapi.Config{}).Handler()
		for i := range 5000 {
			f.open(fmt.Sprint("g", i))
		}
		tags := make(map[string]string)
		for _, query := range []string{"", "?of=group", "?by=group"} {
			w, _ := readMap(t, h, query)
			tag := w.Header().Get("ETag")
			tags[query] = tag
			for _, header := range []string{tag, `"x", ` + tag, strings.TrimPrefix(tag, "W/"), "*"} {
				if again := send(h, "GET", "/v1/fleet/map"+query, "", "If-None-Match", header); again.Code != http.StatusNotModified || again.Body.Len() > 0 || again.Header().Get("ETag") != tag {
					t.Errorf("map%s with %s = %d, %d bytes, %v", query, header, again.Code, again.Body.Len(), again.Header())
				}
			}
			if other := send(h, "GET", "/v1/fleet/map"+query, "", "If-None-Match", `"x"`); other.Code != http.StatusOK {
				t.Errorf("with another tag: %d", other.Code)
			}
			zipped := send(h, "GET", "/v1/fleet/map"+query, "", "Accept-Encoding", "br, gzip")
			if zipped.Header().Get("Content-Encoding") != "gzip" || zipped.Body.Len() > w.Body.Len()/10 || zipped.Header().Get("Vary") != "Accept-Encoding" {
				t.Errorf("gzip: %d of %d bytes, %v", zipped.Body.Len(), w.Body.Len(), zipped.Header())
			}
			if text := unzipped(t, zipped.Body); !bytes.Equal(text, w.Body.Bytes()) {
				t.Errorf("map%s differs when it is compressed", query)
			}
		}
		f.open("g7").Bye(f.source.Time(time.Now()))
		time.Sleep(time.Second)
		for query, tag := range tags {
			w := send(h, "GET", "/v1/fleet/map"+query, "", "If-None-Match", tag)
			want := http.StatusOK
			if query == "?of=group" { // they are as before
				want = http.StatusNotModified
			}
			if w.Code != want {
				t.Errorf("map%s after a change = %d, want %d", query, w.Code, want)
			}
		}
		for query, part := range map[string]string{"?of=states": "query.of", "?by=x": "query.by", "?by=group&of=group": "one of", "?to=group": "query.to", "?of=%zz": "query"} {
			wantProblem(t, get(h, "/v1/fleet/map"+query), query, http.StatusUnprocessableEntity, part)
		}
	})
}

func unzipped(t *testing.T, body io.Reader) []byte {
	t.Helper()
	z, err := gzip.NewReader(body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
