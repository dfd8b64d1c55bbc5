package gateway

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

// Overflows returns how many datagrams were dropped because any socket was full.
func Overflows() uint64 { return sumsOfUDP().full }
