package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/apiclient"
)

// streams serves one stream after the other, and notes with what each was asked for.
type streams struct {
	t     *testing.T
	log   *eventLog
	parts []http.HandlerFunc
	asked []string // Last-Event-ID and query
}

func (s *streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := len(s.asked)
	s.asked = append(s.asked, r.Header.Get("Last-Event-ID")+"?"+r.URL.RawQuery)
	if n >= len(s.parts) {
		s.t.Errorf("a stream too many, asked for with %s", s.asked[n])
		return
	}
	s.parts[n](w, r)
}

// says is a stream of texts, and of events where there are offsets.
func (s *streams) says(parts ...any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, part := range parts {
			switch v := part.(type) {
			case string:
				_, _ = io.WriteString(w, v)
			case int:
				e := s.log.event(uint64(v))
				data, err := json.Marshal(e)
				if err != nil {
					s.t.Error(err)
				}
				_, _ = fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", v, e.Type, data)
			}
		}
	}
}

// follow follows streams from an offset on until they are at their end, or for ever: then it is interrupted.
func follow(t *testing.T, last uint64, parts func(s *streams) []http.HandlerFunc) (offsets, stderr string, asked []string, err error) {
	t.Helper()
	s := &streams{t: t, log: newEventLog(1, 1000)}
	s.parts = parts(s)
	server := httptest.NewServer(s)
	defer server.Close()
	api, err := (&apiFlags{API: server.URL}).ProvideClient()
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, said strings.Builder
	f := newFollower(api, url.Values{"device": {"d 1"}}, newEventList(&out, true), &said)
	f.silence = 100 * time.Millisecond
	f.pause = func(ctx context.Context, d time.Duration) error {
		if d <= 0 || d > longestPause {
			t.Errorf("a pause of %v", d)
		}
		if len(s.asked) >= len(s.parts) {
			cancel()
		}
		return ctx.Err()
	}
	err = f.run(ctx, last)
	var all []string
	for line := range strings.Lines(out.String()) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, strconv.FormatUint(e.Data.Offset, 10))
	}
	text := strings.ReplaceAll(said.String(), server.URL, "URL")
	return strings.Join(all, " "), text, s.asked, err
}

