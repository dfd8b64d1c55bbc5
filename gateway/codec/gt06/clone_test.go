package gt06_test

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/codectest"
	"github.com/holter-iot/holter/gateway/codec/gt06"
	"github.com/holter-iot/holter/gateway/codec/internal/vector"
)

// bareFrames are frames of trackers that send neither a serial number nor a checksum, from Traccar's
// Gt06FrameDecoderTest and Gt06ProtocolDecoderTest, and their answers: the one to positions holds the
// time of the frame, as in petGPS (github.com/tobadia/petGPS), a server for such trackers.
func bareFrames() [][2]string {
	return [][2]string{
		{"78780d010359339075005244340d0a", "787801010d0a"},
		{"7878121011091c0b1e2e98058507f80097a6ac03344a0d0a", "7878001011091c0b1e2e0d0a"},
		{"787801080d0a", ""},
		{"787800691709261259400700cc0400d376714600d37a3d5000d37a3c5000d393505a00d3765d5a00d376735a00d32e6b640d0a", "787800691709261259400d0a"},
		{"787808134606020002044dc5050d0a", "787801130d0a"},
		{"787800171710231108290200cc080c4e2fa5640c4e2fa5640d0a", "787800171710231108290d0a"},
		{"7878011011220d0a", "7878001011220d0a"}, // cut within its time
	}
}

func bareConversation(tb testing.TB) (stream []byte) {
	tb.Helper()
	for _, f := range bareFrames() {
		stream = append(stream, vector.Unhex(tb, f[0])...)
	}
	return stream
}

// TestBare holds that a device is answered in its own form.
func TestBare(t *testing.T) {
	c := gt06.Protocol{Lenient: true}.Codec()
	for _, f := range bareFrames() {
		input := vector.Unhex(t, f[0])
		var m codec.Message
		n, err := c.Next(input, &m)
		if n != len(input) || err != nil || m.Kind < codec.Hello || m.Odd != "crc-missing" {
			t.Fatalf("Next(%x) = %d, %v, kind %d, odd %q", input, n, err, m.Kind, m.Odd)
		}
		if got := hex.EncodeToString(c.Reply(nil, &m, &codec.Outcome{})); got != f[1] {
			t.Errorf("Reply to %s = %s, want %s", f[0], got, f[1])
		}
	}
}

// TestBareStrict holds that none of these frames counts unless the port is lenient.
func TestBareStrict(t *testing.T) {
	c := gt06.Protocol{}.Codec()
	for input := bareConversation(t); len(input) > 0; {
		var m codec.Message
		n, err := c.Next(input, &m)
		if n == 0 || err != nil {
			break
		}
		// What Traccar's test has for a status is one with a serial number and a right checksum.
		if m.Kind != codec.None && m.Odd != "length" {
			t.Errorf("Next(%x) finds a message of kind %d", input[:n], m.Kind)
		}
		input = input[n:]
	}
}

// TestNoCRC holds that the serial number is found if a login has shown that no checksum follows.
func TestNoCRC(t *testing.T) {
	c := gt06.Protocol{Lenient: true}.Codec()
	for _, f := range [][2]string{
		{"78780b01086471700328358100090d0a", "787805010009"},
		{"787808134406040002000b0d0a", "78780513000b"},
		{"787803120102" + "0d0a", "787805120102"},
		{"78780d010864717003283581000a3f040d0a", "78780501000a"}, // a login with a checksum, which is wrong
		{"78780a134406040002000b12340d0a", "78780513000b"},
	} {
		input := vector.Unhex(t, f[0])
		var m codec.Message
		if n, err := c.Next(input, &m); n != len(input) || err != nil || m.Kind < codec.Hello {
			t.Fatalf("Next(%x) = %d, %v, kind %d, odd %q", input, n, err, m.Kind, m.Odd)
		}
		if got := hex.EncodeToString(c.Reply(nil, &m, &codec.Outcome{})); !strings.HasPrefix(got, f[1]) || len(got) != 20 {
			t.Errorf("Reply to %s = %s, want one that begins with %s", f[0], got, f[1])
		}
	}
}

func TestKitLenient(t *testing.T) {
	beats := func(n int) []codec.Kind {
		return append([]codec.Kind{codec.Hello}, slices.Repeat([]codec.Kind{codec.Beat}, n)...)
	}
	tests := []struct {
		name   string
		stream []byte
		want   []codec.Kind
		id     string
	}{
		{"right checksums", conversation(t), beats(6), ""},
		{"bare", bareConversation(t), beats(6), "359339075005244"},
	}
	tests[0].want = slices.Insert(tests[0].want, 3, codec.Hello) // login-crc
	tests[0].want = append(tests[0].want, codec.Beat)            // short
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ids := []string{tt.id}
			if tt.id == "" {
				ids = []string{"864717003283581", "123456789012345"}
			}
			codectest.Run(t, codectest.Kit{
				Protocol: gt06.Protocol{Lenient: true}, Client: gt06.Client{}, Stream: tt.stream, Want: tt.want, IDs: ids,
			})
		})
	}
}

// TestLenientResync holds that a lenient port finds heartbeats among what is none, too.
func TestLenientResync(t *testing.T) {
	beat := vector.Find(t, frames, "heartbeat")
	for _, noise := range []string{"noise", "\x78\x0a", "\x79\x79\xff\xff", "\x78\x78\x05\x00\x00\x00\x00\x00\r\n", "\x78\x78\x00\r\n"} {
		c := met(t, gt06.Protocol{Lenient: true}.Codec())
		kinds := 0
		for input := append([]byte(noise), beat...); len(input) > 0; {
			var m codec.Message
			n, err := c.Next(input, &m)
			if n == 0 || err != nil {
				t.Fatalf("Next(%x) = %d, %v", input, n, err)
			}
			if m.Kind == codec.Beat {
				kinds++
			}
			input = input[n:]
		}
		if kinds != 1 {
			t.Errorf("behind %q there are %d heartbeats, want 1", noise, kinds)
		}
	}
}
