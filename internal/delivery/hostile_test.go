package delivery_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/delivery/command"
	"github.com/holter-iot/holter/internal/delivery/logfile"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/jobs"
)

// Bad endpoints do no harm: the job waits for another attempt or is a dead letter, and the error says what is wrong.
func TestHostileEndpoints(t *testing.T) {
	handler := func(h http.HandlerFunc) func(t *testing.T) string {
		return func(t *testing.T) string {
			t.Helper()
			s := httptest.NewServer(h)
			t.Cleanup(s.Close)
			return s.URL
		}
	}
	raw := func(text string) func(t *testing.T) string {
		return func(t *testing.T) string {
			t.Helper()
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					// An answer before the question would be none of it.
					if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
						_, _ = io.Copy(io.Discard, r.Body)
					}
					_, _ = c.Write([]byte(text))
					c.Close()
				}
			}()
			return "http://" + l.Addr().String()
		}
	}
	gigabyte := func(w http.ResponseWriter) {
		piece := bytes.Repeat([]byte("all work and no play "), 50_000)
		for range 1000 {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}
	for _, c := range []struct {
		name     string
		url      func(t *testing.T) string
		settings string
		dead     bool   // or it waits for another attempt
		done     bool   // it is delivered
		why      string // in the error
	}{
		{name: "a gigabyte", url: handler(func(w http.ResponseWriter, _ *http.Request) { gigabyte(w) }), done: true},
		{name: "a gigabyte with a 500", url: handler(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			gigabyte(w)
		}), why: "500"},
		{name: "redirect to metadata", url: handler(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusTemporaryRedirect)
		}), why: "redirects are not followed"},
		{name: "hangs", url: func(t *testing.T) string {
			t.Helper()
			end := make(chan struct{})
			url := handler(func(http.ResponseWriter, *http.Request) { <-end })(t)
			t.Cleanup(func() { close(end) })
			return url
		}, settings: `{"timeout_ms":100}`, why: "no answer in time"},
		{name: "hangs in the body", url: handler(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			_, _ = io.Copy(io.Discard, r.Body) // or net/http does not notice that the client has gone
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}), settings: `{"timeout_ms":100}`, done: true},
		{name: "400", url: handler(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }), dead: true, why: "400 Bad Request"},
		{name: "422", url: handler(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnprocessableEntity) }), dead: true, why: "422"},
		{name: "404", url: handler(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }), why: "404 Not Found"},
		{name: "TLS error", url: func(t *testing.T) string {
			t.Helper()
			s := httptest.NewUnstartedServer(http.NotFoundHandler())
			s.Config.ErrorLog = nil
			s.StartTLS()
			t.Cleanup(s.Close)
			return s.URL
		}, why: "certificate"},
		{name: "TLS to a plain server", url: func(t *testing.T) string {
			t.Helper()
			return strings.Replace(handler(func(http.ResponseWriter, *http.Request) {})(t), "http:", "https:", 1)
		}, why: "HTTPS client"},
		{name: "no such host", url: func(*testing.T) string { return "http://no-such-host.invalid/" }, why: "no-such-host.invalid"},
		{name: "nobody listens", url: func(*testing.T) string { return "http://127.0.0.1:1/" }, why: "refused"},
		{name: "no HTTP", url: raw("SSH-2.0-OpenSSH_9.2\r\n"), why: "malformed HTTP"},
		{name: "nothing", url: raw(""), why: "EOF"},
		{name: "endless headers", url: raw("HTTP/1.1 200 OK\r\n" + strings.Repeat("X-A: "+strings.Repeat("b", 1000)+"\r\n", 200)), why: "header"},
		{name: "half an answer", url: raw("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhal"), done: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, delivery.Config{Grace: time.Millisecond})
			r.queue(func(q *jobs.Queue) { q.Backoff, q.MaxBackoff = time.Hour, time.Hour })
			r.endpoint("bad", "webhook", c.url(t), c.settings)
			r.append("dev-1")
			switch {
			case c.done:
				r.idle()
				if dead := r.dead(); len(dead) > 0 {
					t.Errorf("dead letters %+v", dead)
				}
			case c.dead:
				r.idle()
				if dead := r.dead(); len(dead) != 1 || !strings.Contains(dead[0].Error, c.why) {
					t.Errorf("dead letters %+v, want one with %q", dead, c.why)
				}
			default:
				var views []jobs.View
				r.until("it waits", func() bool {
					var err error
					views, err = r.engine.Jobs().List(t.Context(), jobs.Filter{}, 10, time.Now())
					return err == nil && len(views) == 1 && views[0].State == jobs.StateWaiting
				})
				if v := views[0]; v.Attempts != 1 || !strings.Contains(v.Error, c.why) {
					t.Errorf("after %d attempts: %q, want %q", v.Attempts, v.Error, c.why)
				}
			}
		})
	}
}

