package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// field is one of the six fields of a crontab expression.
type field struct {
	name   string
	lo, hi int
	names  []string // of the values from lo on
	day    bool     // ? is allowed
}

// crontabFields returns the fields in their order, the seconds first.
func crontabFields() []field {
	return []field{
		{name: "second", hi: 59},
		{name: "minute", hi: 59},
		{name: "hour", hi: 23},
		{name: "day of month", lo: 1, hi: 31, day: true},
		{
			name: "month", lo: 1, hi: 12,
			names: []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"},
		},
		{name: "day of week", hi: 7, day: true, names: []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}},
	}
}

// want says which values are allowed.
func (f field) want() string {
	s := fmt.Sprintf("want %d to %d", f.lo, f.hi)
	if len(f.names) > 0 {
		s += fmt.Sprintf(" or %s to %s", f.names[0], f.names[len(f.names)-1])
	}
	return s
}

// check says what is wrong with the text of a field, if anything. It is stricter than the parser, which passes over some of what
// it does not understand.
func (f field) check(text string) error {
	for item := range strings.SplitSeq(text, ",") {
		if err := f.checkItem(item); err != nil {
			if item != text && item != "" {
				return fmt.Errorf("in %s: %w", show(item), err)
			}
			return err
		}
	}
	return nil
}

// checkItem checks one item of a list: a value, a range or *, and maybe a step.
func (f field) checkItem(item string) error {
	base, step, stepped := strings.Cut(item, "/")
	first, last, ranged := strings.Cut(base, "-")
	if base == "" && !stepped {
		return fmt.Errorf("a value is missing: %s", f.want())
	}
	lo, hi := f.lo, f.hi
	if base != "*" && (base != "?" || !f.day) {
		var err error
		if lo, err = f.value(first, item); err != nil {
			return err
		}
		if ranged {
			if hi, err = f.value(last, item); err != nil {
				return err
			}
		} else if !stepped {
			hi = lo
		}
	}
	if stepped {
		return f.checkStep(step, lo, hi)
	}
	return nil
}

// value reads one value, a number or a name, of an item.
func (f field) value(text, item string) (int, error) {
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

// checkStep checks the step of a range.
func (f field) checkStep(text string, lo, hi int) error {
	size := hi - lo + 1
	if size <= 0 {
		size += f.hi - f.lo + 1 // it passes the end
	}
	step, ok := number(text)
	switch {
	case size == 1 && (!ok || step != 1):
		return fmt.Errorf("the step is %s, want none: there is one value only", show(text))
	case !ok || step < 1 || step >= max(size, 2):
		return fmt.Errorf("the step is %s, want 1 to %d", show(text), max(size-1, 1))
	case step > 1 && lo > hi && f.hi == 7:
		// Sunday is twice among 0 to 7, which the parser counts as a step.
		return errors.New("a step across the end of the week: want the days one by one")
	}
	return nil
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
