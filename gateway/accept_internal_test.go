package gateway

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// A connection that comes into no event loop, as when there are no descriptors, takes up no place of its address.
func TestEnrollErrorLeavesNoTrace(t *testing.T) {
	g := &Gateway{config: Config{MaxPerAddress: 1}, log: slog.New(slog.DiscardHandler)}
	address := netip.MustParseAddr("192.0.2.1")
	for round := range 3 {
		if !g.addresses.enter(address, 1) {
			t.Fatalf("round %d: there is no room for the address", round)
		}
		g.connections.Add(1)
		result := make(chan gnet.RegisteredResult, 1)
		result <- gnet.RegisteredResult{Err: unix.EMFILE}
		results := make(chan enrolled, 2)
		results <- enrolled{&talk{}, address, result}
		results <- enrolled{} // was refused
		close(results)
		g.settle(&door{}, results)
	}
	if n := g.connections.Load(); n != 0 || g.counts.enrollErrors.Load() != 3 {
		t.Errorf("%d connections, %d errors", n, g.counts.enrollErrors.Load())
	}
}
