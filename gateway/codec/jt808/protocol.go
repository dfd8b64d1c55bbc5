package jt808

import "github.com/holter-iot/holter/gateway/codec"

// Protocol is JT/T 808. Its zero value is ready to use. It implements [codec.Protocol]; its codecs
// implement [codec.Prober] and [codec.Sender].
type Protocol struct {
	// TextFlag is the flag byte of the text messages that are sent to devices. Default: 0x04, show
	// it on the device's display. Trackers that take commands as text messages want 0x01, urgent.
	TextFlag byte
}

// Name implements [codec.Protocol].
func (Protocol) Name() string { return "jt808" }

// Sniff implements [codec.Protocol].
func (Protocol) Sniff(first []byte) codec.Guess {
	switch {
	case isFlag(first[0]):
		return codec.Yes
	case first[0] == '(':
		return sniffSentence(first)
	}
	return codec.No
}

// Codec implements [codec.Protocol].
func (p Protocol) Codec() codec.Codec {
	c := &conn{textFlag: 0x04}
	if p.TextFlag != 0 {
		c.textFlag = p.TextFlag
	}
	return c
}
