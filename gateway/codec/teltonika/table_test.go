package teltonika_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/holter-iot/holter/gateway/codec/internal/crc16"
	"github.com/holter-iot/holter/gateway/codec/internal/reference"
	"github.com/holter-iot/holter/gateway/codec/teltonika"
)

// TestTable holds the tables of messages in the reference against the codecs.
func TestTable(t *testing.T) { reference.Check(t, "teltonika", packets(), packetsOfDatagrams()) }

// packets returns a packet of each codec on a connection.
func packets() reference.Table {
	t := reference.Table{Title: "`teltonika` over TCP:", Codec: teltonika.Protocol{}.Codec, Before: []byte("\x00\x0f356307042441013"), Answer: hexadecimal}
	t.Messages = []reference.Message{
		{Name: "login", Known: true, Input: t.Before},
		{Name: "keep-alive `FF`", Known: true, Input: []byte{0xff}},
	}
	for id := range 1 << 8 {
		data := []byte{byte(id), 2, 0, 2}
		packet := append([]byte{0, 0, 0, 0, 0, 0, 0, 4}, data...)
		packet = binary.BigEndian.AppendUint32(packet, uint32(crc16.New(0xa001).Update(0, data)))
		t.Messages = append(t.Messages, codecMessage(id, packet))
	}
	return t
}

// packetsOfDatagrams returns a packet of each codec in a datagram.
func packetsOfDatagrams() reference.Table {
	t := reference.Table{Title: "`teltonika` over UDP:", Codec: teltonika.Protocol{}.PacketCodec, Answer: hexadecimal}
	for id := range 1 << 8 {
		packet := append([]byte("\x00\x19\xca\xfe\x01\x05\x00\x0f356307042441013"), byte(id), 2, 0, 2)
		t.Messages = append(t.Messages, codecMessage(id, packet))
	}
	return t
}

func codecMessage(id int, input []byte) reference.Message {
	name, known := map[int]string{
		0x08: "Codec 8", 0x8e: "Codec 8 Extended", 0x10: "Codec 16", 0x0c: "Codec 12", 0x0d: "Codec 13", 0x0e: "Codec 14", 0x0f: "Codec 15",
	}[id]
	if !known {
		name = fmt.Sprintf("codec %02X", id)
	}
	return reference.Message{Name: name + " with 2 records", Known: known, Input: input}
}

func hexadecimal(_ reference.Message, out []byte) string { return fmt.Sprintf("`% X`", out) }
