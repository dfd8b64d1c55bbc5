package sqldb

import (
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
)

// maxSeconds bounds the Unix times whose nanoseconds are an int64: from 1677 to 2262.
const maxSeconds = math.MaxInt64 / int64(time.Second)

// Nanos returns a time as it is kept in a column: Unix time in nanoseconds, 0 for the zero time. An
// instant that is too far away is kept as the last one that can be, or as the first.
func Nanos(t time.Time) int64 {
	switch seconds := t.Unix(); {
	case t.IsZero():
		return 0
	case seconds >= maxSeconds:
		return math.MaxInt64
	case seconds <= -maxSeconds:
		return math.MinInt64
	}
	return t.UnixNano()
}

// Time returns the time that Nanos made ns of.
func Time(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// Bool returns a boolean as it is kept in a column: 1 for true.
func Bool(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Instant is a field of a row for a time, to be read and written.
func Instant(t *time.Time) any { return (*instant)(t) }

type instant time.Time

func (i *instant) Value() (driver.Value, error) { return Nanos(time.Time(*i)), nil }

func (i *instant) Scan(src any) error {
	ns, ok := src.(int64)
	if !ok {
		return fmt.Errorf("%T is no time", src)
	}
	*i = instant(Time(ns))
	return nil
}

// JSON is a field of a row for JSON, which is kept as the text that it is.
func JSON(raw *json.RawMessage) any { return (*jsonText)(raw) }

type jsonText json.RawMessage

func (j *jsonText) Value() (driver.Value, error) { return string(*j), nil }

func (j *jsonText) Scan(src any) error {
	var text sql.NullString
	err := text.Scan(src)
	*j = jsonText(text.String)
	return err
}

// Bytes is a field of a row for bytes. None are not nil: only NULL is, also in SQLite, whose driver takes the one
// for the other.
func Bytes(b *[]byte) any { return (*blob)(b) }

type blob []byte

func (b *blob) Value() (driver.Value, error) { return []byte(*b), nil }

func (b *blob) Scan(src any) error {
	*b = nil
	if bytes, ok := src.([]byte); ok {
		*b = append([]byte{}, bytes...)
	}
	return nil
}

// Text returns the beginning of a text as every database takes it: valid UTF-8 without NUL, of at
// most about as many bytes as most says. A character in the place of others may make it longer.
func Text(text string, most int) string {
	if len(text) > most {
		text = text[:most]
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > most+3 { // bytes that were no UTF-8 have become longer
		text = strings.ToValidUTF8(text[:most], "")
	}
	return strings.ReplaceAll(text, "\x00", "\uFFFD")
}
