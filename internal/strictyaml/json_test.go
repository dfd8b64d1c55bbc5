package strictyaml_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/strictyaml"
)

func readJSON(f strictyaml.Format, text string) (json.RawMessage, error) {
	r, root, err := f.Parse("a.yaml", text)
	if err != nil {
		return nil, err
	}
	var value json.RawMessage
	r.Mapping("", root, []strictyaml.Field{{Key: "v", Set: strictyaml.JSON(&value)}})
	return value, errors.Join(r.Errs()...)
}

// What is read as JSON says what the file says.
func TestJSON(t *testing.T) {
	tests := []struct{ text, want string }{
		{"v: 12", `12`},
		{"v: -0", `-0`},
		{"v: 1.10", `1.10`},
		{"v: 9007199254740993", `9007199254740993`},
		{"v: 123456789012345678901234567890", `123456789012345678901234567890`},
		{"v: 0.1e400", `0.1e400`},
		{"v: '0123'", `"0123"`},
		{"v: \"1_000\"", `"1_000"`},
		{"v: ~", `null`},
		{"v: null", `null`},
		{"v: 'null'", `"null"`},
		{"v: True", `true`},
		{"v: 'true'", `"true"`},
		{"v: yes", `"yes"`},
		{"v: {}", `{}`},
		{"v: []", `[]`},
		{"v: ''", `""`},
		{"v: 10.0.0.1", `"10.0.0.1"`},
		{"v: 12:30", `"12:30"`},
		{"v: 2026-11-22", `"2026-11-22"`},
		{"v: \"a\\u0000\\\"\"", `"a\u0000\""`},
		{"v: {b: 1, a: [x, {c: null}], 0123: d}", `{"b":1,"a":["x",{"c":null}],"0123":"d"}`},
		{"v:\n  only: 1\n", `{"only":1}`},
		{"v:\n- 1\n- a: 0\n  b: |\n    two\n    lines\n- >-\n  one\n  line\n", `[1,{"a":0,"b":"two\nlines\n"},"one line"]`},
		{"v: {a: &x [1], b: *x, c: {d: *x}}", `{"a":[1],"b":[1],"c":{"d":[1]}}`},
		{"v: " + strings.Repeat("[", 31) + strings.Repeat("]", 31), strings.Repeat("[", 31) + strings.Repeat("]", 31)},
	}
	for _, tt := range tests {
		got, err := readJSON(rich(), tt.text)
		if err != nil || string(got) != tt.want || !json.Valid(got) {
			t.Errorf("%s\nread as %s, %v, want %s", tt.text, got, err, tt.want)
		}
	}
}

// What JSON cannot say, or YAML reads otherwise than it looks, is a mistake.
func TestJSONMistakes(t *testing.T) {
	const number = "v: is no number as JSON has them"
	var long strings.Builder
	long.WriteString("v:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 12 {
		fmt.Fprintf(&long, "  a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	bomb := long.String()
	tests := []struct {
		format     strictyaml.Format
		text, want string
	}{
		{rich(), "v: 1_000", number},
		{rich(), "v: 0123", number},
		{rich(), "v: 08", number},
		{rich(), "v: -01", number},
		{rich(), "v: 0x1F", number},
		{rich(), "v: 0o17", number},
		{rich(), "v: 0b11", number},
		{rich(), "v: +5", number},
		{rich(), "v: .5", number},
		{rich(), "v: 5.", number},
		{rich(), "v: .nan", "v: is no number that JSON has"},
		{rich(), "v: -.inf", "v: is no number that JSON has"},
		{rich(), "v: {a: }", "v.a: has no value"},
		{rich(), "v:\n", "v: has no value"},
		{rich(), "v:\n-\n", "v[0]: has no value"},
		{rich(), "v: {a: 1, a: 2}", `v: the key "a" is repeated`},
		{rich(), "v: {<<: {a: 1}}", "v: merge keys (<<) are not supported"},
		{rich(), "v: !!str 5", "v: tags (!) are not supported"},
		{rich(), "v: &x {a: *x}", "v.a: the alias stands for what it is a part of"},
		{rich(), "v: &x [[*x, *x], *x]", "the alias stands for what it is a part of"},
		{rich(), "v: {a: *x}", "v.a: there is no anchor &x"},
		{rich(), bomb, "v: is larger than 1 MiB as JSON"},
		{rich(), strings.ReplaceAll(bomb, "x", "08"), "v: is larger than 1 MiB as JSON"},
	}
	for _, tt := range tests {
		got, err := readJSON(tt.format, tt.text)
		if err == nil || got != nil || !strings.Contains(err.Error(), tt.want) && !strings.Contains(err.Error(), "more mistakes") {
			t.Errorf("%.60s\nread as %.60s, %v, want %q", tt.text, got, err, tt.want)
		}
	}
}
