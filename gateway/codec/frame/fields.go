package frame

import (
	"encoding/binary"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

// The numbers of fields.
const (
	fieldID       = 1
	fieldToken    = 2
	fieldTTL      = 3
	fieldInterval = 4
	fieldEpoch    = 5
)

// parseFields reads the fields of a hello or a challenge.
func parseFields(body []byte, m *codec.Message) *codec.Error {
	for len(body) > 0 {
		if len(body) < 2 || len(body) < 2+int(body[1]) {
			return &codec.Error{Code: codec.BadHello, Text: "the last field is cut off; a field is a number, a length and that many bytes"}
		}
		number, value := body[0], body[2:2+int(body[1])]
		body = body[2+len(value):]
		switch number {
		case fieldID:
			m.ID = value
		case fieldToken:
			m.Token = value
		case fieldTTL, fieldInterval:
			if len(value) != 4 {
				return &codec.Error{Code: codec.BadTTL, Text: "ttl and interval (fields 3 and 4) have 4 bytes each: milliseconds, the highest byte first"}
			}
			if number == fieldTTL {
				m.Timeout = duration(value)
			} else {
				m.Interval = duration(value)
			}
		case fieldEpoch:
			if len(value) != 8 || value[0] >= 0x80 { // the half above is left to number on
				return &codec.Error{Code: codec.BadEpoch, Text: "the epoch (field 5) has 8 bytes, the highest first and less than 0x80"}
			}
			m.Epoch = binary.BigEndian.Uint64(value)
		}
	}
	if len(m.ID) == 0 {
		return &codec.Error{Code: codec.BadHello, Text: "there is no id; send it as field 1"}
	}
	return nil
}

// appendTime appends a field unless its value is 0.
func appendTime(dst []byte, number byte, d time.Duration) []byte {
	if d == 0 {
		return dst
	}
	return binary.BigEndian.AppendUint32(append(dst, number, 4), millis(d))
}

// appendEpoch appends a field.
func appendEpoch(dst []byte, epoch uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, fieldEpoch, 8), epoch)
}

// appendText appends a field, cut to what fits into one.
func appendText(dst []byte, number byte, value string) []byte {
	value = value[:min(len(value), 255)]
	return append(append(dst, number, byte(len(value))), value...)
}
