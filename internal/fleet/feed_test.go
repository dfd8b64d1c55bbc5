package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/fleet"
)

// web serves a func until the test ends.
func web(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// writef sends text to a peer that may be gone, which then shows on its side.
func writef(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format, args...)
}

const offlineJSON = `{"specversion":"1.0","id":"a:b:7","source":"/holter","type":"io.holter.device.offline",
	"subject":"a:b","time":"2026-01-02T03:04:05.123456789Z","data":{"seq":7,"epoch":3,"reason":"silence",
	"last_seen":"2026-01-02T03:03:55.1Z","deadline":"2026-01-02T03:04:05.1Z","decided_at":"2026-01-02T04:04:05.12+01:00",
	"heard_silence_ms":10000.5,"timeout_ms":10000,"policy":"default","node":"n1","fence":9}}`

func utc(t *testing.T, text string) time.Time {
	t.Helper()
	u, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestEvents(t *testing.T) {
	var asked []string
	api := web(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
		switch r.FormValue("after") {
		case "0":
			writef(w, `{"events":[%s],"next":41}`, offlineJSON)
		case "41":
			writef(w, `{"events":[{"id":"s","type":"io.holter.source.deaf","subject":"tcp","time":"2026-01-02T03:04:06Z","data":{}}],"next":42}`)
		default:
			writef(w, `{"events":[],"next":42}`)
		}
	})
	got, err := fleet.Events(t.Context(), api+"/")
	if err != nil || len(got) != 2 {
		t.Fatalf("Events() = %v, %v", got, err)
	}
	e := got[0]
	if !e.DecidedAt.Equal(utc(t, "2026-01-02T03:04:05.12Z")) {
		t.Errorf("DecidedAt = %v", e.DecidedAt)
	}
	e.DecidedAt = time.Time{}
	want := fleet.Event{
		ID: "a:b:7", Type: "offline", Device: "a:b", Seq: 7, Epoch: 3, Reason: "silence",
		Time:     utc(t, "2026-01-02T03:04:05.123456789Z"),
		LastSeen: utc(t, "2026-01-02T03:03:55.1Z"), Deadline: utc(t, "2026-01-02T03:04:05.1Z"),
		HeardSilence: 10*time.Second + 500*time.Microsecond, Timeout: 10 * time.Second,
	}
	if e != want {
		t.Errorf("Events()[0] = %+v, want %+v", e, want)
	}
	if e := got[1]; e.Type != "source.deaf" || e.Device != "" {
		t.Errorf("Events()[1] = %+v", e)
	}
	if s := strings.Join(asked, " "); s != "/v1/events?after=0&limit=1000 /v1/events?after=41&limit=1000 /v1/events?after=42&limit=1000" {
		t.Errorf("asked for %s", s)
	}
}

func TestEventsErrors(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"not JSON":          {"{", "unexpected end of JSON"},
		"does not move on":  {`{"events":[` + offlineJSON + `],"next":0}`, "next is 0"},
		"negative sequence": {`{"events":[{"data":{"seq":-1}}],"next":1}`, "seq"},
		"not found":         {"", "404"},
	} {
		t.Run(name, func(t *testing.T) {
			api := web(t, func(w http.ResponseWriter, _ *http.Request) {
				if c.body == "" {
					w.WriteHeader(http.StatusNotFound)
				}
				writef(w, "%s", c.body)
			})
			if got, err := fleet.Events(t.Context(), api); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Events() = %v, %v, want an error with %q", got, err, c.want)
			}
		})
	}
}

func TestEventsEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	api := web(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := fleet.Events(ctx, api); !errors.Is(err, context.Canceled) {
		t.Errorf("Events() = %v, want context.Canceled", err)
	}
}
