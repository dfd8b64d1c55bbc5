package packet_test

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/holter-iot/holter/mqtt/packet"
)

// seeds are packets of each type, as first byte and body.
func seeds(add func(v packet.Version, first byte, body []byte)) {
	for _, v := range []packet.Version{packet.V31, packet.V311, packet.V5} {
		connect, connack := fullConnect(v), fullConnack()
		out := outs()[3].out
		out.Identifiers = []uint32{1, 300}
		filters := []packet.Filter{{Topic: []byte("a/#")}, {Topic: []byte("$share/g/b"), QoS: 1, RetainAsPublished: true, RetainHandling: 1}}
		codes := []packet.Code{packet.Success, packet.NotAuthorized}
		disconnect := packet.Disconnect{Code: packet.DisconnectWithWill, HasSessionExpiry: true, SessionExpiry: 9, Reason: []byte("r")}
		for _, input := range [][]byte{
			connect.Append(nil),
			connack.Append(nil, v),
			out.Append(nil, v),
			packet.AppendAck(nil, v, packet.TypePuback, 7, packet.NoMatchingSubscribers),
			packet.AppendAck(nil, v, packet.TypePubrel, 7, packet.PacketIDNotFound),
			packet.AppendSubscribe(nil, v, 7, 300, filters...),
			packet.AppendSuback(nil, v, 7, codes),
			packet.AppendUnsubscribe(nil, v, 7, []byte("a"), []byte("b/+")),
			packet.AppendUnsuback(nil, v, 7, codes),
			disconnect.Append(nil, v),
		} {
			_, body, _, err := packet.Split(v, input, packet.MaxSize)
			if err != nil {
				panic(err)
			}
			add(v, input[0], body)
		}
	}
	add(packet.V5, 0x40, []byte("\x00\x07\x00\x0b\x26\x00\x01k\x00\x01v\x1f\x00\x01r"))
	add(packet.V5, 0x30, []byte("\x00\x00\x03\x23\x00\x05p"))
	add(packet.V5, 0xF0, []byte("\x18\x08\x15\x00\x01m\x16\x00\x01d"))
	add(packet.V5, 0xC0, nil)
	for _, p := range []struct {
		v     packet.Version
		first byte
		body  string
	}{
		{packet.V5, 0x10, "\x00\x06MQIsdp\x03\x02\x00\x3c\x00\x01a"},
		{packet.V5, 0x10, "\x00\x06MQIsdp\x03\x29\x00\x00\x00\x01a"},
		{packet.V5, 0x10, "\x00\x06MQIsdp\x03\xc2\x00\x00\x00\x01a"},
		{packet.V5, 0x10, "\x00\x06MQIsdp\x03\xc2\x00\x00\x00\x01a\x00\x01u"},
		{packet.V5, 0x10, "\x00\x06MQIsdp\x03\x02\x00\x00\x00\x1e" + strings.Repeat("i", 30)},
		{packet.V5, 0x10, "\x00\x04MQTT\x04\x00\xff\xff\x00\x01a"},
		{packet.V5, 0x10, "\x00\x04MQTT\x04\x02\x00\x00\x00\x00"},
		{packet.V5, 0x10, "\x00\x04MQTT\x04\xf6\x00\x0a\x00\x01a\x00\x01t\x00\x00\x00\x01u\x00\x02p\x00"},
		{packet.V5, 0x10, "\x00\x04MQTT\x05\x00\x00\x00\x00\x00\x00"},
		{packet.V5, 0x10, "\x00\x04MQTT\x05\x40\x00\x00\x00\x00\x01a\x00\x01p"},
		{packet.V5, 0x10, "\x00\x04MQTT\x05\x00\x00\x00\x2a\x11\x00\x00\x00\x78\x21\x00\x0a\x27\x00\x00\x01\x00\x22\x00\x05\x19\x01\x17\x00\x26\x00\x01k\x00\x01v\x26\x00\x01k\x00\x01v\x15\x00\x01m\x16\x00\x01d\x00\x01a"},
		{packet.V5, 0x10, "\x00\x04MQTT\x05\x0c\x00\x00\x00\x00\x01a\x13\x18\x00\x00\x00\x05\x02\x00\x00\x00\x09\x01\x01\x26\x00\x01k\x00\x01v\x00\x01t\x00\x01p"},
		{packet.V31, 0x20, "\xff\x00"},
		{packet.V311, 0x20, "\x00\x01"},
		{packet.V311, 0x20, "\x00\x02"},
		{packet.V311, 0x20, "\x00\x03"},
		{packet.V311, 0x20, "\x00\x04"},
		{packet.V31, 0x20, "\x00\x05"},
		{packet.V5, 0x20, "\x00\x8a\x00"},
		{packet.V5, 0x20, "\x00\x00\x15\x25\x00\x28\x01\x29\x01\x2a\x00\x1c\x00\x01s\x15\x00\x01m\x26\x00\x00\x00\x00"},
		{packet.V311, 0x70, "\xff\xff"},
		{packet.V5, 0x50, "\x00\x07\x97"},
		{packet.V5, 0x62, "\x00\x07\x92\x00"},
		{packet.V5, 0x40, "\x00\x07\x00\x10\x26\x00\x01k\x00\x01v\x1f\x00\x06reason"},
		{packet.V31, 0x82, "\x00\x07\x00\x01a\xfd"},
		{packet.V5, 0x82, "\x00\x07\x00\x00\x01a\x2e"},
		{packet.V5, 0x82, "\x00\x07\x08\x0b\x80\x01\x26\x00\x00\x00\x00\x00\x01a\x11"},
		{packet.V5, 0x82, "\x00\x07\x00\x00\x00\x00\x00\x03a#b\x00"},
		{packet.V5, 0xE0, "\x04\x00"},
		{packet.V5, 0xE0, "\x8c"},
		{packet.V5, 0xE0, "\x00\x0d\x11\x00\x00\x00\x78\x1f\x00\x01r\x1c\x00\x01s"},
		{packet.V5, 0xF0, ""},
		{packet.V5, 0xF0, "\x18\x04\x15\x00\x01m"},
		{packet.V5, 0xF0, "\x19\x0c\x15\x00\x01m\x16\x00\x01d\x1f\x00\x01r"},
	} {
		add(p.v, p.first, []byte(p.body))
	}
}

