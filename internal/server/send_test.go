package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/test/testwait"
)

// posts sends a message by the API.
func (s *served) posts(id, message string) (status int, body string) {
	s.t.Helper()
	status, _, body = s.send(http.MethodPost, "/v1/devices/"+id+"/send", strings.NewReader(message))
	return status, body
}

// A message finds the device at whatever ear it is connected to, and at the judge's own port; the
// answers are the same.
func TestSendToEars(t *testing.T) {
	t.Parallel()
	judge, at := judged(t)
	one, two := hear(t, "one", at), hear(t, "two", at)
	testwait.Until(t, "all are ready", func() bool { return judge.judges() && one.ready() && two.ready() })
	wants := func(message string, status int, text string) {
		t.Helper()
		if got, body := judge.posts("pump", message); got != status || !strings.Contains(body, text) {
			t.Errorf("%.40s: %d %s, want %d with %q", message, got, body, status, text)
		}
	}
	wants(`{"text": "x"}`, 404, "no device with this id")
	for i, at := range []*heard{one, two, one} {
		d := connect(t, at.devices)
		d.says("HELLO pump ttl=300s", fmt.Sprint("OK ", i+1))
		wants(`{"text": "open the valve"}`, 200, `"written":true,"bytes":19,"protocol":"line"`)
		d.gets("MSG open the valve\n")
		wants(`{"hex": "41420a"}`, 200, `"bytes":3`)
		d.gets("AB\n")
	}
	wants(`{"text": "a\nb"}`, 422, "the device's protocol does not allow this text: line: a message is one line of text")
	wants(`{"text": "`+strings.Repeat("x", 2000)+`"}`, 413, "the message is too long: line: a message has at most 1020 bytes, not 2000")
	wants(`{"text": "`+strings.Repeat("x", 64<<10+1)+`"}`, 413, "the message is too long: 65537 bytes, want at most 65536")
	long := fmt.Sprintf(`{"hex": %q, "timeout": "0.1s"}`, strings.Repeat("00", 40_000)) // the device reads nothing
	late := false
	testwait.Until(t, "too much waits to be read", func() bool {
		status, body := judge.posts("pump", long)
		switch {
		case status == 504 && strings.Contains(body, "the message was not written in time: the device does not read; some of it may be written later"):
			late = true
		case status == 429 && !strings.Contains(body, "the device does not read what it was sent before"):
			t.Errorf("a message that is too much: %s", body)
		}
		return status == 429
	})
	if !late {
		t.Error("no message was late")
	}
	if err := one.stop(); err != nil {
		t.Error(err)
	}
	testwait.Until(t, "the device is gone", func() bool {
		_, _, body := judge.ask("GET", "/v1/devices/pump")
		return strings.Contains(body, `"connected":false`)
	})
	wants(`{"text": "x"}`, 409, `the device is not connected here; it was heard last at \"gateway/one\"`)
}
