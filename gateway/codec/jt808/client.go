package jt808

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

// Client is a device. Its zero value is ready to use, and it is safe for concurrent use. It
// implements [codec.Client].
//
// The id of a device is its phone number. A number has digits only, of which the last 20 are sent
// (12 before 2019); other characters are left out, and zeros on the left do not count. So ids
// should be such numbers: another one is sent, and comes back, as another one.
type Client struct {
	// Old speaks the protocol as it was before 2019.
	Old bool
}

// AppendHello implements [codec.Client]: it authenticates with token, of which a device of 2019
// sends the first 255 bytes. The protocol has no word for a timeout.
func (c Client) AppendHello(dst []byte, id, token string, _ time.Duration) []byte {
	t := c.terminal(id)
	if c.Old {
		w := t.begin(dst, msgAuth, min(len(token), maxBody), 0)
		w.text(token, maxBody)
		return w.end()
	}
	const imei, firmware = 15, 20
	size := min(len(token), 255)
	w := t.begin(dst, msgAuth, 1+size+imei+firmware, 0)
	w.byte(byte(size))
	w.text(token, size)
	for range imei + firmware {
		w.byte(0)
	}
	return w.end()
}

// AppendBeat implements [codec.Client]: a heartbeat whose serial number is the low half of seq.
func (c Client) AppendBeat(dst []byte, id string, seq uint32) []byte {
	t := c.terminal(id)
	w := t.begin(dst, msgHeartbeat, 0, uint16(seq))
	return w.end()
}

// AppendSleep implements [codec.Client]. The protocol has no such message.
func (Client) AppendSleep(dst []byte, _ string, _ time.Duration) []byte { return dst }

// AppendBye implements [codec.Client]: it logs out.
func (c Client) AppendBye(dst []byte, id string) []byte {
	t := c.terminal(id)
	w := t.begin(dst, msgLogout, 0, 0)
	return w.end()
}

// Window implements [codec.Client]: 65536.
func (Client) Window() uint64 { return 1 << 16 }

// Next implements [codec.Client].
func (Client) Next(input []byte) (codec.Answer, int) {
	if len(input) == 0 {
		return codec.Answer{}, 0
	}
	if input[0] != flag {
		if n := bytes.IndexByte(input, flag); n > 0 {
			return codec.Answer{}, n
		}
		return codec.Answer{}, len(input)
	}
	size := bytes.IndexByte(input[1:], flag)
	switch {
	case size < 0 && len(input) >= maxFrame:
		return codec.Answer{}, len(input)
	case size < 0:
		return codec.Answer{}, 0
	case size == 0:
		return codec.Answer{}, 1
	}
	a := answer(input[1 : 1+size])
	if a.Kind == codec.Garbage {
		return a, 1 + size // the second flag may be the beginning of a frame
	}
	return a, 1 + size + 1
}

// answer decodes the content between two flags.
func answer(raw []byte) codec.Answer {
	var text content
	var h header
	text.read(raw, flag)
	if _, ok := h.parse(&text); !ok {
		return codec.Answer{}
	}
	body := plain(raw, flag)[h.size:][:h.body]
	switch {
	case h.id == msgPlatformAnswer && len(body) >= 5:
		return platformAnswer(body)
	case h.id == msgRegistered && len(body) >= 3 && body[2] != succeeded:
		return codec.Answer{Kind: codec.Refused}
	}
	return codec.Answer{Kind: codec.Noted}
}

// platformAnswer decodes the body of a general answer.
func platformAnswer(body []byte) codec.Answer {
	serial, id, result := binary.BigEndian.Uint16(body), binary.BigEndian.Uint16(body[2:]), body[4]
	switch {
	case result != succeeded && result != unsupported:
		return codec.Answer{Kind: codec.Refused}
	case id == msgAuth:
		return codec.Answer{Kind: codec.Welcome}
	case id == msgHeartbeat:
		return codec.Answer{Kind: codec.Heard, Seq: uint32(serial)}
	case id == msgLogout:
		return codec.Answer{Kind: codec.Farewell}
	}
	return codec.Answer{Kind: codec.Noted}
}

// terminal returns the device id of a header.
func (c Client) terminal(id string) terminal {
	t := terminal{version: 1, of2019: !c.Old, flag: flag}
	number := t.number()
	place := 2*len(number) - 1
	for i := len(id) - 1; i >= 0 && place >= 0; i-- {
		if digit := id[i] - '0'; digit <= 9 {
			number[place/2] |= digit << (4 * (1 - place%2))
			place--
		}
	}
	return t
}