// FuzzDecode holds the decoders, of which each has decoded another packet before, against the naive one, and looks at what
// comes of a packet that is written again.
func FuzzDecode(f *testing.F) {
	full := make(map[byte][]byte) // the longest packet of each type
	seeds(func(v packet.Version, first byte, body []byte) {
		f.Add(byte(v), first, body)
		if v == packet.V5 && len(body) > len(full[first/16]) {
			full[first/16] = frame(first, body)
		}
	})
	f.Fuzz(func(t *testing.T, version, first byte, body []byte) {
		v := packet.Version(version)
		if v != packet.V31 && v != packet.V311 && v != packet.V5 {
			return
		}
		var d decoder
		if d.decode(packet.V5, full[first/16]); d.err != nil {
			t.Fatal(d.err)
		}
		input := frame(first, body)
		d.decode(v, input)
		if !splits(v, first, body) {
			if d.err == nil {
				t.Fatalf("Split takes %x in version %d", input, v)
			}
			return
		}
		want, ok := naive(v, first, body)
		if ok != (d.err == nil) {
			t.Fatalf("Decode(%x) in version %d: %v, but naive says %v", input, v, d.err, ok)
		}
		if !ok {
			return
		}
		if d.n != len(input) {
			t.Fatalf("Split(%x) = %d", input, d.n)
		}
		if got := describe(v, &d); !maps.Equal(got, want) {
			t.Fatalf("Decode(%x) in version %d:\n%q\nnaive:\n%q", input, v, got, want)
		}
		var fresh decoder
		if fresh.decode(v, input); !reflect.DeepEqual(d, fresh) {
			t.Fatalf("Decode(%x) in version %d keeps something of another packet:\n%+v\nwant\n%+v", input, v, d, fresh)
		}
		again(t, v, &d)
	})
}

// frame returns a packet.
func frame(first byte, body []byte) []byte {
	input := []byte{first}
	for n := len(body); ; n /= 128 {
		if n < 128 {
			return append(append(input, byte(n)), body...)
		}
		input = append(input, byte(n%128)+128)
	}
}

