package convention_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

// The document and the table of RFC 6901, section 5, but for the pointer to the whole document.
func TestPointerRFC6901(t *testing.T) {
	doc := []byte(`{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8}`)
	for _, tt := range []struct{ pointer, want string }{
		{"/foo", `["bar", "baz"]`},
		{"/foo/0", `"bar"`},
		{"/foo/1", `"baz"`},
		{"/foo/2", ""},
		{"/foo/01", ""},
		{"/foo/-", ""},
		{"/foo/-1", ""},
		{"/foo/+1", ""},
		{"/foo/0/x", ""},
		{"/", "0"},
		{"/a~1b", "1"},
		{"/c%d", "2"},
		{"/e^f", "3"},
		{"/g|h", "4"},
		{`/i\j`, "5"},
		{`/k"l`, "6"},
		{"/ ", "7"},
		{"/m~0n", "8"},
		{"/nothing", ""},
	} {
		if got, err := convention.At(doc, tt.pointer); string(got) != tt.want || err != nil {
			t.Errorf("At(%q) = %s, %v, want %s", tt.pointer, got, err, tt.want)
		}
	}
}

func TestPointerMistakes(t *testing.T) {
	for _, tt := range []struct{ pointer, want string }{
		{"state", "write /state"},
		{"/a~", "neither ~0"},
		{"/a~2", "neither ~0"},
	} {
		if _, err := convention.Pointer(tt.pointer); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Pointer(%q) failed with %v, want %q in it", tt.pointer, err, tt.want)
		}
	}
}

// naiveAt decodes the whole payload.
func naiveAt(payload []byte, tokens []string) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, false
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, false
	}
	for _, token := range tokens {
		switch c := v.(type) {
		case map[string]any:
			if v, ok = c[token]; !ok {
				return nil, false
			}
		case []any:
			n, err := strconv.Atoi(token)
			if err != nil || n < 0 || n >= len(c) || strconv.Itoa(n) != token {
				return nil, false
			}
			v = c[n]
		default:
			return nil, false
		}
	}
	return v, true
}

func FuzzPointer(f *testing.F) {
	for _, payload := range []string{
		`{"state":"online"}`, ` { "a" : [ 1 , { "b" : "x]}" } ] , "c" : null } `, `{"a":1,"a":{"b":2}}`, `[[],[[]],{}]`,
		`{"\u0061":"\"\\"}`, `{"a`, "{\"\xff\":1}", `"x"`, `12`, `{"":{"":0}}`, `{"a/b":{"m~n":true}}`, "",
	} {
		for _, pointer := range []string{"/state", "/a", "/a/1/b", "/a/b", "/1/0", "//", "/a~1b/m~0n", "/\uFFFD"} {
			f.Add([]byte(payload), pointer)
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte, pointer string) {
		tokens, err := convention.Pointer(pointer)
		if err != nil || pointer == "" || strings.ToValidUTF8(pointer, "") != pointer {
			return
		}
		raw, err := convention.At(payload, pointer)
		if err != nil {
			t.Fatal(err)
		}
		want, ok := naiveAt(payload, tokens)
		if ok != (raw != nil) {
			t.Fatalf("At(%q, %q) = %q, package json says %v, %v", payload, pointer, raw, want, ok)
		}
		if got, same := naiveAt(raw, nil); ok && (!same || !reflect.DeepEqual(got, want)) {
			t.Fatalf("At(%q, %q) = %q, package json says %v", payload, pointer, raw, want)
		}
		if len(raw) > 0 && slices.Contains([]byte(" \t\r\n"), raw[len(raw)-1]) {
			t.Fatalf("At(%q, %q) = %q ends with space", payload, pointer, raw)
		}
	})
}
