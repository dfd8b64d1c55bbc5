package httpapi_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/httpapi/auth"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// post is a Sender that fails as it is told to, or notes what was sent.
type post struct {
	mu   sync.Mutex // guards the fields below
	fail error
	wait time.Duration
	got  []string
}

func (p *post) Send(ctx context.Context, device string, payload []byte, raw bool) (httpapi.Sent, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-time.After(p.wait):
	case <-ctx.Done():
		return httpapi.Sent{}, fmt.Errorf("%w; nothing was written", context.Cause(ctx))
	}
	if p.fail != nil {
		return httpapi.Sent{}, p.fail
	}
	p.got = append(p.got, fmt.Sprintf("%s %q %v", device, payload, raw))
	return httpapi.Sent{Protocol: "line", Bytes: len(payload) + 5}, nil
}

func TestSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		p := &post{wait: 30 * time.Second}
		var log bytes.Buffer
		auth := newSecrets()
		h := f.api(httpapi.Config{Sender: p, Auth: auth, Logger: slog.New(slog.NewJSONHandler(&log, nil))}).Handler()
		f.open("a/1")
		f.open("/")
		for _, tt := range []struct{ target, body, want string }{
			{"a%2F1", `{"text": "on \u00e9"}`, `a/1 "on é" false`},
			{"a%2F1", `{"base64": "AP8KaA=="}`, `a/1 "\x00\xff\nh" true`},
			{"%2F", `{"hex": "00fF"}`, `/ "\x00\xff" true`},
			{"%2F", `{"hex": "00", "timeout": "31"}`, `/ "\x00" true`},
		} {
			p.got, p.wait = nil, 0
			if strings.Contains(tt.body, "timeout") {
				p.wait = 30 * time.Second
			}
			w := send(h, "POST", "/v1/devices/"+tt.target+"/send", tt.body, bearing("a")...)
			var answer struct {
				Written  bool
				Bytes    int
				Protocol string
				At       time.Time
			}
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 {
				t.Fatalf("%s: %d %v %s", tt.body, w.Code, err, w.Body)
			}
			if got := strings.Join(p.got, "; "); got != tt.want {
				t.Errorf("%s was sent as %s, want %s", tt.body, got, tt.want)
			}
			if !answer.Written || answer.Bytes < 6 || answer.Protocol != "line" || !answer.At.Equal(time.Now()) {
				t.Errorf("%s: answer %+v", tt.body, answer)
			}
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		var line map[string]any
		if err := json.Unmarshal([]byte(lines[0]), &line); err != nil {
			t.Fatal(err)
		}
		delete(line, "time")
		want := map[string]any{
			"level": "INFO", "msg": "message to a device", "device": "a/1", "kind": "text", "bytes": 5.0, "result": "written",
			"token": "the admin", "remote": "192.0.2.1:1234",
		}
		if fmt.Sprint(line) != fmt.Sprint(want) || len(lines) != 4 {
			t.Errorf("%d lines, the first %v, want %v", len(lines), line, want)
		}
		if strings.Contains(log.String(), "on ") {
			t.Errorf("what was sent is in the log:\n%s", log.String())
		}
	})
}

