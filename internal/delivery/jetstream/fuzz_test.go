package jetstream_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"github.com/nats-io/nats.go"

	"github.com/holter-iot/holter/internal/delivery/jetstream"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/sink/sinktest"
	"github.com/holter-iot/holter/liveness"
)

// The URLs of a target that passes name servers and nothing else.
func FuzzTarget(f *testing.F) {
	for _, target := range []string{"nats://a", "tls://a:1,[::1]:2/", "nats://u:p@a", "nats://a b", "nats://[fe80::1%lo]"} {
		f.Add(target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		list, err := jetstream.ParseTarget(target)
		if err != nil {
			return
		}
		for text := range strings.SplitSeq(list, ",") {
			u, err := url.Parse(text)
			if err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Hostname() == "" || u.Port() == "" || u.User != nil || u.Path != "" {
				t.Errorf("%q has %q: %v", target, text, err)
			}
		}
	})
}

// Whatever devices and groups are called, what is published to is a subject without wildcards, and not the server's.
func FuzzSubject(f *testing.F) {
	f.Add("holter.{type}", "dev-1", "site")
	f.Add("{device}.{group}.{type}", "$JS.API", "a b")
	f.Add("{group}{device}", "\xff", ">")
	f.Add("a.{{type}}", "*", "")
	f.Fuzz(func(t *testing.T, template, device, group string) {
		if jetstream.CheckSubject(template) != nil {
			return
		}
		subject := jetstream.SubjectOf(template, &sink.Message{Key: device, Event: &liveness.Event{Type: liveness.DeviceLate, Group: group}})
		if strings.HasPrefix(subject, "$") || strings.ContainsFunc(subject, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }) {
			t.Errorf("%q: %q", template, subject)
		}
		for token := range strings.SplitSeq(subject, ".") {
			if token == "" || strings.ContainsAny(token, "*>") {
				t.Errorf("%q: %q", template, subject)
			}
		}
	})
}

// Whatever settings are, the kind takes them or says what is wrong.
func FuzzSettings(f *testing.F) {
	for _, text := range []string{`{}`, `{"subject":"a.{type}","token":"x"}`, `{"username":"a"}`, `{"seed":"SUAA"}`, `{"credentials":"-----BEGIN NATS USER JWT-----\ney\n"}`, `{"ca":"-----BEGIN"}`, `[]`, `null`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := jetstream.Kind(sinktest.Guard())("nats://127.0.0.1:1", json.RawMessage(text))
		if (s == nil) == (err == nil) {
			t.Fatalf("%v, %v", s, err)
		}
		if s != nil {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// No two ids become the same header, and none is changed on its way.
func FuzzID(f *testing.F) {
	f.Add("dev-1:1", " dev-1:1")
	f.Add("a%20b", "a b")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := jetstream.HeaderID(a), jetstream.HeaderID(b)
		if (a == b) != (x == y) {
			t.Errorf("%q and %q become %q and %q", a, b, x, y)
		}
		if strings.TrimSpace(x) != x && strings.Trim(x, " \t\r\n") != x {
			t.Errorf("%q", x)
		}
		if got := (nats.Header{"A": {x}}).Get("A"); got != x || strings.ContainsAny(x, "\r\n") {
			t.Errorf("%q becomes %q", x, got)
		}
	})
}
