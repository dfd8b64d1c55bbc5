package plan

import (
	"fmt"
	"strings"
)

// Kinds lists all kinds, in their order.
func Kinds() []Kind {
	kinds := make([]Kind, 0, Signal)
	for k := Bye; k <= Signal; k++ {
		kinds = append(kinds, k)
	}
	return kinds
}

// String returns the word for a kind, as scenario files have it.
func (k Kind) String() string {
	switch k {
	case Bye:
		return "bye"
	case Close:
		return "close"
	case Reset:
		return "reset"
	case Silent:
		return "silent"
	case Crash:
		return "crash"
	case Stall:
		return "stall"
	case Duplicate:
		return "duplicate"
	case Sleep:
		return "sleep"
	case Move:
		return "move"
	case Reconnect:
		return "reconnect"
	case Signal:
		return "signal"
	default:
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
}

// ParseKind is the inverse of [Kind.String]. It allows upper case.
func ParseKind(text string) (Kind, error) {
	words := make([]string, 0, Signal)
	for _, k := range Kinds() {
		if strings.EqualFold(text, k.String()) {
			return k, nil
		}
		words = append(words, k.String())
	}
	return 0, fmt.Errorf("%q is not something that a device does; known are: %s", text, strings.Join(words, ", "))
}

// MarshalText implements [encoding.TextMarshaler].
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (k *Kind) UnmarshalText(text []byte) error {
	kind, err := ParseKind(string(text))
	if err != nil {
		return err
	}
	*k = kind
	return nil
}

// Returns reports whether a device is back at once if [Act.Back] is 0, which for other kinds means
// that it is gone for good. A device that does [Reconnect] then waits for its back-off, as after
// any lost connection.
func (k Kind) Returns() bool { return k == Duplicate || k == Move || k == Reconnect }
