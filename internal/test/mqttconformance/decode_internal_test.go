package mqttconformance

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// What a broker must not send, and why decode does not take it.
func TestDecodeIsStrict(t *testing.T) {
	tests := []struct {
		name    string
		version byte
		packet  []byte // without a remaining length
		want    string // part of the error, "" for none
	}{
		{"CONNACK", 5, []byte{0x20, 0, 0, 0}, ""},
		{"CONNACK of 3.1.1", 4, []byte{0x20, 1, 0}, ""},
		{"CONNACK of 3.1.1 with a code of 5", 4, []byte{0x20, 0, 0x87}, "code 0x87"},
		{"CONNACK with reserved flags", 5, []byte{0x20, 2, 0, 0}, "flags 0x2"},
		{"CONNACK with a session and a failure", 5, []byte{0x20, 1, 0x87, 0}, "session present"},
		{"CONNACK with a property twice", 5, []byte{0x20, 0, 0, 6, 0x21, 0, 1, 0x21, 0, 1}, "0x21 twice"},
		{"CONNACK with a property of PUBLISH", 5, []byte{0x20, 0, 0, 3, 0x23, 0, 1}, "property 0x23"},
		{"CONNACK with an unknown property", 5, []byte{0x20, 0, 0, 2, 0x7f, 0}, "property 0x7f"},
		{"CONNACK with Receive Maximum 0", 5, []byte{0x20, 0, 0, 3, 0x21, 0, 0}, "0x21 is 0"},
		{"CONNACK with Maximum QoS 2", 5, []byte{0x20, 0, 0, 2, 0x24, 2}, "0x24 is 2"},
		{"CONNACK with properties that are cut", 5, []byte{0x20, 0, 0, 2, 0x21, 0}, "too short"},
		{"CONNACK with a byte too many", 5, []byte{0x20, 0, 0, 0, 0}, "1 bytes behind the end"},
		{"PUBLISH", 5, []byte{0x30, 0, 1, 'a', 0, 'x'}, ""},
		{"PUBLISH with QoS 3", 5, []byte{0x36, 0, 1, 'a', 0, 1, 0}, "QoS 3"},
		{"PUBLISH with DUP and QoS 0", 5, []byte{0x38, 0, 1, 'a', 0}, "DUP"},
		{"PUBLISH with packet id 0", 4, []byte{0x32, 0, 1, 'a', 0, 0}, "identifier is 0"},
		{"PUBLISH with a wildcard", 4, []byte{0x30, 0, 1, '#'}, `topic "#"`},
		{"PUBLISH with invalid UTF-8", 4, []byte{0x30, 0, 1, 0xff}, "no text"},
		{"PUBLISH with a null character", 4, []byte{0x30, 0, 1, 0}, "no text"},
		{"PUBLISH with a surrogate", 4, []byte{0x30, 0, 3, 0xed, 0xa0, 0x80}, "no text"},
		{"PUBLISH without a topic", 5, []byte{0x30, 0, 0, 0}, "no topic"},
		{"PUBLISH with an alias only", 5, []byte{0x30, 0, 0, 3, 0x23, 0, 1}, ""},
		{"PUBLISH with alias 0", 5, []byte{0x30, 0, 1, 'a', 3, 0x23, 0, 0}, "0x23 is 0"},
		{"PUBLISH with several subscription ids", 5, []byte{0x30, 0, 1, 'a', 4, 0x0b, 1, 0x0b, 2}, ""},
		{"PUBLISH with subscription id 0", 5, []byte{0x30, 0, 1, 'a', 2, 0x0b, 0}, "0xb is 0"},
		{"PUBLISH with a number that is too long", 5, []byte{0x30, 0, 1, 'a', 3, 0x0b, 0x81, 0}, "more bytes than it needs"},
		{"PUBLISH with a number of 5 bytes", 5, []byte{0x30, 0, 1, 'a', 6, 0x0b, 0x81, 0x81, 0x81, 0x81, 1}, "more than 4 bytes"},
		{"PUBACK", 5, []byte{0x40, 0, 1, 0x10, 0}, ""},
		{"PUBACK with flags", 5, []byte{0x42, 0, 1}, "flags 0x2"},
		{"PUBACK with a code of SUBACK", 5, []byte{0x40, 0, 1, 1}, "code 0x1"},
		{"PUBACK with a code in 3.1.1", 4, []byte{0x40, 0, 1, 0}, "behind the end"},
		{"PUBREL without flags", 5, []byte{0x60, 0, 1}, "flags 0x0"},
		{"PUBREL", 5, []byte{0x62, 0, 1, 0x92}, ""},
		{"PUBCOMP with a code of PUBACK", 5, []byte{0x70, 0, 1, 0x87}, "code 0x87"},
		{"SUBACK", 5, []byte{0x90, 0, 1, 0, 0, 1, 2, 0x8f}, ""},
		{"SUBACK with QoS 3", 5, []byte{0x90, 0, 1, 0, 3}, "code 0x3"},
		{"SUBACK of 3.1.1 with a code of 5", 4, []byte{0x90, 0, 1, 0x8f}, "code 0x8f"},
		{"UNSUBACK of 3.1.1 with a code", 4, []byte{0xb0, 0, 1, 0}, "with codes"},
		{"PINGRESP with a byte", 5, []byte{0xd0, 0}, "behind the end"},
		{"DISCONNECT", 5, []byte{0xe0, 0x8e, 0}, ""},
		{"DISCONNECT with a code of a client", 5, []byte{0xe0, 0x04}, "code 0x4"},
		{"DISCONNECT with a session expiry", 5, []byte{0xe0, 0, 5, 0x11, 0, 0, 0, 1}, "property 0x11"},
		{"DISCONNECT in 3.1.1", 4, []byte{0xe0}, "before MQTT 5"},
		{"a packet of a client", 5, []byte{0xc0}, "PINGREQ is not for a client"},
		{"type 0", 5, []byte{0x00}, "type 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := decode(tt.version, tt.packet[0], tt.packet[1:])
			if err == nil && tt.want != "" || err != nil && (tt.want == "" || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("decode(% x) = %v, want an error with %q", tt.packet, err, tt.want)
			}
		})
	}
}

