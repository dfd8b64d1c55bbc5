package terminal

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/duration"
)

// Plural returns a number with the singular or the plural of its noun.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Grouped(n) + " " + many
}

// Grouped shows a number with commas between thousands.
func Grouped[T int | int64 | uint64](n T) string {
	text := fmt.Sprint(n)
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}

// Figure shows a number with three digits, or with all before the point and thousands set apart.
func Figure(v float64) string {
	if math.Abs(v) >= 100 {
		return Grouped(int64(math.Round(v)))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Short shows a duration with the two units that matter: 350ms, 12s, 4m5s, 3h20m, 12d4h.
func Short(d time.Duration) string {
	d = max(d, 0)
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return strconv.Itoa(int(d.Milliseconds())) + "ms"
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < time.Hour:
		return units(d, time.Minute, "m", time.Second, "s")
	case d < day:
		return units(d, time.Hour, "h", time.Minute, "m")
	}
	return units(d, day, "d", time.Hour, "h")
}

func units(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	text := strconv.Itoa(int(d/large)) + largeName
	if rest := int(d % large / small); rest > 0 {
		text += strconv.Itoa(rest) + smallName
	}
	return text
}

// Duration is milliseconds of the API as a duration; what is too long for one is the longest.
func Duration(ms float64) time.Duration {
	if ms >= float64(math.MaxInt64/time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms * float64(time.Millisecond))
}

// AgoText returns how long ago t is, such as "5m ago"; "" if t is zero.
func AgoText(now, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return Short(now.Sub(t)) + " ago"
}

// AwayText returns how far ahead t is, such as "in 5m", and "now" once it is past.
func AwayText(now, t time.Time) string {
	if d := t.Sub(now); d > 0 {
		return "in " + Short(d)
	}
	return "now"
}

// StatesOf returns the states that have devices, in the order of a device's life; those of a newer server at the end.
func StatesOf(states map[string]int) []string {
	order := []string{"online", "late", "suspect", "sleeping", "unknown", "pending", "offline", "never_seen"}
	all := slices.DeleteFunc(slices.Clone(order), func(state string) bool { return states[state] == 0 })
	for _, state := range slices.Sorted(maps.Keys(states)) {
		if states[state] != 0 && !slices.Contains(order, state) {
			all = append(all, state)
		}
	}
	return all
}

// CountStates returns the number of devices in each state that has any, as "3 online, 1 offline".
func CountStates(states map[string]int) string {
	var all []string
	for _, state := range StatesOf(states) {
		all = append(all, Grouped(states[state])+" "+Printable(state))
	}
	return strings.Join(all, ", ")
}

// Stamp returns a time in UTC, to the millisecond.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Milliseconds returns a duration in milliseconds, as the API gives it.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Span shows milliseconds exactly, as people write them: 3d, 1h30m.
func Span(ms float64) string {
	return duration.String(time.Duration(math.Round(ms)) * time.Millisecond)
}

// Rounded shows milliseconds as a duration: exactly if it is below ten seconds, else as Short does.
func Rounded(ms float64) string {
	if d := Duration(ms); d >= 10*time.Second {
		return Short(d)
	}
	return Span(ms)
}

// Wrap breaks a text into lines of so many columns, between words; not at all if that is less than 20.
func Wrap(text string, columns int) string {
	if columns < 20 {
		return text
	}
	var out strings.Builder
	used := 0
	for i, word := range strings.Split(text, " ") {
		switch w := width(word); {
		case i == 0:
			used = w
		case used+1+w > columns:
			out.WriteByte('\n')
			used = w
		default:
			out.WriteByte(' ')
			used += 1 + w
		}
		out.WriteString(word)
	}
	return out.String()
}
