package gt06_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/holter-iot/holter/gateway/codec/gt06"
	"github.com/holter-iot/holter/gateway/codec/internal/crc16"
	"github.com/holter-iot/holter/gateway/codec/internal/reference"
)

// TestTable holds the tables of messages in the reference against the codec.
func TestTable(t *testing.T) { reference.Check(t, "gt06", checkedFrames(), bareTypes()) }

// checkedFrames returns each type of frame.
func checkedFrames() reference.Table {
	t := reference.Table{Title: "`gt06`, by types:", Codec: gt06.Protocol{}.Codec, Before: frameOf(1), Answer: answer}
	for kind := range 1 << 8 {
		t.Messages = append(t.Messages, messageOf(kind, frameOf(kind)))
	}
	return t
}

// bareTypes returns each type of frame of a tracker without serial numbers and checksums.
func bareTypes() reference.Table {
	t := reference.Table{Title: "`gt06` on a lenient port, from trackers without serial numbers and checksums:", Codec: gt06.Protocol{Lenient: true}.Codec}
	t.Before = []byte("\x78\x78\x0d\x01\x03\x59\x33\x90\x75\x00\x52\x44\x34\r\n")
	t.Answer = func(_ reference.Message, out []byte) string {
		if out[2] == 0 {
			return "`7878 00`, the same type, the time of the frame, `0D0A`"
		}
		return "`7878 01`, the same type, `0D0A`"
	}
	for kind := range 1 << 8 {
		frame := append([]byte{0x78, 0x78, 0x0d, byte(kind)}, "\x03\x59\x33\x90\x75\x00\x52\x44\x34\r\n"...)
		t.Messages = append(t.Messages, messageOf(kind, frame))
	}
	return t
}

func messageOf(kind int, input []byte) reference.Message {
	name, known := map[int]string{
		0x01: "login", 0x13: "heartbeat", 0x23: "heartbeat", 0x36: "heartbeat", 0x15: "what it says to a command",
		0x21: "what it says to a command", 0x2a: "request of an address", 0x70: "list of modules", 0x8a: "query of the time", 0x94: "state",
		0x9b: "serial line",
	}[kind]
	return reference.Message{Name: strings.TrimSpace(fmt.Sprintf("%02X %s", kind, name)), Known: known, Kind: kind, Input: input}
}

// frameOf returns a frame with a content that fits a login.
func frameOf(kind int) []byte {
	frame := append([]byte{0x78, 0x78, 13, byte(kind)}, "\x08\x64\x71\x70\x03\x28\x35\x81\x00\x09"...)
	frame = binary.BigEndian.AppendUint16(frame, ^crc16.New(0x8408).Update(0xffff, frame[2:]))
	return append(frame, '\r', '\n')
}

// answer shows the type and the content of an answer.
func answer(_ reference.Message, out []byte) string {
	if out[0] == 0x79 {
		return fmt.Sprintf("type %02X: `%s`", out[4], out[10:len(out)-6])
	}
	if len(out) > 10 {
		return "the same type, the time"
	}
	return "the same type"
}
