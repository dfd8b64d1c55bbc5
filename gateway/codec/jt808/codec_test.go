package jt808_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/jt808"
)

// TestVectors looks at what the frames of testdata mean.
func TestVectors(t *testing.T) {
	tests := []struct {
		vector    string
		kind      codec.Kind
		id, token string
		odd       string
	}{
		{vector: "register-2011", kind: codec.Register, id: "13345678906"},
		{vector: "register-2013", kind: codec.Register, id: "14130567872"},
		{vector: "register-2019", kind: codec.Register, id: "866496077582164"},
		{vector: "auth-2013", kind: codec.Hello, id: "13511221122", token: "authentication"},
		{vector: "auth-imei", kind: codec.Hello, id: "868935060005020", token: "ODY4OTM1MDYwMDA1MDIwbmV3U25SdWxl", odd: "phone"},
		{vector: "auth-17299841738-2013", kind: codec.Hello, id: "12345678901", token: "17299841738"},
		{vector: "auth-17299841738-2019", kind: codec.Hello, id: "17299841738", token: "17299841738"},
		{vector: "auth-2013-as-2019", kind: codec.Hello, id: "10030000681", token: "J10030000681", odd: "version"},
		{vector: "heartbeat", kind: codec.Beat, id: "43048325465"},
		{vector: "heartbeat-2013", kind: codec.Beat, id: "12345678901"},
		{vector: "heartbeat-2019", kind: codec.Beat, id: "17299841738"},
		{vector: "heartbeat-2019-xtream", kind: codec.Beat, id: "13912344329"},
		{vector: "location-2013", kind: codec.Beat, id: "94027587492"},
		{vector: "location-2013-other", kind: codec.Beat, id: "32041872904"},
		{vector: "location-2013-as-2019", kind: codec.Beat, id: "10030000681", odd: "version"},
		{vector: "location-2019", kind: codec.Beat, id: "17299841738"},
		{vector: "location-5501", kind: codec.Beat, id: "740190311185"},
		{vector: "lock-5501-unlock", kind: codec.Beat, id: "856009001017"},
		{vector: "lock-5502", kind: codec.Beat, id: "850011000200"},
		{vector: "lock-5501-tank", kind: codec.Beat, id: "857111000339"},
		{vector: "lock-5502-old", kind: codec.Beat, id: "740190311185"},
		{vector: "lock-5501-unasked", kind: codec.Beat, id: "700160818000"},
		{vector: "sentence", kind: codec.Beat, id: "740190311185"},
		{vector: "location-answer", kind: codec.Beat, id: "8"},
		{vector: "location-answer-2013", kind: codec.Beat, id: "14533224352"},
		{vector: "locations-2013-escapes", kind: codec.Beat, id: "12345678901"},
		{vector: "locations-2019", kind: codec.Beat, id: "866496077582164"},
		{vector: "attributes-answer", kind: codec.Beat, id: "45460005635"},
		{vector: "terminal-answer", kind: codec.Beat, id: "12345678901"},
		{vector: "transparent", kind: codec.Beat, id: "868935060010210", odd: "phone"},
		{vector: "transparent-driver", kind: codec.Beat, id: "413058889758"},
		{vector: "device-text", kind: codec.Beat, id: "14164192753"},
		{vector: "battery-0210", kind: codec.Beat, id: "45460002319"},
		{vector: "locations-0210", kind: codec.Beat, id: "10036526447"},
		{vector: "acceleration", kind: codec.Beat, id: "12152300153"},
		{vector: "text-answer", kind: codec.Beat, id: "45450091546"},
		{vector: "command-answer", kind: codec.Beat, id: "12076463279"},
		{vector: "timezone", kind: codec.Beat, id: "45460002319"},
		{vector: "fragment", kind: codec.Beat, id: "1234567890"},
		{vector: "encrypted", kind: codec.Beat, id: "1234567890"},
		{vector: "logout-2013", kind: codec.Bye, id: "14533224352"},
		{vector: "query-location", odd: "echo"},
		{vector: "text-2019", odd: "echo"},
		{vector: "heartbeat-2019-answer", odd: "echo"},
		{vector: "register-12345678901-2013-answer", odd: "echo"},
		{vector: "heartbeat-interval", odd: "echo"},
		{vector: "time", odd: "echo"},
		{vector: "other-flag-location", kind: codec.Beat, id: "848002044398339", odd: "phone"},
	}
	frames := vectors(t)
	for _, tt := range tests {
		t.Run(tt.vector, func(t *testing.T) {
			m, _ := next(t, jt808.Protocol{}.Codec(), frames[tt.vector], codec.Outcome{})
			if m.Kind != tt.kind || string(m.ID) != tt.id || string(m.Token) != tt.token || m.Odd != tt.odd || m.Err != nil {
				t.Errorf("kind %v, id %q, token %q, odd %q, error %v, want kind %v, id %q, token %q, odd %q",
					m.Kind, m.ID, m.Token, m.Odd, m.Err, tt.kind, tt.id, tt.token, tt.odd)
			}
		})
	}
}

