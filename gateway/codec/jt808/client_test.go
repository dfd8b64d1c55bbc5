package jt808_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/jt808"
)

func TestClientSays(t *testing.T) {
	now, old := jt808.Client{}, jt808.Client{Old: true}
	frames := vectors(t)
	tests := []struct {
		name      string
		got, want []byte
	}{
		{"heartbeat", now.AppendBeat(nil, "17299841738", 0xffff), frames["heartbeat-2019"]},
		{"heartbeat, a larger number", now.AppendBeat(nil, "17299841738", 0x1ffff), frames["heartbeat-2019"]},
		{"heartbeat before 2019", old.AppendBeat(nil, "12345678901", 0x7fff), frames["heartbeat-2013"]},
		{"hello before 2019", old.AppendHello(nil, "12345678901", "17299841738", time.Minute), frames["auth-17299841738-2013"]},
		{"hello", now.AppendHello(nil, "13912344329", "A~", 0), frame(t, "0102 4026 01 00000000013912344329 0000 02 417e"+zeros(35))},
		{"logout", old.AppendBye([]byte{1}, "14533224352"), append([]byte{1}, frame(t, "0003 0000 014533224352 0000")...)},
		{"sleep", now.AppendSleep(nil, "1", time.Hour), nil},
		{"no digits", now.AppendBeat(nil, "a-1b2", 1), frame(t, "0002 4000 01 00000000000000000012 0001")},
		{"too many digits", now.AppendBeat(nil, "9"+strings.Repeat("8", 20), 1), frame(t, "0002 4000 01 88888888888888888888 0001")},
		{
			"a token that is too long", now.AppendHello(nil, "1", strings.Repeat("A", 256), 0),
			frame(t, "0102 4123 01 00000000000000000001 0000 ff"+strings.Repeat("41", 255)+zeros(35)),
		},
	}
	for _, tt := range tests {
		if !bytes.Equal(tt.got, tt.want) {
			t.Errorf("%s: % x, want % x", tt.name, tt.got, tt.want)
		}
	}
}

func TestClientHears(t *testing.T) {
	frames := vectors(t)
	tests := []struct {
		name  string
		input []byte
		want  codec.Answer
		n     int // less than all
	}{
		{name: "heard", input: frames["heartbeat-2013-answer"], want: codec.Answer{Kind: codec.Heard, Seq: 0x7fff}},
		{name: "heard in 2019", input: frames["heartbeat-2019-answer"], want: codec.Answer{Kind: codec.Heard, Seq: 0xffff}},
		{name: "welcome", input: frames["auth-17299841738-2019-answer"], want: codec.Answer{Kind: codec.Welcome}},
		{name: "refused", input: frames["auth-17299841738-2013-failed"], want: codec.Answer{Kind: codec.Refused}},
		{name: "registered", input: frames["register-12345678901-2013-answer"], want: codec.Answer{Kind: codec.Noted}},
		{name: "not registered", input: frame(t, "8100 0003 013912344323 0000 0000 04"), want: codec.Answer{Kind: codec.Refused}},
		{name: "farewell", input: frame(t, "8001 0005 013912344323 0000 0000 0003 00"), want: codec.Answer{Kind: codec.Farewell}},
		{name: "unsupported", input: frame(t, "8001 0005 013912344323 0000 0000 0900 03"), want: codec.Answer{Kind: codec.Noted}},
		{name: "probe", input: frames["query-location"], want: codec.Answer{Kind: codec.Noted}},
		{name: "text", input: frames["text-2019"], want: codec.Answer{Kind: codec.Noted}},
		{name: "interval", input: frames["heartbeat-interval"], want: codec.Answer{Kind: codec.Noted}},
		{name: "garbage", input: []byte("HTTP\x7e"), n: 4},
		{name: "garbage alone", input: []byte("HTTP")},
		{name: "two flags", input: []byte{0x7e, 0x7e}, n: 1},
		{name: "a wrong checksum", input: frames["fragment-wrong-checksum"], n: len(frames["fragment-wrong-checksum"]) - 1},
		{name: "no end", input: append([]byte{0x7e}, make([]byte, 4095)...)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.n == 0 {
				tt.n = len(tt.input)
			}
			if a, n := (jt808.Client{}).Next(tt.input); a != tt.want || n != tt.n {
				t.Errorf("Next = %+v, %d, want %+v, %d", a, n, tt.want, tt.n)
			}
		})
	}
	for _, input := range [][]byte{nil, {0x7e}, frames["heartbeat-2013-answer"][:19]} {
		if a, n := (jt808.Client{}).Next(input); n != 0 {
			t.Errorf("Next(% x) = %+v, %d, want 0", input, a, n)
		}
	}
}
