package frame

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

// MaxBody is the longest body of a frame, in bytes.
const MaxBody = 4096

const (
	magic   = 0xa5
	version = 1
	header  = 4 // bytes before the body
)

// The types of frames.
const (
	typeHello     = 1
	typeBeat      = 2
	typePace      = 3
	typeSleep     = 4
	typeFail      = 5
	typeBye       = 6
	typeChallenge = 7
	typeProof     = 8
	typeData      = 9
	typeProbe     = 10
	typeMessage   = 11
	typeError     = 15
)

// split cuts the first frame off input. It returns n = 0 if the frame is not complete.
func split(input []byte) (kind byte, body []byte, n int, err error) {
	if len(input) > 0 && input[0] != magic {
		return 0, nil, 0, &codec.Error{
			Code: codec.BadMessage,
			Text: fmt.Sprintf("a frame begins with 0x%02x, want 0xa5; is the length of the frame before it right?", input[0]),
		}
	}
	if len(input) > 1 && input[1]>>4 != version {
		return 0, nil, 0, &codec.Error{
			Code: codec.NotSpoken,
			Text: fmt.Sprintf("version %d of the frame protocol is not spoken here; speak version 1", input[1]>>4),
		}
	}
	if len(input) < header {
		return 0, nil, 0, nil
	}
	length := int(binary.BigEndian.Uint16(input[2:]))
	if length > MaxBody {
		return 0, nil, 0, &codec.Error{
			Code: codec.TooLong,
			Text: fmt.Sprintf("a frame announces a body of %d bytes; want at most %d", length, MaxBody),
		}
	}
	if n = header + length; len(input) < n {
		return 0, nil, 0, nil
	}
	return input[1] & 15, input[header:n], n, nil
}

// appendHeader appends what stands before a body of length bytes.
func appendHeader(dst []byte, kind byte, length int) []byte {
	dst = append(dst, magic, version<<4|kind)
	return binary.BigEndian.AppendUint16(dst, uint16(length))
}

// appendNumbers appends a frame whose body is numbers.
func appendNumbers(dst []byte, kind byte, numbers ...uint32) []byte {
	dst = appendHeader(dst, kind, 4*len(numbers))
	for _, n := range numbers {
		dst = binary.BigEndian.AppendUint32(dst, n)
	}
	return dst
}

// appendBytes appends a frame whose body is bytes, at most MaxBody of them.
func appendBytes[B []byte | string](dst []byte, kind byte, body B) []byte {
	return append(appendHeader(dst, kind, len(body)), body...)
}

// millis is a time as it is sent: not shorter than it is, but for what does not fit.
func millis(d time.Duration) uint32 {
	ms := (max(d, 0) + time.Millisecond - 1) / time.Millisecond
	if d > math.MaxInt64-time.Millisecond {
		ms = d / time.Millisecond
	}
	return uint32(min(ms, math.MaxUint32))
}

// duration is a time as it was received.
func duration(b []byte) time.Duration {
	return time.Duration(binary.BigEndian.Uint32(b)) * time.Millisecond
}