// splits says by a second opinion whether Split takes a packet.
func splits(v packet.Version, first byte, body []byte) bool {
	flags := first % 16
	switch typ := first / 16; typ {
	case 0:
		return false
	case 3:
		return flags/2%4 != 3 && (v == packet.V31 || flags/2%4 != 0 || flags < 8)
	case 12, 13:
		return len(body) == 0 && (flags == 0 || v == packet.V31)
	case 15:
		return v == packet.V5 && flags == 0
	case 6, 8, 10:
		return flags == 2 || v == packet.V31
	default:
		return flags == 0 || v == packet.V31
	}
}

// describe returns the fields of the packet that d has decoded, with the names of naive.
func describe(v packet.Version, d *decoder) facts {
	f := facts{}
	switch d.header.Type {
	case packet.TypeConnect:
		f.connect(&d.connect)
	case packet.TypeConnack:
		f.connack(v, &d.connack)
	case packet.TypePublish:
		f.publish(v, &d.publish)
	case packet.TypePuback, packet.TypePubrec, packet.TypePubrel, packet.TypePubcomp:
		f.set("id", d.ack.ID)
		f.set("code", uint8(d.ack.Code))
		f.text("ack.reason", d.ack.Reason)
	case packet.TypeSubscribe:
		p := d.subscribe
		f.set("id", p.ID)
		if v == packet.V5 {
			f.set("subscribe.identifier", p.Identifier)
		}
		for i, s := range subscriptions(&p) {
			options := fmt.Sprintf("%02b%b%b%02b", s.RetainHandling, bit(s.RetainAsPublished), bit(s.NoLocal), s.QoS)
			f.set(fmt.Sprint("filter", i), string(s.Topic)+" "+options)
		}
	case packet.TypeUnsubscribe:
		p := d.unsubscribe
		f.set("id", p.ID)
		for i, topic := range topics(&p) {
			f.set(fmt.Sprint("filter", i), topic)
		}
	case packet.TypeSuback:
		p := d.suback
		f.set("id", p.ID)
		f.set("codes", hex(collect(p.Next)))
	case packet.TypeUnsuback:
		p := d.unsuback
		f.set("id", p.ID)
		if v == packet.V5 {
			f.set("codes", hex(collect(p.Next)))
		}
	case packet.TypeDisconnect:
		f.set("code", uint8(d.disconnect.Code))
		f.number("disconnect.session", d.disconnect.HasSessionExpiry, d.disconnect.SessionExpiry)
		f.text("disconnect.reason", d.disconnect.Reason)
	case packet.TypeAuth:
		f.set("code", uint8(d.auth.Code))
		f.text("auth.method", d.auth.Method)
		f.text("auth.data", d.auth.Data)
	case packet.TypePingreq, packet.TypePingresp:
	}
	return f
}

type facts map[string]string

func (f facts) set(name string, value any) { f[name] = fmt.Sprint(value) }

// text sets what may be absent.
func (f facts) text(name string, value []byte) {
	if value != nil {
		f[name] = string(value)
	}
}

// number sets what may be absent.
func (f facts) number(name string, has bool, value uint32) {
	if has {
		f.set(name, value)
	}
}

func (f facts) connect(p *packet.Connect) {
	f.set("version", uint8(p.Version))
	f.set("clean", p.Clean)
	f.set("keepalive", p.KeepAlive)
	f.set("client", string(p.ClientID))
	if p.HasUser {
		f.set("user", string(p.User))
	}
	if p.HasPassword {
		f.set("password", string(p.Password))
	}
	if p.HasWill {
		f.set("will", fmt.Sprintf("%s|%s|%02b%v", p.Will.Topic, p.Will.Payload, p.Will.QoS, p.Will.Retain))
	}
	if p.Version != packet.V5 {
		return
	}
	f.set("connect.session", p.SessionExpiry)
	f.set("connect.receive", p.ReceiveMaximum)
	f.set("connect.size", p.MaximumPacketSize)
	f.set("connect.aliases", p.TopicAliasMaximum)
	f.set("connect.information", bit(p.RequestResponse))
	f.set("connect.problem", bit(p.RequestProblem))
	f.text("connect.method", p.AuthMethod)
	f.text("connect.data", p.AuthData)
	if p.HasWill {
		f.set("will.delay", p.Will.Delay)
		f.number("will.expiry", p.Will.HasExpiry, p.Will.Expiry)
		f.set("will.forwarded", string(packet.AppendForwarded(nil, p.Will.Properties)))
	}
}

