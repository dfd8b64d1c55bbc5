package teltonika

import (
	"encoding/binary"
	"fmt"

	"github.com/holter-iot/holter/gateway/codec"
)

// frameSize is the number of bytes of a packet around its data: four zeros, length and checksum.
const frameSize = 12

// stream is the codec of a connection.
type stream struct {
	open bool // a login was accepted
}

// Next takes a login, a packet or a keep-alive.
func (s *stream) Next(input []byte, m *codec.Message) (int, error) {
	switch {
	case len(input) == 0:
		return 0, nil
	case input[0] == keepAlive:
		if s.open {
			m.Kind = codec.Beat
		} else {
			m.Odd = oddEarly
		}
		return 1, nil
	case len(input) > 1 && input[0] == 0 && input[1] == 0:
		return nextPacket(input, m)
	}
	imei, ok := readIMEI(input)
	switch {
	case !ok:
		return 0, &codec.Error{Code: codec.BadMessage, Text: "neither a login nor a packet nor a keep-alive begins like this"}
	case imei == nil:
		return 0, nil
	}
	m.Kind, m.ID, m.Odd, m.Err = codec.Hello, imei, oddIf(imei), nobody(imei)
	return 2 + len(imei), nil
}

func nextPacket(input []byte, m *codec.Message) (int, error) {
	for _, b := range input[:min(len(input), 4)] {
		if b != 0 {
			return 0, &codec.Error{Code: codec.BadMessage, Text: "a packet begins with four zeros"}
		}
	}
	if len(input) < 8 {
		return 0, nil
	}
	length := binary.BigEndian.Uint32(input[4:])
	switch {
	case length < shortestFields:
		return 0, &codec.Error{Code: codec.BadMessage, Text: "the length of a packet is too small for a codec and two counts"}
	case length > codec.MaxMessage-frameSize:
		return 0, &codec.Error{Code: codec.TooLong, Text: fmt.Sprintf("a packet has at most %d bytes of data", codec.MaxMessage-frameSize)}
	}
	n := frameSize + int(length)
	if len(input) < n {
		return 0, nil
	}
	data := input[8 : n-4]
	if binary.BigEndian.Uint32(input[n-4:]) == uint32(checksum(data)) {
		readData(data, m)
		return n, nil
	}
	m.Odd = oddCRC
	if !isCommand(data[0]) {
		m.Note = answered
	}
	return n, nil
}

// Reply answers a login with 01 or 00 and a packet with the number of accepted records.
func (s *stream) Reply(dst []byte, m *codec.Message, o *codec.Outcome) []byte {
	switch {
	case m.Kind == codec.Hello && o.Err == nil:
		s.open = true
		return append(dst, 1)
	case m.Kind == codec.Hello:
		return append(dst, 0)
	case m.Note == 0:
		return dst
	}
	return binary.BigEndian.AppendUint32(dst, uint32(accepted(m, o)))
}

// accepted returns the number of records of a packet that the device need not send again.
func accepted(m *codec.Message, o *codec.Outcome) byte {
	if o.Err != nil {
		return 0
	}
	return byte(m.Note)
}

// Goodbye appends nothing: the protocol has no such message.
func (s *stream) Goodbye(dst []byte, _ string, _ *codec.Error) []byte { return dst }
