package teltonika

import (
	"encoding/binary"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

// Client is the device's side over TCP. Ids are 8 to 17 digits.
type Client struct{}

// AppendHello appends the login with the IMEI id. The protocol carries neither a token nor a
// timeout.
func (Client) AppendHello(dst []byte, id, _ string, _ time.Duration) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(id)))
	return append(dst, id...)
}

// AppendBeat appends a packet of Codec 8 with one record, the shortest there is: 45 bytes. Its time
// is seq seconds into the year 2024, its position is unknown.
func (Client) AppendBeat(dst []byte, _ string, seq uint32) []byte {
	const (
		recordSize = 30             // time, priority, position, and six counts of values, all 0
		start      = 1704067200_000 // 2024-01-01T00:00:00Z in milliseconds
	)
	dst = binary.BigEndian.AppendUint64(dst, shortestFields+recordSize)
	data := len(dst)
	dst = append(dst, codec8, 1)
	dst = binary.BigEndian.AppendUint64(dst, start+uint64(seq)*1000)
	dst = append(dst, make([]byte, recordSize-8)...)
	dst = append(dst, 1)
	return binary.BigEndian.AppendUint32(dst, uint32(checksum(dst[data:])))
}

// AppendSleep appends nothing: the protocol has no such message.
func (Client) AppendSleep(dst []byte, _ string, _ time.Duration) []byte { return dst }

// AppendBye appends nothing: the protocol has no such message.
func (Client) AppendBye(dst []byte, _ string) []byte { return dst }

// Window returns 1: an answer carries the number of records only.
func (Client) Window() uint64 { return 1 }

// Next takes an answer. A login that is refused is answered by a single zero, which cannot be told
// from the beginning of another answer; the end of the connection tells.
func (Client) Next(input []byte) (codec.Answer, int) {
	switch {
	case len(input) == 0:
		return codec.Answer{}, 0
	case input[0] == 1:
		return codec.Answer{Kind: codec.Welcome}, 1
	case input[0] != 0:
		return codec.Answer{Kind: codec.Garbage}, 1
	case len(input) < 4:
		return codec.Answer{}, 0
	case binary.BigEndian.Uint32(input) != 0:
		return codec.Answer{Kind: codec.Heard}, 4
	}
	return nextCommand(input)
}

// nextCommand takes what begins with four zeros: a command, or the answer that no record was
// accepted, which the byte where a command has its codec tells apart.
func nextCommand(input []byte) (codec.Answer, int) {
	if len(input) < 9 {
		return codec.Answer{}, 0
	}
	length := binary.BigEndian.Uint32(input[4:])
	if !isCommand(input[8]) || length > codec.MaxMessage-frameSize {
		return codec.Answer{Kind: codec.Refused}, 4
	}
	if n := frameSize + int(length); len(input) >= n {
		return codec.Answer{Kind: codec.Noted}, n
	}
	return codec.Answer{}, 0
}
