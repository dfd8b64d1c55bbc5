package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/wrap"
)

// beatServer notes the reports of commands, and answers them by their numbers.
type beatServer struct {
	mu    sync.Mutex // guards the fields below
	said  []string   // paths with queries, without what is before the id
	ended []ended
}

func (s *beatServer) start(t *testing.T, answer func(n int, path string) int) (url string) {
	t.Helper()
	return serveTest(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e ended
		text, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(text, &e)
		s.mu.Lock()
		s.said = append(s.said, strings.TrimPrefix(r.Method+" "+r.URL.RequestURI(), "POST /v1/beat/"))
		if len(text) > 0 {
			s.ended = append(s.ended, e)
		}
		n := len(s.said)
		s.mu.Unlock()
		status := answer(n, r.URL.Path)
		if status != http.StatusNoContent {
			problem(status, "not now")(w, r)
			return
		}
		w.WriteHeader(status)
	}))
}

func accepting(int, string) int { return http.StatusNoContent }

func TestRunReports(t *testing.T) {
	tests := []struct {
		name           string
		options        []string
		line           string
		code           int
		said           []string
		stdout, stderr string
		message        string
	}{
		{
			"success", nil, "echo a", 0,
			[]string{"job/start", "job/exit/0"},
			"a\n", "", "a\n",
		},
		{
			"failure",
			[]string{"--ttl", "25h"},
			"printf x; exit 3", 3,
			[]string{"job/start?ttl=1d1h", "job/exit/3?ttl=1d1h"},
			"x", "", "x",
		},
		{
			"schedule",
			[]string{"--expect", "30 2 * * *", "--zone", "Europe/Berlin", "--grace", "2h"},
			"kill -9 $$", 137,
			[]string{"job/start?expect=30+2+%2A+%2A+%2A&grace=2h&zone=Europe%2FBerlin", "job/exit/137?expect=30+2+%2A+%2A+%2A&grace=2h&zone=Europe%2FBerlin"},
			"", "", "",
		},
		{
			"bytes", nil, `printf '\000\377'`, 0,
			[]string{"job/start", "job/exit/0"},
			"\x00\xff", "", "\x00\ufffd",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s beatServer
			args := slices.Concat([]string{"run", "--api", s.start(t, accepting), "--device", "job"}, tt.options, []string{"--", "/bin/sh", "-c", tt.line})
			got := typeLine(t.Context(), t, args...)
			if got != (typed{tt.code, tt.stdout, tt.stderr}) || !slices.Equal(s.said, tt.said) || len(s.ended) != 1 || s.ended[0].Message != tt.message {
				t.Errorf("%+v, reported %q %+v", got, s.said, s.ended)
			}
			if d, err := time.ParseDuration(s.ended[0].Duration); err != nil || d < 0 {
				t.Errorf("duration: %q, %v", s.ended[0].Duration, err)
			}
		})
	}
}

// A command that cannot be started is reported as failed, with the reason.
func TestRunNotStarted(t *testing.T) {
	var s beatServer
	got := typeLine(t.Context(), t, "run", "--api", s.start(t, accepting), "--device", "a/b", "--", "no-such-program")
	const why = `exec: "no-such-program": executable file not found in $PATH`
	if got.code != 127 || got.stderr != "holter: no-such-program: "+why+"\n" || !slices.Equal(s.said, []string{"a%2Fb/start", "a%2Fb/exit/127"}) || s.ended[0].Message != why {
		t.Errorf("%+v, reported %q %+v", got, s.said, s.ended)
	}
}

func TestRunTail(t *testing.T) {
	var s beatServer
	got := typeLine(t.Context(), t, "run", "--api", s.start(t, accepting), "--device", "a", "--", "/bin/sh", "-c", "i=0; while [ $i -lt 5000 ]; do echo $i; i=$((i+1)); done")
	if len(s.ended) != 1 || len(s.ended[0].Message) != keptOutput || !strings.HasSuffix(got.stdout, s.ended[0].Message) || !strings.HasPrefix(got.stdout, "0\n1\n") {
		t.Errorf("reported %+v", s.ended)
	}
	got = typeLine(t.Context(), t, "run", "--api", s.start(t, accepting), "--device", "a", "--no-output", "--", "/bin/sh", "-c", "exit 4")
	if got.code != 4 || len(s.ended) != 2 || s.ended[1].Message != "" {
		t.Errorf("--no-output: %+v, %+v", got, s.ended)
	}
}

