package jt808

import (
	"errors"
	"fmt"

	"github.com/holter-iot/holter/gateway/codec"
)

// errUnknownPhone is returned by Send before the first message of the device: the gateway cannot
// address it.
var errUnknownPhone = errors.New("jt808: the device has not said its phone number yet; send when its session is open")

// Probe implements [codec.Prober]: it asks where the device is (0x8201). Before the first message
// of the device it appends nothing, as the device cannot be addressed.
func (c *conn) Probe(dst []byte) []byte {
	if !c.known {
		return dst
	}
	w := c.begin(dst, msgQueryLocation, 0)
	return w.end()
}

// Send implements [codec.Sender]: payload becomes a text message (0x8300), with the text flag of
// the Protocol and, for devices of 2019, the text type 1 (a notice). The bytes are passed on as
// they are; devices expect GBK, which ASCII is a part of. It returns an error if payload is empty
// or longer than a message (1022 bytes, 1021 for devices of 2019), or before the first message of
// the device.
func (c *conn) Send(dst, payload []byte) ([]byte, error) {
	if !c.known {
		return dst, errUnknownPhone
	}
	head := 1
	if c.of2019 {
		head = 2
	}
	switch most := maxBody - head; {
	case len(payload) == 0:
		return dst, errors.New("jt808: the text message is empty")
	case len(payload) > most:
		return dst, &codec.Error{Code: codec.TooLong, Text: fmt.Sprintf("jt808: a text message has at most %d bytes, not %d", most, len(payload))}
	}
	w := c.begin(dst, msgText, head+len(payload))
	w.byte(c.textFlag)
	if c.of2019 {
		w.byte(1)
	}
	w.bytes(payload)
	return w.end(), nil
}
