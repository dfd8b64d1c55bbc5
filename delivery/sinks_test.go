package delivery_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/holter-iot/holter/delivery"
	"github.com/holter-iot/holter/liveness"
)

func sink(t *testing.T, kind delivery.Kind, target, settings string) delivery.Sink {
	t.Helper()
	s, err := kind(target, json.RawMessage(settings))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func message(id, data string) delivery.Message {
	return delivery.Message{ID: id, Key: "k", Data: []byte(data)}
}

func TestLogFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	s := sink(t, delivery.LogKind(dir), "events.jsonl", `{"max_bytes":1024,"files":2}`)
	pad := strings.Repeat("x", 400)
	for i := range 8 {
		for _, r := range s.Deliver(t.Context(), []delivery.Message{message("a", fmt.Sprintf("{\n \"n\": %d,\"pad\":%q}", i, pad))}) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	for name, first := range map[string]string{"events.jsonl": `{"n":6,`, "events.jsonl.1": `{"n":4,`, "events.jsonl.2": `{"n":2,`} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.HasPrefix(string(text), first) || strings.Count(string(text), "\n") != 2 {
			t.Errorf("%s: %v %.20q in %d lines, want two from %s on", name, err, text, strings.Count(string(text), "\n"), first)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "events.jsonl.3")); err == nil {
		t.Error("there is a third old file")
	}
	if r := s.Deliver(t.Context(), []delivery.Message{message("a", "{}"), message("b", "{"), message("c", "{}")}); fates(r) != "dxd" {
		t.Errorf("what is no JSON, between what is: %+v", r)
	}
	for _, target := range []string{"", "a/b", "..", ".x", "../x", `a\b`, "a\x00"} {
		if _, err := delivery.LogKind(dir)(target, nil); err == nil {
			t.Errorf("the name %q is taken", target)
		}
	}
}

// A file that cannot be written makes the job wait, and is opened again.
func TestLogFileFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := sink(t, delivery.LogKind(dir), "events.jsonl", "")
	if r := s.Deliver(t.Context(), []delivery.Message{message("a", "{}")}); r[0].Err == nil || r[0].Permanent {
		t.Errorf("the directory is a file: %+v", r)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if r := s.Deliver(t.Context(), []delivery.Message{message("a", "{}")}); r[0].Err != nil {
		t.Error(r[0].Err)
	}
}

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name, target, settings string
		result                 func(r delivery.Result) bool
	}{
		{"takes it", "cat", "", func(r delivery.Result) bool { return r.Err == nil && r.Response == `{"a":1}` }},
		{"arguments", "echo", `{"args":["$HOME","*"]}`, func(r delivery.Result) bool { return r.Response == "$HOME *\n" }},
		{"shell", `echo "$HOLTER_MESSAGE_ID $HOLTER_KEY $HOLTER_EVENT_TYPE $1"; pwd`, `{"shell":true,"args":["x"],"dir":` + strconv.Quote(dir) + `}`, func(r delivery.Result) bool {
			return r.Response == "m1 k device.late x\n"+dir+"\n"
		}},
		{"fails", "echo no >&2; exit 3", `{"shell":true}`, func(r delivery.Result) bool { return r.Err != nil && r.Status == 3 && r.Response == "no\n" }},
		{"hangs with a child", "sleep 100 & sleep 100", `{"shell":true}`, func(r delivery.Result) bool {
			return r.Err != nil && strings.Contains(r.Err.Error(), "killed")
		}},
		{"talks without end", "yes", "", func(r delivery.Result) bool { return r.Err != nil && len(r.Response) == 4096 }},
		{"another directory", "pwd", `{"dir":"/no/such/directory"}`, func(r delivery.Result) bool { return r.Err != nil && !r.Permanent }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sink(t, delivery.CommandKind, c.target, c.settings)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			m := message("m1", `{"a":1}`)
			m.Event = &liveness.Event{Type: liveness.DeviceLate}
			if r := s.Deliver(ctx, []delivery.Message{m}); !c.result(r[0]) {
				t.Errorf("%+v", r)
			}
		})
	}
	for _, c := range []struct{ name, target, settings string }{
		{"nothing", "", ""},
		{"not found", "no-such-program", ""},
		{"batch", "cat", `{"batch":2}`},
		{"unknown setting", "cat", `{"timeout":2}`},
	} {
		if _, err := delivery.CommandKind(c.target, json.RawMessage(c.settings)); err == nil {
			t.Errorf("%s: taken", c.name)
		}
	}
}

// An id goes into a header whatever is in it, and the receiver sees the same id in all attempts.
func FuzzHeaderID(f *testing.F) {
	for _, id := range []string{"dev-1:7", "site-7/Gerät 1.2:3", "a\r\nb", "", "%41", "\xff"} {
		f.Add(id)
	}
	w, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id string) {
		text := delivery.HeaderID(id)
		for _, c := range []byte(text) {
			if c <= ' ' || c >= 0x7f || c == '.' || c == ',' {
				t.Fatalf("HeaderID(%q) = %q", id, text)
			}
		}
		if id == "" {
			return
		}
		header, body := make(http.Header), []byte(`{"id":1}`)
		if err := delivery.Sign(header, id, time.Now(), body, secret, previous); err != nil {
			t.Fatal(err)
		}
		if err := w.Verify(body, header); err != nil {
			t.Errorf("%q: %v", id, err)
		}
		if w.Verify([]byte(`{"id":2}`), header) == nil {
			t.Errorf("%q: another body has the same signature", id)
		}
	})
}

func FuzzURL(f *testing.F) {
	for _, text := range []string{"https://example.org/a?b=c", "http://[::1]:80", "http://", "javascript:x", "http://a b", "//x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if delivery.CheckURL(text) != nil {
			return
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, text, http.NoBody)
		if err != nil || r.URL.Host == "" || r.URL.User != nil {
			t.Errorf("%q passes: %v", text, err)
		}
	})
}