// Whatever is wrong with the report, the command runs, and its status is the exit status.
func TestRunUnreported(t *testing.T) {
	refused := serveTest(t, problem(http.StatusUnprocessableEntity, "query.expect: no"))
	unauthorized := serveTest(t, problem(http.StatusUnauthorized, "this needs a token"))
	strange := serveTest(t, answer(http.StatusOK, "text/html", "<h1>hello</h1>"))
	t.Setenv("CREDENTIALS_DIRECTORY", t.TempDir())
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"bad URL", []string{"--api", "nonsense"}, `--api: "nonsense" is not a URL`},
		{"no certificates", []string{"--ca", "/no/such/file"}, "--ca: open /no/such/file"},
		{"no token", []string{"--token", "credential:none"}, "--token: a credential of CREDENTIALS_DIRECTORY: open "},
		{"refused", []string{"--api", refused, "--expect", "x"}, "query.expect: no"},
		{"unauthorized", []string{"--api", unauthorized}, "holter tokens create --role beat"},
		{"another server", []string{"--api", strange}, ""}, // it says that all is well
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := typeLine(t.Context(), t, slices.Concat([]string{"run", "--device", "a"}, tt.args, []string{"--", "/bin/sh", "-c", "echo ran; exit 3"})...)
			if got.code != 3 || got.stdout != "ran\n" || !strings.Contains(got.stderr, tt.want) ||
				tt.want != "" && !strings.HasPrefix(got.stderr, "holter: the end of a (exit status 3) was not reported: ") {
				t.Errorf("%+v, want %q", got, tt.want)
			}
		})
	}
}

func TestRunUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"missing flags: --device":                              {"--", "true"},
		"unknown option --exepct; the command begins after --": {"--device", "a", "--exepct", "x", "--", "true"},
		"say what to run, after --":                            {"--device", "a", "--"},
		`expected "<command> ..."`:                             {"--device", "a"},
		"--device: the id is empty":                            {"--device", "", "--", "true"},
		`"1w" is not a duration; write 30s, 5m, 1h30m or 1d`:   {"--device", "a", "--ttl", "1w", "--", "true"},
	} {
		if got := typeLine(t.Context(), t, append([]string{"run"}, args...)...); got.code != exitUsage || !strings.Contains(got.stderr, want) {
			t.Errorf("%q: %+v, want %s", args, got, want)
		}
	}
}

// finishing reports an end with short pauses.
func finishing(t *testing.T, url string, status int, started error) (said string) {
	t.Helper()
	api, err := (&apiFlags{API: url}).ProvideClient()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	r := runReport{api: api, device: "a", stderr: &stderr, attempt: time.Second, longest: time.Second, pause: time.Millisecond}
	done := make(chan error, 1)
	done <- started
	r.finish(t.Context(), &wrap.Result{Status: status, Started: true}, done)
	return stderr.String()
}

// The end is reported again while the server does not answer, or is not ready, and not after it said no.
func TestRunRetries(t *testing.T) {
	tests := []struct {
		name   string
		status int // of the first two answers
		said   int // reports
		want   string
	}{
		{"not ready", 503, 3, ""},
		{"too many", 429, 3, ""},
		{"no token", 401, 1, "wants a token"},
		{"mistake", 422, 1, "422 Unprocessable Entity: not now"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s beatServer
			url := s.start(t, func(n int, _ string) int {
				if n < 3 {
					return tt.status
				}
				return http.StatusNoContent
			})
			if got := finishing(t, url, 1, nil); len(s.said) != tt.said || !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("%d reports, %q", len(s.said), got)
			}
		})
	}
	var asked atomic.Int32
	never := serveTest(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _ = io.Copy(io.Discard, r.Body); asked.Add(1) > 1 { // the time ends in an attempt, which says less than the answer before
			<-r.Context().Done()
			return
		}
		problem(http.StatusServiceUnavailable, "starting").ServeHTTP(w, r)
	}))
	if got := finishing(t, never, 2, nil); !strings.HasPrefix(got, "holter: the end of a (exit status 2) was not reported: ") || !strings.Contains(got, "503") {
		t.Errorf("never ready: %q", got)
	}
	silent := serveTest(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // before that nobody looks whether the client is gone
		<-r.Context().Done()
	}))
	if got := finishing(t, silent, 2, nil); !strings.Contains(got, "does not answer") {
		t.Errorf("never answers: %q", got)
	}
	if got := finishing(t, "http://no-such-host.invalid", 2, nil); !strings.Contains(got, "does not answer") || !strings.Contains(got, "no-such-host.invalid") {
		t.Errorf("unknown host: %q", got)
	}
}

// If nothing is known of the start, which may arrive after the end, a heartbeat ends the run that it would begin.
func TestRunStartUnknown(t *testing.T) {
	for name, tt := range map[string]struct {
		status  int
		started error
		want    []string
	}{
		"known":   {0, nil, []string{"a/exit/0"}},
		"unknown": {0, os.ErrDeadlineExceeded, []string{"a/exit/0", "a"}},
		"failed":  {1, os.ErrDeadlineExceeded, []string{"a/exit/1"}},
	} {
		var s beatServer
		if got := finishing(t, s.start(t, accepting), tt.status, tt.started); got != "" || !slices.Equal(s.said, tt.want) {
			t.Errorf("%s: %q, %q", name, s.said, got)
		}
	}
}
