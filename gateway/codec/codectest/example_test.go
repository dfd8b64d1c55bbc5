package codectest_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/codectest"
)

// Beacon is a protocol of lines: "I <id>" says who the device is, answered by "K" or "E <code>";
// "B" is a heartbeat, answered by "B".
type Beacon struct{}

// Name implements [codec.Protocol].
func (Beacon) Name() string { return "beacon" }

// Sniff implements [codec.Protocol].
func (Beacon) Sniff(first []byte) codec.Guess {
	switch {
	case bytes.HasPrefix(first, []byte("I ")):
		return codec.Yes
	case string(first) == "I":
		return codec.Maybe
	}
	return codec.No
}

// Codec implements [codec.Protocol]. A Beacon has no state, so that all connections share one.
func (p Beacon) Codec() codec.Codec { return p }

// Next implements [codec.Codec].
func (Beacon) Next(input []byte, m *codec.Message) (int, error) {
	const longest = 200
	end := bytes.IndexByte(input[:min(len(input), longest)], '\n')
	if end < 0 {
		if len(input) >= longest {
			return 0, &codec.Error{Code: codec.TooLong, Text: "a line has less than 200 bytes"}
		}
		return 0, nil
	}
	switch id, found := bytes.CutPrefix(input[:end], []byte("I ")); {
	case found:
		m.Kind, m.ID = codec.Hello, id
	case string(input[:end]) == "B":
		m.Kind = codec.Beat
	default:
		m.Odd = "unknown"
	}
	return end + 1, nil
}

// Reply implements [codec.Codec].
func (Beacon) Reply(dst []byte, m *codec.Message, o *codec.Outcome) []byte {
	switch {
	case m.Kind == codec.None:
		return dst
	case o.Err != nil:
		return fmt.Appendf(dst, "E %s\n", o.Err.Code)
	case m.Kind == codec.Hello:
		return append(dst, "K\n"...)
	}
	return append(dst, "B\n"...)
}

// Goodbye implements [codec.Codec].
func (Beacon) Goodbye(dst []byte, _ string, _ *codec.Error) []byte { return dst }

// checkBeacon is what a test of the codec calls.
func checkBeacon(t *testing.T) {
	t.Helper()
	codectest.Run(t, codectest.Kit{
		Protocol: Beacon{},
		Stream:   []byte("I pump-3\nB\n?\nB\n"),
		Want:     []codec.Kind{codec.Hello, codec.Beat, codec.Beat},
		IDs:      []string{"pump-3"},
	})
}

// A codec in one file.
func Example() {
	var m codec.Message
	n, err := Beacon{}.Codec().Next([]byte("I pump-3\nB\n"), &m)
	fmt.Printf("%d bytes: a hello (%v) of %s, %v\n", n, m.Kind == codec.Hello, m.ID, err)
	// Output: 9 bytes: a hello (true) of pump-3, <nil>
}