// TestOtherFlag talks with a device whose frames begin and end with E7.
func TestOtherFlag(t *testing.T) {
	escaper := strings.NewReplacer("\xe6", "\xe6\x01", "\xe7", "\xe6\x02", "\x3e", "\x3e\x01", "\x3d", "\x3e\x02")
	framed := func(content string) []byte {
		b := frame(t, content)
		b = bytes.ReplaceAll(bytes.ReplaceAll(b[1:len(b)-1], []byte("\x7d\x02"), []byte("\x7e")), []byte("\x7d\x01"), []byte("\x7d"))
		return []byte("\xe7" + escaper.Replace(string(b)) + "\xe7")
	}
	c := jt808.Protocol{}.Codec()
	var m codec.Message
	if n, err := c.Next([]byte("noise\x7e\xe7"), &m); n != 5 || err != nil || m.Odd != "garbage" {
		t.Errorf("Next = %d, %v, %+v, want 5 bytes of garbage", n, err, m)
	}
	m, reply := next(t, c, framed("0102 0007 013912344323 3de6 e6e73d3e7d7e41"), codec.Outcome{})
	if m.Kind != codec.Hello || string(m.ID) != "13912344323" || string(m.Token) != "\xe6\xe7\x3d\x3e\x7d\x7eA" || m.Odd != "" {
		t.Errorf("%+v", m)
	}
	if want := framed("8001 0005 013912344323 0000 3de6 0102 00"); !bytes.Equal(reply, want) {
		t.Errorf("answered % x, want % x", reply, want)
	}
	if m, _ = next(t, c, framed("0002 0000 013912344323 0002"), codec.Outcome{}); m.Kind != codec.Beat {
		t.Errorf("%+v", m)
	}
	if n, err := c.Next(append([]byte("\x7e"), framed("0002 0000 013912344323 0003")...), &m); n != 1 || err != nil {
		t.Errorf("Next = %d, %v: 7E begins no frame of a device that uses E7", n, err)
	}
	m, _ = next(t, c, framed("0002 0003 013912344323 0004 0e0e0e"), codec.Outcome{}) // its checksum is escaped
	if m.Kind != codec.Beat {
		t.Errorf("%+v", m)
	}
	broken := vectors(t)["other-flag-bad-escape"] // and a bad checksum
	m = codec.Message{}
	if n, err := (jt808.Protocol{}).Codec().Next(broken, &m); n != len(broken)-1 || err != nil || m.Kind != codec.None {
		t.Errorf("Next = %d, %v, %+v", n, err, m)
	}
}

