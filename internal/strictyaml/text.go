package strictyaml

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/duration"
)

// Quote shows a value in a message: quoted, and not longer than 61 characters
// before that.
func Quote(text string) string {
	const most = 60
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return strconv.Quote(text)
}

// Shorten is Quote without the quotes.
func Shorten(text string) string { return strings.Trim(Quote(text), `"`) }

// Duration reads what [duration.Parse] does. The message about any other
// text shows an example of a short one, such as 30s.
func Duration(text, example string) (time.Duration, error) {
	d, err := duration.Parse(text)
	if err != nil {
		return 0, fmt.Errorf("%s is not a duration; write %s, 5m, 1h30m or 1d", Quote(text), example)
	}
	return d, nil
}

// WholeNumber reads a decimal number in which _ may stand anywhere: 20_000. It
// may have a sign, but no leading zero. Its errors are for errors.Is, not for
// messages: [strconv.ErrRange] where an int cannot hold the number,
// [strconv.ErrSyntax] where it is none.
func WholeNumber(text string) (int, error) {
	digits := strings.ReplaceAll(text, "_", "")
	if len(digits) > 1 && digits[0] == '0' {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(digits)
}

// Bool reads a boolean as YAML 1.2.2 writes them (section 10.3.2): true, True,
// TRUE, false, False or FALSE.
func Bool(text string) (bool, error) {
	switch text {
	case "true", "True", "TRUE":
		return true, nil
	case "false", "False", "FALSE":
		return false, nil
	}
	return false, fmt.Errorf("%s is neither true nor false", Quote(text))
}
