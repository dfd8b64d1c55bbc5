package cli

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/apiclient"
)

// typed is what came of a command line.
type typed struct {
	code           int
	stdout, stderr string
}

// typeLine runs a command line of the commands for operators.
func typeLine(ctx context.Context, t *testing.T, args ...string) typed {
	t.Helper()
	var stdout, stderr strings.Builder
	parser, err := newParser(&commandLine{}, kong.Writers(&stdout, &stderr))
	if err != nil {
		t.Fatal(err)
	}
	line, err := parse(parser, args)
	code := exitUsage
	switch {
	case err != nil:
		stderr.WriteString(err.Error())
	case line == nil:
		code = 0
	default:
		code = conclude(ctx, execute(ctx, line, output{&stdout, &stderr}), &stderr)
	}
	return typed{code, stdout.String(), stderr.String()}
}

// answer is a handler that always says the same.
func answer(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func problem(status int, detail string) http.HandlerFunc {
	return answer(status, "application/problem+json", fmt.Sprintf(`{"status":%d,"detail":"%s"}`, status, detail))
}

func serveTest(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func TestClientErrors(t *testing.T) {
	const strange = "holter: URL: not an answer of holter's API"
	tests := []struct {
		name    string
		handler http.HandlerFunc
		args    []string
		want    string // with URL for the server's
	}{
		{
			"token wanted", problem(401, "who are you?"), nil,
			"holter: URL wants a token: who are you?\nMake one on its machine with \"holter tokens create --role read --name NAME\", and set HOLTER_API_TOKEN to it\n",
		},
		{
			"wrong token", problem(401, "unknown token"),
			[]string{"--token", "abc"},
			"holter: URL does not accept the token: unknown token\nIt was deleted, or is not complete; \"holter tokens list\" on its machine shows those there are\n",
		},
		{
			"wrong role", problem(403, "it wants the role read"),
			[]string{"--token=abc"},
			"holter: URL: the token's role does not allow this: it wants the role read\nUse a token made with \"holter tokens create --role read\"\n",
		},
		{"refused by a proxy", answer(403, "text/html", "<h1>no</h1>"), nil, "holter: URL: the token's role does not allow this.\nUse a token made with \"holter tokens create --role read\"\n"},
		{"bad query", problem(422, "query.state: no"), nil, "holter: URL answers 422 Unprocessable Entity: query.state: no\n"},
		{"starting", problem(503, "starting: devices are being restored"), nil, "holter: URL answers 503 Service Unavailable: starting: devices are being restored\n"},
		{"proxy without a server", answer(502, "text/html", "<h1>Bad</h1>"), nil, "holter: URL answers 502 Bad Gateway (text/html): what stands before holter, such as a proxy, does not reach it\n"},
		{"escape sequences", problem(422, `a\u001b[31mb`), nil, "holter: URL answers 422 Unprocessable Entity: a\\x1b[31mb\n"},
		{"other page", answer(404, "text/html", "<h1>Not found</h1>"), nil, strange + " (404 Not Found, text/html); is --api right?\n"},
		{"other JSON", answer(200, "application/json", `{"devices":7}`), nil, strange + " (200 OK, application/json); is --api right?\n"},
		{"empty JSON", answer(200, "application/json", `{}`), nil, strange + " (200 OK, application/json); is --api right?\n"},
		{"no device", answer(200, "application/json", `{"devices":[{"name":"x"}]}`), nil, strange + ": it is no device\n"},
		{"the same page again", answer(200, "application/json", `{"devices":[],"next":"x"}`), nil, strange + " (200 OK, application/json); is --api right?\n"},
		{"garbage", answer(200, "", "\x00\xff\x1b[2J"), nil, strange + " (200 OK, no content type); is --api right?\n"},
		{"huge", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat(" ", apiclient.MaxAnswer+1))
		}, nil, strange + ": the answer has more than 8 MiB\n"},
		{"port of devices", func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(c, "ERR hello-first\n")
				_ = c.Close()
			}
		}, nil, strange + ": what answers there does not speak HTTP; is it the port of the devices? --api takes the one of --http\n"},
		{"sent elsewhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://example.org/login", http.StatusFound)
		}, nil, strange + ": it sends elsewhere, to https://example.org/login; is --api right?\n"},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"devices":`)
		}, nil, "holter: the answer of URL broke off: unexpected EOF\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			api := serveTest(t, tt.handler)
			got := typeLine(t.Context(), t, append([]string{"devices", "--api", api}, tt.args...)...)
			want := typed{exitFailed, "", strings.ReplaceAll(tt.want, "URL", api)}
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestClientUsage(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no URL", []string{"devices", "--api", "localhost:8080"}, `--api: "localhost:8080" is not a URL; write http://HOST:PORT`},
		{"password", []string{"devices", "--api", "http://me:pw@host"}, "a token goes to --token"},
		{"token of two lines", []string{"devices", "--token", "a\nb"}, "was it copied as a whole?"},
		{"no certificates", []string{"devices", "--ca", empty}, "holds no certificate"},
		{"no file", []string{"devices", "--ca", empty + ".not"}, "no such file"},
		{"id to list", []string{"devices", "list", "a"}, "unexpected argument a"},
		{"bad state", []string{"devices", "--state", "dead"}, `must be one of`},
		{"negative limit", []string{"devices", "--limit=-1"}, "--limit: -1 is negative"},
		{"empty id", []string{"devices", "get", ""}, "the device id is empty"},
		{"empty id to explain", []string{"explain", ""}, "the device id is empty"},
		{"empty id to forget", []string{"devices", "forget", ""}, "the name of the device is empty"},
		{"no policy", []string{"devices", "policy", "a"}, "--clear to take it away"},
		{"policy and clear", []string{"devices", "policy", "a", "--timeout=1m", "--clear"}, "give it alone"},
		{"negative policy", []string{"devices", "policy", "a", "--timeout=-1m"}, "--timeout: -1m0s is not above 0"},
		{"maintenance", []string{"devices", "maintenance", "a", "maybe"}, "must be one of"},
		{"after and since", []string{"events", "--after=1", "--since=1m"}, "give --after or --since"},
		{"since", []string{"events", "--since=yesterday"}, `--since: "yesterday" is neither a duration`},
		{"no events", []string{"events", "--limit=0"}, "it is for --follow"},
		{"limit and after", []string{"events", "-f", "--limit=1", "--after=1"}, "leave it out"},
		{"too often", []string{"stats", "--watch", "--every=1ms"}, "--every: 1ms is too often"},
		{"role", []string{"tokens", "create", "--role=root", "--name=x"}, "must be one of"},
		{"token name", []string{"tokens", "create", "--role=read", "--name= "}, "--name: the name is empty"},
		{"connections", []string{"doctor", "--connections=-1"}, "--connections: -1 is negative"},
		{"empty queue", []string{"queues", "delete", ""}, "the name of the queue is empty"},
		{"empty endpoint", []string{"endpoints", "retry-now", ""}, "the name is empty"},
		{"empty schedule", []string{"schedules", "pause", ""}, "the name of the schedule is empty"},
		{"empty filter", []string{"events", "--device="}, "--device: it is empty; leave it out for all"},
		{"no number", []string{"queues", "set", "a", "--rate=NaN"}, "--rate: NaN is not a number of deliveries"},
		{"no bound", []string{"queues", "set", "a", "--rate=Inf"}, "--rate: +Inf is not a number of deliveries"},
		{"too long a policy", []string{"devices", "policy", "a", "--timeout=9999h"}, "--timeout: 9999h0m0s is more than the longest, 366 days"},
		{"far too long a policy", []string{"devices", "policy", "a", "--timeout=9999999h"}, "is not a duration of at most 366 days"},
		{"week", []string{"queues", "set", "a", "--backoff=1w"}, `"1w" is not a duration; write 30s, 5m, 1h30m or 1d`},
		{"bad settings", []string{"endpoints", "set", "a", "--settings={"}, "--settings: this is not JSON"},
		{"jobs and a queue", []string{"jobs", "delete", "1", "--queue=a"}, "either by their numbers or with"},
		{"no jobs", []string{"jobs", "delete"}, "either by their numbers or with"},
		{"no dead letters", []string{"dead-letters", "delete"}, "or --all"},
		{"no shell", []string{"completion", "tcsh"}, "must be one of"},
		{"job of the past", []string{"jobs", "add", "1", "--url=http://a/", "--in=-5m"}, "--in: -5m0s is negative"},
		{"job without time", []string{"jobs", "add", "1", "--url=http://a/", "--within=0s"}, "--within: 0s is not above 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := typeLine(t.Context(), t, tt.args...)
			if got.code != exitUsage || !strings.Contains(got.stderr, tt.want) || got.stdout != "" {
				t.Errorf("got %+v, want code %d and %q", got, exitUsage, tt.want)
			}
		})
	}
}

func TestClientTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/stats" {
			_, _ = io.WriteString(w, `{"devices":0,"as_of":"2026-01-02T03:04:05Z"}`)
			return
		}
		_, _ = io.WriteString(w, `{"devices":[]}`)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	plain := serveTest(t, answer(200, "text/html", ""))
	tests := []struct {
		name string
		args []string
		code int
		want string // in either output
	}{
		{"known authority", []string{"--api", server.URL, "--ca", ca}, 0, "no devices yet"},
		{"unknown authority", []string{"--api", server.URL}, exitFailed, "give the signer's with --ca FILE"},
		{
			"other name",
			[]string{"--api", strings.Replace(server.URL, "127.0.0.1", "localhost", 1), "--ca", ca},
			exitFailed, "The certificate is not for localhost: write --api with a name that it is for",
		},
		{"TLS to plain HTTP", []string{"--api", strings.Replace(plain, "http:", "https:", 1)}, exitFailed, "write http:// instead of https://"},
		{"plain HTTP to TLS", []string{"--api", strings.Replace(server.URL, "https:", "http:", 1)}, exitFailed, "write https:// instead of http://"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := typeLine(t.Context(), t, append([]string{"devices"}, tt.args...)...)
			if got.code != tt.code || !strings.Contains(got.stdout+got.stderr, tt.want) {
				t.Errorf("got %+v, want code %d and %q", got, tt.code, tt.want)
			}
		})
	}
}

