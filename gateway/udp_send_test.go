package gateway_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec/frame"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// outcome is what Send returned.
type outcome struct {
	gateway.Sent

	err error
}

// sending sends a message to pump-1, and returns what comes of it.
func (r *rig) sending(ctx context.Context, text string) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		sent, err := r.gateway.Send(ctx, "pump-1", []byte(text), false)
		done <- outcome{sent, err}
	}()
	return done
}

// message hears the numbered message "open the valve", and returns its number.
func (s *sender) message() uint64 {
	s.t.Helper()
	return s.numbered(s.hear(), "open the valve")
}

func (s *sender) numbered(heard, text string) uint64 {
	s.t.Helper()
	number, rest, _ := strings.Cut(strings.TrimPrefix(heard, "MSG #"), " ")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || rest != text+"\n" {
		s.t.Fatalf("heard %q, want the message %q", heard, text)
	}
	return n
}

const helloPump = "HELLO pump-1 s3cret"

// acknowledges says which message the device has, and hears the answer to the hello.
func (s *sender) acknowledges(number uint64) {
	s.t.Helper()
	s.say(fmt.Sprintf("%s\nACK %d", helloPump, number))
	for heard := ""; heard != "OK 1 ttl=90\n"; { // or a message that was repeated in between
		heard = s.hear()
	}
}

// next acknowledges a message, which lets the next one come, before the answer to the hello or after
// it, and returns the number of that.
func (s *sender) next(number uint64, text string) uint64 {
	s.t.Helper()
	s.say(fmt.Sprintf("%s\nACK %d", helloPump, number))
	first, second := s.hear(), s.hear()
	if strings.HasPrefix(first, "OK") {
		first, second = second, first
	}
	if second != "OK 1 ttl=90\n" {
		s.t.Fatalf("heard %q, want the answer to the hello", second)
	}
	return s.numbered(first, text)
}

func (s *sender) arrived(of <-chan outcome) {
	s.t.Helper()
	if o := <-of; o.err != nil || !o.Acknowledged || o.Protocol != "line" {
		s.t.Errorf("Send = %+v, %v, want it acknowledged", o.Sent, o.err)
	}
}

// pumpRig has a device pump-1 that was heard in a datagram.
func pumpRig(t *testing.T, repeat time.Duration) (*rig, *sender) {
	t.Helper()
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0"), Guard: secret})
	gateway.SoonRepeat(r.gateway, repeat)
	d := r.sender()
	d.say(helloPump)
	d.expect("OK 1 ttl=90\n")
	return r, d
}

func TestSendInDatagrams(t *testing.T) {
	r, d := pumpRig(t, time.Hour)
	first := r.sending(t.Context(), "open the valve")
	n := d.message()
	second := r.sending(t.Context(), "close it")
	forger := r.sender()
	forger.say(fmt.Sprintf("HELLO pump-1 wrong\nACK %d", n))
	d.acknowledges(n - 1) // of an earlier message
	select {
	case o := <-first:
		t.Fatalf("Send returned too early: %+v", o)
	default:
	}
	later := d.next(n, "close it")
	d.arrived(first)
	if later <= n {
		t.Errorf("the number of the next message is %d, want more than %d", later, n)
	}
	d.acknowledges(later)
	d.arrived(second)

	sent, err := r.gateway.Send(t.Context(), "pump-1", []byte{1, 2, 3}, true)
	if want := (gateway.Sent{Protocol: "line", Bytes: 3}); err != nil || sent != want {
		t.Errorf("Send of raw bytes = %+v, %v, want %+v", sent, err, want)
	}
	d.expect("\x01\x02\x03")
	late, cancel := context.WithCancel(t.Context())
	cancel()
	for _, raw := range []bool{false, true} {
		if _, err := r.gateway.Send(late, "pump-1", []byte("too late"), raw); !errors.Is(err, context.Canceled) {
			t.Errorf("Send by nobody any more: %v", err)
		}
	}
	if _, err := r.gateway.Send(t.Context(), "pump-1", make([]byte, gateway.MaxSend), true); !errors.Is(err, gateway.ErrTooLong) {
		t.Errorf("Send of more than a datagram holds: %v", err)
	}
	if _, err := r.gateway.Send(t.Context(), "pump-1", []byte("two\nlines"), false); !errors.Is(err, gateway.ErrNotAllowed) {
		t.Errorf("Send of two lines: %v", err)
	}
	if st := r.gateway.Stats(); st.Sent != 3 || st.Packets.Acknowledged != 2 || st.Packets.Repeated != 0 || st.Packets.Unacknowledged != 0 {
		t.Errorf("stats = %+v", st)
	}
}

