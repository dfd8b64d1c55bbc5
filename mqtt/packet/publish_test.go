package packet_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holter-iot/holter/mqtt/packet"
)

func TestPublishDecode(t *testing.T) {
	tests := []struct {
		name    string
		version packet.Version
		flags   uint8
		body    string
		want    packet.Publish
	}{
		{"QoS 0", packet.V311, 0, "\x00\x01tpay", packet.Publish{Topic: []byte("t"), Payload: []byte("pay")}},
		{"no payload", packet.V31, 1, "\x00\x01t", packet.Publish{Topic: []byte("t"), Payload: []byte{}, Retain: true}},
		{"QoS 1 again", packet.V311, 10, "\x00\x01t\x00\x07p", packet.Publish{Topic: []byte("t"), Payload: []byte("p"), ID: 7, QoS: 1, Dup: true}},
		{"DUP and QoS 0", packet.V31, 8, "\x00\x01tp", packet.Publish{Topic: []byte("t"), Payload: []byte("p"), Dup: true}},
		{"QoS 2", packet.V5, 4, "\x00\x01t\xff\xff\x00p", packet.Publish{Topic: []byte("t"), Payload: []byte("p"), ID: 65_535, QoS: 2, Properties: []byte{}}},
		{"topic not in ASCII", packet.V311, 0, "\x00\x05a/\u20ac", packet.Publish{Topic: []byte("a/\u20ac"), Payload: []byte{}}},
		{"topic with a non-character", packet.V311, 0, "\x00\x04\x01\uffffx", packet.Publish{Topic: []byte("\x01\uffff"), Payload: []byte("x")}},
		{"alias", packet.V5, 0, "\x00\x00\x03\x23\x00\x05p", packet.Publish{Topic: []byte{}, Payload: []byte("p"), Alias: 5, Properties: []byte("\x23\x00\x05")}},
		{"properties", packet.V5, 0, "\x00\x01t\x20" + allForwarded + "\x02\x00\x00\x00\x09" + "p", packet.Publish{
			Topic: []byte("t"), Payload: []byte("p"), Expiry: 9, HasExpiry: true, Properties: []byte(allForwarded + "\x02\x00\x00\x00\x09"),
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := packet.Publish{Topic: []byte("old"), ID: 5, Alias: 3, HasExpiry: true, Properties: []byte("old")}
			if err := p.Decode(tt.version, packet.Header{Type: packet.TypePublish, Flags: tt.flags}, []byte(tt.body)); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(p, tt.want) {
				t.Errorf("Decode = %+v\nwant %+v", p, tt.want)
			}
		})
	}
}

// allForwarded are properties of each kind that is passed on: 27 bytes.
const allForwarded = "\x01\x01\x03\x00\x01c\x08\x00\x01r\x09\x00\x02\x00\xff\x26\x00\x01k\x00\x01v\x26\x00\x00\x00\x00"

func TestPublishRefuses(t *testing.T) {
	tests := []struct {
		name    string
		version packet.Version
		flags   uint8
		body    string
		code    packet.Code
		section string
	}{
		{"nothing", packet.V311, 0, "", packet.MalformedPacket, "4.13"},
		{"end in the topic", packet.V311, 0, "\x00\x02t", packet.MalformedPacket, "4.13"},
		{"no packet id", packet.V311, 2, "\x00\x01t\x00", packet.MalformedPacket, "4.13"},
		{"packet id 0", packet.V311, 2, "\x00\x01t\x00\x00", packet.ProtocolError, "2.2.1"},
		{"no topic", packet.V311, 0, "\x00\x00p", packet.ProtocolError, "3.3.2.1"},
		{"no topic and no alias", packet.V5, 0, "\x00\x00\x00p", packet.ProtocolError, "3.3.2.1"},
		{"wildcard +", packet.V311, 0, "\x00\x03a/+", packet.InvalidTopic, "3.3.2.1"},
		{"wildcard #", packet.V31, 0, "\x00\x02a#", packet.InvalidTopic, "3.3.2.1"},
		{"NUL", packet.V311, 0, "\x00\x02a\x00", packet.MalformedPacket, "1.5.4"},
		{"not UTF-8", packet.V31, 0, "\x00\x01\x80", packet.MalformedPacket, "1.5.4"},
		{"longer than needed", packet.V311, 0, "\x00\x02\xc0\xaf", packet.MalformedPacket, "1.5.4"},
		{"surrogate", packet.V5, 0, "\x00\x03\xed\xbf\xbf\x00", packet.MalformedPacket, "1.5.4"},
		{"no properties", packet.V5, 0, "\x00\x01t", packet.MalformedPacket, "4.13"},
		{"properties beyond the packet", packet.V5, 0, "\x00\x01t\x01", packet.MalformedPacket, "4.13"},
		{"long length of properties", packet.V5, 0, "\x00\x01t\xff\xff\xff\xff\x01", packet.MalformedPacket, "1.5.5"},
		{"alias 0", packet.V5, 0, "\x00\x01t\x03\x23\x00\x00", packet.InvalidAlias, "3.3.2.3.4"},
		{"alias twice", packet.V5, 0, "\x00\x01t\x06\x23\x00\x01\x23\x00\x01", packet.ProtocolError, "2.2.2.2"},
		{"payload format 2", packet.V5, 0, "\x00\x01t\x02\x01\x02", packet.ProtocolError, "2.2.2.2"},
		{"response topic with a wildcard", packet.V5, 0, "\x00\x01t\x04\x08\x00\x01+", packet.ProtocolError, "3.3.2.3.5"},
		{"content type not UTF-8", packet.V5, 0, "\x00\x01t\x04\x03\x00\x01\xff", packet.MalformedPacket, "1.5.4"},
		{"property of CONNECT", packet.V5, 0, "\x00\x01t\x05\x11\x00\x00\x00\x00", packet.MalformedPacket, "2.2.2.2"},
		{"will delay", packet.V5, 0, "\x00\x01t\x05\x18\x00\x00\x00\x00", packet.MalformedPacket, "2.2.2.2"},
		{"identifier", packet.V5, 0, "\x00\x01t\x02\x0b\x01", packet.ProtocolError, "3.3.4"},
		{"identifier 0", packet.V5, 0, "\x00\x01t\x02\x0b\x00", packet.ProtocolError, "3.8.2.1.2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p packet.Publish
			h := packet.Header{Type: packet.TypePublish, Flags: tt.flags}
			checkError(t, p.Decode(tt.version, h, []byte(tt.body)), tt.code, tt.section)
			if _, ok := p.NextIdentifier(); tt.name != "identifier" && ok {
				t.Error("a refused packet has an identifier")
			}
		})
	}
}

