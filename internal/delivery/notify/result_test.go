package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/credential"
	"github.com/holter-iot/holter/internal/delivery/notify"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/sink/sinktest"
	"github.com/holter-iot/holter/liveness"
)

// respond returns an answer of a service.
func respond(status int, body string, header ...string) func(int, http.ResponseWriter) {
	return func(_ int, w http.ResponseWriter) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// What a service answers decides what becomes of the message.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name, kind string // all kinds if it is empty
		answer     func(int, http.ResponseWriter)
		want       string // fate, and what else is said
		after      time.Duration
	}{
		{"ok", "", respond(200, "ok"), "d", 0},
		{"busy", "", respond(429, "slow down", "Retry-After", "7"), "f", 7 * time.Second},
		{"busy until", "telegram", respond(429, `{"ok":false,"error_code":429,"parameters":{"retry_after":11}}`), "f", 11 * time.Second},
		{"failing", "", respond(500, "oops"), "f", 0},
		{"no right", "", respond(403, "invalid_token"), "f", 0},
		{"unknown", "", respond(404, "no_service"), "f", 0},
		{"bad message", "", respond(400, "invalid_payload"), "x", 0},
		{"gone", "slack", respond(410, "channel_is_archived"), "f gone", 0},
		{"deleted", "discord", respond(404, `{"message": "Unknown Webhook", "code": 10015}`), "f gone", 0},
		{"redirect", "", respond(302, "", "Location", "https://elsewhere.example/"), "f", 0},
	} {
		for _, tr := range trials() {
			if c.kind != "" && c.kind != tr.kind {
				continue
			}
			t.Run(c.name+"/"+tr.kind, func(t *testing.T) {
				m := newMock(t, c.answer)
				r := deliver(t, tr.open(t, m.URL, `"rate":1000`), about("d", 1, liveness.DeviceOffline))[0]
				got := sinktest.Fates([]sink.Result{r})
				if r.Gone {
					got += " gone"
				}
				if got != c.want || c.after > 0 && r.After != c.after || len(m.took()) != 1 {
					t.Errorf("%s, %+v; want %s, after %v", got, r, c.want, c.after)
				}
			})
		}
	}
}

// A service that does not answer, or is not there, fails in time.
func TestDeadAndSlow(t *testing.T) {
	for _, tr := range trials() {
		t.Run(tr.kind, func(t *testing.T) {
			free := make(chan struct{})
			m := newMock(t, func(int, http.ResponseWriter) { <-free })
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			r := tr.open(t, m.URL, "").Deliver(ctx, []sink.Message{about("d", 1, liveness.DeviceOffline)})[0]
			close(free)
			if r.Permanent || !errors.Is(r.Err, context.DeadlineExceeded) {
				t.Errorf("slow: %+v", r)
			}
			m.Close()
			if r := deliver(t, tr.open(t, m.URL, ""), about("d", 1, liveness.DeviceOffline))[0]; r.Err == nil || r.Permanent {
				t.Errorf("dead: %+v", r)
			}
		})
	}
}