// TestOdd looks at frames that deviate from the standard and are understood all the same.
func TestOdd(t *testing.T) {
	tests := []struct {
		name, content string
		kind          codec.Kind
		id, token     string
		odd           string
		code          codec.Code
	}{
		{name: "a heartbeat with a body", content: "0002 0003 013912344323 0001 5a1f00", kind: codec.Beat, id: "13912344323", odd: "heartbeat"},
		{name: "another heartbeat", content: "0506 0000 013912344323 0001", kind: codec.Beat, id: "13912344323", odd: "heartbeat"},
		{name: "32 bytes too much", content: "0200 0000 013912344323 0001" + zeros(32), kind: codec.Beat, id: "13912344323", odd: "length"},
		{name: "32 bytes too few", content: "0200 0020 013912344323 0001", kind: codec.Beat, id: "13912344323", odd: "length"},
		{name: "a heartbeat of 2013 as of 2019", content: "0002 4000 013912344323 0001", kind: codec.Beat, id: "13912344323", odd: "version"},
		{name: "a version 2", content: "0002 4000 02 00000000013912344323 0001", kind: codec.Beat, id: "13912344323"},
		{name: "20 digits", content: "0002 4000 01 98765432109876543210 0001", kind: codec.Beat, id: "98765432109876543210"},
		{name: "letters in a phone of 2019", content: "0002 4000 01 00000061316263600001 0001", kind: codec.Beat, id: "61316263600001"},
		{name: "not in BCD, in 2019", content: "0002 4000 01 000000000000000abcde 0001", kind: codec.Beat, id: "abcde", odd: "phone"},
		{name: "not in BCD, no IMEI", content: "0002 0000 00000000000f 0001", kind: codec.Beat, id: "f", odd: "phone"},
		{name: "not in BCD, too large for an IMEI", content: "0002 0000 fffffffffffe 0001", kind: codec.Beat, id: "fffffffffffe", odd: "phone"},
		{name: "all zero", content: "0002 0000 000000000000 0001", kind: codec.Beat, code: codec.BadID},
		{name: "all zero, in 2019", content: "0002 4000 01 00000000000000000000 0001", kind: codec.Beat, code: codec.BadID},
		{name: "all f", content: "0002 0000 ffffffffffff 0001", kind: codec.Beat, odd: "phone", code: codec.BadID},
		{name: "all f, in 2019", content: "0002 4000 01 ffffffffffffffffffff 0001", kind: codec.Beat, odd: "phone", code: codec.BadID},
		{name: "a fragment without a phone", content: "0801 2001 000000000000 0001 0002 0001 00", kind: codec.Beat, code: codec.BadID},
		{name: "registration without a phone", content: "0100 0000 000000000000 0001", kind: codec.Register, code: codec.BadID},
		{name: "authentication without a phone", content: "0102 0001 000000000000 0001 41", kind: codec.Hello, token: "A", code: codec.BadID},
		{name: "authentication without a code", content: "0102 0000 013912344323 0001", kind: codec.Hello, id: "13912344323"},
		{name: "a zero behind the code", content: "0102 0003 013912344323 0001 414200", kind: codec.Hello, id: "13912344323", token: "AB"},
		{name: "an escape in the code", content: "0102 0003 013912344323 0001 7d427e", kind: codec.Hello, id: "13912344323", token: "}B~"},
		{name: "an encrypted code", content: "0102 0402 013912344323 0001 4142", kind: codec.Hello, id: "13912344323", odd: "auth"},
		{
			name: "2019 with an escape", content: "0102 4026 01 00000000013912344323 0001 02 7e42" + zeros(35),
			kind: codec.Hello, id: "13912344323", token: "~B",
		},
		{
			name: "2019 without an IMEI", content: "0102 4003 01 00000000013912344323 0001 02 4142",
			kind: codec.Hello, id: "13912344323", token: "AB", odd: "auth",
		},
		{
			name: "2019 with a code as before", content: "0102 4003 01 00000000013912344323 0001 414243",
			kind: codec.Hello, id: "13912344323", token: "ABC", odd: "auth",
		},
		{
			name: "2019 with a length that is too large", content: "0102 4003 01 00000000013912344323 0001 094243",
			kind: codec.Hello, id: "13912344323", token: "\tBC", odd: "auth",
		},
		{name: "2019 with no body", content: "0102 4000 01 00000000013912344323 0001", kind: codec.Hello, id: "13912344323", odd: "auth"},
		{name: "a fragment of a registration", content: "0100 2001 013912344323 0001 0002 0001 00", kind: codec.Beat, id: "13912344323"},
		{name: "a fragment of 2019", content: "0801 6001 01 00000000013912344323 0001 0002 0001 00", kind: codec.Beat, id: "13912344323"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := next(t, jt808.Protocol{}.Codec(), frame(t, tt.content), codec.Outcome{})
			var code codec.Code
			if m.Err != nil {
				code = m.Err.Code
			}
			if m.Kind != tt.kind || string(m.ID) != tt.id || string(m.Token) != tt.token || m.Odd != tt.odd || code != tt.code {
				t.Errorf("kind %v, id %q, token %q, odd %q, error %v, want kind %v, id %q, token %q, odd %q, code %q",
					m.Kind, m.ID, m.Token, m.Odd, m.Err, tt.kind, tt.id, tt.token, tt.odd, tt.code)
			}
		})
	}
}

