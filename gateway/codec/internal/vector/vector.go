// Package vector tests codecs with messages that real devices have sent, which files in their
// testdata hold.
package vector

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

// Vector is a message, what it means, and what it is answered with.
type Vector struct {
	Name, ID, Odd string
	Kind          codec.Kind
	Answer, Input []byte
}

// Read reads the vectors of a file. A line has six words: name, kind, id, odd, answer and input; - is
// an empty one. What follows # is a comment.
func Read(tb testing.TB, file string) (list []Vector) {
	tb.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 6 {
			tb.Fatalf("%s: %q has %d words; want 6", file, line, len(fields))
		}
		for i, f := range fields {
			if f == "-" {
				fields[i] = ""
			}
		}
		kind, ok := map[string]codec.Kind{"None": codec.None, "Hello": codec.Hello, "Beat": codec.Beat}[fields[1]]
		if !ok {
			tb.Fatalf("%s: %q is no kind", file, fields[1])
		}
		list = append(list, Vector{
			Name: fields[0], Kind: kind, ID: fields[2], Odd: fields[3], Answer: Unhex(tb, fields[4]), Input: Unhex(tb, fields[5]),
		})
	}
	return list
}

// Find returns the input of the vector with a name.
func Find(tb testing.TB, file, name string) []byte {
	tb.Helper()
	list := Read(tb, file)
	i := slices.IndexFunc(list, func(v Vector) bool { return v.Name == name })
	if i < 0 {
		tb.Fatalf("%s has no vector %q", file, name)
	}
	return list[i].Input
}

// Unhex returns the bytes that hexadecimal digits stand for.
func Unhex(tb testing.TB, digits string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(digits)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// Check lets a codec understand and answer a vector at an instant, and returns the message.
func (v Vector) Check(tb testing.TB, c codec.Codec, now time.Time) (m codec.Message) {
	tb.Helper()
	n, err := c.Next(v.Input, &m)
	if n != len(v.Input) || err != nil {
		tb.Fatalf("Next(%x) = %d, %v, want %d", v.Input, n, err, len(v.Input))
	}
	if m.Kind != v.Kind || string(m.ID) != v.ID || m.Odd != v.Odd {
		tb.Errorf("Next(%x) = kind %d, id %q, odd %q, want %d, %q, %q", v.Input, m.Kind, m.ID, m.Odd, v.Kind, v.ID, v.Odd)
	}
	if answer := c.Reply(nil, &m, &codec.Outcome{Err: m.Err, Now: now}); !bytes.Equal(answer, v.Answer) {
		tb.Errorf("Reply = %x, want %x", answer, v.Answer)
	}
	return m
}

// Sniff holds what a shared port takes the first bytes of connections for, and that it decides
// nothing else while fewer of them have come. The first bytes have names.
func Sniff(t *testing.T, p codec.Protocol, tests map[codec.Guess]map[string]string) {
	t.Helper()
	for want, firsts := range tests {
		for name, first := range firsts {
			t.Run(name, func(t *testing.T) {
				if got := p.Sniff([]byte(first)); got != want {
					t.Errorf("Sniff(%q) = %d, want %d", first, got, want)
				}
				for n := 1; n < len(first); n++ {
					if got := p.Sniff([]byte(first[:n])); got != want && got != codec.Maybe {
						t.Errorf("Sniff(%q) = %d, and of more %d", first[:n], got, want)
					}
				}
			})
		}
	}
}
