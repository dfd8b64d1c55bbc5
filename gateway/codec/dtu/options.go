package dtu

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/holter-iot/holter/gateway/codec"
)

// Mode is when a DTU sends its registration.
type Mode string

// The modes.
const (
	Once   Mode = "once"   // when the connection begins
	Prefix Mode = "prefix" // in front of each packet, whether or not when the connection begins
)

// Options describe the settings of a DTU.
type Options struct {
	// Registration is a regular expression (https://golang.org/s/re2syntax) for the registration
	// packet, whose group, if it has one, is the device's id. It is held against the beginning of
	// the input. A device may put IMEI: before it, which is no part of the id unless the expression
	// asks for it, and which an expression with ^ forbids. Required.
	Registration string
	// Hex holds the expression against the bytes in hexadecimal, two digits each, whose case does
	// not matter. The id then has small letters. It is for registrations that are no text. Default:
	// against the bytes as UTF-8.
	Hex bool
	// Mode says when the registration is sent. Default: [Once].
	Mode Mode
	// Heartbeat is the network heartbeat packet, 128 bytes at most. It only makes the count of
	// messages right: whatever a device sends is a heartbeat. Default: none.
	Heartbeat []byte
	// Poll is sent to ask the machine behind the DTU for a sign of life, 1024 bytes at most.
	// Default: it cannot be asked.
	Poll []byte
}

const (
	maxRegistration = 128
	maxHeartbeat    = 128
	maxPoll         = 1024
)

// New returns the protocol of DTUs with these settings. Its errors name the option and say what to
// do.
func New(o Options) (*Protocol, error) {
	if o.Mode == "" {
		o.Mode = Once
	}
	expression, err := compile(o)
	errs := []error{err}
	if o.Mode != Once && o.Mode != Prefix {
		errs = append(errs, fmt.Errorf("dtu: Mode is %q, want %q or %q", o.Mode, Once, Prefix))
	}
	if len(o.Heartbeat) > maxHeartbeat {
		errs = append(errs, fmt.Errorf("dtu: Heartbeat has %d bytes, want at most %d", len(o.Heartbeat), maxHeartbeat))
	}
	if len(o.Poll) > maxPoll {
		errs = append(errs, fmt.Errorf("dtu: Poll has %d bytes, want at most %d", len(o.Poll), maxPoll))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Protocol{
		expression: expression,
		hex:        o.Hex,
		prefix:     o.Mode == Prefix,
		heartbeat:  string(o.Heartbeat),
		poll:       string(o.Poll),
		unknown: &codec.Error{
			Code: codec.NotSpoken,
			Text: fmt.Sprintf("the connection does not begin with a registration packet; it has to match %q", o.Registration),
		},
	}, nil
}

// What may stand before the registration, and in hexadecimal. It is tried first, so that an
// expression such as \w+ does not take it for the id, but one that asks for it finds it.
const (
	marker    = `(?i:imei:)?`
	markerHex = `(?:494d45493a|696d65693a)?`
)

// compile returns the expression, anchored at the beginning. Its first group is the registration
// without the marker; the second is the id, if the expression has a group for that.
func compile(o Options) (*regexp.Regexp, error) {
	if o.Registration == "" {
		return nil, errors.New(`dtu: Registration is empty; write a regular expression for the registration packet, for instance \d{15}`)
	}
	tree, err := syntax.Parse(o.Registration, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("dtu: Registration: %w", err)
	}
	switch {
	case tree.MaxCap() > 1:
		return nil, fmt.Errorf("dtu: Registration has %d groups, want one for the id; write (?:…) for the others", tree.MaxCap())
	case endsText(tree):
		return nil, errors.New("dtu: Registration contains $; leave it out: other bytes follow the registration, or it says itself where it ends")
	}
	before := `\A` + marker
	if o.Hex {
		before = `(?i)\A` + markerHex
	}
	expression, err := regexp.Compile(before + `(` + o.Registration + `)`)
	if err != nil {
		return nil, fmt.Errorf("dtu: Registration: %w", err)
	}
	if expression.MatchString("") {
		return nil, errors.New("dtu: Registration also matches nothing at all; an id needs a byte at least")
	}
	return expression, nil
}

// endsText reports whether an expression asks for the end of the input.
func endsText(tree *syntax.Regexp) bool {
	return tree.Op == syntax.OpEndText || tree.Op == syntax.OpEndLine || slices.ContainsFunc(tree.Sub, endsText)
}
