package plan

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxID is the length of the longest id that Holter takes, in bytes.
const maxID = 128

// maxDigits is more than the longest number has.
const maxDigits = 20

// DeviceID returns the id of device n.
func (p *Plan) DeviceID(n int) string {
	f, err := parseFormat(p.ID)
	if err != nil {
		return fmt.Sprintf(p.ID, n)
	}
	b := make([]byte, 0, len(f.prefix)+max(f.width, maxDigits)+len(f.suffix))
	return string(f.append(b, n))
}

// AppendID appends the id of device n to b.
func (p *Plan) AppendID(b []byte, n int) []byte {
	f, err := parseFormat(p.ID)
	if err != nil {
		return fmt.Appendf(b, p.ID, n)
	}
	return f.append(b, n)
}

// Number returns which device has an id; false if none has. It allocates nothing.
func (p *Plan) Number(id string) (int, bool) {
	f, err := parseFormat(p.ID)
	if err != nil || len(id) < len(f.prefix)+len(f.suffix) || !strings.HasPrefix(id, f.prefix) || !strings.HasSuffix(id, f.suffix) {
		return 0, false
	}
	digits := id[len(f.prefix) : len(id)-len(f.suffix)]
	// Longer than the format asks for is only what needs it, so that each device has one id.
	if len(digits) < max(f.width, 1) || len(digits) > max(f.width, maxDigits) || len(digits) > max(f.width, 1) && digits[0] == '0' {
		return 0, false
	}
	n := 0
	for i := range len(digits) {
		c := digits[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = 10*n + int(c-'0'); n >= p.Devices { // and so it cannot overflow
			return 0, false
		}
	}
	return n, true
}

// format is [Plan.ID] in pieces.
type format struct {
	prefix, suffix string
	width          int // digits at least; fewer are filled up with zeros
}

func (f format) append(b []byte, n int) []byte {
	b = append(b, f.prefix...)
	var digits [maxDigits]byte
	number := strconv.AppendInt(digits[:0], int64(n), 10)
	for i := len(number); i < f.width; i++ {
		b = append(b, '0')
	}
	b = append(b, number...)
	return append(b, f.suffix...)
}

var (
	errNoVerb    = errors.New(`does not say where the number goes; write %07d in it, as in dev-%07d`)
	errWrongVerb = errors.New(`may hold one %d or %07d for the number, and no other %`)
)

func parseFormat(text string) (format, error) {
	at := strings.IndexByte(text, '%')
	if at < 0 {
		return format{}, errNoVerb
	}
	f := format{prefix: text[:at]}
	end := at + 1
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		f.width = min(10*f.width+int(text[end]-'0'), 1000)
		end++
	}
	// %7d would fill up with spaces.
	if end == len(text) || text[end] != 'd' || end > at+1 && text[at+1] != '0' {
		return format{}, errWrongVerb
	}
	f.suffix = text[end+1:]
	if strings.IndexByte(f.suffix, '%') >= 0 {
		return format{}, errWrongVerb
	}
	return f, nil
}

// checkID says what is wrong with the ids, or "".
func (p *Plan) checkID() string {
	if _, err := parseFormat(p.ID); err != nil {
		return fmt.Sprintf("%q %v", p.ID, err)
	}
	id := p.DeviceID(max(p.Devices-1, 0))
	separates := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	switch {
	case len(id) > maxID:
		return fmt.Sprintf("makes ids of %d bytes; at most %d are allowed", len(id), maxID)
	case !utf8.ValidString(id), strings.ContainsFunc(id, separates):
		return fmt.Sprintf("%q makes ids with spaces or control characters, or is not UTF-8; leave them out", p.ID)
	case strings.ContainsAny(id, "+#") && p.SpeaksMQTT():
		return fmt.Sprintf("%q makes ids with + or #, which cannot be in a topic; leave them out", p.ID)
	}
	return ""
}
