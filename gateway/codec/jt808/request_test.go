package jt808_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/jt808"
)

type requester interface {
	codec.Codec
	codec.Prober
	codec.Sender
}

// met returns a codec that has heard the device, and whose next serial number is serial.
func met(tb testing.TB, p jt808.Protocol, beat string, serial int) requester {
	tb.Helper()
	c := p.Codec().(requester)
	var m codec.Message
	if _, err := c.Next(frame(tb, beat), &m); err != nil || m.Kind != codec.Beat {
		tb.Fatalf("Next = %v, kind %v, want a beat", err, m.Kind)
	}
	for range serial {
		c.Reply(nil, &m, &codec.Outcome{})
	}
	return c
}

func TestProbe(t *testing.T) {
	c := met(t, jt808.Protocol{}, "0002 0000 024530313349 0001", 0)
	if got, want := c.Probe(nil), vectors(t)["query-location"]; !bytes.Equal(got, want) {
		t.Errorf("Probe = % x, want % x", got, want)
	}
}

func TestSend(t *testing.T) {
	frames := vectors(t)
	const old, of2019 = "0002 0000 024530313349 0001", "0002 4000 01 00000000013912344329 0001"
	tests := []struct {
		name     string
		protocol jt808.Protocol
		beat     string
		payload  string
		want     []byte // nil for an error
	}{
		{"to the display", jt808.Protocol{}, old, "Hello", frames["text-2013"]},
		{"to the display, in 2019", jt808.Protocol{}, of2019, "Hi", frame(t, "8300 4004 01 00000000013912344329 0000 04 01 4869")},
		{"urgent, in GBK", jt808.Protocol{TextFlag: 1}, of2019, "HelloWorld \xba\xba\xd7\xd6 GBK \xb1\xe0\xc2\xeb", frames["text-2019"]},
		{"escaped", jt808.Protocol{}, old, "~}", frame(t, "8300 0003 024530313349 0000 04 7e7d")},
		{"empty", jt808.Protocol{}, old, "", nil},
		{"too long", jt808.Protocol{}, old, strings.Repeat("x", 1023), nil},
		{"too long for 2019", jt808.Protocol{}, of2019, strings.Repeat("x", 1022), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := met(t, tt.protocol, tt.beat, 0).Send(nil, []byte(tt.payload))
			if !bytes.Equal(got, tt.want) || (err != nil) != (tt.want == nil) {
				t.Errorf("Send(%q) = % x, %v, want % x", tt.payload, got, err, tt.want)
			}
		})
	}
	longest, err := met(t, jt808.Protocol{}, old, 0).Send(nil, bytes.Repeat([]byte{'x'}, 1022))
	if want := 1 + 12 + 1023 + 1 + 1; err != nil || len(longest) != want {
		t.Errorf("Send of 1022 bytes = %d bytes, %v, want %d", len(longest), err, want)
	}
}

// TestStrangers asks nothing of a device whose phone number is unknown.
func TestStrangers(t *testing.T) {
	c := jt808.Protocol{}.Codec().(requester)
	if got := c.Probe(nil); len(got) > 0 {
		t.Errorf("Probe = % x, want nothing", got)
	}
	if got, err := c.Send(nil, []byte("x")); len(got) > 0 || err == nil {
		t.Errorf("Send = % x, %v, want an error", got, err)
	}
}
