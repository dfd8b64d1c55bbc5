package codectest

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holter-iot/holter/gateway/codec"
)

// checkEndless sends what never ends, at the beginning of a connection, after a conversation, and
// in the middle of each message.
func checkEndless(tb testing.TB, k Kit) {
	tb.Helper()
	for value := range 256 {
		flood := bytes.Repeat([]byte{byte(value)}, codec.MaxMessage)
		for _, before := range [][]byte{nil, k.Stream} {
			endless(play(tb, k.Protocol.Codec(), before), flood)
		}
	}
	random := rand.New(rand.NewPCG(3, 3))
	step := 1 + len(k.Stream)/256
	for n := 0; n < len(k.Stream); n += step {
		fill := byte(random.Uint32())
		endless(play(tb, k.Protocol.Codec(), k.Stream[:n]), bytes.Repeat([]byte{fill}, codec.MaxMessage))
	}
}

// endless gives the codec more and more until it takes something or gives up; [conn.next] fails if
// it never does.
func endless(c *conn, flood []byte) {
	c.tb.Helper()
	start := bytes.Clone(c.input)
	for n := 1; c.err == nil; n = min(8*n, len(flood)) {
		c.input = slices.Concat(start, flood[:n])
		c.before = bytes.Clone(c.input)
		if c.readMore() {
			return
		}
	}
}

// checkTruncated begins in the middle of the stream, and leaves each byte of it out.
func checkTruncated(tb testing.TB, k Kit) {
	tb.Helper()
	random := rand.New(rand.NewPCG(7, 7))
	for i := range k.Stream {
		survive(tb, k, random, k.Stream[i:])
		survive(tb, k, random, slices.Concat(k.Stream[:i], k.Stream[i+1:]))
	}
}

// maxFlips bounds the changed streams that are tried; of a long stream they are chosen at random.
const maxFlips = 4000

// checkFlipped changes each bit, and each byte to what lengths and counts break at.
func checkFlipped(tb testing.TB, k Kit) {
	tb.Helper()
	random := rand.New(rand.NewPCG(6, 6))
	changes := []byte{1, 2, 4, 8, 16, 32, 64, 128, 0, 0x7f, 0x80, 0xff} // eight are exchanged, four are set
	all := len(k.Stream) * len(changes)
	for n := range min(all, maxFlips) {
		if all > maxFlips {
			n = random.IntN(all)
		}
		i, c := n/len(changes), n%len(changes)
		stream := bytes.Clone(k.Stream)
		if stream[i] ^= changes[c]; c >= 8 {
			stream[i] = changes[c]
		}
		survive(tb, k, random, stream)
	}
}

// checkRandom sends random bytes, alone and mixed with pieces of the stream.
func checkRandom(tb testing.TB, k Kit) {
	tb.Helper()
	random := rand.New(rand.NewPCG(4, 4))
	odd := map[string]bool{}
	for range 1000 {
		maps.Copy(odd, survive(tb, k, random, randomBytes(random, 1+random.IntN(300))))
		var mixed []byte
		for range 1 + random.IntN(6) {
			i := random.IntN(len(k.Stream))
			mixed = append(mixed, k.Stream[i:i+random.IntN(len(k.Stream)-i)+1]...)
			mixed = append(mixed, randomBytes(random, random.IntN(4))...)
		}
		maps.Copy(odd, survive(tb, k, random, mixed))
	}
	if most := 16; len(odd) > most {
		tb.Errorf("Next set Odd to %d different texts; it becomes a metric's label: use at most %d constants. Some are %q",
			len(odd), most, slices.Sorted(maps.Keys(odd))[:most])
	}
}

// survive plays what is no valid stream, whole and in pieces: it only must not break the contract.
// It returns what was odd.
func survive(tb testing.TB, k Kit, random *rand.Rand, stream []byte) map[string]bool {
	tb.Helper()
	c := play(tb, k.Protocol.Codec(), stream)
	if c.err != nil {
		c.goodbye(c.err)
	}
	k.compare(tb, "in random pieces", c, cut(random, stream)...)
	return c.odd
}