func TestDecodeFromServer(t *testing.T) {
	const body = "\x00\x01t\x0a\x0b\x01\x26\x00\x00\x00\x00\x0b\xff\x7fp"
	var p packet.Publish
	if err := p.DecodeFromServer(packet.V5, packet.Header{Type: packet.TypePublish}, []byte(body)); err != nil {
		t.Fatal(err)
	}
	var ids []uint32
	for id, ok := p.NextIdentifier(); ok; id, ok = p.NextIdentifier() {
		ids = append(ids, id)
	}
	if want := []uint32{1, 16_383}; !slices.Equal(ids, want) {
		t.Errorf("identifiers %v, want %v", ids, want)
	}
	err := p.DecodeFromServer(packet.V5, packet.Header{Type: packet.TypePublish}, []byte("\x00\x02t+\x00"))
	checkError(t, err, packet.InvalidTopic, "3.3.2.1")
}

func TestAppendForwarded(t *testing.T) {
	tests := []struct {
		name       string
		properties string
		want       string
		text       bool
	}{
		{"none", "", "", false},
		{"all", allForwarded, allForwarded, true},
		{"between others", "\x02\x00\x00\x00\x09" + allForwarded + "\x23\x00\x05\x0b\xff\x7f\x18\x00\x00\x00\x00", allForwarded, true},
		{"bytes", "\x26\x00\x00\x00\x00\x01\x00", "\x26\x00\x00\x00\x00\x01\x00", false},
		{"after a mistake", "\x01\x01\x7f\x01\x01", "\x01\x01", true},
		{"cut off", "\x26\x00\x01k\x00\x05v", "", false},
		{"cut off in the key", "\x26\x00\x05k", "", false},
		{"cut off in a length", "\x09\x00", "", false},
		{"cut off in a byte", "\x01", "", false},
		{"cut off in an identifier", "\x0b\x80", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := packet.AppendForwarded([]byte("dst"), []byte(tt.properties))
			if string(got) != "dst"+tt.want {
				t.Errorf("AppendForwarded = %q, want %q", got, "dst"+tt.want)
			}
			for _, properties := range []string{tt.properties, tt.want} {
				if text := packet.UTF8Payload([]byte(properties)); text != tt.text {
					t.Errorf("UTF8Payload(%q) = %v, want %v", properties, text, tt.text)
				}
			}
		})
	}
}

func TestOutAppend(t *testing.T) {
	full := packet.Out{
		Topic: "t", Payload: []byte("p"), ID: 258, QoS: 1, Retain: true, Dup: true, Alias: 5, Expiry: 9, HasExpiry: true,
		Identifiers: []uint32{1, 128, 268_435_455}, Properties: []byte(allForwarded),
	}
	tests := []struct {
		name    string
		version packet.Version
		out     packet.Out
		want    string
	}{
		{"QoS 0", packet.V311, packet.Out{Topic: "t", Payload: []byte("p"), ID: 7}, "\x30\x04\x00\x01tp"},
		{"3.1 with all", packet.V31, full, "\x3b\x06\x00\x01t\x01\x02p"},
		{"3.1.1 with all", packet.V311, full, "\x3b\x06\x00\x01t\x01\x02p"},
		{"5", packet.V5, packet.Out{Topic: "t", QoS: 2, ID: 1}, "\x34\x06\x00\x01t\x00\x01\x00"},
		{"5 with all", packet.V5, full, "\x3b\x34\x00\x01t\x01\x02\x2d" + "\x02\x00\x00\x00\x09\x23\x00\x05\x0b\x01\x0b\x80\x01\x0b\xff\xff\xff\x7f" + allForwarded + "p"},
		{"alias", packet.V5, packet.Out{Alias: 1}, "\x30\x06\x00\x00\x03\x23\x00\x01"},
		{"large", packet.V311, packet.Out{Topic: "t", Payload: []byte(strings.Repeat("p", 3_000_000))}, "\x30\xc3\x8d\xb7\x01\x00\x01t" + strings.Repeat("p", 3_000_000)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.out.Append([]byte("dst"), tt.version)
			if string(got) != "dst"+tt.want {
				t.Errorf("Append = %.100q, want %.100q", got[3:], tt.want)
			}
			if size := tt.out.Size(tt.version); size != len(tt.want) {
				t.Errorf("Size = %d, want %d", size, len(tt.want))
			}
		})
	}
}
