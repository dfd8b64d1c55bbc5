package liveness

import (
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// MaxID is the length of the longest device id, in bytes.
const MaxID = 128

// ErrInvalidID is wrapped by what [ValidateID] returns.
var ErrInvalidID = errors.New("liveness: invalid device id")

// ValidateID returns an error that wraps [ErrInvalidID] unless id is 1 to [MaxID] bytes of valid
// UTF-8 without control characters.
func ValidateID(id string) error {
	switch {
	case len(id) == 0:
		return fmt.Errorf("%w: it is empty", ErrInvalidID)
	case len(id) > MaxID:
		return fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrInvalidID, len(id), MaxID)
	}
	for i, r := range id {
		if r == utf8.RuneError && runeLen(id[i:]) == 1 {
			return fmt.Errorf("%w: byte %d is not UTF-8", ErrInvalidID, i)
		}
		if unicode.IsControl(r) {
			return fmt.Errorf("%w: it has a control character at byte %d", ErrInvalidID, i)
		}
	}
	return nil
}

func runeLen(s string) int {
	_, size := utf8.DecodeRuneInString(s)
	return size
}
