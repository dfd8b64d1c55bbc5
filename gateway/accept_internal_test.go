package gateway

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/internal/sockets"
)

// A connection that comes into no event loop, as when there are no descriptors or the kernel
// watches no more, takes up no place of its address.
func TestEnrollErrorLeavesNoTrace(t *testing.T) {
	for name, result := range map[string]gnet.RegisteredResult{
		"descriptors": {Err: unix.EMFILE},
		"watches":     {}, // which is no error for gnet
	} {
		t.Run(name, func(t *testing.T) {
			g := &Gateway{config: Config{MaxPerAddress: 1}, log: slog.New(slog.DiscardHandler)}
			address := netip.MustParseAddr("192.0.2.1")
			for round := range 3 {
				if !g.addresses.enter(address, 1) {
					t.Fatalf("round %d: there is no room for the address", round)
				}
				g.connections.Add(1)
				told := make(chan gnet.RegisteredResult, 1)
				told <- result
				results := make(chan enrolled, 2)
				results <- enrolled{&conn{}, address, told}
				results <- enrolled{} // was refused
				close(results)
				g.settle(&listener{accepts: new(sockets.Listener)}, results)
			}
			if n := g.connections.Load(); n != 0 || g.counts.enrollErrors.Load() != 3 {
				t.Errorf("%d connections, %d errors", n, g.counts.enrollErrors.Load())
			}
		})
	}
}