func TestSendProblems(t *testing.T) {
	big := base64.StdEncoding.EncodeToString(make([]byte, 64<<10+1))
	tests := []struct {
		name, id, body string
		fail           error
		code           int
		detail         string
		result         string // as it is counted; nothing for what is not
	}{
		{"unknown", "nobody", `{"text": "x"}`, nil, 404, "no device with this id", "unknown_device"},
		{"nothing", "a", `{}`, nil, 422, "body: there are 0 of text, base64 and hex; give one", ""},
		{"two", "a", `{"text": "x", "hex": "00"}`, nil, 422, "body: there are 2 of text", ""},
		{"empty", "a", `{"text": ""}`, nil, 422, "body: text is empty", ""},
		{"odd", "a", `{"hex": "0"}`, nil, 422, "body: hex: encoding/hex: odd length hex string", ""},
		{"no hex", "a", `{"hex": "0x"}`, nil, 422, "body: hex: encoding/hex: invalid byte", ""},
		{"no base64", "a", `{"base64": "a"}`, nil, 422, "body: base64: illegal base64 data", ""},
		{"no padding", "a", `{"base64": "AA"}`, nil, 422, "body: base64: illegal base64 data", ""},
		{"no text", "a", `{"text": 7}`, nil, 422, "body.text: expected string", ""},
		{"no field", "a", `{"message": "x"}`, nil, 422, "body.message: unexpected property", ""},
		{"timeout", "a", `{"text": "x", "timeout": "soon"}`, nil, 422, `body.timeout: "soon" is not a duration`, ""},
		{"no timeout", "a", `{"text": "x", "timeout": "0"}`, nil, 422, `body.timeout: `, ""},
		{"long timeout", "a", `{"text": "x", "timeout": "61s"}`, nil, 422, "body.timeout: 1m1s is too long; wait for at most 1m0s", ""},
		{"no body", "a", ``, nil, 400, "request body is required", ""},
		{"too long", "a", `{"base64": "` + big + `"}`, nil, 413, "the message is too long: 65537 bytes, want at most 65536", "too_long"},
		{"far too long", "a", `{"text": "` + strings.Repeat("x", 1<<20) + `"}`, nil, 413, "request body is too large", ""},
		{"too long for the protocol", "a", `{"text": "x"}`, fmt.Errorf("%w: 2 bytes", httpapi.ErrTooLong), 413, "the message is too long: 2 bytes", "too_long"},
		{"no messages", "a", `{"text": "x"}`, httpapi.ErrNoMessages, 422, "the device's protocol has no messages to devices", "not_allowed"},
		{"not allowed", "a", `{"text": "x"}`, fmt.Errorf("%w: ASCII", httpapi.ErrNotAllowed), 422, "the device's protocol does not allow this message: ASCII", "not_allowed"},
		{"slow", "a", `{"text": "x"}`, httpapi.ErrTooMany, 429, "too much waits to be read by the device", "too_many"},
		{"late", "a", `{"text": "x", "timeout": "0.5"}`, nil, 504, "the message was not written in time; nothing was written", "late"},
		{
			"not acknowledged", "a", `{"text": "x"}`, fmt.Errorf("%w: it was sent 3 times", httpapi.ErrUnacknowledged), 504,
			"the device did not acknowledge the message in time: it was sent 3 times", "unacknowledged",
		},
		{"uncertain", "a", `{"text": "x"}`, fmt.Errorf("%w: cut", httpapi.ErrUncertain), 504, "it is not known whether the message was written: cut", "uncertain"},
		{"failed", "a", `{"text": "x"}`, errors.New("secret"), 503, "the message could not be sent; the server's log says why", "failed"},
		{"cut off", "a", `{"text": "x"}`, fmt.Errorf("%w: cut off", httpapi.ErrNotConnected), 409, `the device is not connected: cut off; its session is open at "line"`, "not_connected"},
		{"gone", "gone", `{"text": "x"}`, httpapi.ErrNotConnected, 409, `the device is not connected; it was heard last at "line", 1m30s ago; nothing is kept for it`, "not_connected"},
		{"never", "never", `{"text": "x"}`, httpapi.ErrNotConnected, 409, "the device is not connected; it was never heard", "not_connected"},
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{Devices: map[string]liveness.Policy{"never": {}}}, 0)
		p := &post{}
		var log bytes.Buffer
		h := f.api(httpapi.Config{Sender: p, Logger: slog.New(slog.NewTextHandler(&log, nil))}).Handler()
		f.open("gone").Bye(f.source.Time(time.Now()))
		f.listen(90 * time.Second)
		f.open("a")
		counts := make(map[string]int)
		for _, tt := range tests {
			p.fail, p.wait = tt.fail, time.Duration(0)
			if tt.result == "late" {
				p.wait = time.Second
			}
			w := send(h, "POST", "/v1/devices/"+tt.id+"/send", tt.body, "Content-Type", "application/json")
			wantProblem(t, w, tt.name, tt.code, tt.detail)
			if again := w.Header().Get("Retry-After"); (tt.code == 429) != (again == "1") {
				t.Errorf("%s: Retry-After: %s", tt.name, again)
			}
			if tt.result != "" {
				counts[tt.result]++
			}
		}
		if n := strings.Count(log.String(), `msg="message to a device"`); n != counts["unknown_device"]+counts["too_long"]+counts["not_allowed"]+
			counts["too_many"]+counts["late"]+counts["unacknowledged"]+counts["uncertain"]+counts["failed"]+counts["not_connected"] {
			t.Errorf("%d lines of %v in the log:\n%s", n, counts, log.String())
		}
		metrics := get(h, "/metrics").Body.String()
		for result, n := range counts {
			if want := fmt.Sprintf("holter_http_sends_total{result=%q} %d\n", result, n); !strings.Contains(metrics, want) {
				t.Errorf("metrics lack %s", want)
			}
		}
		var where struct {
			State, Source string
			Connected     bool
			LastSeen      time.Time `json:"last_seen"`
		}
		p.fail, p.wait = httpapi.ErrNotConnected, 0
		w := send(h, "POST", "/v1/devices/gone/send", `{"text": "x"}`)
		if err := json.Unmarshal(w.Body.Bytes(), &where); err != nil || where.State != "offline" || where.Source != "line" || where.Connected ||
			!where.LastSeen.Equal(time.Now().Add(-90500*time.Millisecond)) {
			t.Errorf("%v, %+v: %s", err, where, w.Body)
		}
	})
}