// A message that is lost, or whose acknowledgement is, is repeated under its number, to where the
// device was heard last.
func TestSendIsRepeated(t *testing.T) {
	r, d := pumpRig(t, 5*time.Millisecond)
	done := r.sending(t.Context(), "open the valve")
	n := d.message() // and is lost
	if again := d.message(); again != n {
		t.Errorf("the message was repeated as number %d, want %d", again, n)
	}
	moved := r.sender()
	moved.say(helloPump)
	for heard := ""; !strings.HasPrefix(heard, "MSG #"+strconv.FormatUint(n, 10)); {
		heard = moved.hear()
	}
	moved.acknowledges(n)
	d.arrived(done)
	if n := r.gateway.Stats().Packets.Repeated; n < 2 {
		t.Errorf("%d messages were repeated, want 2 at least", n)
	}
}

// A device that has had greater numbers is sent the message under a greater one.
func TestSendToADeviceThatIsAhead(t *testing.T) {
	r, d := pumpRig(t, time.Hour)
	for range 2 {
		done := r.sending(t.Context(), "open the valve")
		n := d.message()
		ahead := n + 1_000_000
		if again := d.next(ahead, "open the valve"); again != ahead+1 {
			t.Errorf("the message came again as number %d, want %d", again, ahead+1)
		}
		d.acknowledges(ahead + 1)
		d.arrived(done)
	}
}

// Send gives up when its time is over, or the device has gone.
func TestSendInDatagramsGivesUp(t *testing.T) {
	r, d := pumpRig(t, time.Millisecond)
	late, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	o := <-r.sending(late, "open the valve")
	if !errors.Is(o.err, gateway.ErrUnacknowledged) || o.Acknowledged {
		t.Errorf("Send to a device that does not answer = %+v, want ErrUnacknowledged", o)
	}
	done := r.sending(t.Context(), "close it")
	for heard := ""; !strings.HasSuffix(heard, "close it\n"); {
		heard = d.hear()
	}
	d.say(helloPump + "\nBYE")
	if o := <-done; !errors.Is(o.err, gateway.ErrNotConnected) {
		t.Errorf("Send to a device that says goodbye: %v, want ErrNotConnected", o.err)
	}
	if st := r.gateway.Stats().Packets; st.Unacknowledged != 2 || st.Acknowledged != 0 {
		t.Errorf("stats = %+v", st)
	}
}

// Nothing is sent to an address that has shown no token, and nothing follows an acknowledgement
// from there.
func TestSendToForgedAddress(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0")})
	d := r.sender()
	d.say("HELLO pump-1 ttl=1h\nACK 17")
	d.expect("OK 1 ttl=3600\n")
	if o := <-r.sending(t.Context(), "open the valve"); !errors.Is(o.err, gateway.ErrNotConnected) {
		t.Errorf("Send: %v, want ErrNotConnected", o.err)
	}
}

func TestSendFrames(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0", frame.Protocol{}), Guard: secret})
	const hello = "\xa5\x11\x00\x10\x01\x06pump-1\x02\x06s3cret"
	d := r.sender()
	d.say(hello)
	d.hear()
	done := r.sending(t.Context(), "open")
	heard := d.hear()
	if len(heard) != 16 || heard[:4] != "\xa5\x1b\x00\x0c" || heard[12:] != "open" {
		t.Fatalf("heard %q", heard)
	}
	d.say(hello + "\xa5\x1b\x00\x08" + heard[4:12])
	if o := <-done; o.err != nil || !o.Acknowledged || o.Bytes != 16 || o.Protocol != "frame" {
		t.Errorf("Send = %+v", o)
	}
	began := time.UnixMilli(int64(binary.BigEndian.Uint64([]byte(heard[4:12]))))
	if since := time.Since(began); since < 0 || since > time.Hour {
		t.Errorf("the first number is the time %v, want the present", began)
	}
	if _, err := r.gateway.Send(t.Context(), "pump-1", make([]byte, frame.MaxBody), false); !errors.Is(err, gateway.ErrTooLong) {
		t.Errorf("Send of a whole body: %v, want ErrTooLong", err)
	}
	testwait.Until(t, "the device is not heard badly", func() bool { return len(r.gateway.Stats().Odd) == 0 })
}
