package strictyaml

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holter-iot/holter/internal/duration"
)

// DurationIn reads a duration from least to most; off allows 0, which turns something off, beside it.
func DurationIn(text string, least, most time.Duration, off bool) (time.Duration, error) {
	d, err := Duration(text, "90s")
	switch {
	case err != nil:
		return 0, err
	case off && d == 0:
		return 0, nil
	case d < least || d > most:
		return 0, fmt.Errorf("%s is out of range; allowed are %s%s to %s",
			text, zeroToo(off, "0 (off) and "), duration.String(least), duration.String(most))
	}
	return d, nil
}

// NumberIn reads a whole number from least to most; off allows 0, which is no limit, beside it.
func NumberIn(text string, least, most int, off bool) (int, error) {
	n, err := WholeNumber(text)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		return 0, fmt.Errorf("%s is not a whole number; allowed are %d to %d", Quote(text), least, most)
	case off && n == 0 && err == nil:
		return 0, nil
	case err != nil, n < least, n > most:
		return 0, fmt.Errorf("%s is out of range; allowed are %s%d to %d",
			Shorten(text), zeroToo(off, "0 (no limit) and "), least, most)
	}
	return n, nil
}

func zeroToo(off bool, text string) string {
	if off {
		return text
	}
	return ""
}

// Label checks a text that is shown and stored: most is in bytes. Messages call it what.
func Label(what, text string, most int) (string, error) {
	switch {
	case text == "":
		return "", fmt.Errorf("the %s is empty", what)
	case len(text) > most:
		return "", fmt.Errorf("the %s %s is longer than %d bytes", what, Quote(text), most)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return "", fmt.Errorf("the %s %s contains control characters or is not UTF-8", what, Quote(text))
	}
	return text, nil
}

// Pattern checks a pattern in which * and ? stand for characters.
func Pattern(text string) (string, error) {
	if i := strings.IndexAny(text, `[]{}\`); i >= 0 {
		return "", fmt.Errorf("%s is not a pattern: %q is reserved; "+
			"* stands for any run of characters (/ included), ? for one, and all else for itself", Quote(text), text[i])
	}
	return Label("pattern", text, 256)
}

// FileName checks the name of a file or a directory.
func FileName(text string) (string, error) {
	if text == "" || strings.ContainsRune(text, 0) {
		return "", fmt.Errorf("%s is not the name of a file", Quote(text))
	}
	return text, nil
}