// TestSharedFlag: one flag may end a frame and begin the next one, wherever the input is split. What is no frame behind a flag is garbage.
func TestSharedFlag(t *testing.T) {
	first, second := frame(t, "0002 0000 013912344323 0001"), frame(t, "0002 0000 013912344323 0002")
	for name, tt := range map[string]struct {
		input []byte
		beats int
		odd   string
	}{
		"shared":            {slices.Concat(first, second[1:], first[1:]), 3, ""},
		"shared, then not":  {slices.Concat(first, second[1:], first), 3, ""},
		"garbage between":   {slices.Concat(first, []byte("\r\n"), second), 2, "garbage"},
		"garbage at length": {slices.Concat(first, bytes.Repeat([]byte("x"), 5000), second), 2, "garbage"},
	} {
		for at := range len(tt.input) {
			c, beats, odd := jt808.Protocol{}.Codec(), 0, ""
			take := func(input []byte) (rest []byte) {
				for {
					var m codec.Message
					n, err := c.Next(input, &m)
					if err != nil {
						t.Fatal(err)
					}
					if n == 0 {
						return input
					}
					if m.Kind == codec.Beat {
						beats++
					}
					odd, input = cmp.Or(odd, m.Odd), input[n:]
				}
			}
			rest := take(slices.Concat(take(tt.input[:at]), tt.input[at:]))
			if beats != tt.beats || odd != tt.odd || len(rest) > 0 {
				t.Fatalf("%s, split at %d: %d heartbeats, odd %q, %d bytes left, want %d, %q and none", name, at, beats, odd, len(rest), tt.beats, tt.odd)
			}
		}
	}
}

func zeros(n int) string { return fmt.Sprintf("%0*d", 2*n, 0) }

// TestNoise looks at bytes that mean nothing, and that they do not hide the message behind them.
func TestNoise(t *testing.T) {
	frames := vectors(t)
	beat := frames["heartbeat-2013"]
	tests := []struct {
		name  string
		noise []byte
		odd   string
	}{
		{"garbage", []byte("\r\nAT+CIPSEND\r\n"), "garbage"},
		{"a parenthesis", []byte("("), "garbage"},
		{"a sentence that is cut", frames["sentence"][:20], "garbage"},
		{"a sentence without an id", []byte("(ELOCK,3,529439)"), "garbage"},
		{"a sentence without anything", []byte("()"), "garbage"},
		{"a sentence with a long id", []byte("(123456789012345678901,1)"), "garbage"},
		{"a sentence of another protocol", []byte("(027043594183BP05355227043594183HSO1a4)"), "garbage"},
		{"a sentence without an end", []byte("(740190311185," + strings.Repeat("x", 1024)), "garbage"},
		{"a flag", []byte{0x7e}, "garbage"},
		{"flags", []byte{0x7e, 0x7e, 0x7e}, "garbage"},
		{"the example of escaping", frames["escaping"], "short"},
		{"too short", frames["too-short"], "short"},
		{"a short header of a fragment", frames["fragment-short"], "short"},
		{"a short header of 2019", frame(t, "0002 4000 01 00000000013912344323"), "short"},
		{"a wrong checksum", frames["fragment-wrong-checksum"], "checksum"},
		{"a location that lost bytes", frames["location-edited"], "checksum"},
		{"33 bytes too many", frame(t, "0200 0000 013912344323 0001"+zeros(33)), "length"},
		{"33 bytes too few", frame(t, "0200 0021 013912344323 0001"), "length"},
		{"a frame whose end is lost", beat[:len(beat)-2], "short"},
		{"a frame whose beginning is lost", beat[1:], "garbage"},
		{"a wrong escape", []byte("\x7e\x00\x02\x00\x00\x01\x23\x45\x67\x89\x7d\x7f\xff\x0a\x7e"), "checksum"},
		{"an escape at the end", []byte("\x7e\x00\x02\x00\x00\x01\x23\x45\x67\x89\x01\x7f\xff\x7d\x7e"), "checksum"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := jt808.Protocol{}.Codec()
			odd := map[string]bool{}
			input := append(bytes.Clone(tt.noise), beat...)
			for {
				var m codec.Message
				n, err := c.Next(input, &m)
				if n == 0 || err != nil {
					t.Fatalf("Next(% x) = %d, %v, want a message or noise", input, n, err)
				}
				input = input[n:]
				if m.Kind != codec.None {
					break
				}
				odd[m.Odd] = true
				if reply := c.Reply(nil, &m, &codec.Outcome{}); len(reply) > 0 {
					t.Errorf("Reply to noise = % x, want nothing", reply)
				}
			}
			if !odd[tt.odd] || len(input) > 0 {
				t.Errorf("Next left % x and found odd %v, want %q", input, odd, tt.odd)
			}
		})
	}
}

