package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// eachFar runs a test with a gateway whose devices are judged elsewhere, plain and over TLS.
func eachFar(t *testing.T, test func(t *testing.T, r *rig, v *valve, dial func() *device)) {
	t.Helper()
	judgesElsewhere = true
	t.Cleanup(func() { judgesElsewhere = false })
	for _, carrier := range []string{"plain", "TLS"} {
		t.Run(carrier, func(t *testing.T) {
			if carrier == "plain" {
				r, v := startValved(t, liveness.Config{Policy: liveness.Policy{Timeout: time.Hour}}, gateway.Config{MaxOutbound: 100_000})
				test(t, r, v, r.dial)
				return
			}
			k := newKeys(t)
			cfg := k.config()
			cfg.MaxOutbound = 100_000
			r, v := startValved(t, liveness.Config{Policy: liveness.Policy{Timeout: time.Hour}}, cfg)
			test(t, r, v, func() *device { return r.dialTLS(k) })
		})
	}
}

// peer returns the peer that the judge knows a device by.
func (r *rig) peer(id string) liveness.Peer {
	r.t.Helper()
	var peer liveness.Peer
	testwait.Until(r.t, "the judge has the session of "+id, func() (ok bool) {
		peer, ok = r.registry.Peer(id)
		return ok
	})
	return peer
}

// A device that is judged elsewhere is sent to on the connection that has its session.
func TestSendFar(t *testing.T) {
	eachFar(t, func(t *testing.T, r *rig, _ *valve, dial func() *device) {
		t.Helper()
		d := dial()
		d.say("HELLO pump\n")
		d.expect("OK 1 …")
		first := r.peer("pump")
		for _, raw := range []bool{false, true} {
			payload := map[bool]string{false: "open the valve", true: "MSG open the valve\n"}[raw]
			sent, err := r.gateway.SendFar(t.Context(), first, []byte(payload), raw)
			if want := (gateway.Sent{Protocol: "line", Bytes: 19}); err != nil || sent != want {
				t.Errorf("SendFar = %+v, %v, want %+v", sent, err, want)
			}
			d.expect("MSG open the valve")
		}
		again := dial()
		again.say("HELLO pump\n")
		again.expect("OK 2 …")
		d.expect("BYE replaced…")
		if _, err := r.gateway.SendFar(t.Context(), r.peer("pump"), []byte("x"), false); err != nil {
			t.Error(err)
		}
		again.expect("MSG x")
		for _, tt := range []struct {
			peer    liveness.Peer
			payload string
			want    error
			text    string
		}{
			{first, "x", gateway.ErrNotConnected, "the device is not connected here"},
			{stranger{}, "x", gateway.ErrNotConnected, ""},
			{nil, "x", gateway.ErrNotConnected, ""},
			{r.peer("pump"), strings.Repeat("x", 65537), gateway.ErrTooLong, "65537 bytes, want at most 65536"},
			{r.peer("pump"), strings.Repeat("x", 1021), gateway.ErrTooLong, "line: a message has at most 1020 bytes"},
			{r.peer("pump"), "a\nb", gateway.ErrNotAllowed, ""},
		} {
			sent, err := r.gateway.SendFar(t.Context(), tt.peer, []byte(tt.payload), false)
			if !errors.Is(err, tt.want) || !strings.Contains(fmt.Sprint(err), tt.text) || sent != (gateway.Sent{}) {
				t.Errorf("SendFar(%.10q) = %+v, %v, want %v with %q", tt.payload, sent, err, tt.want, tt.text)
			}
		}
		late := errors.New("late")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(late)
		if _, err := r.gateway.SendFar(ctx, r.peer("pump"), []byte("x"), false); !errors.Is(err, late) || !strings.Contains(err.Error(), "nothing was written") {
			t.Errorf("SendFar by nobody any more: %v", err)
		}
		last := r.peer("pump")
		again.say("BYE\n")
		again.expect("BYE")
		if _, err := r.gateway.SendFar(t.Context(), last, []byte("x"), false); !errors.Is(err, gateway.ErrNotConnected) {
			t.Errorf("SendFar after the goodbye: %v", err)
		}
		if n := r.gateway.Stats().Sent; n != 3 {
			t.Errorf("Stats.Sent = %d, want 3", n)
		}
	})
}

