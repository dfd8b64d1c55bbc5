package strictyaml

import (
	"fmt"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/holter-iot/holter/internal/duration"
)

// Setter says how one value of a file is read, and where it goes.
type Setter struct {
	Read func(r *Reader, path string, n ast.Node) // stores the value, or reports why it cannot
	To   any                                      // a pointer to where it is stored; nil where nobody asks
	Form string                                   // what may be written, in words; "" where Field.Doc says it
}

// Value stores a scalar that parse understands. The error of parse is the
// message: it must show no secret.
func Value[T any](dst *T, parse func(string) (T, error)) Setter {
	return Setter{To: dst, Read: func(r *Reader, path string, n ast.Node) {
		text, ok := r.Text(path, n)
		if !ok {
			return
		}
		v, err := parse(text)
		if err != nil {
			r.Fail(path, n, "%v", err)
			return
		}
		*dst = v
	}}
}

// Text stores a text with the form of [Label].
func Text(dst *string, what string, most int) Setter {
	return Value(dst, func(text string) (string, error) { return Label(what, text, most) })
}

// Plain is Value for numbers and booleans, which must not be in quotes.
func Plain[T any](dst *T, parse func(string) (T, error)) Setter {
	set := Value(dst, parse)
	return Setter{To: dst, Read: func(r *Reader, path string, n ast.Node) {
		v := r.Resolve(path, n)
		switch {
		case v == nil: // that was said
		case quoted(v):
			r.Fail(path, n, "is a text; write the value without quotes")
		default:
			set.Read(r, path, n)
		}
	}}
}

// quoted reports whether a text is in quotes, and so cannot be a number.
func quoted(n ast.Node) bool {
	v, ok := n.(*ast.StringNode)
	return ok && v.Token != nil &&
		(v.Token.Type == token.SingleQuoteType || v.Token.Type == token.DoubleQuoteType)
}

// Flag stores a boolean. Outside a file, 1 and 0 are customary.
func Flag(dst *bool) Setter {
	return Setter{To: dst, Form: "true or false", Read: func(r *Reader, path string, n ast.Node) {
		Plain(dst, func(text string) (bool, error) {
			if r.src == nil && (text == "1" || text == "0") {
				return text == "1", nil
			}
			return Bool(text)
		}).Read(r, path, n)
	}}
}

// Number stores a whole number from least to most.
func Number(dst *int, least, most int) Setter { return number(dst, least, most, false) }

// Limit is Number, and allows 0, which is no limit.
func Limit(dst *int, least, most int) Setter { return number(dst, least, most, true) }

func number(dst *int, least, most int, zero bool) Setter {
	set := Plain(dst, func(text string) (int, error) { return NumberIn(text, least, most, zero) })
	set.Form = fmt.Sprintf("%d to %d%s", least, most, zeroToo(zero, ", or 0 (no limit)"))
	return set
}

// Span stores a duration from least to most.
func Span(dst *time.Duration, least, most time.Duration) Setter { return span(dst, least, most, false) }

// SpanOrOff is Span, and allows 0, which is off.
func SpanOrOff(dst *time.Duration, least, most time.Duration) Setter {
	return span(dst, least, most, true)
}

func span(dst *time.Duration, least, most time.Duration, zero bool) Setter {
	set := Value(dst, func(text string) (time.Duration, error) { return DurationIn(text, least, most, zero) })
	set.Form = duration.String(least) + " to " + duration.String(most) + zeroToo(zero, ", or 0 (off)")
	return set
}

// List stores a list of values that parse understands. todo is that of [Reader.Items].
func List[T any](dst *[]T, todo string, parse func(string) (T, error)) Setter {
	return Entries(dst, todo, func(r *Reader, path string, n ast.Node) (one T) {
		Value(&one, parse).Read(r, path, n)
		return one
	})
}

// Entries stores a list whose entries read reads. todo is that of [Reader.Items].
func Entries[T any](dst *[]T, todo string, read func(r *Reader, path string, n ast.Node) T) Setter {
	return Setter{To: dst, Read: func(r *Reader, path string, n ast.Node) {
		for i, item := range r.Items(path, n, todo) {
			*dst = append(*dst, read(r, Element(path, i), item))
		}
	}}
}
