package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/link"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// posts sends a message by the API.
func (s *served) posts(id, message string) (status int, body string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.api+"/v1/devices/"+id+"/send", strings.NewReader(message))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}

// A message finds the device at whatever ear it is connected to, and at the judge's own port; the
// answers are the same.
func TestSendToEars(t *testing.T) {
	t.Parallel()
	judge, at := judged(t)
	limits := "gateway: {max_outbound: 50000}"
	one, two := hear(t, "one", at, limits), hear(t, "two", at, limits)
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
	wants(`{"text": "`+strings.Repeat("x", 50_001)+`"}`, 413, "the message is too long: 50001 bytes, want at most 50000")
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

// linked is a judge with a sender, without an API, and a link that can be cut.
type linked struct {
	sender

	registry *liveness.Registry
	cut      func()
}

// newLinked returns a judge at a socket, which ends with the test.
func newLinked(t *testing.T, socket string) *linked {
	t.Helper()
	log, err := eventlog.New(0)
	if err != nil {
		t.Fatal(err)
	}
	k := &linked{sender: sender{ears: new(atomic.Pointer[link.Judge])}}
	if k.registry, err = liveness.New(log, liveness.Config{Policy: liveness.Policy{Timeout: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	l, err := listenLink(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	j, server := link.NewJudge(k.registry, link.JudgeConfig{}), grpc.NewServer()
	j.Register(server)
	k.ears.Store(j)
	k.cut = server.Stop
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	judging, end := context.WithCancel(ctx)
	var running, registry sync.WaitGroup
	registry.Go(func() { _ = k.registry.Run(ctx) })
	running.Go(func() { _ = serveLink(judging, server, l, j.Run) })
	t.Cleanup(func() {
		end()
		running.Wait()
		stop()
		registry.Wait()
	})
	return k
}

// A thousand messages at once to the devices of an ear are all written.
func TestSendMuchToAnEar(t *testing.T) {
	t.Parallel()
	socket := "unix:" + filepath.Join(t.TempDir(), "j")
	k := newLinked(t, socket)
	e := hear(t, "one", "judges: ['"+socket+"']")
	testwait.Until(t, "the ear is ready", e.ready)
	const devices, each = 100, 10
	var all []*device
	for i := range devices {
		d := connect(t, e.devices)
		d.says(fmt.Sprintf("HELLO d%d ttl=300s", i), "OK 1")
		all = append(all, d)
	}
	var sending sync.WaitGroup
	for i := range devices * each {
		sending.Go(func() {
			sent, err := k.Send(t.Context(), fmt.Sprint("d", i%devices), []byte(strings.Repeat("x", 1000)), false)
			if want := (httpapi.Sent{Protocol: "line", Bytes: 1005}); err != nil || sent != want {
				t.Errorf("Send = %+v, %v", sent, err)
			}
		})
	}
	for _, d := range all {
		for range each {
			d.gets("MSG xxx")
		}
	}
	sending.Wait()
}

// Of a message that is under way when the link is cut it is not known whether it was written. When the
// link is back, the device is sent to as before.
func TestSendWhileTheLinkIsCut(t *testing.T) {
	t.Parallel()
	socket := "unix:" + filepath.Join(t.TempDir(), "j")
	k := newLinked(t, socket)
	e := hear(t, "one", "judges: ['"+socket+"']")
	defer e.stop() // while it has a judge
	testwait.Until(t, "the ear is ready", e.ready)
	d := connect(t, e.devices)
	d.says("HELLO pump ttl=300s", "OK 1")
	payload := make([]byte, 40_000)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := k.Send(ctx, "pump", payload, true)
		cancel()
		if err != nil && strings.Contains(err.Error(), "some of it may be written later") {
			break // the device does not read
		} else if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, httpapi.ErrUncertain) { // the machine may be busy
			t.Fatal(err)
		}
	}
	results := make(chan error, 17)
	for range cap(results) {
		go func() {
			_, err := k.Send(t.Context(), "pump", []byte("x"), true)
			results <- err
		}()
	}
	if err := <-results; !errors.Is(err, httpapi.ErrTooMany) || err.Error() != "too many messages wait for the device: 16; send one when another is written" {
		t.Errorf("the 17th message that waits: %v", err)
	}
	k.cut()
	for range cap(results) - 1 {
		if err := <-results; !errors.Is(err, httpapi.ErrUncertain) || err.Error() != `it is not known whether the message was written: the ear "one" has not answered` {
			t.Errorf("Send = %v", err)
		}
	}
	again := newLinked(t, socket)
	go func() { _, _ = io.Copy(io.Discard, d.conn) }()
	testwait.Until(t, "the ear has joined again", func() bool {
		_, err := again.Send(t.Context(), "pump", []byte("x"), true)
		return err == nil
	})
}
