package exports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// MaxFile is the size of the largest file, in bytes.
const MaxFile = 64 << 20

// document reads a file as JSON. Its errors say where in the file.
func document(text []byte) (json.RawMessage, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	switch {
	case len(text) > MaxFile:
		return nil, fmt.Errorf("the file has more than %d MiB", MaxFile>>20)
	case len(bytes.TrimSpace(text)) == 0:
		return nil, errors.New("the file is empty")
	case !utf8.Valid(text):
		return nil, errors.New("the file is not UTF-8; was it saved as UTF-16?")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	var whole json.RawMessage
	err := d.Decode(&whole)
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return whole, nil
		}
		return nil, fmt.Errorf("line %d: something follows the end of the JSON; give one file for one export", lineOf(text, d.InputOffset()))
	}
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, fmt.Errorf("line %d: this is not JSON: %w", lineOf(text, wrong.Offset), err)
	}
	return nil, fmt.Errorf("line %d: this is not JSON: %w; was the file cut off?", lineOf(text, int64(len(text))), err)
}

// lineOf returns the number of the line with an offset.
func lineOf(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:min(max(offset, 0), int64(len(text)))], []byte("\n"))
}

// listIn returns a list of an object. want says what file it should be.
func listIn(whole json.RawMessage, field, want string) ([]json.RawMessage, error) {
	var object map[string]json.RawMessage
	if json.Unmarshal(whole, &object) != nil {
		return nil, fmt.Errorf("the file is no JSON object; want %s", want)
	}
	for _, name := range []string{"error", "message"} {
		var text string
		if _, ok := object[field]; !ok && json.Unmarshal(object[name], &text) == nil && text != "" {
			return nil, fmt.Errorf("the file is an error, %q, instead of %s", text, want)
		}
	}
	var list []json.RawMessage
	if err := json.Unmarshal(object[field], &list); err != nil || list == nil {
		return nil, fmt.Errorf("the file has no list %q; want %s", field, want)
	}
	return list, nil
}

// decode reads an element of a list. Fields that are not known are left out: the formats grow.
func decode(raw json.RawMessage, into any) error {
	err := json.Unmarshal(raw, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrong.Field == "" {
			return fmt.Errorf("it is of the type %s; want an object", wrong.Value)
		}
		return fmt.Errorf("%s is of the type %s; want %s", wrong.Field, wrong.Value, wantOf(wrong.Type.Kind().String()))
	}
	return err
}

func wantOf(kind string) string {
	switch {
	case strings.HasPrefix(kind, "int"):
		return "a whole number"
	case kind == "bool":
		return "true or false"
	case kind == "slice":
		return "a list"
	}
	return "a " + kind
}

// orUnnamed returns a name, and a word for none.
func orUnnamed(name string) string {
	if strings.TrimSpace(name) == "" {
		return unnamed
	}
	return name
}
