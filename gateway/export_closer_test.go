package gateway

import "time"

// TooLate is what happens when a device has not said hello in time.
func TooLate(g *Gateway, id string) { g.closer.addError(carrierOf(g, id), noHello(time.Second)) }

// CloseDevice closes a device's connection.
func CloseDevice(g *Gateway, id string) { g.closer.add(carrierOf(g, id), "test") }

func carrierOf(g *Gateway, id string) carrier {
	peer, _ := g.registry.Peer(id)
	return peer.(carrier)
}
