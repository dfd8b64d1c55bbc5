package teltonika

import (
	"bytes"
	"encoding/binary"

	"github.com/holter-iot/holter/gateway/codec"
)

// Protocol is Teltonika's protocol. The zero Protocol is ready to use.
type Protocol struct{}

// Name returns "teltonika".
func (Protocol) Name() string { return "teltonika" }

// Sniff says Yes to a login, also behind keep-alives. It claims no packet without a login before
// it, as nobody could tell its device.
func (Protocol) Sniff(first []byte) codec.Guess {
	i := 0
	for i < len(first) && first[i] == keepAlive {
		i++
	}
	imei, ok := readIMEI(first[i:])
	switch {
	case !ok, imei == nil && len(first) >= mostSniffed:
		return codec.No
	case imei == nil:
		return codec.Maybe
	}
	return codec.Yes
}

// Codec returns a codec for a connection.
func (Protocol) Codec() codec.Codec { return &stream{} }

// PacketCodec returns the codec for datagrams. It has no state.
func (Protocol) PacketCodec() codec.Codec { return datagram{} }

// What was unusual and tolerated.
const (
	oddCount = "count"
	oddCRC   = "crc"
	oddEarly = "early"
	oddIMEI  = "imei"
)

const (
	keepAlive   = 0xff
	mostSniffed = 64 // bytes to recognise the protocol by

	// An IMEI has 15 digits. Older devices and those behind gateways of their own have others.
	imeiDigits     = 15
	fewestDigits   = 8
	mostDigits     = 17
	shortestFields = 3 // the bytes of data without records: codec and two counts
)

// The codecs that are not packets of records but what a device says to a command, and those of the
// client.
const (
	codec8      = 0x08
	codec12     = 0x0c
	codec15     = 0x0f
	typeCommand = 0x05
)

// answered marks the Note of a message whose answer carries a number of records, in the lowest
// byte.
const answered = 1 << 32

// readIMEI reads a login: two bytes with the number of digits, and the digits. It returns no IMEI
// while more is to come; ok is false if input is no login.
func readIMEI(input []byte) (imei []byte, ok bool) {
	if len(input) < 2 {
		return nil, len(input) == 0 || input[0] == 0
	}
	length := int(binary.BigEndian.Uint16(input))
	if length < fewestDigits || length > mostDigits {
		return nil, false
	}
	imei = input[2:min(len(input), 2+length)]
	for _, b := range imei {
		if b < '0' || b > '9' {
			return nil, false
		}
	}
	if len(imei) < length {
		return nil, true
	}
	return imei, true
}

// nobody returns the mistake of an IMEI that is no device's own: all that have it would be one device. nil for others.
func nobody(imei []byte) *codec.Error {
	if len(bytes.Trim(imei, "0")) > 0 {
		return nil
	}
	return &codec.Error{Code: codec.BadID, Text: "all digits of the IMEI are 0; give the device its own"}
}

// oddIf returns what is unusual about an IMEI; "" if nothing is.
func oddIf(imei []byte) string {
	if len(imei) != imeiDigits {
		return oddIMEI
	}
	return ""
}

// readData decodes the data of a packet: the codec, the number of records, the records, and their
// number again.
func readData(data []byte, m *codec.Message) {
	m.Kind = codec.Beat
	if isCommand(data[0]) {
		return
	}
	m.Note = answered | uint64(data[1])
	if data[1] != data[len(data)-1] {
		m.Odd = oddCount
	}
}

// isCommand reports whether a codec carries commands and what is said to them, which is not
// answered.
func isCommand(id byte) bool { return codec12 <= id && id <= codec15 }
