package teltonika

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holter-iot/holter/gateway/codec"
)

const (
	commandSize = 8 // the bytes of a command's data around its text
	maxCommand  = codec.MaxMessage - frameSize - commandSize
)

// Probe appends the command getver.
func (s *stream) Probe(dst []byte) []byte { return appendCommand(dst, []byte("getver")) }

// Send appends a command of Codec 12: the text of an SMS command, without login and password.
func (s *stream) Send(dst, payload []byte) ([]byte, error) { return send(dst, payload) }

// Send appends the same as on a connection, without the header of a datagram. The gateway sends it
// only to a device whose address is proven, which this protocol has no means for.
func (datagram) Send(dst, payload []byte) ([]byte, error) { return send(dst, payload) }

func send(dst, payload []byte) ([]byte, error) {
	switch {
	case len(payload) == 0:
		return dst, errors.New("teltonika: the command is empty")
	case len(payload) > maxCommand:
		text := fmt.Sprintf("teltonika: a command has at most %d bytes, not %d", maxCommand, len(payload))
		return dst, &codec.Error{Code: codec.TooLong, Text: text}
	}
	return appendCommand(dst, payload), nil
}

func appendCommand(dst, text []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(commandSize+len(text)))
	start := len(dst)
	dst = append(dst, codec12, 1, typeCommand)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(text)))
	dst = append(append(dst, text...), 1)
	return binary.BigEndian.AppendUint32(dst, uint32(checksum(dst[start:])))
}