// A name that means this machine is refused by what it means, not by what it is called.
func TestPrivateName(t *testing.T) {
	rc := newReceiver(t, nil)
	r := newRig(t, delivery.Config{Private: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	r.queue(func(q *jobs.Queue) { q.Backoff, q.MaxBackoff = time.Hour, time.Hour })
	r.engine.LookUp(func(context.Context, string, string) ([]netip.Addr, error) { return nil, errors.New("not now") })
	r.endpoint("bad", "webhook", strings.Replace(rc.URL, "127.0.0.1", "localhost", 1), "")
	r.append("dev-1")
	r.until("it waits", func() bool {
		views, err := r.engine.Jobs().List(t.Context(), jobs.Filter{}, 10, time.Now())
		return err == nil && len(views) == 1 && strings.Contains(views[0].Error, "private address")
	})
	if n := len(rc.got()); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

func TestBadRequests(t *testing.T) {
	r := newRig(t, delivery.Config{Kinds: map[string]sink.Kind{"log": logfile.Kind(""), "command": command.Kind(false), "playbook": command.Kind(false)}})
	ctx := t.Context()
	endpoint := func(kind, target, settings string) error {
		return r.engine.PutEndpoint(ctx, jobs.Endpoint{Name: "e", Kind: kind, Target: target, Settings: json.RawMessage(settings)})
	}
	enqueue := func(q delivery.Request) error {
		if q.Body == nil {
			q.Body = json.RawMessage("{}")
		}
		_, err := r.engine.Enqueue(ctx, q)
		return err
	}
	queue := func(change func(*jobs.Queue)) error {
		q := jobs.NewQueue("q")
		change(&q)
		return r.engine.PutQueue(ctx, q)
	}
	for _, c := range []struct {
		name string
		err  error
		why  string
	}{
		{"unknown kind", endpoint("fax", "x", ""), "there is none such, want one of command, log, webhook"},
		{"log without a directory", endpoint("log", "x", ""), "a directory for log files"},
		{"command that is not allowed", endpoint("command", "true", ""), "not configured to run commands"},
		{"no URL", endpoint("webhook", "example.org", ""), "is no URL"},
		{"another scheme", endpoint("webhook", "file:///etc/passwd", ""), "is no URL"},
		{"a password", endpoint("webhook", "https://a:b@example.org", ""), "user or password"},
		{"settings that are no JSON", endpoint("webhook", "https://example.org", "{"), "settings"},
		{"an unknown setting", endpoint("webhook", "https://example.org", `{"secrt":"x"}`), `there is no field "secrt"; want timeout_ms, batch, break_after, break_over_ms, break_for_ms, secret`},
		{"settings that are no object", endpoint("webhook", "https://example.org", "7"), "want an object with timeout_ms, batch, break_after, break_over_ms, break_for_ms, secret"},
		{"a batch that is no number", endpoint("webhook", "https://example.org", `{"batch":1e99}`), "batch is of the type number 1e99; want a whole number"},
		{"a short secret", endpoint("webhook", "https://example.org", `{"secret":"whsec_YWJj"}`), "3 bytes"},
		{"a bad secret", endpoint("webhook", "https://example.org", `{"secret":"whsec_!"}`), "base64"},
		{"only the old secret", endpoint("webhook", "https://example.org", `{"previous_secret":"`+secret+`"}`), "without secret"},
		{"a bad header", endpoint("webhook", "https://example.org", `{"headers":{"X-A":"b\r\nX-C: d"}}`), "control character"},
		{"a header of ours", endpoint("webhook", "https://example.org", `{"headers":{"webhook-id":"1"}}`), "set by holter"},
		{"a bad timeout", endpoint("webhook", "https://example.org", `{"timeout_ms":-5}`), "timeout_ms"},
		{"a bad batch", endpoint("webhook", "https://example.org", `{"batch":5000}`), "batch"},
		{
			"several mistakes", endpoint("webhook", "https://example.org", `{"secret":"whsec_!","timeout_ms":-5,"batch":5000}`),
			"base64, as in whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\nsettings: timeout_ms is -5, want 1 to 600000\nsettings: batch is 5000",
		},
		{"a bad target and a bad batch", endpoint("webhook", "example.org", `{"batch":5000}`), "\nsettings: batch is 5000"},
		{"job to nowhere", enqueue(delivery.Request{}), "needs a URL or the name of an endpoint"},
		{"job with a bad URL", enqueue(delivery.Request{URL: "http://"}), "is no URL"},
		{"job with a long body", enqueue(delivery.Request{URL: "http://a", Body: json.RawMessage(strings.Repeat(" ", delivery.MaxBody+1))}), "1048577 bytes"},
		{"job without JSON", enqueue(delivery.Request{URL: "http://a", Body: json.RawMessage("{")}), "not JSON"},
		{"job that is too late", enqueue(delivery.Request{URL: "http://a", Deadline: time.Now().Add(-time.Second)}), "deadline"},
		{"job that is never too late", enqueue(delivery.Request{URL: "http://a", Deadline: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}), "or leave deadline out"},
		{"job for another century", enqueue(delivery.Request{URL: "http://a", RunAt: time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC)}), "or leave run_at out"},
		{"job for the next century", enqueue(delivery.Request{URL: "http://a", RunAt: time.Now().AddDate(100, 0, 0)}), "ten years away: want"},
		{"job with a bad key", enqueue(delivery.Request{URL: "http://a", Key: "a\x00"}), "ordering key"},
		{"queue without workers", queue(func(q *jobs.Queue) { q.Concurrency = 0 }), "concurrency is 0"},
		{"queue with a bad rate", queue(func(q *jobs.Queue) { q.Rate = -1 }), "rate is -1"},
		{"queue with a bad name", queue(func(q *jobs.Queue) { q.Name = "a b" }), "is no name"},
		{"queue with two mistakes", queue(func(q *jobs.Queue) { q.Attempts, q.MaxAge = 0, 0 }), "max_age is 0s"},
		{"the queue that stays", r.engine.DeleteQueue(ctx, jobs.DefaultQueue), "always there"},
		{"route with an unknown type", r.engine.PutRoute(ctx, jobs.Route{Name: "r", Types: []string{"device.gone"}}), `no type of event "device.gone"`},
		{"route with an unknown reason", r.engine.PutRoute(ctx, jobs.Route{Name: "r", Reasons: []string{"boredom"}}), "want one of silence, bye"},
	} {
		if !isErr(c.err, jobs.ErrBad) || !strings.Contains(c.err.Error(), c.why) {
			t.Errorf("%s: %v, want ErrBad with %q", c.name, c.err, c.why)
		}
	}
	if err := r.engine.PutRoute(ctx, jobs.Route{Name: "r", Queue: 1, Endpoint: 9}); !isErr(err, jobs.ErrUnknown) {
		t.Errorf("route to nowhere: %v", err)
	}
	if err := enqueue(delivery.Request{Endpoint: "none"}); !isErr(err, jobs.ErrUnknown) {
		t.Errorf("job to nowhere: %v", err)
	}
}

func isErr(err, want error) bool { return errors.Is(err, want) }
