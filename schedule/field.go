package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// field is one of the fields of a crontab expression.
type field struct {
	name   string
	lo, hi int
	cycle  int      // values that many apart are the same: a range may pass the end
	names  []string // of the values from lo on
	days   dayKind
}

// dayKind says what a field may hold beside values.
type dayKind uint8

const (
	notDays   dayKind = iota
	monthDays         // L, L-3, 15W, LW
	weekDays          // 5L, 5#2
)

// The years that an expression may name.
const (
	firstYear = 1970
	lastYear  = 2199
)

// crontabFields returns the fields in their order, the seconds first.
func crontabFields() []field {
	return []field{
		{name: "second", hi: 59, cycle: 60},
		{name: "minute", hi: 59, cycle: 60},
		{name: "hour", hi: 23, cycle: 24},
		{name: "day of month", lo: 1, hi: 31, cycle: 31, days: monthDays},
		{
			name: "month", lo: 1, hi: 12, cycle: 12,
			names: []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"},
		},
		{name: "day of week", hi: 7, cycle: 7, names: []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}, days: weekDays},
		{name: "year", lo: firstYear, hi: lastYear},
	}
}

// want says which values are allowed.
func (f *field) want() string {
	s := fmt.Sprintf("want %d to %d", f.lo, f.hi)
	if len(f.names) > 0 {
		s += fmt.Sprintf(" or %s to %s", f.names[0], f.names[len(f.names)-1])
	}
	return s
}

// last returns the greatest value of * and of a value with a step: 7, the other Sunday, is none.
func (f *field) last() int {
	if f.days == weekDays {
		return f.hi - 1
	}
	return f.hi
}

// held is what a field holds.
type held struct {
	values valueSet // counted from 1970 for years
	days   relativeDays
}

// valueSet is a set of numbers from 0 to 255.
type valueSet [4]uint64

func (s *valueSet) add(v int)      { s[v/64] |= 1 << (v % 64) }
func (s *valueSet) has(v int) bool { return s[v/64]&(1<<(v%64)) != 0 }

// parse reads a field. The name is that of the schedule, for H.
func (f *field) parse(text, name string) (h held, err error) {
	for item := range strings.SplitSeq(text, ",") {
		if err := f.parseItem(item, name, &h); err != nil {
			if item != text && item != "" {
				err = fmt.Errorf("in %s: %w", show(item), err)
			}
			return h, err
		}
	}
	return h, nil
}

// parseItem adds one item of a list.
func (f *field) parseItem(item, name string, h *held) error {
	if relative, err := f.parseRelative(item, &h.days); relative {
		return err
	}
	base, stepText, stepped := strings.Cut(item, "/")
	if base == "" && !stepped {
		return fmt.Errorf("a value is missing: %s", f.want())
	}
	step := 1
	if stepped {
		var ok bool
		if step, ok = number(stepText); !ok || step < 1 {
			return fmt.Errorf("the step is %s, want 1 or more", show(stepText))
		}
	}
	var lo, hi int
	var err error
	if f.cycle > 0 && strings.EqualFold(base[:min(len(base), 1)], "H") {
		lo, hi, err = f.spread(base, step, stepped, name)
	} else {
		lo, hi, err = f.bounds(base, item, stepped)
	}
	if err != nil {
		return err
	}
	f.fill(&h.values, lo, hi, step)
	return nil
}

// fill adds the values from lo to hi, which may be beyond the field's end.
func (f *field) fill(values *valueSet, lo, hi, step int) {
	for v := lo; v <= hi; v += min(step, hi-lo+1) {
		if f.cycle == 0 {
			values.add(v - f.lo)
		} else {
			values.add(f.lo + (v-f.lo)%f.cycle)
		}
	}
}

// bounds reads a value, a range or *.
func (f *field) bounds(base, item string, stepped bool) (lo, hi int, err error) {
	if base == "*" || base == "?" && f.days != notDays {
		return f.lo, f.last(), nil
	}
	first, last, ranged := strings.Cut(base, "-")
	if lo, err = f.value(first, item); err != nil {
		return 0, 0, err
	}
	switch {
	case ranged:
		if hi, err = f.value(last, item); err != nil {
			return 0, 0, err
		}
		if hi < lo && f.cycle == 0 {
			return 0, 0, fmt.Errorf("%d is before %d: want the earlier one first", hi, lo)
		}
		if hi < lo {
			hi += f.cycle
		}
	case stepped:
		hi = max(lo, f.last())
	default:
		hi = lo
	}
	return lo, hi, nil
}

// value reads one value, a number or a name, of an item.
func (f *field) value(text, item string) (int, error) {
	if i := slices.IndexFunc(f.names, func(name string) bool { return strings.EqualFold(name, text) }); i >= 0 {
		return f.lo + i, nil
	}
	of := ""
	if text != item {
		of = show(text) + " is wrong, "
	}
	if text == "" {
		of = "a value is missing, "
	}
	n, ok := number(text)
	if !ok || n < f.lo || n > f.hi {
		return 0, fmt.Errorf("%s%s", of, f.want())
	}
	return n, nil
}

// ErrNoName is wrapped by the error for an expression with H that has no name to spread by.
var ErrNoName = errors.New("schedule: H spreads schedules by their names, and this one has none")

// spread reads H, H(0-29), and returns the bounds of the values that are chosen by the name.
func (f *field) spread(base string, step int, stepped bool, name string) (lo, hi int, err error) {
	lo, hi = f.lo, f.last()
	if f.days == monthDays {
		hi = 28 // each month has it
	}
	if inner := base[1:]; inner != "" {
		if !strings.HasPrefix(inner, "(") || !strings.HasSuffix(inner, ")") || !strings.Contains(inner, "-") {
			return 0, 0, fmt.Errorf("%s is wrong, want H or a range such as H(%d-%d)", show(base), f.lo, hi)
		}
		if lo, hi, err = f.bounds(inner[1:len(inner)-1], base, false); err != nil {
			return 0, 0, err
		}
	}
	if name == "" {
		return 0, 0, ErrNoName
	}
	size := hi - lo + 1
	if !stepped {
		lo += int(nameHash(name, f.name) % uint64(size))
		return lo, lo, nil
	}
	return lo + int(nameHash(name, f.name)%uint64(min(step, size))), hi, nil
}

// number reads a number of digits only.
func number(text string) (int, bool) {
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// show prints a part of an expression as it is, if it is short and harmless.
func show(text string) string {
	const most = 40
	if len(text) > most {
		return strconv.Quote(text[:most]) + "…"
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c == '"' || c == '\\' || c > '~' {
			return strconv.Quote(text)
		}
	}
	if text == "" {
		return `""`
	}
	return text
}
