package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/codectest"
	"github.com/holter-iot/holter/gateway/codec/frame"
	"github.com/holter-iot/holter/gateway/codec/gt06"
	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/gateway/codec/teltonika"
	"github.com/holter-iot/holter/liveness"
)

// mute is the line protocol without messages to devices.
type muteLine struct{ line.Protocol }

func (muteLine) Name() string { return "mute" }

func (m muteLine) Codec() codec.Codec { return struct{ codec.Codec }{m.Protocol.Codec()} }

// wild is the line protocol with a codec that panics.
type wild struct{ line.Protocol }

func (wild) Name() string { return "wild" }

func (w wild) Codec() codec.Codec { return wildCodec{w.Protocol.Codec()} }

type wildCodec struct{ codec.Codec }

func (wildCodec) Send(dst, payload []byte) ([]byte, error) { return append(dst, payload[1<<20]), nil }

func speaking(protocols ...codec.Protocol) gateway.Config {
	return gateway.Config{Listen: []gateway.Listener{{Address: "127.0.0.1:0", Protocols: protocols}}}
}

func TestSend(t *testing.T) {
	r := startRig(t, liveness.Config{}, speaking(gt06.Protocol{}, line.Protocol{}))
	d := r.dial()
	d.say("HELLO pump\n")
	d.expect("OK 1 …")
	for _, tt := range []struct {
		payload string
		raw     bool
		hears   string
	}{
		{"open the valve", false, "MSG open the valve"},
		{"", false, "MSG "},
		{"a\x00b\n", true, "a\x00b"},
		{strings.Repeat("x", gateway.MaxSend-1) + "\n", true, strings.Repeat("x", gateway.MaxSend-1)},
	} {
		heard := make(chan string, 1)
		go func() {
			text, _ := d.in.ReadString('\n')
			heard <- strings.TrimSuffix(text, "\n")
		}()
		sent, err := r.gateway.Send(t.Context(), "pump", []byte(tt.payload), tt.raw)
		if want := (gateway.Sent{Protocol: "line", Bytes: len(tt.hears) + 1}); err != nil || sent != want {
			t.Errorf("Send(%.20q) = %+v, %v, want %+v", tt.payload, sent, err, want)
		}
		if got := <-heard; got != tt.hears {
			t.Errorf("Send(%.20q): the device heard %.40q", tt.payload, got)
		}
	}
	tracker := r.dial()
	tracker.say("\x78\x78\x0d\x01\x08\x64\x71\x70\x03\x28\x35\x81\x00\x09\x3f\x04\x0d\x0a") // the login of Traccar's Gt06ProtocolDecoderTest
	if _, err := io.ReadFull(tracker.in, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	sent, err := r.gateway.Send(t.Context(), "864717003283581", []byte("Relay,1#"), false)
	if err != nil || sent.Protocol != "gt06" || sent.Bytes != 23 {
		t.Errorf("Send = %+v, %v", sent, err)
	}
	got := make([]byte, 23)
	if _, err := io.ReadFull(tracker.in, got); err != nil || !bytes.Contains(got, []byte("Relay,1#")) {
		t.Errorf("the tracker heard %q, %v", got, err)
	}
	if n := r.gateway.Stats().Sent; n != 5 {
		t.Errorf("Stats.Sent = %d, want 5", n)
	}
}

func TestSendRefuses(t *testing.T) {
	cfg := speaking(line.Protocol{})
	cfg.Listen = append(cfg.Listen,
		gateway.Listener{Address: "127.0.0.1:0", Protocols: []codec.Protocol{muteLine{}}},
		gateway.Listener{Address: "127.0.0.1:0", Protocols: []codec.Protocol{wild{}}})
	cfg.MaxOutbound = 2000
	r := startRig(t, liveness.Config{Policy: liveness.Policy{Timeout: time.Hour}}, cfg)
	for i, id := range []string{"pump", "mute", "wild", "gone", "bye"} {
		d := (&rig{t: t, addr: r.gateway.Addrs()[i%3].String()}).dial()
		d.say("HELLO " + id + "\n")
		d.expect("OK 1 …")
		switch id {
		case "gone":
			d.say("\xff\n" + strings.Repeat("x", 5000))
			d.expect("ERR too-long …")
			d.expect("EOF")
		case "bye":
			d.say("BYE\n")
			d.expect("BYE")
			d.expect("EOF")
		}
	}
	if _, err := r.registry.AddSource(liveness.SourceConfig{Name: "other"}); err != nil {
		t.Fatal(err)
	}
	var elsewhere liveness.Session
	if _, err := r.registry.Sources()[1].Open(&elsewhere, "elsewhere", liveness.Hello{}, stranger{}, 0); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		id, payload string
		raw         bool
		want        error
		text        string
	}{
		{"nobody", "x", false, gateway.ErrNotConnected, "gateway: the device is not connected here"},
		{"gone", "x", false, gateway.ErrNotConnected, ""},
		{"bye", "x", true, gateway.ErrNotConnected, ""},
		{"elsewhere", "x", true, gateway.ErrNotConnected, ""},
		{"pump", strings.Repeat("x", 2001), true, gateway.ErrTooLong, "2001 bytes, want at most 2000"},
		{"pump", strings.Repeat("x", 1021), false, gateway.ErrTooLong, "line: a message has at most 1020 bytes, not 1021"},
		{"pump", "a\nb", false, gateway.ErrNotAllowed, "line: a message is one line of text"},
		{"pump", "\xff", false, gateway.ErrNotAllowed, ""},
		{"mute", "x", false, gateway.ErrNoMessages, "mute has none; raw bytes can be sent"},
		{"wild", "x", false, gateway.ErrNotAllowed, "the codec failed"},
	}
	for _, tt := range tests {
		sent, err := r.gateway.Send(t.Context(), tt.id, []byte(tt.payload), tt.raw)
		if !errors.Is(err, tt.want) || !strings.Contains(fmt.Sprint(err), tt.text) || sent != (gateway.Sent{}) {
			t.Errorf("Send(%s, %.10q) = %+v, %v, want %v with %q", tt.id, tt.payload, sent, err, tt.want, tt.text)
		}
	}
	if st := r.gateway.Stats(); st.Panics != 1 || st.Sent != 0 {
		t.Errorf("%d panics, %d sent, want 1 and 0", st.Panics, st.Sent)
	}
	for _, id := range []string{"mute", "wild"} {
		if _, err := r.gateway.Send(t.Context(), id, []byte("x"), true); err != nil {
			t.Errorf("Send of raw bytes to %s: %v", id, err)
		}
	}
	r.stop()
	if _, err := r.gateway.Send(t.Context(), "pump", []byte("x"), true); !errors.Is(err, gateway.ErrNotConnected) {
		t.Errorf("Send to a gateway that has ended: %v", err)
	}
}

