package strictyaml_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/strictyaml"
)

// What was JSON is read as the same JSON.
func TestFromJSON(t *testing.T) {
	for _, text := range []string{
		`12`, `-0`, `1.10`, `1e5`, `1E+5`, `123456789012345678901234567890`, `true`, `false`, `null`, `"x"`, `""`, `{}`, `[]`,
		`"yes"`, `"0123"`, `"null"`, `"a: b"`, `"a # b"`, `"- x"`, `"*a"`, `"&a"`, `"${device}"`, `"%"`, `"'"`, `"\""`, `"\\"`, `"a\nb\tc\r"`, `"\u0000\u001f"`, `"ü\u2028😀"`,
		`"` + "\x7f" + `"`, `"<b>&amp;"`, `"  two  blanks  "`, `"{[,]}"`,
		`{"b": 1, "a": [1, {"c": null}, []], "0123": "d", "": 0, "a b: c": 1}`,
		strings.Repeat("[", 31) + strings.Repeat("]", 31),
	} {
		for _, in := range []string{`{"v":` + text + "}\n", "\t{\n\t\"v\"\t:\n\t\t" + text + "\r\n}"} {
			yaml, err := strictyaml.FromJSON([]byte(in))
			if err != nil {
				t.Errorf("%s: %v", in, err)
				continue
			}
			got, err := readJSON(rich(), yaml)
			if want := compact(t, text); err != nil || compact(t, string(got)) != want {
				t.Errorf("%s\nread as %s, %v, want %s", in, got, err, want)
			}
		}
	}
	got, err := strictyaml.FromJSON([]byte(`{"\ud83d\ude00": "a\/b", "a": 1, "a": 2}`))
	if want := `{"😀": "a/b", "a": 1, "a": 2}`; err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func compact(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, []byte(text)); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var text2 string
	if json.Unmarshal(out.Bytes(), &text2) == nil && strings.HasPrefix(out.String(), `"`) {
		return text2
	}
	return out.String()
}

func TestFromJSONMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"": "it ends too early", "{": "it ends too early", `{"a"`: "it ends too early", `{"a":1} x`: "something follows", `{} {}`: "something follows",
		"a: 1": "this is not JSON", "{a: 1}": "this is not JSON", `{"a":01}`: "this is not JSON", `[1,]`: "this is not JSON", `{1:2}`: "this is not JSON",
		strings.Repeat("[", 40): "more than 32 levels",
	} {
		if got, err := strictyaml.FromJSON([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v, want %q", text, got, err, want)
		}
	}
}

func FuzzFromJSON(f *testing.F) {
	f.Add([]byte(`{"a": ["x", 1, null, {"b": true}], "é": "\ud83d\ude00"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		yaml, err := strictyaml.FromJSON(text)
		if err == nil && !json.Valid([]byte(yaml)) {
			t.Errorf("%q is JSON, and was made %q", text, yaml)
		}
	})
}
