package jt808_test

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/holter-iot/holter/gateway/codec"
)

// vectors are the frames of testdata/vectors.txt by their names.
func vectors(tb testing.TB) map[string][]byte {
	tb.Helper()
	text, err := os.ReadFile("testdata/vectors.txt")
	if err != nil {
		tb.Fatal(err)
	}
	frames := map[string][]byte{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if len(fields) != 2 || frames[fields[0]] != nil {
			tb.Fatalf("vectors.txt: %q is no name of its own with bytes behind it", line)
		}
		frames[fields[0]] = unhex(tb, fields[1])
	}
	return frames
}

func unhex(tb testing.TB, text string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		tb.Fatalf("%q: %v", text, err)
	}
	return b
}

// frame makes a frame of a header and a body in hexadecimal: it appends the checksum, escapes, and
// sets the flags.
func frame(tb testing.TB, text string) []byte {
	tb.Helper()
	content := unhex(tb, text)
	sum := byte(0)
	for _, b := range content {
		sum ^= b
	}
	escaper := strings.NewReplacer("\x7d", "\x7d\x01", "\x7e", "\x7d\x02")
	return []byte("\x7e" + escaper.Replace(string(append(content, sum))) + "\x7e")
}

// next takes the first message off input, which must be one message, and its answer to an outcome.
func next(tb testing.TB, c codec.Codec, input []byte, o codec.Outcome) (m codec.Message, reply []byte) {
	tb.Helper()
	n, err := c.Next(input, &m)
	if n != len(input) || err != nil {
		tb.Fatalf("Next(% x) = %d, %v, want %d", input, n, err, len(input))
	}
	if o.Err == nil {
		o.Err = m.Err
	}
	return m, c.Reply(nil, &m, &o)
}