// A broker may send anything; what is accepted has what MQTT asks for.
func FuzzDecode(f *testing.F) {
	f.Add(byte(5), byte(0x32), []byte("\x00\x01a\x00\x01\x03\x23\x00\x01x"))
	f.Add(byte(5), byte(0x20), []byte("\x00\x00\x03\x21\x00\x14"))
	f.Add(byte(4), byte(0x90), []byte("\x00\x01\x80"))
	f.Fuzz(func(t *testing.T, version, first byte, body []byte) {
		p, err := decode(version, first, body)
		if err != nil {
			return
		}
		if p.kind != first>>4 || p.qos > 2 || p.qos > 0 && p.id == 0 || strings.ContainsAny(p.topic, "+#\x00") || !utf8.ValidString(p.topic) {
			t.Errorf("decode(%d, %#x, % x) = %v", version, first, body, p)
		}
	})
}

func TestTable(t *testing.T) {
	got := Table([]string{"a", "b"}, []Result{{Name: "v5/x", Outcome: Passed}}, []Result{{Name: "v5/x", Outcome: Failed, Detail: "y"}})
	want := "| test | a | b |\n|---|---|---|\n| v5/x | passed | failed |\n"
	if got != want {
		t.Errorf("Table:\n%s\nwant\n%s", got, want)
	}
}

// Names are what a table and the reasons for failures know tests by.
func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range groups() {
		for _, e := range g.tests {
			if name := g.name + "/" + e.name; seen[name] {
				t.Errorf("two tests have the name %q", name)
			} else {
				seen[name] = true
			}
		}
	}
}
