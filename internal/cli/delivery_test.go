package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/server"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// hooks is a server of webhooks.
type hooks struct {
	*httptest.Server

	mu     sync.Mutex
	came   []string // ids
	refuse bool
}

func newHooks(t *testing.T) *hooks {
	t.Helper()
	h := &hooks{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.came = append(h.came, r.Header.Get("webhook-id"))
		if h.refuse {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte("not today"))
		}
	}))
	t.Cleanup(h.Close)
	return h
}

// until waits for something that the server of webhooks shows.
func (h *hooks) until(t *testing.T, what string, ok func(came []string) bool) {
	t.Helper()
	testwait.Until(t, what, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return ok(h.came)
	}, func() string {
		h.mu.Lock()
		defer h.mu.Unlock()
		return fmt.Sprint(h.came)
	})
}

func (h *hooks) set(refuse bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuse = refuse
}

// An operator sets everything up from the command line, and events arrive as webhooks, also those of before a crash.
func TestDelivery(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	data := t.TempDir()
	p := startServe(t, server.PrivateEnv+"=127.0.0.1", "--data", data)
	holter := func(want string, args ...string) string { t.Helper(); return p.operate(want, args...) }
	id := func(made string) string { return strings.TrimSpace(strings.TrimPrefix(made, "job ")) }
	holter("endpoint ops set", "endpoints", "set", "ops", "--target", h.URL, "--settings", `{"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw","timeout_ms":5000}`)
	if out := holter(`"(hidden)"`, "endpoints", "list", "--json"); strings.Contains(out, "MfKQ9") {
		t.Errorf("the secret is shown: %s", out)
	}
	holter("queue pager set", "queues", "set", "pager", "--concurrency", "2")
	holter("queue pager set", "queues", "set", "pager", "--max-age", "1h")
	for _, option := range []string{"--concurrency", "--attempts", "--max-jobs", "--backoff", "--max-backoff", "--max-age"} {
		holter(option+": it cannot be 0", "queues", "set", "pager", option, "0")
	}
	holter("route gone set", "routes", "set", "gone", "--type", "device.offline", "--reason", "bye", "--endpoint", "ops", "--queue", "pager")
	holter("device.offline for bye", "routes", "list")

	p.do(http.MethodPost, "/v1/beat/a", "")
	p.do(http.MethodPost, "/v1/beat/a/bye", "")
	h.until(t, "the goodbye of a came", func(came []string) bool { return len(came) == 1 && came[0] == "a:2" })

	holter("queue pager paused", "queues", "pause", "pager")
	p.do(http.MethodPost, "/v1/beat/b", "")
	p.do(http.MethodPost, "/v1/beat/b/bye", "")
	holter("job ", "jobs", "add", `{"do":"it"}`, "--endpoint", "ops", "--queue", "pager", "--key", "b")
	if out := holter("ready", "jobs", "list", "--queue", "pager"); strings.Count(out, "ready") != 2 {
		t.Errorf("jobs:\n%s", out)
	}
	if err := p.stop(syscall.SIGKILL); err == nil {
		t.Error("it was killed and ended well")
	}
	h.set(true)
	p = startServe(t, server.PrivateEnv+"=127.0.0.1", "--data", data)
	out := holter("paused", "queues", "list", "--json")
	var q httpapi.Queue
	for line := range strings.Lines(out) {
		if err := json.Unmarshal([]byte(line), &q); err != nil {
			t.Fatal(err)
		}
	}
	if q.Name != "pager" || !q.Paused || q.Jobs != 2 || q.Concurrency != 2 || q.MaxAge != 3_600_000 {
		t.Errorf("after the restart: %+v", q)
	}
	p.untilGet("/v1/queues/pager", 200, `"oldest_age_ms":`)
	p.untilGet("/metrics", 200, `holter_delivery_oldest_job_age_seconds{queue="pager"}`)
	if text := holter("OLDEST", "queues", "list"); !regexp.MustCompile(`(?m)^pager +paused +2 +[1-9]\d*m?s `).MatchString(text) {
		t.Errorf("queues:\n%s", text)
	}
	holter("queue pager resumed", "queues", "resume", "pager")
	h.until(t, "both came", func(came []string) bool { return len(came) == 3 })
	testwait.Until(t, "two dead letters", func() bool {
		out = holter("", "dead-letters")
		return strings.Count(out, "not today") == 2
	})
	if !strings.Contains(out, "b:2") || !strings.Contains(out, "400 Bad Request") {
		t.Errorf("dead letters:\n%s", out)
	}
	h.set(false)
	holter("say which dead letters", "dead-letters", "retry")
	holter("2 dead letters rescheduled", "dead-letters", "retry", "--endpoint", "ops")
	h.until(t, "both came again", func(came []string) bool { return len(came) == 5 && came[3] == "b:2" })
	holter("leads to the endpoint", "endpoints", "delete", "ops")
	holter("route gone paused", "routes", "pause", "gone")
	holter("route gone deleted", "routes", "delete", "gone")
	holter("endpoint ops disabled", "endpoints", "disable", "ops")
	holter("0 jobs deleted", "jobs", "delete", "--endpoint", "ops")
	holter("--jobs: a new job route needs a pattern", "job-routes", "set", "reports", "--queue", "pager")
	holter("job-route reports set", "job-routes", "set", "reports", "--jobs", "report.*", "--queue", "pager", "--endpoint", "ops")
	holter("job-route reports set", "job-routes", "set", "reports", "--weight", "3")
	holter("report.*  pager  ops            3", "job-routes", "list")
	holter("report.*", "job-routes", "get", "reports")
	holter("job ", "jobs", "add", "1", "--name", "report.pdf")
	holter("report.pdf", "jobs", "list", "--name", "report.*", "--state", "ready")
	holter("no jobs", "jobs", "list", "--name", "report.*", "--state", "waiting")
	holter("there is no queue", "jobs", "move", "report.*", "--queue", "none")
	holter("1 job moved", "jobs", "move", "report.*", "--queue", "default")
	holter("report.pdf", "jobs", "list", "--queue", "default")
	holter("1 job deleted", "jobs", "delete", "--endpoint", "ops")
	holter(`the job route "reports" leads to the endpoint "ops"`, "endpoints", "delete", "ops")
	holter("job-route reports deleted", "job-routes", "delete", "reports")
	holter("endpoint ops set", "endpoints", "set", "ops", "--queue", "pager")
	holter("no dead letter has the number 999998, 999999;", "dead-letters", "retry", "999998", "999999")
	holter("no dead letter has the number 999999;", "dead-letters", "delete", "999999")
	holter("there is no job 999999", "jobs", "delete", "999999")
	holter("there is no job 999999", "jobs", "get", "999999")
	holter("done", "jobs", "list", "--state", "done", "--queue", "pager")
	holter("priority      high", "jobs", "get", id(holter("job ", "jobs", "add", "1", "--url", h.URL+"/later", "--in", "1h", "--priority", "high")))
	late := id(holter("job ", "jobs", "add", "1", "--url", h.URL+"/never", "--unique", "u", "--window", "1h", "--debounce"))
	if again := id(holter("job ", "jobs", "add", "2", "--url", h.URL+"/never", "--unique", "u", "--window", "1h", "--debounce")); again != late {
		t.Errorf("a debounced job has the number %s, want %s", again, late)
	}
	holter("job "+late+" rescheduled", "jobs", "reschedule", late, "--in", "2h")
	holter("is not above 0", "jobs", "reschedule", late, "--in", "0s")
	holter("job "+late+" deleted", "jobs", "delete", late)
	holter("job "+late+": deleted", "jobs", "get", late)
	holter(`there is no endpoint "nope"`, "endpoints", "retry-now", "nope")
	holter("job ", "jobs", "add", "1", "--url", h.URL+"/later", "--in", "1h")
	holter(h.URL+"/later", "jobs", "list")
	holter("endpoint ops deleted", "endpoints", "delete", "ops")
	holter("there is no queue", "jobs", "add", "1", "--url", h.URL, "--queue", "none")
	holter("private", "endpoints", "set", "x", "--target", "http://10.0.0.1/", "--settings", `{"private":true}`)
	p.untilGet("/metrics", 200, `holter_delivery_outcomes_total{outcome="delivered",queue="pager"} 2`)
	p.untilGet("/metrics", 200, `holter_delivery_latency_seconds_bucket{queue="pager",le="+Inf"} 2`)
	p.untilGet("/metrics", 200, `holter_delivery_duration_seconds_bucket{queue="pager",le="+Inf"}`)
}

