package gateway

// Progress returns a count for each part of the gateway that hears devices: the event loops, the connections
// over TLS, the sockets of datagrams and their clock. While the gateway runs each of them grows several times
// a second, however little the devices say, whether the gateway's sources are deaf, and whether the events
// of the registry are stored. One that stands still for long belongs to a part that hears no more, for
// instance since an event loop does not come back from a device. An overloaded gateway is slow, but goes
// on; a flood of connections may keep it waiting for half a minute.
func (g *Gateway) Progress() (all []uint64) {
	for _, l := range g.loops {
		all = append(all, l.passed.Load())
	}
	if g.tlsServer != nil {
		all = append(all, g.tlsServer.clock.Passes())
	}
	for _, r := range g.udp.readers {
		all = append(all, r.turns.Load())
	}
	if len(g.udp.readers) > 0 {
		all = append(all, g.udp.pulses.Load())
	}
	return all
}
