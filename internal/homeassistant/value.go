package homeassistant

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// undefined is what a payload does not have.
type undefined struct{}

// values are the names of an expression.
type values struct {
	payload string
	parsed  any
}

func newValues(payload []byte) *values {
	v := &values{payload: string(payload), parsed: undefined{}}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	var x any
	if d.Decode(&x) == nil && !d.More() {
		v.parsed = x
	}
	return v
}

// isTrue reports whether Python takes a value for true.
func isTrue(v any) bool {
	switch v := v.(type) {
	case bool:
		return v
	case json.Number:
		f, _ := v.Float64()
		return f != 0
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return false
}

// shown returns a value as Python shows it; a list or a mapping as JSON.
func shown(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case undefined:
		return ""
	case bool:
		return map[bool]string{true: "True", false: "False"}[v]
	case string:
		return v
	case json.Number:
		return v.String()
	}
	text, _ := json.Marshal(v) // it came from JSON
	return string(text)
}

// number returns a number, that of a bool included.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case bool:
		return map[bool]float64{true: 1}[v], true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	}
	return 0, false
}

func equal(a, b any) bool {
	x, ok := number(a)
	y, also := number(b)
	if ok && also {
		return x == y
	}
	s, ok := a.(string)
	t, also := b.(string)
	return ok && also && s == t || a == nil && b == nil
}

// compare compares by an operator. Values that cannot be ordered are neither less nor greater.
func compare(op string, a, b any) bool {
	switch op {
	case "==":
		return equal(a, b)
	case "!=":
		return !equal(a, b)
	case "in":
		switch b := b.(type) {
		case string:
			s, ok := a.(string)
			return ok && strings.Contains(b, s)
		case []any:
			for _, x := range b {
				if equal(a, x) {
					return true
				}
			}
		case map[string]any:
			s, ok := a.(string)
			_, has := b[s]
			return ok && has
		}
		return false
	}
	order := 0
	x, ok := number(a)
	y, also := number(b)
	s, text := a.(string)
	t, texts := b.(string)
	switch {
	case ok && also && x < y, text && texts && s < t:
		order = -1
	case ok && also && x > y, text && texts && s > t:
		order = 1
	case !(ok && also) && !(text && texts):
		return false
	}
	return map[string]bool{"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[op]
}

// tests returns what "is" asks.
func tests() map[string]func(v any) bool {
	return map[string]func(v any) bool{
		"defined":   func(v any) bool { return v != undefined{} },
		"undefined": func(v any) bool { return v == undefined{} },
		"none":      func(v any) bool { return v == nil },
		"true":      func(v any) bool { b, ok := v.(bool); return ok && b },
		"false":     func(v any) bool { b, ok := v.(bool); return ok && !b },
		"boolean":   func(v any) bool { _, ok := v.(bool); return ok },
		"number":    func(v any) bool { _, ok := v.(json.Number); return ok },
		"string":    func(v any) bool { _, ok := v.(string); return ok },
	}
}

// filters returns what may follow a |, and those of them that are methods of texts, too.
func filters() map[string]func(v any, args []any) any {
	return map[string]func(v any, args []any) any{
		"default": orDefault, "d": orDefault,
		"lower":  func(v any, _ []any) any { return strings.ToLower(shown(v)) },
		"upper":  func(v any, _ []any) any { return strings.ToUpper(shown(v)) },
		"trim":   func(v any, _ []any) any { return strings.TrimSpace(shown(v)) },
		"strip":  func(v any, _ []any) any { return strings.TrimSpace(shown(v)) },
		"string": func(v any, _ []any) any { return shown(v) },
		"bool":   func(v any, _ []any) any { return toBool(v) },
		"int":    func(v any, args []any) any { return toNumber(v, args, true) },
		"float":  func(v any, args []any) any { return toNumber(v, args, false) },
		"iif": func(v any, args []any) any {
			args = append(args, []any{true, false}[min(len(args), 2):]...)
			if isTrue(v) {
				return args[0]
			}
			return args[1]
		},
	}
}

func orDefault(v any, args []any) any {
	if len(args) > 0 && (v == undefined{} || len(args) > 1 && isTrue(args[1]) && !isTrue(v)) {
		return args[0]
	}
	return v
}

func toBool(v any) any {
	switch strings.ToLower(shown(v)) {
	case "true", "yes", "on", "enable", "1":
		return true
	case "false", "no", "off", "disable", "0":
		return false
	}
	return undefined{}
}

func toNumber(v any, args []any, whole bool) any {
	f, ok := number(v)
	if !ok {
		var err error
		f, err = strconv.ParseFloat(strings.TrimSpace(shown(v)), 64)
		ok = err == nil
	}
	switch {
	case ok && whole:
		return json.Number(strconv.FormatInt(int64(f), 10))
	case ok:
		return json.Number(strconv.FormatFloat(f, 'f', -1, 64))
	case len(args) > 0:
		return args[0]
	}
	return undefined{}
}

// member returns what a mapping or a list has at a key.
func member(v, key any) any {
	switch v := v.(type) {
	case map[string]any:
		if x, ok := v[shown(key)]; ok {
			return x
		}
	case []any:
		if f, ok := number(key); ok {
			if i := int(f); i < 0 && i+len(v) >= 0 {
				return v[i+len(v)]
			} else if i >= 0 && i < len(v) {
				return v[i]
			}
		}
	}
	return undefined{}
}
