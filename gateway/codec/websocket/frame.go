package websocket

import (
	"encoding/binary"

	"github.com/holter-iot/holter/gateway/codec"
)

// The opcodes (RFC 6455, 5.2).
const (
	opContinuation = 0
	opText         = 1
	opBinary       = 2
	opClose        = 8
	opPing         = 9
	opPong         = 10

	final  = 0x80
	masked = 0x80
	// maxControl is the longest payload of a control frame (RFC 6455, 5.5).
	maxControl = 125
)

// The status codes of a close frame (RFC 6455, 7.4.1).
const (
	statusNormal      = 1000
	statusProtocol    = 1002
	statusUnsupported = 1003
)

// frame is the head of a frame.
type frame struct {
	op     byte
	fin    bool
	size   uint64
	mask   [4]byte
	offset int // of the payload that was taken, in the mask
}

// parseFrame returns the head that input begins with, and its length; 0 if it is not complete.
func (c *conn) parseFrame(input []byte) (f frame, n int, err error) {
	if len(input) < 2 {
		return frame{}, 0, nil
	}
	f.op, f.fin, f.size = input[0]&15, input[0]&final != 0, uint64(input[1]&^masked)
	n = 2
	switch f.size {
	case 126:
		n = 4
	case 127:
		n = 10
	}
	if err := c.checkFrame(f, input); err != nil {
		return frame{}, 0, err
	}
	if len(input) < n+len(f.mask) {
		return frame{}, 0, nil
	}
	switch n {
	case 4:
		f.size = uint64(binary.BigEndian.Uint16(input[2:]))
	case 10:
		f.size = binary.BigEndian.Uint64(input[2:])
	}
	copy(f.mask[:], input[n:])
	if f.size>>63 != 0 {
		return frame{}, 0, c.breaks(statusProtocol, "the length of a frame is negative (RFC 6455, 5.2)")
	}
	return f, n + len(f.mask), nil
}

// checkFrame returns what is wrong with the first two bytes of a frame.
func (c *conn) checkFrame(f frame, input []byte) error {
	control := f.op >= opClose
	switch {
	case input[0]&0x70 != 0:
		return c.breaks(statusProtocol, "a frame uses an extension, and none was agreed on (RFC 6455, 5.2)")
	case input[1]&masked == 0:
		return c.breaks(statusProtocol, "a frame of a client is not masked (RFC 6455, 5.1)")
	case f.op == opText:
		return c.breaks(statusUnsupported, "a text message; send binary ones (MQTT 5, 6.0)")
	case f.op > opPong || f.op > opBinary && !control:
		return c.breaks(statusProtocol, "an unknown kind of frame (RFC 6455, 5.2)")
	case control && (!f.fin || f.size > maxControl):
		return c.breaks(statusProtocol, "a control frame is too long, or in parts (RFC 6455, 5.5)")
	case !control && (f.op == opContinuation) != c.inMessage:
		return c.breaks(statusProtocol, "the parts of a message are mixed up (RFC 6455, 5.4)")
	}
	return nil
}

// breaks returns the error for what breaks the protocol, and keeps the status for the last frame.
func (c *conn) breaks(status int, text string) error {
	c.status = status
	return &codec.Error{Code: codec.BadMessage, Text: text}
}

// unmask appends payload to dst without its mask.
func (f *frame) unmask(dst, payload []byte) []byte {
	for i, b := range payload {
		dst = append(dst, b^f.mask[(f.offset+i)&3])
	}
	return dst
}

// takeBytes notes that n bytes of the payload were taken.
func (f *frame) takeBytes(n int) {
	f.size -= uint64(n)
	f.offset = (f.offset + n) & 3
}

// appendHead appends the head of a frame of the server's, which is not masked.
func appendHead(dst []byte, op byte, size int) []byte {
	dst = append(dst, final|op)
	switch {
	case size < 126:
		return append(dst, byte(size))
	case size < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, 126), uint16(size))
	}
	return binary.BigEndian.AppendUint64(append(dst, 127), uint64(size))
}

// wrap makes what stands in out from begin on the payload of a binary message.
func wrap(out []byte, begin int) []byte {
	size := len(out) - begin
	if size == 0 {
		return out
	}
	var room [10]byte
	head := appendHead(room[:0], opBinary, size)
	out = append(out, head...)
	copy(out[begin+len(head):], out[begin:begin+size])
	copy(out[begin:], head)
	return out
}

// appendClose appends a close frame.
func appendClose(dst []byte, status int) []byte {
	return binary.BigEndian.AppendUint16(appendHead(dst, opClose, 2), uint16(status))
}