// The token goes to the API and nowhere else.
func TestClientToken(t *testing.T) {
	var leaked atomic.Bool
	elsewhere := serveTest(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leaked.Store(true) }))
	var header atomic.Value
	api := serveTest(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header.Store(r.Header.Get("Authorization"))
		http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
	}))
	t.Setenv("HOLTER_API_TOKEN", "holter_secret")
	t.Setenv("HOLTER_API", api)
	got := typeLine(t.Context(), t, "devices", "forget", "a")
	if header.Load() != "Bearer holter_secret" || leaked.Load() {
		t.Errorf("Authorization was %q, leaked: %v", header.Load(), leaked.Load())
	}
	if got.code != exitFailed || strings.Contains(got.stdout+got.stderr, "holter_secret") {
		t.Errorf("got %+v", got)
	}
	if help := typeLine(t.Context(), t, "devices", "--help"); help.code != 0 || strings.Contains(help.stdout, "holter_secret") {
		t.Errorf("the token is shown in the help:\n%s", help.stdout)
	}
}

func TestClientTimeout(t *testing.T) {
	tests := []struct {
		name  string
		begin string // of the answer, before nothing comes any more
		want  string
	}{
		{"no answer", "", "does not answer within 50ms"},
		{"no end", `{"devices":[`, "did not end within 50ms"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url := serveTest(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tt.begin != "" {
					_, _ = io.WriteString(w, tt.begin)
					_ = http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
			}))
			api, err := (&apiFlags{API: url}).ProvideClient()
			if err != nil {
				t.Fatal(err)
			}
			defer api.Close()
			api.Timeout = 50 * time.Millisecond
			err = api.Get(t.Context(), "/v1/devices", nil, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !apiclient.Retryable(err) {
				t.Errorf("get: %v, want one that may be tried again, with %q", err, tt.want)
			}
		})
	}
}

func TestClientInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	api := serveTest(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	if got := typeLine(ctx, t, "devices", "--api", api); got != (typed{exitInterrupted, "", ""}) {
		t.Errorf("got %+v, want code %d and nothing else", got, exitInterrupted)
	}
}
