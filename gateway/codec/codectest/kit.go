package codectest

import (
	"testing"

	"github.com/holter-iot/holter/gateway/codec"
)

// Kit is a protocol, and what its checks need to know of it.
type Kit struct {
	// Protocol is the one to be checked.
	Protocol codec.Protocol
	// Client is its device's side. Nil if there is none: then the checks of it are left out.
	Client codec.Client
	// Stream is what a device sends on one connection, from its first byte to the end of a message.
	// It needs a heartbeat of kind Beat, and should hold every message that the protocol has. Real
	// captures are best.
	Stream []byte
	// Want is what its messages mean, those of kind None left out.
	Want []codec.Kind
	// IDs are the devices that its messages name, in their order; one that is named several times
	// in a row stands once.
	IDs []string
	// Datagrams are valid ones, for a protocol with [codec.Packets], which needs some.
	Datagrams [][]byte
	// Unframed is for a protocol that does not say where a message ends, so that all that came in
	// together is one: heartbeats in a row then count as one, also in Want.
	Unframed bool
	// ID and Token are what the Client says hello with. Default: the first of IDs, and no token.
	ID, Token string
}

// Run checks the protocol in subtests of t, none of them in parallel. It takes about a second.
func Run(t *testing.T, kit Kit) {
	t.Helper()
	kit.complete(t)
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) { c.run(t, kit) })
	}
}

// complete rejects a kit that checks nothing.
func (k *Kit) complete(tb testing.TB) {
	tb.Helper()
	if k.Protocol == nil || len(k.Stream) == 0 || len(k.Want) == 0 {
		tb.Fatalf("the kit is not complete: set Protocol, Stream (what a device sends) and Want (what its messages mean)")
	}
	if k.ID == "" && len(k.IDs) > 0 {
		k.ID = k.IDs[0]
	}
	if k.ID == "" && k.Client != nil {
		tb.Fatalf("the kit has a Client but no id for it: set IDs or ID")
	}
}

// check is one promise of a codec.
type check struct {
	name string
	run  func(tb testing.TB, k Kit)
}

func checks() []check {
	return []check{
		{"name", checkName},
		{"stream", checkStream},
		{"splits", checkSplits},
		{"sniff", checkSniff},
		{"allocations", checkAllocations},
		{"endless", checkEndless},
		{"truncated", checkTruncated},
		{"flipped", checkFlipped},
		{"random", checkRandom},
		{"replies", checkReplies},
		{"goodbye", checkGoodbye},
		{"codecs", checkCodecs},
		{"client", checkClient},
		{"datagrams", checkDatagrams},
	}
}

func checkName(tb testing.TB, k Kit) {
	tb.Helper()
	name := k.Protocol.Name()
	if !isLabel(name) {
		tb.Errorf("Name() = %q; it stands in configurations and metrics: want a word of lower-case letters and digits", name)
	}
}

// isLabel reports whether s may be a label of a metric: lower-case letters, digits and hyphens.
func isLabel(s string) bool {
	for _, c := range []byte(s) {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != ""
}
