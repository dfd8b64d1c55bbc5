package gt06

import (
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

// Client is the device's side. Ids are IMEIs of 15 digits; of other ids the last 15 digits are
// used, behind zeros.
type Client struct{}

// AppendHello appends a login. The protocol carries neither a token nor a timeout.
func (Client) AppendHello(dst []byte, id, _ string, _ time.Duration) []byte {
	var bcd [8]byte
	for at, i := 2*len(bcd)-1, len(id)-1; at > 0 && i >= 0; i-- {
		if digit := id[i] - '0'; digit <= 9 {
			bcd[at/2] |= digit << (4 * ((at + 1) % 2))
			at--
		}
	}
	return appendFrame(dst, frame{start: startShort, kind: typeLogin, content: bcd[:], serial: 1})
}

// AppendBeat appends a heartbeat of 15 bytes: position found, ignition and charger on, battery
// full, strong signal. Its serial number is the lower half of seq.
func (Client) AppendBeat(dst []byte, _ string, seq uint32) []byte {
	content := [...]byte{0x46, 6, 4, 0, 2}
	return appendFrame(dst, frame{start: startShort, kind: typeStatus, content: content[:], serial: uint16(seq)})
}

// AppendSleep appends nothing: the protocol has no such message.
func (Client) AppendSleep(dst []byte, _ string, _ time.Duration) []byte { return dst }

// AppendBye appends nothing: the protocol has no such message.
func (Client) AppendBye(dst []byte, _ string) []byte { return dst }

// Window returns 1<<16: an answer carries the serial number.
func (Client) Window() uint64 { return 1 << 16 }

// Next takes an answer or a command.
func (Client) Next(input []byte) (codec.Answer, int) {
	f, n, _ := cut(input, checked)
	switch {
	case n == 0:
		return codec.Answer{}, 0
	case f.kind == 0:
		return codec.Answer{Kind: codec.Garbage}, n
	case f.kind == typeLogin:
		return codec.Answer{Kind: codec.Welcome}, n
	case f.kind == typeStatus:
		return codec.Answer{Kind: codec.Heard, Seq: uint32(f.serial)}, n
	}
	return codec.Answer{Kind: codec.Noted}, n
}