func (f facts) connack(v packet.Version, p *packet.Connack) {
	f.set("present", p.SessionPresent)
	f.set("code", uint8(p.Code))
	if v != packet.V5 {
		return
	}
	f.number("connack.session", p.HasSessionExpiry, p.SessionExpiry)
	f.set("connack.receive", p.ReceiveMaximum)
	f.number("connack.qos", p.HasMaximumQoS, uint32(p.MaximumQoS))
	f.set("connack.size", p.MaximumPacketSize)
	f.set("connack.assigned", p.AssignedClientID)
	f.set("connack.aliases", p.TopicAliasMaximum)
	f.set("connack.reason", p.Reason)
	f.number("connack.keep", p.HasServerKeepAlive, uint32(p.ServerKeepAlive))
	f.set("connack.responseinfo", p.ResponseInformation)
}

func (f facts) publish(v packet.Version, p *packet.Publish) {
	f.set("topic", string(p.Topic))
	f.set("payload", string(p.Payload))
	f.set("qos", p.QoS)
	f.set("dup", p.Dup)
	f.set("retain", p.Retain)
	if p.QoS > 0 {
		f.set("id", p.ID)
	}
	if v != packet.V5 {
		return
	}
	f.set("publish.alias", p.Alias)
	f.number("publish.expiry", p.HasExpiry, p.Expiry)
	f.set("publish.forwarded", string(packet.AppendForwarded(nil, p.Properties)))
	var all strings.Builder
	for _, id := range identifiers(p) {
		fmt.Fprint(&all, id, " ")
	}
	f.set("publish.identifiers", all.String())
}

// identifiers returns all of a packet, which keeps them.
func identifiers(p *packet.Publish) []uint32 {
	q := *p
	return collect(q.NextIdentifier)
}

func bit(set bool) int {
	if set {
		return 1
	}
	return 0
}

func hex(codes []packet.Code) string {
	var all strings.Builder
	for _, c := range codes {
		fmt.Fprintf(&all, "%02x", uint8(c))
	}
	return all.String()
}

// again writes the packet that d has decoded, and looks whether it says the same, as far as it is
// written.
func again(t *testing.T, v packet.Version, d *decoder) {
	t.Helper()
	output := encode(v, d)
	if output == nil {
		return
	}
	want := describe(v, d)
	for _, name := range []string{"ack.reason"} { // AppendAck has none
		delete(want, name)
	}
	if want["disconnect.reason"] == "" { // an empty one is left out
		delete(want, "disconnect.reason")
	}
	var e decoder
	e.decode(v, output)
	if e.err != nil || e.n != len(output) {
		t.Fatalf("%x is written, of which %d bytes are read: %v", output, e.n, e.err)
	}
	if got := describe(v, &e); !maps.Equal(got, want) {
		t.Fatalf("%x is written:\n%q\nfor\n%q", output, got, want)
	}
	if room := encode(v, &e); !bytes.Equal(room, output) {
		t.Fatalf("%x is written differently again: %x", output, room)
	}
}

// encode writes the packet that d has decoded; nil if there is nothing to write it with.
func encode(v packet.Version, d *decoder) []byte {
	switch d.header.Type {
	case packet.TypeConnect:
		return d.connect.Append(nil)
	case packet.TypeConnack:
		return d.connack.Append(nil, v)
	case packet.TypePublish:
		p := &d.publish
		out := packet.Out{
			Topic: string(p.Topic), Payload: p.Payload, ID: p.ID, QoS: p.QoS, Retain: p.Retain, Dup: p.Dup,
			Alias: p.Alias, Expiry: p.Expiry, HasExpiry: p.HasExpiry, Identifiers: identifiers(p),
			Properties: packet.AppendForwarded(nil, p.Properties),
		}
		output := out.Append(nil, v)
		if size := out.Size(v); size != len(output) {
			panic(fmt.Sprintf("Size = %d, want %d", size, len(output)))
		}
		return output
	case packet.TypePuback, packet.TypePubrec, packet.TypePubrel, packet.TypePubcomp:
		return packet.AppendAck(nil, v, d.header.Type, d.ack.ID, d.ack.Code)
	case packet.TypeSubscribe:
		p := d.subscribe
		return packet.AppendSubscribe(nil, v, p.ID, p.Identifier, subscriptions(&p)...)
	case packet.TypeUnsubscribe:
		p := d.unsubscribe
		return packet.AppendUnsubscribe(nil, v, p.ID, collect(p.Next)...)
	case packet.TypeSuback:
		p := d.suback
		return packet.AppendSuback(nil, v, p.ID, collect(p.Next))
	case packet.TypeUnsuback:
		p := d.unsuback
		return packet.AppendUnsuback(nil, v, p.ID, collect(p.Next))
	case packet.TypeDisconnect:
		return d.disconnect.Append(nil, v)
	case packet.TypePingreq:
		return packet.AppendPingreq(nil)
	case packet.TypePingresp:
		return packet.AppendPingresp(nil)
	default: // nobody writes AUTH
		return nil
	}
}