// TestEscape takes a 7D without a meaning for itself.
func TestEscape(t *testing.T) {
	for _, body := range []string{"\x7d\x41", "\x41\x7d", "\x7d\x7d"} {
		input := "\x02\x00\x00\x02\x01\x39\x12\x34\x43\x23\x00\x01" + body
		sum := byte(0)
		for _, b := range []byte(input) {
			sum ^= b
		}
		m, _ := next(t, jt808.Protocol{}.Codec(), []byte("\x7e"+input+string([]byte{sum})+"\x7e"), codec.Outcome{})
		if m.Kind != codec.Beat || m.Odd != "escape" {
			t.Errorf("% x: kind %v, odd %q, want a beat that is odd because of an escape", input, m.Kind, m.Odd)
		}
	}
}

// TestEndless refuses what has no end.
func TestEndless(t *testing.T) {
	for _, n := range []int{4096, 4097, 65536} {
		input := append([]byte{0x7e}, make([]byte, n-1)...)
		var m codec.Message
		taken, err := jt808.Protocol{}.Codec().Next(input, &m)
		if e, ok := errors.AsType[*codec.Error](err); !ok || e.Code != codec.TooLong || taken != 0 {
			t.Errorf("Next of %d bytes = %d, %v, want an error with the code %s", n, taken, err, codec.TooLong)
		}
		input[4095] = 0x7e
		if taken, err := (jt808.Protocol{}).Codec().Next(input, &m); err != nil || taken != 4095 {
			t.Errorf("Next of a frame of 4096 bytes = %d, %v, want 4095 of noise", taken, err)
		}
	}
}

// TestNewPhone follows the phone number from message to message.
func TestNewPhone(t *testing.T) {
	c := jt808.Protocol{}.Codec()
	frames := vectors(t)
	for _, want := range []struct{ vector, id string }{
		{"heartbeat-2013", "12345678901"},
		{"heartbeat-2013", "12345678901"},
		{"heartbeat-2019", "17299841738"},
		{"transparent", "868935060010210"},
		{"transparent", "868935060010210"},
		{"location-zero-phone", ""},
		{"heartbeat", "43048325465"},
	} {
		if m, _ := next(t, c, frames[want.vector], codec.Outcome{}); string(m.ID) != want.id {
			t.Errorf("%s has the id %q, want %q", want.vector, m.ID, want.id)
		}
	}
}

