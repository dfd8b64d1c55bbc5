package liveness

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// MaxID is the length of the longest device id, in bytes.
const MaxID = 128

// ErrInvalidID is wrapped by what [ValidateID] returns.
var ErrInvalidID = errors.New("liveness: invalid device id")

// ValidateID returns an error that wraps [ErrInvalidID] unless id is 1 to [MaxID] bytes of UTF-8 in
// which no two ids look alike: in Unicode's normal form C (UAX #15), without blanks at either end, and
// without characters that are not seen: control and format characters (those of no width and of the
// direction of text among them), line and paragraph separators, and noncharacters, for which a broker may close
// the connection (MQTT 5, section 1.5.4).
func ValidateID(id string) error {
	if what := flawOf(id); what != "" {
		return fmt.Errorf("%w: %s", ErrInvalidID, what)
	}
	return nil
}

// flawOf returns what is wrong with an id; "" if nothing is.
func flawOf(id string) string {
	switch {
	case id == "":
		return "it is empty"
	case len(id) > MaxID:
		return fmt.Sprintf("it has %d bytes, at most %d are allowed", len(id), MaxID)
	case strings.IndexFunc(id, isSpecial) < 0:
		return ""
	case !utf8.ValidString(id):
		return fmt.Sprintf("byte %d is not UTF-8", notUTF8(id))
	case strings.IndexFunc(id, isUnseen) >= 0:
		return fmt.Sprintf("it has a control character, or another that is not seen, at byte %d", strings.IndexFunc(id, isUnseen))
	case strings.TrimSpace(id) != id:
		return "it begins or ends with a blank"
	case !norm.NFC.IsNormalString(id):
		return "it is not in Unicode's normal form C"
	}
	return ""
}

// notUTF8 returns the place of the first byte that is not UTF-8.
func notUTF8(id string) int {
	for i, r := range id {
		if r == utf8.RuneError && runeLen(id[i:]) == 1 {
			return i
		}
	}
	return len(id)
}

// isSpecial reports whether a character is none of the seen ones of ASCII.
func isSpecial(r rune) bool { return r <= ' ' || r > '~' }

func isUnseen(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Noncharacter_Code_Point)
}
