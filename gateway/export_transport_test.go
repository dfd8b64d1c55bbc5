package gateway

// TooLate is what happens when a device has not said hello in time.
func TooLate(g *Gateway, id string) { g.closeLate(transportOf(g, id)) }

// CloseDevice closes a device's connection.
func CloseDevice(g *Gateway, id string) { g.close(transportOf(g, id), "test") }

func transportOf(g *Gateway, id string) transport {
	peer, _ := g.registry.Peer(id)
	return peer.(transport)
}
