package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/holter-iot/holter/internal/terminal"
)

// count writes a number as people read it: 500,000.
func count[N ~int | ~uint64 | ~float64](n N) string {
	return terminal.Grouped(int64(math.Round(float64(n))))
}

func plural[N int | uint64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + one + "s"
}

// short writes a latency with two or three digits.
func short[D time.Duration | Millis](duration D) string {
	d := time.Duration(duration)
	switch ms := Millis(d).number(); {
	case d == 0:
		return "0"
	case d < 0:
		return "-" + short(-d)
	case d < 995*time.Microsecond:
		return strconv.Itoa(max(int(d.Round(time.Microsecond)/time.Microsecond), 1)) + " µs"
	case ms < 9.95:
		return strconv.FormatFloat(ms, 'f', 1, 64) + " ms"
	case ms < 999.5:
		return strconv.FormatFloat(ms, 'f', 0, 64) + " ms"
	case ms < 99_500:
		return strconv.FormatFloat(ms/1000, 'f', 1, 64) + " s"
	default:
		return clock(d)
	}
}

// clock writes a length of time as a person would: 1m30s, 2h.
func clock[D time.Duration | Seconds](duration D) string {
	d := time.Duration(duration)
	if d >= 10*time.Second {
		d = d.Round(time.Second)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = text[:len(text)-2]
	}
	if strings.HasSuffix(text, "h0m") {
		text = text[:len(text)-2]
	}
	return text
}

// stopwatch writes how long a run has gone on: 00:01:30.
func stopwatch(d Seconds) string {
	s := int(time.Duration(d).Round(time.Second) / time.Second)
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}

// size writes a number of bytes.
func size(n uint64) string {
	switch f := float64(n); {
	case f >= 9.95*(1<<30):
		return fmt.Sprintf("%.0f GiB", f/(1<<30))
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", f/(1<<30))
	default:
		return fmt.Sprintf("%.0f MiB", f/(1<<20))
	}
}

// clean replaces what would move a cursor, change a colour or turn the direction of a text.
func clean(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control) {
			return '\uFFFD'
		}
		return r
	}, text)
}