// FuzzSplit reads a stream, at once and byte by byte.
func FuzzSplit(f *testing.F) {
	f.Add(byte(0), []byte("\xc0\x00\x30\x05\x00\x01tab\xe0\x00"), uint16(1000))
	f.Add(byte(4), []byte("\x30\x80\x01"), uint16(100))
	f.Add(byte(5), []byte("\xc0\x80\x00\x30\xff\xff\xff\xff\x01"), uint16(1000))
	f.Fuzz(func(t *testing.T, version byte, input []byte, limit uint16) {
		v := packet.Version(version)
		h, body, n, err := packet.Split(v, input, int(limit))
		if err == nil && n > 0 {
			if n > len(input) || n > int(limit) || !bytes.HasSuffix(input[:n], body) || byte(h.Type)<<4|h.Flags != input[0] {
				t.Fatalf("Split(%x, %d) = %v, %x, %d", input, limit, h, body, n)
			}
		}
		for i := range input {
			_, _, early, refused := packet.Split(v, input[:i], int(limit))
			if early != 0 && early != n || (refused != nil) && err == nil {
				t.Fatalf("Split(%x) = %d, %v, but of all of %x it is %d, %v", input[:i], early, refused, input, n, err)
			}
		}
	})
}

// FuzzTopic holds topics and filters against the naive view.
func FuzzTopic(f *testing.F) {
	for _, s := range []string{
		"", "a", "/", "a//b", " ", "$SYS/a", "\u20ac/\U0001f600", "\x01\uffff", "a\x00", "\xff", "\xff/#", "\xed\xa0\x80", strings.Repeat("a", 65_535), strings.Repeat("a", 65_536),
		"+", "#", "/#", "a/#", "+/+", "+/a/#", "/+", "a/+/b", "a+", "+a", "a/b+/c", "a/+b/c", "++", "#/", "#/a", "a#", "a/#/b", "+#", "##",
		"$share", "$shared/a", "$share/g/a", "$share/g//", "$share/g/#", "$share/g/+/a", "$share/g/a/+", "$share/g/$share/h/a", "$share/", "$share/g", "$share/g/", "$share//a", "$share/+/a",
		"$share/g#/a", "$share/g/a#",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := packet.ValidTopic([]byte(s)), naiveTopic(s); got != want {
			t.Errorf("ValidTopic(%q) = %v, want %v", s, got, want)
		}
		if got, want := packet.ValidFilter([]byte(s)), naiveFilter(s); got != want {
			t.Errorf("ValidFilter(%q) = %v, want %v", s, got, want)
		}
		if group, rest, ok := packet.SplitShare([]byte(s)); ok && "$share/"+string(group)+"/"+string(rest) != s {
			t.Errorf("SplitShare(%q) = %q, %q", s, group, rest)
		}
	})
}

// FuzzForwarded passes on what no decoder has checked.
func FuzzForwarded(f *testing.F) {
	f.Add([]byte(allForwarded + "\x02\x00\x00\x00\x09\x0b\xff\x7f"))
	f.Fuzz(func(t *testing.T, properties []byte) {
		once := packet.AppendForwarded(nil, properties)
		if twice := packet.AppendForwarded(nil, once); !bytes.Equal(once, twice) {
			t.Errorf("AppendForwarded(%x) = %x, and again %x", properties, once, twice)
		}
		if packet.UTF8Payload(properties) != packet.UTF8Payload(once) {
			t.Errorf("UTF8Payload differs for %x and %x", properties, once)
		}
	})
}
