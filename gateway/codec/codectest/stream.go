package codectest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/holter-iot/holter/gateway/codec"
)

// checkStream looks at what the whole stream means.
func checkStream(tb testing.TB, k Kit) {
	tb.Helper()
	c := play(tb, k.Protocol.Codec(), k.Stream)
	if c.err != nil {
		tb.Fatalf("Next returned the error %q after %d messages of Stream, with these bytes before it: %s", c.err, len(c.said), dump(c.input))
	}
	if len(c.input) > 0 {
		tb.Errorf("Next does not take the end of Stream, it waits for more; is the last message whole?\n%s", dump(c.input))
	}
	var kinds []codec.Kind
	var ids []string
	for _, s := range k.collapsed(c.said) {
		if s.kind != codec.None {
			kinds = append(kinds, s.kind)
		}
	}
	for _, s := range c.said {
		if s.id != "" {
			ids = append(ids, s.id)
		}
	}
	if !slices.Equal(kinds, k.Want) {
		tb.Errorf("Stream means %s; want %s, as Want says", names(kinds), names(k.Want))
	}
	if ids = slices.Compact(ids); !slices.Equal(ids, k.IDs) {
		tb.Errorf("the messages of Stream name %q; want %q, as IDs says", ids, k.IDs)
	}
}

// checkSplits looks whether it matters how the network cut the stream.
func checkSplits(tb testing.TB, k Kit) {
	tb.Helper()
	whole := play(tb, k.Protocol.Codec(), k.Stream)
	for i := 1; i < len(k.Stream); i++ {
		k.compare(tb, fmt.Sprintf("cut after byte %d", i), whole, k.Stream[:i], k.Stream[i:])
	}
	k.compare(tb, "byte by byte", whole, slices.Collect(slices.Chunk(k.Stream, 1))...)
	random := rand.New(rand.NewPCG(1, uint64(len(k.Stream))))
	for range 64 {
		pieces := cut(random, k.Stream)
		k.compare(tb, fmt.Sprintf("in pieces of %v bytes", lengths(pieces)), whole, pieces...)
	}
}

// compare holds what pieces mean against what they mean as a whole.
func (k Kit) compare(tb testing.TB, how string, whole *conn, pieces ...[]byte) {
	tb.Helper()
	c := play(tb, k.Protocol.Codec(), pieces...)
	want, got := k.collapsed(whole.said), k.collapsed(c.said)
	const advice = "Next must return 0 until it has seen the whole message, and must keep no slice of its input"
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			tb.Fatalf("%s, the input has %d messages, as a whole %d; the first that is missing is\n%s; %s\n%s",
				how, len(got), len(want), want[i], advice, input(pieces))
		case i >= len(want):
			tb.Fatalf("%s, the input has %d messages, as a whole %d; the first that is too much is\n%s; %s\n%s",
				how, len(got), len(want), got[i], advice, input(pieces))
		case got[i] != want[i]:
			tb.Fatalf("%s, message %d of the input is\n%s, as a whole it is\n%s; %s\n%s", how, i+1, got[i], want[i], advice, input(pieces))
		}
	}
	if code(c.err) != code(whole.err) {
		tb.Fatalf("%s, the input ends with the error %v, as a whole with %v\n%s", how, c.err, whole.err, input(pieces))
	}
}

// collapsed makes one of heartbeats in a row, for a protocol that does not say where a message
// ends, and cannot always see who sent it.
func (k Kit) collapsed(messages []said) (list []said) {
	if !k.Unframed {
		return messages
	}
	for i, s := range messages {
		if s.kind == codec.Beat {
			s.id = ""
		}
		if i == 0 || s.kind != codec.Beat || s != list[len(list)-1] {
			list = append(list, s)
		}
	}
	return list
}

// code names an error: only its code must not depend on how the input was cut.
func code(err error) string {
	if err == nil {
		return ""
	}
	name, _, _ := strings.Cut(err.Error(), ":")
	return name
}

// cut cuts b into pieces of a few bytes.
func cut(random *rand.Rand, b []byte) (pieces [][]byte) {
	most := 2 + random.IntN(len(b)/2+1)
	for len(b) > 0 {
		n := min(1+random.IntN(most), len(b))
		pieces = append(pieces, b[:n])
		b = b[n:]
	}
	return pieces
}

func lengths(pieces [][]byte) (n []int) {
	for _, p := range pieces {
		n = append(n, len(p))
	}
	return n
}

func input(pieces [][]byte) string { return "the input: " + dump(bytes.Join(pieces, nil)) }

func names(kinds []codec.Kind) string {
	var list []string
	for _, k := range kinds {
		list = append(list, kindName(k))
	}
	return "[" + strings.Join(list, " ") + "]"
}