func TestReply(t *testing.T) {
	refused := func(code codec.Code) codec.Outcome {
		return codec.Outcome{Err: &codec.Error{Code: code, Text: "no"}}
	}
	frames := vectors(t)
	now := time.Date(2024, 10, 3, 23, 51, 6, 0, time.FixedZone("", 8*3600))
	tests := []struct {
		name    string
		input   []byte
		outcome codec.Outcome
		want    []byte
	}{
		{name: "heartbeat of 2013", input: frames["heartbeat-2013"], want: frames["heartbeat-2013-answer"]},
		{name: "heartbeat of 2019", input: frames["heartbeat-2019"], want: frames["heartbeat-2019-answer"]},
		{name: "refused in 2013", input: frames["auth-17299841738-2013"], outcome: refused(codec.Unauthorized), want: frames["auth-17299841738-2013-failed"]},
		{name: "accepted in 2019", input: frames["auth-17299841738-2019"], want: frames["auth-17299841738-2019-answer"]},
		{
			name: "refused in 2019", input: frames["auth-17299841738-2019"], outcome: refused(codec.Unauthorized),
			want: frame(t, "8001 4005 01 00000000017299841738 0000 0000 0102 01"),
		},
		{name: "registered in 2013", input: frames["register-12345678901-2013"], want: frames["register-12345678901-2013-answer"]},
		{name: "registered in 2019", input: frames["register-17299841738-2019"], want: frames["register-17299841738-2019-answer"]},
		{
			name: "a token", input: frames["register-12345678901-2013"], outcome: codec.Outcome{Token: []byte("k~")},
			want: frame(t, "8100 0005 012345678901 0000 0000 00 6b7e"),
		},
		{
			name: "a token that no message can hold", input: frames["register-12345678901-2013"], outcome: codec.Outcome{Token: make([]byte, 1021)},
			want: frame(t, "8001 0005 012345678901 0000 0000 0100 01"),
		},
		{
			name: "an unknown terminal", input: frames["register-12345678901-2013"], outcome: refused(codec.Unauthorized),
			want: frame(t, "8100 0003 012345678901 0000 0000 04"),
		},
		{
			name: "a terminal that is another", input: frames["register-12345678901-2013"], outcome: refused(codec.HelloAgain),
			want: frame(t, "8100 0003 012345678901 0000 0000 03"),
		},
		{
			name: "a registration without a phone", input: frame(t, "0100 0000 000000000000 0001"),
			want: frame(t, "8100 0003 000000000000 0000 0001 04"),
		},
		{
			name: "no place for a registration", input: frames["register-12345678901-2013"], outcome: refused(codec.Full),
			want: frame(t, "8001 0005 012345678901 0000 0000 0100 01"),
		},
		{
			name: "a header of 2013 that says 2019", input: frames["location-2013-as-2019"],
			want: frame(t, "8001 0005 010030000681 0000 090e 0200 00"),
		},
		{name: "locations", input: frames["locations-2013-escapes"], want: frame(t, "8001 0005 012345678901 0000 0000 0704 00")},
		{name: "logout", input: frames["logout-2013"], want: frame(t, "8001 0005 014533224352 0000 0004 0003 00")},
		{name: "another heartbeat", input: frame(t, "0506 0000 013912344323 0001"), want: frame(t, "8001 0005 013912344323 0000 0001 0506 00")},
		{name: "anything else", input: frames["acceleration"], want: frame(t, "8001 0005 012152300153 0000 0047 2070 03")},
		{name: "the time zone", input: frames["timezone"], want: frame(t, "8001 0005 045460002319 0000 0906 1007 00")},
		{name: "data that is passed through", input: frames["transparent-driver"], want: frame(t, "8001 0005 413058889758 0000 8319 0900 00")},
		{name: "a text of the device", input: frames["device-text"], want: frame(t, "8001 0005 014164192753 0000 005a 6006 00")},
		{name: "a battery", input: frames["battery-0210"], want: frame(t, "8001 0005 045460002319 0000 0088 0210 00")},
		{name: "other locations", input: frames["locations-0210"], want: frame(t, "8001 0005 010036526447 0000 000a 0210 00")},
		{name: "a lock", input: frames["lock-5501-unlock"], want: frame(t, "4401 0003 856009001017 01 5501 00")},
		{name: "what a lock stored", input: frames["lock-5502"], want: frame(t, "4401 0003 850011000200 01 5502 00")},
		{name: "a lock that is refused", input: frames["lock-5502"], outcome: refused(codec.Full), want: frame(t, "4401 0003 850011000200 01 5502 01")},
		{name: "a lock that wants no answer", input: frames["lock-5501-unasked"]},
		{name: "a sentence", input: frames["sentence"], outcome: codec.Outcome{Now: now}},
		{name: "a sentence that asks for the time", input: []byte("(740190311185,1,001,BASE,2,TIME)"), outcome: codec.Outcome{Now: now}, want: []byte("(740190311185,1,001,BASE,2,20241003155106)")},
		{name: "a sentence that does not say where the time is to stand", input: []byte("(740190311185,1,001,BASE,2)"), outcome: codec.Outcome{Now: now}},
		{name: "a sentence that is refused", input: []byte("(740190311185,1,001,BASE,2,TIME)"), outcome: refused(codec.Full)},
		{
			name: "no phone number", input: frames["location-zero-phone"],
			want: frame(t, "8001 0005 000000000000 0000 0001 0200 01"),
		},
		{name: "a fragment", input: frames["fragment"], want: frame(t, "8001 0005 001234567890 0000 02de 0801 03")},
		{
			name: "a fragment of a registration", input: frame(t, "0100 2001 013912344323 0001 0002 0001 00"),
			want: frame(t, "8001 0005 013912344323 0000 0001 0100 03"),
		},
		{
			name: "a fragment of locations", input: frame(t, "0704 2001 013912344323 0001 0002 0001 00"),
			want: frame(t, "8001 0005 013912344323 0000 0001 0704 00"),
		},
		{name: "a mistake", input: frames["heartbeat-2013"], outcome: refused(codec.BadMessage), want: frame(t, "8001 0005 012345678901 0000 7fff 0002 02")},
		{name: "an answer of the device", input: frames["terminal-answer"]},
		{name: "a location that was asked for", input: frames["location-answer"]},
		{
			name: "the time", input: frame(t, "0004 4000 01 00000000013912344329 0001"),
			outcome: codec.Outcome{Now: now},
			want:    frame(t, "8004 4006 01 00000000013912344329 0000 241003155106"),
		},
		{
			name: "no time", input: frame(t, "0004 4000 01 00000000013912344329 0001"),
			want: frame(t, "8001 4005 01 00000000013912344329 0000 0001 0004 03"),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, got := next(t, jt808.Protocol{}.Codec(), tt.input, tt.outcome); !bytes.Equal(got, tt.want) {
				t.Errorf("Reply = % x, want % x", got, tt.want)
			}
		})
	}
	if got := frame(t, "8004 4006 01 00000000013912344329 0000 241003155106"); !bytes.Equal(got, frames["time"]) {
		t.Errorf("the answer to a query of the time is % x, want % x", got, frames["time"])
	}
}

