package gateway

// Progress implements [remote.Gateway].
func (g operator) Progress() (all []uint64) {
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
