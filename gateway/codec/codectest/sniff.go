package codectest

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/holter-iot/holter/gateway/codec"
)

// maxSniff is how many bytes a protocol may ask for.
const maxSniff = 64

func checkSniff(tb testing.TB, k Kit) {
	tb.Helper()
	sniffAll(tb, k.Protocol, "Stream", k.Stream)
	if k.Client != nil {
		sniffAll(tb, k.Protocol, "the client's hello", k.Client.AppendHello(nil, k.ID, k.Token, 0))
	}
	random := rand.New(rand.NewPCG(2, 2))
	for range 2000 {
		first := randomBytes(random, maxSniff)
		for _, n := range []int{1, 2, 3, 4, 8, 16, maxSniff} {
			sniff(tb, k.Protocol, first[:n])
		}
	}
}

// sniffAll looks at each beginning of what a device sends.
func sniffAll(tb testing.TB, p codec.Protocol, what string, stream []byte) {
	tb.Helper()
	sure := false
	for n := 1; n <= min(len(stream), 2*maxSniff); n++ {
		switch g := sniff(tb, p, stream[:n]); {
		case g == codec.No:
			tb.Fatalf("Sniff says No to the first %d bytes of %s; want Maybe until it is sure, then Yes\n%s", n, what, dump(stream[:n]))
		case g == codec.Maybe && sure:
			tb.Fatalf("Sniff says Maybe to the first %d bytes of %s, after it had said Yes to fewer\n%s", n, what, dump(stream[:n]))
		case g == codec.Yes:
			sure = true
		}
	}
	if !sure {
		tb.Fatalf("Sniff says Maybe to the whole of %s; want Yes\n%s", what, dump(stream))
	}
}

func sniff(tb testing.TB, p codec.Protocol, first []byte) (g codec.Guess) {
	tb.Helper()
	c := conn{tb: tb, before: bytes.Clone(first)}
	c.guard("Sniff", func() { g = p.Sniff(first) })
	switch {
	case !bytes.Equal(first, c.before):
		tb.Fatalf("Sniff changed its input, which it must not: it was\n%s\nand is\n%s", dump(c.before), dump(first))
	case g > codec.Yes:
		tb.Fatalf("Sniff says %d, which is no codec.Guess\n%s", g, dump(first))
	case g == codec.Maybe && len(first) >= maxSniff:
		tb.Fatalf("Sniff still says Maybe after %d bytes; decide with %d at most\n%s", len(first), maxSniff, dump(first))
	}
	return g
}

func randomBytes(random *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}
