package teltonika

import (
	"encoding/binary"

	"github.com/holter-iot/holter/gateway/codec"
)

// channelSize is the number of bytes before the IMEI of a packet in a datagram: length, packet id,
// a byte without meaning, and AVL id.
const channelSize = 6

// datagram is the codec for datagrams.
type datagram struct{}

// Next takes a packet. It is an error if its length says more than the datagram holds.
func (datagram) Next(input []byte, m *codec.Message) (int, error) {
	if len(input) == 0 {
		return 0, nil
	}
	if len(input) < channelSize {
		return 0, &codec.Error{Code: codec.BadMessage, Text: "the datagram is too short for a packet"}
	}
	n := 2 + int(binary.BigEndian.Uint16(input))
	if n < channelSize || n > len(input) {
		return 0, &codec.Error{Code: codec.BadMessage, Text: "the length of the packet is not that of the datagram"}
	}
	imei, _ := readIMEI(input[channelSize:n])
	if imei == nil {
		return 0, &codec.Error{Code: codec.BadID, Text: "the packet has no IMEI"}
	}
	data := input[channelSize+2+len(imei) : n]
	if len(data) < shortestFields {
		return 0, &codec.Error{Code: codec.BadMessage, Text: "the packet has no codec or no count of records"}
	}
	m.ID, m.Odd, m.Err = imei, oddIf(imei), nobody(imei)
	readData(data, m)
	if m.Note != 0 {
		m.Note |= uint64(binary.BigEndian.Uint16(input[2:]))<<16 | uint64(input[5])<<8
	}
	return n, nil
}

// Reply answers with the ids of the packet and the number of accepted records.
func (datagram) Reply(dst []byte, m *codec.Message, o *codec.Outcome) []byte {
	if m.Note == 0 {
		return dst
	}
	dst = append(dst, 0, 5, byte(m.Note>>24), byte(m.Note>>16), 1, byte(m.Note>>8))
	return append(dst, accepted(m, o))
}

// Goodbye appends nothing: there is no connection to end.
func (datagram) Goodbye(dst []byte, _ string, _ *codec.Error) []byte { return dst }