// Without a Sender, nothing is connected where it could be sent to.
func TestSendWithoutASender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.api(httpapi.Config{}).Handler()
		f.open("a")
		wantProblem(t, send(h, "POST", "/v1/devices/a/send", `{"text": "x"}`), "a", 409, `its session is open at "line"`)
	})
}

// Each token, and each address without one, may send 100 messages per second.
func TestSendTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		tokens := newSecrets()
		tokens.known["a2"] = auth.RoleAdmin
		h := f.api(httpapi.Config{Sender: &post{}, Auth: named{tokens}}).Handler()
		open := f.api(httpapi.Config{Sender: &post{}}).Handler()
		f.open("a")
		for range 100 {
			for _, secret := range []string{"a", "a2"} {
				if w := send(h, "POST", "/v1/devices/a/send", `{"text": "x"}`, bearing(secret)...); w.Code != 200 {
					t.Fatalf("%s: %d %s", secret, w.Code, w.Body)
				}
			}
			if w := send(open, "POST", "/v1/devices/a/send", `{"text": "x"}`); w.Code != 200 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		wantProblem(t, send(h, "POST", "/v1/devices/a/send", `{"text": "x"}`, bearing("a")...), "token", 429, "you send too many messages: more than 100 per second")
		wantProblem(t, send(open, "POST", "/v1/devices/a/send", `{"text": "x"}`), "address", 429, "more than 100 per second")
		time.Sleep(10 * time.Millisecond)
		if w := send(h, "POST", "/v1/devices/a/send", `{"text": "x"}`, bearing("a")...); w.Code != 200 {
			t.Errorf("later: %d %s", w.Code, w.Body)
		}
	})
}

// named gives each token a name of its own.
type named struct{ *secrets }

func (n named) Lookup(ctx context.Context, secret string) (t auth.Token, ok bool, err error) {
	t, ok, err = n.secrets.Lookup(ctx, secret)
	t.Name = secret
	return t, ok, err
}

// A message may take longer than other answers.
func TestSendSlowly(t *testing.T) {
	log, err := eventlog.New(0)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := liveness.New(log, liveness.Config{Devices: map[string]liveness.Policy{"a": {}}})
	if err != nil {
		t.Fatal(err)
	}
	deadlines := &deadlines{}
	api, err := httpapi.New(registry, httpapi.LogEvents{Log: log}, httpapi.Config{NoBeats: true, Sender: &post{}})
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/devices/a/send", strings.NewReader(`{"text": "x", "timeout": "60s"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = net.JoinHostPort("192.0.2.1", "1234")
	api.Handler().ServeHTTP(deadlines, r)
	if deadlines.code != 200 || deadlines.write.Sub(before) < 2*time.Minute {
		t.Errorf("code %d, the answer may take %v", deadlines.code, deadlines.write.Sub(before))
	}
}

// deadlines is a response writer that notes them.
type deadlines struct {
	header http.Header
	code   int
	write  time.Time
}

func (d *deadlines) Header() http.Header {
	if d.header == nil {
		d.header = http.Header{}
	}
	return d.header
}

func (d *deadlines) Write(p []byte) (int, error) { return len(p), nil }

func (d *deadlines) WriteHeader(code int) { d.code = code }

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.write = at
	return nil
}