// stranger is the peer of a session that is not the gateway's.
type stranger struct{ liveness.Peer }

// Committed implements [liveness.Peer].
func (stranger) Committed() {}

// What is to be written while the loop is busy waits, and is not written once its sender has given
// up.
func TestSendWaits(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Loops: 1})
	d := r.dial()
	d.say("HELLO pump\n")
	d.expect("OK 1 …")
	if _, err := r.gateway.Send(t.Context(), "pump", []byte("first"), false); err != nil {
		t.Fatal(err)
	}
	d.expect("MSG first")
	results := make(chan error, 17)
	late := errors.New("late")
	gateway.Block(r.gateway, 0, 0, func() {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(late)
		if _, err := r.gateway.Send(ctx, "pump", []byte("too late"), false); !errors.Is(err, late) || !strings.Contains(err.Error(), "nothing was written") {
			t.Errorf("Send by nobody any more: %v", err)
		}
		for range cap(results) {
			go func() {
				_, err := r.gateway.Send(t.Context(), "pump", []byte("in time"), false)
				results <- err
			}()
		}
		if err := <-results; !errors.Is(err, gateway.ErrTooMany) {
			t.Errorf("the 17th that waits: %v", err)
		}
	})
	for range cap(results) - 1 {
		if err := <-results; err != nil {
			t.Error(err)
		}
		d.expect("MSG in time")
	}
	d.say("PING\n")
	d.expect("PONG")
}

// sendSoon sends to the device, again if a busy machine did not begin to write it in time.
func sendSoon(ctx context.Context, r *rig, payload []byte) error {
	for {
		ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		_, err := r.gateway.Send(ctx, "pump", payload, true)
		cancel()
		if err == nil || !strings.Contains(err.Error(), "nothing was written") {
			return err
		}
	}
}

// fill sends to a device that does not read, until some of it is left.
func fill(ctx context.Context, r *rig, payload []byte) (written int, err error) {
	for ; err == nil; written++ {
		err = sendSoon(ctx, r, payload)
	}
	return written - 1, err
}

