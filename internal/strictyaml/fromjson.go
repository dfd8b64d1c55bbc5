package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// FromJSON returns JSON as a text that [Format.Parse] reads, and that means the same. YAML as it is
// allows JSON almost, but neither tabs before a value nor characters that are written as two halves
// (\ud83d\ude00). Keys keep their order, and repeated ones stay, so that they are found.
func FromJSON(text []byte) (string, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var out bytes.Buffer
	if err := copyValue(&out, d, 0); err != nil {
		return "", notJSON(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return "", errors.New("this is not JSON: something follows the value")
	}
	return out.String(), nil
}

func notJSON(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("this is not JSON: it ends too early")
	}
	return fmt.Errorf("this is not JSON: %w", err)
}

// copyValue writes the next value of d.
func copyValue(out *bytes.Buffer, d *json.Decoder, depth int) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch v := t.(type) {
	case json.Delim:
		if depth == maxDepth {
			return fmt.Errorf("more than %d levels of nesting", maxDepth)
		}
		return copyAll(out, d, v, depth+1)
	case string:
		return copyText(out, v)
	case json.Number:
		out.WriteString(v.String())
	case bool:
		out.WriteString(strconv.FormatBool(v))
	case nil:
		out.WriteString("null")
	}
	return nil
}

// copyAll writes the rest of an object or a list that begins with open.
func copyAll(out *bytes.Buffer, d *json.Decoder, open json.Delim, depth int) error {
	out.WriteRune(rune(open))
	for first := true; d.More(); first = false {
		if !first {
			out.WriteString(", ")
		}
		if open == '{' {
			if err := copyValue(out, d, depth); err != nil { // the key
				return err
			}
			out.WriteString(": ")
		}
		if err := copyValue(out, d, depth); err != nil {
			return err
		}
	}
	end, err := d.Token()
	if err == nil {
		_, _ = fmt.Fprint(out, end)
	}
	return err
}

// copyText writes a text in quotes.
func copyText(out *bytes.Buffer, text string) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		return err
	}
	out.Truncate(out.Len() - 1) // the end of the line
	return nil
}
