package gateway

import "time"

// StallPackets lets the readers of datagrams get no further than the table of devices while during
// runs.
func StallPackets(g *Gateway, during func()) {
	for i := range g.udp.table.shards {
		g.udp.table.shards[i].mu.Lock()
		defer g.udp.table.shards[i].mu.Unlock()
	}
	during()
}

// PacketDrops returns how many datagrams the kernel has dropped that were for the gateway, for
// whatever reason.
func PacketDrops(g *Gateway) (n uint32) {
	for _, r := range g.udp.readers {
		_ = r.raw.Control(func(fd uintptr) {
			drops, _ := dropped(fd)
			n += drops
		})
	}
	return n
}

// Losses returns how often datagrams have begun to be lost because a socket was full, and whether they
// are now.
func Losses(g *Gateway) (times uint64, lost bool) {
	n := g.udp.losses.Load()
	return (n + 1) / 2, n%2 == 1
}

// Overflows returns how many datagrams were dropped because any socket was full.
func Overflows() uint64 { return sumsOfUDP().full }

// SoonRepeat sets after how long a message is sent again. It is called before any is sent.
func SoonRepeat(g *Gateway, after time.Duration) { g.udp.repeat = after }

// KnownPlaces returns from how many places datagrams would be let into the main lane.
func KnownPlaces(g *Gateway) int {
	known, _ := g.udp.known(time.Since(g.began))
	return len(known)
}
