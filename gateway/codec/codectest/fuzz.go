package codectest

import (
	"bytes"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holter-iot/holter/gateway/codec"
)

// Fuzz fuzzes the codecs of a protocol, with seeds such as the Stream of its [Kit]; of the kit it
// needs Protocol and Unframed only. An input is held against the promises of package codec: as a
// whole, byte by byte, in random pieces, refused by the gateway, and as a datagram if the protocol
// has those.
func Fuzz(f *testing.F, k Kit, seeds ...[]byte) {
	f.Helper()
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, input []byte) { fuzzOne(t, k, input) })
}

func fuzzOne(tb testing.TB, k Kit, input []byte) {
	tb.Helper()
	if len(input) == 0 {
		return
	}
	sniff(tb, k.Protocol, bytes.Clone(input[:min(len(input), maxSniff)]))
	whole := play(tb, k.Protocol.Codec(), input)
	if whole.err != nil {
		whole.goodbye(whole.err)
	}
	if len(input) <= 4096 {
		k.compare(tb, "byte by byte", whole, slices.Collect(slices.Chunk(input, 1))...)
	}
	h := fnv.New64a()
	_, _ = h.Write(input)
	random := rand.New(rand.NewPCG(h.Sum64(), 0))
	k.compare(tb, "in random pieces", whole, cut(random, input)...)

	refusal := &codec.Error{Code: codes()[random.IntN(len(codes()))], Text: "the gateway's reason"}
	refuse := func(*conn, *codec.Message) codec.Outcome { return codec.Outcome{Err: refusal} }
	c := newConn(tb, k.Protocol.Codec())
	c.judge = refuse
	c.receive(input)

	if p, ok := k.Protocol.(codec.Packets); ok {
		datagram(tb, p, input, accept)
		datagram(tb, p, input, refuse)
	}
}