// A device that does not read holds up its senders, is not closed for it, and gets all in order
// once it reads.
func TestSendToASlowReader(t *testing.T) {
	r := startRig(t, liveness.Config{Policy: liveness.Policy{Timeout: time.Hour}}, gateway.Config{MaxOutbound: 100_000})
	d := r.dial()
	d.say("HELLO pump\n")
	d.expect("OK 1 …")
	payload := append(bytes.Repeat([]byte("x"), 59_999), '\n')
	written, err := fill(t.Context(), r, payload)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "some of it may be written later") {
		t.Fatalf("after %d messages: %v", written, err)
	}
	refused := false
	for range 2 { // there may be room for one more
		if refused = errors.Is(sendSoon(t.Context(), r, payload), gateway.ErrSlowReader); refused {
			break
		}
		written++
	}
	if !refused || r.gateway.Stats().SlowReaders != 0 {
		t.Errorf("refused = %v; %d connections closed", refused, r.gateway.Stats().SlowReaders)
	}
	for i := range written + 1 {
		if text := d.hear(); len(text) != len(payload)-1 {
			t.Fatalf("message %d of %d: %d bytes, %.20q", i, written+1, len(text), text)
		}
	}
	if sent, err := r.gateway.Send(t.Context(), "pump", []byte("back"), false); err != nil || sent.Bytes != 9 {
		t.Errorf("Send = %+v, %v", sent, err)
	}
	d.expect("MSG back")
}

func TestSendIsCutOff(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{MaxOutbound: 100_000})
	d := r.dial()
	d.say("HELLO pump\n")
	d.expect("OK 1 …")
	if _, err := fill(t.Context(), r, make([]byte, 60_000)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() {
		_, err := r.gateway.Send(t.Context(), "pump", []byte("x"), true)
		result <- err
	}()
	_ = d.conn.(*net.TCPConn).SetLinger(0)
	_ = d.conn.Close()
	if err := <-result; !errors.Is(err, gateway.ErrNotConnected) {
		t.Errorf("Send = %v", err)
	}
}

// A device that comes back, again and again, is sent to on the connection that it has, or not at
// all.
func TestSendWhileDevicesComeBack(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Loops: 2})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for ctx.Err() == nil {
				for _, id := range []string{"a", "b"} {
					_, err := r.gateway.Send(ctx, id, []byte("to "+id), false)
					if err != nil && !errors.Is(err, gateway.ErrNotConnected) && !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				}
			}
		})
	}
	for i := range 100 {
		id := [2]string{"a", "b"}[i%2]
		d := r.dial()
		d.say("HELLO " + id + "\n")
		for n := 0; n < 3; {
			switch text := d.hear(); {
			case text == "MSG to "+id, strings.HasPrefix(text, "OK "):
				n++
			default: // refused as a duplicate
				n = 3
			}
		}
		if i%3 == 0 {
			_ = d.conn.Close()
		}
	}
	stop()
	running.Wait()
}

// The protocol of the example keeps to what a gateway needs.
func TestExampleProtocol(t *testing.T) {
	codectest.Run(t, codectest.Kit{
		Protocol: Beacon{},
		Stream:   []byte("I pump-3\nB\n?\nB\n"),
		Want:     []codec.Kind{codec.Hello, codec.Beat, codec.Beat},
		IDs:      []string{"pump-3"},
	})
}

// What is too long for a protocol is told from what it does not allow.
func TestTooLongForAProtocol(t *testing.T) {
	for _, p := range []codec.Protocol{line.Protocol{}, frame.Protocol{}, gt06.Protocol{}, teltonika.Protocol{}, jt808.Protocol{}} {
		c := p.Codec()
		if p.Name() == "jt808" { // it must know whom it writes to
			var m codec.Message
			if _, err := c.Next(jt808.Client{}.AppendBeat(nil, "13912344329", 1), &m); err != nil {
				t.Fatal(err)
			}
		}
		_, err := c.(codec.Sender).Send(nil, bytes.Repeat([]byte("x"), codec.MaxMessage))
		if e, ok := errors.AsType[*codec.Error](err); !ok || e.Code != codec.TooLong || !strings.Contains(e.Text, "at most") {
			t.Errorf("%s: Send of 64 KiB: %v", p.Name(), err)
		}
	}
}

// TestSendAtTheEnd: no message is waited for that nobody can write any more, because the gateway
// ends.
func TestSendAtTheEnd(t *testing.T) {
	for range 20 {
		r := startRig(t, liveness.Config{}, gateway.Config{Loops: 1})
		d := r.dial()
		d.say("HELLO a\n")
		d.expect("OK 1…")
		go func() { _, _ = io.Copy(io.Discard, d.conn) }()
		var begun, sending sync.WaitGroup
		for range 8 {
			begun.Add(1)
			sending.Go(func() {
				_, err := r.gateway.Send(context.WithoutCancel(t.Context()), "a", []byte("text"), false)
				begun.Done()
				for err == nil {
					_, err = r.gateway.Send(context.WithoutCancel(t.Context()), "a", []byte("text"), false)
				}
				if !errors.Is(err, gateway.ErrNotConnected) {
					t.Errorf("Send: %v", err)
				}
			})
		}
		begun.Wait()
		r.stop()
		sending.Wait()
	}
}