// TestSerials counts the messages to the device.
func TestSerials(t *testing.T) {
	c := jt808.Protocol{}.Codec()
	beat := frame(t, "0002 0000 013912344323 0007")
	for i := range 3 {
		want := frame(t, fmt.Sprintf("8001 0005 013912344323 %04x 0007 0002 00", i))
		if _, got := next(t, c, beat, codec.Outcome{}); !bytes.Equal(got, want) {
			t.Errorf("answer %d = % x, want % x", i, got, want)
		}
	}
	if got := c.Goodbye(nil, "shutdown", nil); len(got) > 0 {
		t.Errorf("Goodbye = % x, want nothing", got)
	}
}

func TestSniff(t *testing.T) {
	for first, want := range map[string]codec.Guess{
		"\x7e": codec.Yes, "\x7e\x00": codec.Yes, "\x78\x78": codec.No, "HELLO": codec.No, "\x00": codec.No,
		"(": codec.Maybe, "(740190311185": codec.Maybe, "(740190311185,": codec.Yes, "(,": codec.No, "(ELOCK,": codec.No,
		"(027043594183BP05": codec.No, "(123456789012345678901": codec.No,
	} {
		if got := (jt808.Protocol{}).Sniff([]byte(first)); got != want {
			t.Errorf("Sniff(%q) = %v, want %v", first, got, want)
		}
	}
}