// No secret is in a result, even if the service repeats it or leads elsewhere with it.
func TestSecretsStayHidden(t *testing.T) {
	for _, tr := range trials() {
		for _, status := range []int{200, 302, 500} {
			t.Run(fmt.Sprintf("%s/%d", tr.kind, status), func(t *testing.T) {
				var m *mock
				m = newMock(t, func(_ int, w http.ResponseWriter) {
					m.mu.Lock()
					c := m.calls[len(m.calls)-1]
					m.mu.Unlock()
					at := c.path + "?" + c.query
					respond(status, at+" "+c.authorization+" "+string(c.body), "Location", "https://elsewhere.example"+at)(0, w)
				})
				r := deliver(t, tr.open(t, m.URL, ""), about("d", 1, liveness.DeviceOffline))[0]
				if shown := fmt.Sprint(r.Err, r.Response); strings.Contains(shown, "SECRET") || !strings.Contains(shown, "(hidden)") {
					t.Errorf("%s", shown)
				}
			})
		}
		t.Run(tr.kind+"/refused", func(t *testing.T) {
			s, err := notify.Kinds(sink.NewGuard(nil), "holter/test")[tr.kind]("http://127.0.0.1:1"+tr.path, json.RawMessage("{"+tr.settings+"}"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			r := deliver(t, s, about("d", 1, liveness.DeviceOffline))[0]
			if !errors.Is(r.Err, sink.ErrPrivate) || strings.Contains(r.Err.Error(), "SECRET") || !strings.Contains(r.Err.Error(), sink.PrivateEnv) {
				t.Errorf("%v, want ErrPrivate", r.Err)
			}
		})
	}
}

// What waits for its turn is told together, one request after the other, as the rate allows.
func TestRate(t *testing.T) {
	m := newMock(t, nil)
	tr := trials()[0]
	s := tr.open(t, m.URL, "")
	if _, ok := s.(sink.OneAtATime); !ok {
		t.Error("it does not take one delivery at a time")
	}
	if _, batch := s.Limits(); batch != 20 {
		t.Errorf("batch is %d, want 20", batch)
	}
	first := deliver(t, s, about("a", 1, liveness.DeviceOffline))[0]
	if first.Err != nil || first.After <= 0 || first.After > 2*time.Second {
		t.Errorf("%+v, want it delivered, and a pause of about a second", first)
	}
	second := deliver(t, s, about("b", 1, liveness.DeviceOffline), about("c", 1, liveness.DeviceOffline))
	if got := sinktest.Fates(second); got != "ww" || second[0].After <= 0 || time.Until(second[0].Again) > 2*time.Second {
		t.Errorf("%s, %+v, want them to wait", got, second)
	}
	if n := len(m.took()); n != 1 {
		t.Errorf("%d requests", n)
	}
	if r := deliver(t, tr.open(t, m.URL, `"rate":0.01`), about("a", 1, liveness.DeviceOffline))[0]; r.After < 90*time.Second || r.After > 110*time.Second {
		t.Errorf("a pause of %v, want that of the setting", r.After)
	}
}

// If messages are refused together, each is tried alone, and only the one that is to blame is lost.
func TestOneIsRefused(t *testing.T) {
	var m *mock
	m = newMock(t, func(_ int, w http.ResponseWriter) {
		m.mu.Lock()
		bad := strings.Contains(string(m.calls[len(m.calls)-1].body), "bad")
		m.mu.Unlock()
		if bad {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	tr := trials()[0]
	for _, rate := range []string{`"rate":1000`, `"rate":0.001`} { // also if the rate allows one request for all
		s := tr.open(t, m.URL, rate)
		waiting := []sink.Message{about("a", 1, liveness.DeviceOffline), about("bad", 1, liveness.DeviceOffline), about("c", 1, liveness.DeviceOffline)}
		if rate != `"rate":1000` {
			results := deliver(t, s, waiting...)
			if got := sinktest.Fates(results); got != "dww" {
				t.Errorf("%s: %s, want the first delivered", rate, got)
			}
			continue
		}
		fates := make(map[string]string)
		for len(waiting) > 0 {
			var left []sink.Message
			for i, r := range deliver(t, s, waiting...) {
				if fate := sinktest.Fates([]sink.Result{r}); fate == "w" {
					left = append(left, waiting[i])
				} else {
					fates[waiting[i].Key] = fate
				}
			}
			waiting = left
		}
		if fmt.Sprint(fates) != "map[a:d bad:x c:d]" {
			t.Errorf("%v", fates)
		}
	}
}

// A credential is read for each message, so that one that was exchanged counts at once.
func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(credential.DirectoryEnv, dir)
	m := newMock(t, nil)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	og := trials()[6]
	s := sinktest.New(t, notify.Kinds(sinktest.Guard(), "")[og.kind], m.URL+og.path, `{"api_key":"credential:endpoint-genie"}`)
	if r := deliver(t, s, about("d", 1, liveness.DeviceOffline))[0]; r.Err == nil || r.Permanent || !strings.Contains(r.Err.Error(), "genie") {
		t.Errorf("without the file: %+v", r)
	}
	for _, secret := range []string{"first-key", "second-key"} {
		write("endpoint-genie", secret)
		r := deliver(t, s, about("d", 1, liveness.DeviceOffline))[0]
		if calls := m.took(); r.Err != nil || len(calls) != 1 || calls[0].authorization != "GenieKey "+secret {
			t.Errorf("%+v, %+v", r, calls)
		}
	}
	write("endpoint-hook", m.URL+"/services/T/B/SECRET-path")
	hook := sinktest.New(t, notify.Kinds(sinktest.Guard(), "")["slack"], "credential:endpoint-hook", ``)
	if r := deliver(t, hook, about("d", 1, liveness.DeviceOffline))[0]; r.Err != nil || m.took()[0].path != "/services/T/B/SECRET-path" {
		t.Errorf("%+v", r)
	}
	write("database", m.URL+"/services/T/B/SECRET-path")
	stolen := sinktest.New(t, notify.Kinds(sinktest.Guard(), "")["slack"], "credential:database", ``)
	if r := deliver(t, stolen, about("d", 1, liveness.DeviceOffline))[0]; r.Err == nil || !strings.Contains(r.Err.Error(), "begin with endpoint-") || len(m.took()) != 0 {
		t.Errorf("a credential that is not for endpoints: %+v", r)
	}
	write("endpoint-hook", "nonsense SECRET")
	hook = sinktest.New(t, notify.Kinds(sinktest.Guard(), "")["slack"], "credential:endpoint-hook", ``)
	if r := deliver(t, hook, about("d", 1, liveness.DeviceOffline))[0]; r.Err == nil || strings.Contains(r.Err.Error(), "SECRET") {
		t.Errorf("%+v", r)
	}
}

// Settings that cannot be used are refused, with what to do.
func TestBadSettings(t *testing.T) {
	const hook = "https://hooks.slack.com/services/T/B/SECRET"
	for _, c := range []struct{ kind, target, settings, want string }{
		{"slack", "", ``, "want https://HOST/PATH, as the service shows it"},
		{"slack", "nonsense SECRET", ``, "want https://HOST/PATH"},
		{"slack", "https://u:SECRET@example.org/a", ``, "want https://HOST/PATH"},
		{"slack", hook, `{"chat":"x"}`, `there is no field "chat"`},
		{"slack", hook, `{"title":"{{.Devise}}"}`, `settings: template: title:1:2: executing "title" at <.Devise>`},
		{"slack", hook, `{"text":"{{"}`, "settings: template: text:1"},
		{"slack", hook, `{"rate":-1}`, "settings: rate is -1, want 0.001 to 1000"},
		{"slack", hook, `{"console":"holter"}`, `settings: console is "holter"`},
		{"telegram", "", `{"chat":"1"}`, "want token"},
		{"telegram", "", `{"token":"1:a"}`, "and chat"},
		{"telegram", "", `{"token":"1:a","chat":{}}`, "want the number of a chat"},
		{"ntfy", "https://ntfy.sh", ``, "want https://ntfy.sh/TOPIC"},
		{"ntfy", "https://ntfy.sh/t", `{"token":"a","username":"b"}`, "not both"},
		{"pagerduty", "", ``, "want routing_key"},
		{"pagerduty", "", `{"routing_key":"k","batch":2}`, "batch must be 1"},
		{"opsgenie", "", ``, "want api_key"},
		{"opsgenie", "", `{"api_key":"k","batch":2}`, "batch must be 1"},
		{"email", "", ``, "want smtp://HOST:587"},
		{"email", "mail.example.org:25", ``, "want smtp://HOST:587"},
		{"email", "smtp://mail.example.org", ``, "from is"},
		{"email", "smtp://mail.example.org", `{"from":"a@b.example"}`, "to has 0 addresses"},
		{"email", "smtp://mail.example.org", `{"from":"a@b.example","to":["x"]}`, `to has "x"`},
		{"email", "smtp://mail.example.org", `{"from":"a@b.example\r\nBcc: c@d.example","to":["x@y.example"]}`, "from is"},
		{"email", "smtp://mail.example.org", `{"from":"a@b.example","to":["x@y.example"],"username":"u"}`, "want username and password"},
		{"email", "smtp://mail.example.org", `{"from":"a@b.example","to":["x@y.example"],"username":"u","password":"p","plaintext":true}`, "could be read on the way"},
		{"email", "smtps://mail.example.org", `{"from":"a@b.example","to":["x@y.example"],"plaintext":true}`, "contradicts"},
		{"email", "smtp://mail.example.org:99999", `{"from":"a@b.example","to":["x@y.example"]}`, "port"},
		{"email", "smtp://mail.example.org", `{"from":"a@b.example","to":["x@y.example"],"ca":"x"}`, "ca has no certificate"},
	} {
		s, err := notify.Kinds(sinktest.Guard(), "")[c.kind](c.target, json.RawMessage(c.settings))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s %s %s: %v, %v, want %q", c.kind, c.target, c.settings, s, err, c.want)
		}
	}
}

// What opens and closes no incident takes nothing of the rate: in an outage thousands of such messages may wait
// before one that calls somebody.
func TestSilenceTakesNoRate(t *testing.T) {
	for _, tr := range incidentTrials() {
		t.Run(tr.kind, func(t *testing.T) {
			m := newMock(t, nil)
			s := tr.open(t, m.URL, `"rate":0.01`)
			for i := range 100 {
				message := about(fmt.Sprint("d", i), 1, liveness.DeviceOffline)
				message.Event.Outage = true
				if r := deliver(t, s, message)[0]; r.Err != nil || r.After > 0 || !r.Again.IsZero() {
					t.Fatalf("suppressed message %d: %+v", i, r)
				}
			}
			r := deliver(t, s, about("d", 1, liveness.DeviceOffline))[0]
			if n := len(m.took()); r.Err != nil || !r.Again.IsZero() || n != 1 {
				t.Errorf("%+v, %d requests, want one at once", r, n)
			}
		})
	}
}