// An endpoint is tested from the command line; what the service answers is shown, and never its address.
func TestEndpointsTest(t *testing.T) {
	t.Parallel()
	service := serveTest(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/SECRET/gone" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, "you asked for "+r.URL.Path)
	}))
	p := startServe(t, server.PrivateEnv+"=127.0.0.1")
	holter := func(want string, args ...string) {
		t.Helper()
		if text := p.operate(want, args...); strings.Contains(text, "SECRET") {
			t.Errorf("holter %s shows a secret:\n%s", strings.Join(args, " "), text)
		}
	}
	holter("endpoint team set", "endpoints", "set", "team", "--kind", "slack", "--target", service+"/SECRET/hook", "--settings", `{"title":"{{.Device}}","rate":1000}`)
	holter(service+"/(hidden)", "endpoints", "list")
	holter("endpoint team set", "endpoints", "set", "team", "--settings", `{"rate":1000}`) // its target stays
	holter("endpoint team took the message with status 200: you asked for (hidden)", "endpoints", "test", "team")
	holter("endpoint gone set", "endpoints", "set", "gone", "--kind", "discord", "--target", service+"/SECRET/gone")
	holter("endpoint gone was not reached: 404 Not Found: you asked for (hidden)", "endpoints", "test", "gone")
	holter("endpoint archive set", "endpoints", "set", "archive", "--kind", "log", "--target", "events.jsonl")
	holter("endpoint archive took the message", "endpoints", "test", "archive")
	holter(`there is no endpoint "nope"`, "endpoints", "test", "nope")
	holter("template: title:1:2", "endpoints", "set", "team", "--settings", `{"title":"{{.Devise}}"}`)
	holter("10.0.0.0/8", "endpoints", "set", "x", "--kind", "email", "--target", "smtp://10.0.0.1", "--settings", `{"from":"a@b.example","to":["c@d.example"]}`)
}

// What somebody else changes between reading and writing is read again, not overwritten.
func TestSetReadsAgain(t *testing.T) {
	var rate atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/queues/q", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", strconv.Quote(strconv.FormatInt(rate.Load(), 10)))
		_, _ = fmt.Fprintf(w, `{"name":"q","rate":%d}`, rate.Load())
		rate.CompareAndSwap(0, 7) // somebody else is quicker
	})
	mux.HandleFunc("PUT /v1/queues/q", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-Match") != `"7"` {
			w.WriteHeader(http.StatusPreconditionFailed)
			_, _ = io.WriteString(w, `{"status":412,"detail":"it has changed"}`)
			return
		}
		if text, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(text), `"rate":7`) || !strings.Contains(string(text), `"attempts":3`) {
			t.Errorf("%s, %v", text, err)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	url := serveTest(t, mux)
	if got := typeLine(t.Context(), t, "queues", "set", "q", "--attempts", "3", "--api", url); got.stdout != "queue q set\n" {
		t.Errorf("%+v", got)
	}
}
