package jt808

import (
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

// The messages that are more than heartbeats to the gateway, or that it sends.
const (
	msgTerminalAnswer = 0x0001
	msgHeartbeat      = 0x0002
	msgLogout         = 0x0003
	msgTimeQuery      = 0x0004
	msgRegister       = 0x0100
	msgAuth           = 0x0102
	msgLocation       = 0x0200
	msgOtherLocations = 0x0210 // also the state of a battery
	msgOtherHeartbeat = 0x0506
	msgLocations      = 0x0704
	msgTransparent    = 0x0900 // data of what is connected to the device
	msgTimeZone       = 0x1007
	msgLock           = 0x5501 // a location of an electronic lock, with a serial number of one byte
	msgLockStored     = 0x5502 // the same, stored while there was no connection
	msgDeviceText     = 0x6006 // what a device says to a text message
	msgLockAnswer     = 0x4401
	msgPlatformAnswer = 0x8001
	msgTime           = 0x8004
	msgRegistered     = 0x8100
	msgSetParameters  = 0x8103
	msgQueryLocation  = 0x8201
	msgText           = 0x8300
)

// Results in answers of the platform.
const (
	succeeded   = 0
	failed      = 1
	malformed   = 2
	unsupported = 3
)

// Results in answers to a registration.
const (
	terminalTaken   = 3
	terminalUnknown = 4
)

// isOurs reports whether a message is one that only the gateway sends.
func isOurs(id uint16) bool {
	switch id {
	case msgLockAnswer, msgPlatformAnswer, msgTime, msgRegistered, msgSetParameters, msgQueryLocation, msgText:
		return true
	}
	return false
}

// isAnswer reports whether a device's message answers one of the platform's, so that it is not
// answered itself.
func isAnswer(id uint16) bool {
	switch id {
	case msgTerminalAnswer,
		0x0104, // parameters
		0x0107, // attributes
		0x0201, // location
		0x0302, // a question's answer
		0x0500, // vehicle control
		0x0608, // areas and routes
		0x0700, // driving records
		0x0802, // stored media
		0x0805: // pictures taken
		return true
	}
	return false
}

// isLock reports whether a message is one of an electronic lock.
func isLock(id uint16) bool { return id == msgLock || id == msgLockStored }

// isKnown reports whether the gateway handles a message as the device expects. Some devices send
// what is in the last line again and again until they are told so.
func isKnown(id uint16) bool {
	switch id {
	case msgHeartbeat, msgOtherHeartbeat, msgLogout, msgRegister, msgAuth, msgLocation, msgLocations, msgLock, msgLockStored,
		msgOtherLocations, msgTransparent, msgTimeZone, msgDeviceText:
		return true
	}
	return false
}

// Reply implements [codec.Codec].
func (c *conn) Reply(dst []byte, m *codec.Message, o *codec.Outcome) []byte {
	id, serial := uint16(m.Note>>16), uint16(m.Note)
	switch {
	case m.Note&sentence != 0:
		return appendSentence(dst, m.Text, o)
	case m.Kind == codec.None || isAnswer(id) || m.Note&unasked != 0:
		return dst
	case isLock(id):
		return c.lockAnswer(dst, id, result(m, id, o.Err))
	case m.Kind == codec.Register:
		return c.registered(dst, serial, o)
	case id == msgTimeQuery && o.Err == nil && m.Note&fragment == 0 && !o.Now.IsZero():
		return c.time(dst, o.Now)
	}
	return c.answer(dst, serial, id, result(m, id, o.Err))
}

// result returns the standard's result code for a message.
func result(m *codec.Message, id uint16, err *codec.Error) byte {
	switch {
	case err != nil && err.Code == codec.BadMessage:
		return malformed
	case err != nil:
		return failed
	case !isKnown(id), m.Kind == codec.Beat && (id == msgRegister || id == msgAuth): // a fragment of it
		return unsupported
	}
	return succeeded
}

// begin begins a message to the device.
func (c *conn) begin(dst []byte, id uint16, length int) writer {
	w := c.terminal.begin(dst, id, length, c.serial)
	c.serial++
	return w
}

// answer appends the general answer of a platform.
func (c *conn) answer(dst []byte, serial, id uint16, result byte) []byte {
	w := c.begin(dst, msgPlatformAnswer, 5)
	w.word(serial)
	w.word(id)
	w.byte(result)
	return w.end()
}

// lockAnswer appends the answer to a message of a lock. Its own serial number has one byte, which
// is always 1.
func (c *conn) lockAnswer(dst []byte, id uint16, result byte) []byte {
	w := c.terminal.begin(dst, msgLockAnswer, 3, 1)
	w.word(id)
	w.byte(result)
	return w.end()
}

// registered appends the answer to a registration. It has no result for a failure that is not the
// terminal's, which the general answer has. A gateway that wants no token gives none; the code is
// the id then, since a device may take an empty one for a failure.
func (c *conn) registered(dst []byte, serial uint16, o *codec.Outcome) []byte {
	code := o.Token
	if len(code) == 0 {
		code = c.id[:c.idSize]
	}
	if o.Err == nil && 3+len(code) <= maxBody {
		w := c.begin(dst, msgRegistered, 3+len(code))
		w.word(serial)
		w.byte(succeeded)
		w.bytes(code)
		return w.end()
	}
	result := byte(terminalUnknown)
	switch {
	case o.Err == nil, o.Err.Code == codec.Full, o.Err.Code == codec.Busy:
		return c.answer(dst, serial, msgRegister, failed)
	case o.Err.Code == codec.HelloAgain, o.Err.Code == codec.StaleEpoch, o.Err.Code == codec.Duplicate:
		result = terminalTaken
	}
	w := c.begin(dst, msgRegistered, 3)
	w.word(serial)
	w.byte(result)
	return w.end()
}

// time appends the answer to a query of the time, which is UTC, in BCD, from the year to the
// second.
func (c *conn) time(dst []byte, now time.Time) []byte {
	now = now.UTC()
	w := c.begin(dst, msgTime, 6)
	for _, v := range [...]int{now.Year() % 100, int(now.Month()), now.Day(), now.Hour(), now.Minute(), now.Second()} {
		w.byte(byte(v/10<<4 | v%10))
	}
	return w.end()
}

// Goodbye implements [codec.Codec]. The protocol has no such message.
func (*conn) Goodbye(dst []byte, _ string, _ *codec.Error) []byte { return dst }
