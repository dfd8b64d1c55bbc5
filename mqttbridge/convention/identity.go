package convention

import (
	"encoding/hex"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Identity is what Home Assistant knows a device by: an identifier of its MQTT integration or, with a Kind, a connection, which all of its
// integrations share. It merges devices that have one in common. The zero value is none.
type Identity struct {
	Kind  string // of a connection, such as "mac"; "" for an identifier
	Value string
}

// errIdentity is returned by Identity.Check.
var errIdentity = errors.New("convention: want 1 to 255 bytes of UTF-8 without control characters")

// Check returns an error for an identity that is none, or that is too long or unreadable.
func (i Identity) Check() error {
	const most = 255
	if i.Value == "" || len(i.Kind) > most || len(i.Value) > most {
		return errIdentity
	}
	for _, text := range []string{i.Kind, i.Value} {
		if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
			return errIdentity
		}
	}
	return nil
}

// MAC returns the identity of a device with a network address of 12 hexadecimal digits. ok is false for any other text.
func MAC(digits string) (id Identity, ok bool) {
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != 6 {
		return Identity{}, false
	}
	parts := make([]string, len(raw))
	for i := range raw {
		parts[i] = hex.EncodeToString(raw[i : i+1])
	}
	return Identity{Kind: "mac", Value: strings.Join(parts, ":")}, true
}

// Namer is a convention that can tell by a topic alone which device its messages are about.
type Namer interface {
	// DeviceOf returns the device that messages on a topic are about. ok is false if the topic names none. It is called by the goroutine
	// that calls Apply.
	DeviceOf(topic string) (id string, ok bool)
}

// Describer is a convention of devices that describe themselves to integrations of Home Assistant.
type Describer interface {
	// Described returns the device that the latest message on a topic describes, and what Home Assistant knows it by, if there is one. ok
	// is false for topics that are not for descriptions. It is called by the goroutine that calls Apply, after it.
	Described(topic string) (device string, id Identity, ok bool)
}
