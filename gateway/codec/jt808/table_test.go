package jt808_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/holter-iot/holter/gateway/codec/internal/reference"
	"github.com/holter-iot/holter/gateway/codec/jt808"
)

// TestTable holds the table of messages in the reference against the codec.
func TestTable(t *testing.T) { reference.Check(t, "jt808", messages()) }

// messages returns each message of 2013 that a header can name.
func messages() reference.Table {
	t := reference.Table{Title: "`jt808`:", Codec: jt808.Protocol{}.Codec, Answer: answer}
	for id := range 1 << 16 {
		name, known := names()[id]
		attributes := 0
		if isLock(id) {
			attributes = 0x8000
		}
		t.Messages = append(t.Messages, reference.Message{
			Name: fmt.Sprintf("0x%04X %s", id, name), Known: known, Kind: id, Input: frameOf(id, attributes, "A"),
		})
	}
	for _, text := range []string{"(13912344329,1,001,BASE,2,TIME)", "(13912344329,1,001,ELOCK,3,529439)"} {
		t.Messages = append(t.Messages, reference.Message{Name: "`" + text + "`", Known: true, Input: []byte(text)})
	}
	t.Messages = append(t.Messages,
		reference.Message{Name: "0x5501 and 0x5502 without bit 15 of the attributes", Known: true, Input: frameOf(0x5501, 0, "A")},
		reference.Message{Name: "a fragment", Known: true, Input: frameOf(0x0801, 0x2000, "\x00\x02\x00\x01A")})
	return t
}

func isLock(id int) bool { return id == 0x5501 || id == 0x5502 }

// frameOf returns a frame of 2013.
func frameOf(id, attributes int, body string) []byte {
	content := binary.BigEndian.AppendUint16(nil, uint16(id))
	content = binary.BigEndian.AppendUint16(content, uint16(attributes|1))
	content = append(content, 0x01, 0x39, 0x12, 0x34, 0x43, 0x29, 0x00, 0x01)
	if isLock(id) {
		content = append(content[:10], 0x01)
	}
	content = append(content, body...)
	sum := byte(0)
	for _, b := range content {
		sum ^= b
	}
	content = bytes.ReplaceAll(append(content, sum), []byte{0x7d}, []byte{0x7d, 1})
	content = bytes.ReplaceAll(content, []byte{0x7e}, []byte{0x7d, 2})
	return append(append([]byte{0x7e}, content...), 0x7e)
}

// names are the names of messages, whether or not the codec knows them.
func names() map[int]string {
	return map[int]string{
		0x0001: "answer", 0x0002: "heartbeat", 0x0003: "log out", 0x0004: "query of the time", 0x0100: "register", 0x0102: "authenticate",
		0x0104: "parameters", 0x0107: "attributes", 0x0200: "location", 0x0201: "location that was asked for", 0x0210: "locations",
		0x0302: "answer to a question", 0x0500: "vehicle control", 0x0506: "heartbeat", 0x0608: "areas and routes", 0x0700: "driving records",
		0x0702: "driver", 0x0704: "locations", 0x0801: "picture", 0x0802: "stored media", 0x0805: "pictures taken", 0x0900: "data",
		0x1007: "time zone", 0x4401: "answer of a platform", 0x5501: "location of a lock", 0x5502: "stored location of a lock",
		0x6006: "text of the device", 0x8001: "answer of a platform", 0x8004: "time", 0x8100: "answer to a registration",
		0x8103: "parameters of a platform", 0x8201: "query of the location", 0x8300: "text of a platform",
	}
}

// answer shows the message of an answer and its result.
func answer(_ reference.Message, out []byte) string {
	if out[0] == '(' {
		return "`" + string(out) + "`"
	}
	out = bytes.ReplaceAll(out, []byte{0x7d, 2}, []byte{0x7e})
	out = bytes.ReplaceAll(out, []byte{0x7d, 1}, []byte{0x7d})
	id := binary.BigEndian.Uint16(out[1:])
	switch id {
	case 0x8001, 0x4401:
		return fmt.Sprintf("0x%04X, result %d", id, out[len(out)-3])
	case 0x8100:
		return "0x8100, result 0 and the token"
	}
	return fmt.Sprintf("0x%04X, the time", id)
}