func TestFollow(t *testing.T) {
	const hello = "retry: 2000\nid: 5\n\n"
	tests := []struct {
		name    string
		parts   func(s *streams) []http.HandlerFunc
		offsets string
		asked   string   // Last-Event-ID of each stream
		said    []string // in this order
		final   string   // the error; an interrupt if it is empty
	}{
		{
			"a restart", func(s *streams) []http.HandlerFunc {
				return []http.HandlerFunc{
					s.says(hello, 6, ": still here\n\n", 7, ": the server stops, come back later\n\n"),
					problem(503, "starting: devices are being restored"),
					s.says(8, 9),
				}
			},
			"6 7 8 9", "5 7 7",
			[]string{
				"the stream of events from URL ended: the server stops, come back later; trying again in",
				"URL answers 503 Service Unavailable: starting: devices are being restored; trying again in",
				"connected again; going on after offset 7",
				"the stream of events from URL ended: the connection was closed; trying again in",
			},
			"",
		},
		{
			"cut in the middle of an event", func(s *streams) []http.HandlerFunc {
				return []http.HandlerFunc{s.says(hello, 6, "id: 7\nevent: x\ndata: {\"spec"), s.says(7)}
			},
			"6 7", "5 6", nil, "",
		},
		{
			"an event that comes twice", func(s *streams) []http.HandlerFunc {
				return []http.HandlerFunc{s.says(4, 5, 6, 6, 7), s.says(7, 8)}
			},
			"6 7 8", "5 7", nil, "",
		},
		{
			"the place moves without events", func(s *streams) []http.HandlerFunc {
				return []http.HandlerFunc{s.says(hello, ": still here\nid: 90\n\n"), s.says(91)}
			},
			"91", "5 90", nil, "",
		},
		{
			"events that are gone", func(s *streams) []http.HandlerFunc {
				return []http.HandlerFunc{s.says(hello, "id: 20\nevent: missed\ndata: {\"oldest\":21}\n\n", 21), s.says(22)}
			},
			"21 22", "5 21",
			[]string{"missed the events from offset 6 to 20: they are no longer kept; going on with offset 21"},
			"",
		},
		{
			"a log that began anew", func(s *streams) []http.HandlerFunc {
				return []http.HandlerFunc{s.says("id: 0\nevent: missed\ndata: {\"oldest\":1}\n\n", 1, 2), s.says(3)}
			},
			"1 2 3", "5 2",
			[]string{"the server's events end before offset 5: it began anew, or has another database; going on with offset 1"},
			"",
		},
		{
			"away for long", func(s *streams) []http.HandlerFunc {
				away := answer(502, "text/html", "<h1>no</h1>")
				return []http.HandlerFunc{s.says(6), away, away, away, away, away, away, away, away, s.says(7)}
			},
			"6 7", "5 6 6 6 6 6 6 6 6 6",
			[]string{"does not reach it; trying again", "connected again"},
			"",
		},
		{
			"nothing comes any more", func(s *streams) []http.HandlerFunc {
				silent := func(w http.ResponseWriter, r *http.Request) {
					s.says(6)(w, r)
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				}
				return []http.HandlerFunc{silent, s.says(7)}
			},
			"6 7", "5 6",
			[]string{"nothing came for 100ms; trying again", "connected again; going on after offset 6"},
			"",
		},
		{
			"token revoked", func(s *streams) []http.HandlerFunc {
				return []http.HandlerFunc{s.says(6, ": the token was revoked\n\n"), problem(401, "unknown token")}
			},
			"6", "5 6",
			[]string{"ended: the token was revoked"},
			"URL wants a token: unknown token",
		},
		{
			"bad filter", func(*streams) []http.HandlerFunc { return []http.HandlerFunc{problem(422, "query.type: no")} },
			"", "5", nil, "URL answers 422 Unprocessable Entity: query.type: no",
		},
		{
			"a page", func(*streams) []http.HandlerFunc { return []http.HandlerFunc{answer(200, "text/html", "<h1>hi</h1>")} },
			"", "5", nil, "URL: not an answer of holter's API (200 OK, text/html)",
		},
		{
			"garbage for an id", func(s *streams) []http.HandlerFunc { return []http.HandlerFunc{s.says(6, "id: x\ndata: {}\n\n")} },
			"6", "5", nil, "the id \"x\"",
		},
		{
			"garbage for an event", func(s *streams) []http.HandlerFunc { return []http.HandlerFunc{s.says(6, "id: 7\ndata: {}\n\n")} },
			"6", "5", nil, "a message of the stream is no event",
		},
		{
			"a line without end", func(s *streams) []http.HandlerFunc {
				return []http.HandlerFunc{s.says(6, "data: "+strings.Repeat("x", 2*maxMessage))}
			},
			"6", "5", nil, "a message is too long, more than 1024 KiB",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			offsets, stderr, asked, err := follow(t, 5, tt.parts)
			if offsets != tt.offsets {
				t.Errorf("got events %s, want %s", offsets, tt.offsets)
			}
			var want []string
			for id := range strings.FieldsSeq(tt.asked) {
				want = append(want, id+"?device=d+1")
			}
			if strings.Join(asked, " ") != strings.Join(want, " ") {
				t.Errorf("asked for streams with %q, want %q", asked, want)
			}
			rest := stderr
			for _, text := range tt.said {
				at := strings.Index(rest, text)
				if at < 0 {
					t.Fatalf("%q is missing, or not in order, in\n%s", text, stderr)
				}
				rest = rest[at+len(text):]
			}
			switch {
			case tt.final == "" && !errors.Is(err, context.Canceled):
				t.Errorf("ended with %v, want the interrupt", err)
			case tt.final != "" && (err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(tt.final, "URL"))):
				t.Errorf("ended with %v, want %s", err, tt.final)
			}
		})
	}
}

// The same failure again and again is told once.
func TestFollowIsQuiet(t *testing.T) {
	_, stderr, _, _ := follow(t, 5, func(s *streams) []http.HandlerFunc {
		away := problem(503, "starting")
		return []http.HandlerFunc{away, away, away, away, away}
	})
	if strings.Count(stderr, "\n") != 1 {
		t.Errorf("said\n%swant one line", stderr)
	}
}

func TestFollowDelay(t *testing.T) {
	f := &follower{retry: 2 * time.Second}
	fail := errors.New("no")
	for i, most := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, longestPause, longestPause} {
		if d := f.delay(fail); d < most/2 || d > most {
			t.Errorf("pause %d is %v, want %v to %v", i, d, most/2, most)
		}
	}
	if d := f.delay(&apiclient.Error{After: time.Minute}); d != time.Minute {
		t.Errorf("pause is %v, want the minute that the server asks for", d)
	}
}

// An interrupt ends it, whatever it waits for.
func TestFollowInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log := newEventLog(1, 3)
	api := serveTest(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/events/stream" {
			log.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "retry: 2000\nid: 3\n\n")
		_ = http.NewResponseController(w).Flush()
		cancel()
		<-r.Context().Done()
	}))
	got := typeLine(ctx, t, "events", "--follow", "--api", api)
	if got.code != exitInterrupted || got.stderr != "" || strings.Count(got.stdout, "\n") != 4 {
		t.Errorf("got %+v, want the three events and code %d", got, exitInterrupted)
	}
}
