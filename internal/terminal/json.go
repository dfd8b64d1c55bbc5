package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
)

// WriteJSON writes JSON as one line: what the API said, with all its fields. In strings of it, letters that would steer a terminal
// become escapes; between strings there are none once it is compact.
func WriteJSON(out io.Writer, raw []byte) error {
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return fmt.Errorf("the answer is not JSON: %w", err)
	}
	_, err := io.WriteString(out, escapeHidden(compact.String())+"\n")
	return err
}

// EncodeJSON writes a value as one line of JSON.
func EncodeJSON(out io.Writer, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return WriteJSON(out, raw)
}

// escapeHidden returns compact JSON without hidden letters.
func escapeHidden(text string) string {
	if strings.IndexFunc(text, hidden) < 0 {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		switch first, second := utf16.EncodeRune(r); {
		case !hidden(r):
			out.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&out, `\u%04x\u%04x`, first, second)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}
