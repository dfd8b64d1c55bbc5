package score_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/score"
)

func TestJudgeClock(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name      string
		here      bool
		readings  [][2]time.Duration
		skew, err time.Duration
	}{
		{"the same machine", true, [][2]time.Duration{{-ms, ms}}, 0, 0},
		{"elsewhere, and the same as far as can be seen", false, [][2]time.Duration{{-ms, ms}}, 0, 2 * ms},
		{"ahead", false, [][2]time.Duration{{40 * ms, 60 * ms}, {49 * ms, 51 * ms}, {0, 90 * ms}}, 50 * ms, 2 * ms},
		{"behind, on what seems to be the same machine", true, [][2]time.Duration{{-52 * ms, -50 * ms}}, -51 * ms, 2 * ms},
		{"it was set meanwhile", false, [][2]time.Duration{{0, 2 * ms}, {10 * ms, 12 * ms}}, 11 * ms, 2 * ms},
		{"it was set, and the first answer after that is slow", false, [][2]time.Duration{{0, 2 * ms}, {10 * ms, 40 * ms}, {9 * ms, 11 * ms}}, 10*ms + ms/2, ms + ms/2},
		{"ahead, although one slow answer alone might mean that it is the same", true, [][2]time.Duration{{20 * ms, 200 * ms}, {-100 * ms, 60 * ms}}, 40 * ms, 21 * ms},
		{"slow answers excuse so much", false, [][2]time.Duration{{-10 * time.Second, 10 * time.Second}}, 0, 250 * ms},
	} {
		if skew, err := score.JudgeClock(c.here, c.readings...); skew != c.skew || err != c.err {
			t.Errorf("%s: %v ahead, give or take %v; want %v, %v", c.name, skew, err, c.skew, c.err)
		}
	}
}

// What is told is brought to the clock of this machine, by what was measured or by what was said.
func TestFollowCorrectsTimes(t *testing.T) {
	const ahead = time.Hour
	set := 30 * time.Minute
	for _, c := range []struct {
		name string
		set  *time.Duration
		want time.Duration // how far the clock is ahead
	}{
		{"measured", nil, ahead},
		{"set", &set, set},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := time.Now().Add(ahead).UTC()
			event := fmt.Sprintf("id: 5\ndata: {\"type\":\"io.holter.device.offline\",\"subject\":\"a\",\"time\":%q,\"data\":{\"offset\":5,\"seq\":1,\"deadline\":%q}}\n\n",
				at.Format(time.RFC3339Nano), at.Format(time.RFC3339Nano))
			mux := http.NewServeMux()
			mux.HandleFunc("/v1/events/stream", stays("id: 4\n\n", event))
			mux.HandleFunc("/v1/stats", func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprintf(w, `{"as_of":%q}`, time.Now().Add(ahead).Format(time.RFC3339Nano))
			})
			srv := httptest.NewServer(mux)
			defer srv.Close()
			h, err := score.NewHTTP(score.HTTPConfig{URL: srv.URL, ClockSkew: c.set})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var mu sync.Mutex
			var clock, offline score.Verdict
			if err := h.Follow(ctx, func(v score.Verdict) {
				mu.Lock()
				defer mu.Unlock()
				switch v.Kind { //nolint:exhaustive // no others are looked at
				case score.Clock:
					clock = v
				case score.Offline:
					offline = v
					cancel()
				}
			}); err != nil {
				t.Fatal(err)
			}
			near := func(d time.Duration) bool { return d.Abs() < time.Second }
			if !near(clock.Skew-c.want) || (clock.Reason == "set") != (c.set != nil) || clock.Error == 0 {
				t.Errorf("the clock is said to be %v ahead, give or take %v (%q)", clock.Skew, clock.Error, clock.Reason)
			}
			if d := at.Sub(offline.Time); !near(d-c.want) || !offline.Deadline.Equal(offline.Time) {
				t.Errorf("a time was moved by %v, want %v: %+v", d, c.want, offline)
			}
		})
	}
}

// Knows asks for a device, and believes nothing that is old.
func TestKnows(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/devices/{id}", func(w http.ResponseWriter, r *http.Request) {
		say := func(state string, after time.Duration) {
			_, _ = fmt.Fprintf(w, `{"state":%q,"last_seen":%q}`, state, began.Add(after).Format(time.RFC3339))
		}
		switch r.PathValue("id") {
		case "a/b":
			say("online", time.Minute)
		case "late":
			say("late", 0)
		case "old":
			say("online", -time.Minute)
		case "gone":
			say("offline", time.Minute)
		case "judged at the end", "judged before":
			at := began.Add(2 * time.Minute)
			if r.PathValue("id") == "judged before" {
				at = at.Add(-time.Second)
			}
			_, _ = fmt.Fprintf(w, `{"state":"offline","last_seen":%q,"since":%q}`, began.Add(time.Minute).Format(time.RFC3339), at.Format(time.RFC3339))
		case "broken":
			_, _ = w.Write([]byte("{"))
		case "secret":
			http.Error(w, "no", http.StatusForbidden)
		default:
			http.NotFound(w, r)
		}
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()
	h, err := score.NewHTTP(score.HTTPConfig{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		device    string
		known, ok bool
	}{
		{"a/b", true, true},
		{"late", true, true},
		{"old", false, true},
		{"gone", false, true},
		{"judged at the end", true, true},
		{"judged before", false, true},
		{"nobody", false, true},
		{"broken", false, false},
		{"secret", false, false},
	} {
		if known, err := h.Knows(t.Context(), c.device, began, began.Add(2*time.Minute)); known != c.known || (err == nil) != c.ok {
			t.Errorf("Knows(%q) = %v, %v; want %v", c.device, known, err, c.known)
		}
	}
}
