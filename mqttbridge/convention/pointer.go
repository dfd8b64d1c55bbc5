package convention

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// pointer is a parsed JSON pointer (RFC 6901); nil: none.
type pointer []string

func parsePointer(text string) (pointer, error) {
	if text == "" {
		return nil, nil
	}
	if text[0] != '/' {
		return nil, fmt.Errorf("%q is no JSON pointer (RFC 6901); write /%s", text, text)
	}
	tokens := strings.Split(text[1:], "/")
	for i, t := range tokens {
		for rest := t; ; {
			tilde := strings.IndexByte(rest, '~')
			if tilde < 0 {
				break
			}
			rest = rest[tilde+1:]
			if rest == "" || rest[0] != '0' && rest[0] != '1' {
				return nil, fmt.Errorf("in the JSON pointer %q, ~ is neither ~0 (for ~) nor ~1 (for /)", text)
			}
		}
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
	}
	return tokens, nil
}

// document is a payload that may be JSON. It is validated at most once, when needed.
type document struct {
	payload []byte
	checked bool
	valid   bool
}

// isJSON reports whether the payload is JSON.
func (d *document) isJSON() bool {
	if !d.checked {
		d.checked, d.valid = true, json.Valid(d.payload)
	}
	return d.valid
}

// value is the raw text of a JSON value, nil if there is none.
type value []byte

// at returns the value at a pointer. Of several members with the same name the last one counts, as
// in encoding/json. O(len(payload)), without allocation.
func (d *document) at(p pointer) value {
	if p == nil || !d.isJSON() {
		return nil
	}
	b := d.payload
	i := space(b, 0)
	for _, token := range p {
		switch b[i] {
		case '{':
			i = member(b, i, token)
		case '[':
			i = element(b, i, token)
		default:
			return nil
		}
		if i < 0 {
			return nil
		}
	}
	return value(b[i:skip(b, i)])
}

// The functions below walk JSON that is known to be valid.

// space returns where the next token starts.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skip returns where the value that starts at i ends.
func skip(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipText(b, i)
	case '{', '[':
		for depth := 0; ; i++ {
			switch b[i] {
			case '"':
				i = skipText(b, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	for i < len(b) && strings.IndexByte(",]} \t\r\n", b[i]) < 0 {
		i++
	}
	return i
}

func skipText(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// member returns where the value of an object's member starts, -1 if it has none of that name.
func member(b []byte, i int, name string) int {
	found := -1
	for i = space(b, i+1); b[i] == '"'; {
		end := skipText(b, i)
		is := value(b[i:end]).isText(name)
		i = space(b, space(b, end)+1) // behind the colon
		if is {
			found = i
		}
		if i = space(b, skip(b, i)); b[i] == ',' {
			i = space(b, i+1)
		}
	}
	return found
}

// element returns where an array's element starts, -1 if it has none of that index.
func element(b []byte, i int, index string) int {
	n, err := strconv.Atoi(index)
	if err != nil || index[0] < '0' || index[0] > '9' || index[0] == '0' && index != "0" {
		return -1
	}
	for i = space(b, i+1); b[i] != ']'; n-- {
		if n == 0 {
			return i
		}
		if i = space(b, skip(b, i)); b[i] == ',' {
			i = space(b, i+1)
		}
	}
	return -1
}

// isText reports whether the value is this text.
func (v value) isText(text string) bool {
	if v[0] != '"' {
		return false
	}
	if plain := v[1 : len(v)-1]; bytes.IndexByte(plain, '\\') < 0 && utf8.Valid(plain) {
		return string(plain) == text
	}
	got, ok := v.text()
	return ok && got == text
}

// text returns the value if it is a text.
func (v value) text() (text string, ok bool) {
	if v == nil || v[0] != '"' {
		return "", false
	}
	if plain := v[1 : len(v)-1]; bytes.IndexByte(plain, '\\') < 0 && utf8.Valid(plain) {
		return string(plain), true
	}
	err := json.Unmarshal(v, &text)
	return text, err == nil
}

// isNumber reports whether the value is written as a number.
func (v value) isNumber() bool { return v != nil && (v[0] == '-' || v[0] >= '0' && v[0] <= '9') }

// equals reports whether the value is this one: a string, a bool, a float64 or nil.
func (v value) equals(want any) bool {
	switch want := want.(type) {
	case string:
		return v.isText(want)
	case bool:
		return string(v) == strconv.FormatBool(want)
	case float64:
		if !v.isNumber() {
			return false
		}
		got, err := strconv.ParseFloat(string(v), 64)
		return err == nil && got == want
	default:
		return string(v) == "null"
	}
}

// id returns the value as a device's id: a text, or the raw text of a number.
func (v value) id() (string, bool) {
	if v.isNumber() {
		return string(v), true
	}
	return v.text()
}

// number returns the raw text of a number, or of a text that is a number.
func (v value) number() (string, error) {
	if v.isNumber() {
		return string(v), nil
	}
	text, ok := v.text()
	if !ok || text == "" || strings.Trim(text, "+-.0123456789") != "" {
		return "", fmt.Errorf("%s is not a number", cut(string(v)))
	}
	return text, nil
}

// maxSeconds is the longest time that a payload may announce.
const maxSeconds = 366 * 24 * 60 * 60

// seconds returns a number of seconds, at least -1.
func (v value) seconds() (time.Duration, error) {
	text, err := v.number()
	if err != nil {
		return 0, err
	}
	return parseSeconds(text)
}

func parseSeconds(text string) (time.Duration, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n > maxSeconds || n < 0 && n != -1 {
		return 0, fmt.Errorf("%s is not a number of seconds of at most a year", cut(text))
	}
	return time.Duration(n * float64(time.Second)), nil
}

// epoch returns the value as the number of a session: a whole number, or a time.
func (v value) epoch() (uint64, error) {
	if text, err := v.number(); err == nil {
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			return n, nil
		}
		// 1.7e12 is how some serializers write a time in milliseconds.
		if f, err := strconv.ParseFloat(text, 64); err == nil && f >= 0 && f < 1<<63 && f == math.Trunc(f) {
			return uint64(f), nil
		}
	} else if text, ok := v.text(); ok {
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil && t.Year() >= 1970 && t.Year() < 2262 {
			return uint64(t.UnixNano()), nil
		}
	}
	return 0, errors.New(cut(string(v)) + " is neither a whole number nor a time as in RFC 3339")
}

// cut shortens a text for an error message.
func cut(text string) string { return shorten(text, 80) }

// shorten returns a text as UTF-8, cut to about most bytes.
func shorten(text string, most int) string {
	if len(text) <= most {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	return strings.ToValidUTF8(text[:most], "\uFFFD") + "…"
}