// A message to a device whose hello the judge has not answered yet waits, and follows the answer.
func TestSendFarWaitsForTheHello(t *testing.T) {
	eachFar(t, func(t *testing.T, r *rig, v *valve, dial func() *device) {
		t.Helper()
		v.set(true)
		d := dial()
		d.say("HELLO pump\n")
		peer := r.peer("pump")
		late := errors.New("late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, late)
		defer cancel()
		if _, err := r.gateway.SendFar(ctx, peer, []byte("too late"), false); !errors.Is(err, late) || !strings.Contains(err.Error(), "nothing was written") {
			t.Errorf("SendFar before the hello is answered: %v", err)
		}
		result := make(chan error)
		go func() {
			_, err := r.gateway.SendFar(t.Context(), peer, []byte("in time"), false)
			result <- err
		}()
		v.set(false)
		if err := <-result; err != nil {
			t.Errorf("SendFar: %v", err)
		}
		d.expect("OK 1 …")
		d.expect("MSG in time")
	})
}

// A device that does not read holds up only those who send to it, until it closes the connection.
func TestSendFarToASlowReader(t *testing.T) {
	eachFar(t, func(t *testing.T, r *rig, _ *valve, dial func() *device) {
		t.Helper()
		d, other := dial(), dial()
		d.say("HELLO pump\n")
		d.expect("OK 1 …")
		other.say("HELLO lamp\n")
		other.expect("OK 1 …")
		peer, payload := r.peer("pump"), append(bytes.Repeat([]byte("x"), 59_999), '\n')
		slow := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := r.gateway.SendFar(ctx, peer, payload, true)
			return err
		}
		testwait.Until(t, "the device has left too much unread", func() bool { return errors.Is(slow(), gateway.ErrSlowReader) })
		results := make(chan error, 17)
		for range cap(results) {
			go func() {
				_, err := r.gateway.SendFar(t.Context(), peer, []byte("x"), true)
				results <- err
			}()
		}
		if err := <-results; !errors.Is(err, gateway.ErrTooMany) {
			t.Errorf("the 17th that waits: %v", err)
		}
		if _, err := r.gateway.SendFar(t.Context(), r.peer("lamp"), []byte("on"), false); err != nil {
			t.Error(err)
		}
		other.expect("MSG on")
		_ = d.conn.Close()
		for range cap(results) - 1 {
			if err := <-results; !errors.Is(err, gateway.ErrNotConnected) {
				t.Errorf("a message to a device that has gone: %v", err)
			}
		}
	})
}

// A protocol without messages is said to have none there, too.
func TestSendFarWithoutMessages(t *testing.T) {
	judgesElsewhere = true
	t.Cleanup(func() { judgesElsewhere = false })
	r := startRig(t, liveness.Config{}, speaking(codec.Protocol(muteLine{line.Protocol{}})))
	d := r.dial()
	d.say("HELLO pump\n")
	d.expect("OK 1 …")
	if _, err := r.gateway.SendFar(t.Context(), r.peer("pump"), []byte("x"), false); !errors.Is(err, gateway.ErrNoMessages) {
		t.Errorf("SendFar = %v", err)
	}
	if _, err := r.gateway.SendFar(t.Context(), r.peer("pump"), []byte("x\n"), true); err != nil {
		t.Errorf("SendFar of raw bytes: %v", err)
	}
	d.expect("x")
	peer := r.peer("pump")
	r.stop()
	if _, err := r.gateway.SendFar(t.Context(), peer, []byte("x"), true); !errors.Is(err, gateway.ErrNotConnected) {
		t.Errorf("SendFar of a gateway that has ended: %v", err)
	}
	_, _ = io.Copy(io.Discard, d.in)
}
