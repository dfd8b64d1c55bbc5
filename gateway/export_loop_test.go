package gateway

// SetTableRoom sets how many connections a table of descriptors has room for, and returns what sets
// it back.
func SetTableRoom(n int) (reset func()) {
	before := tableRoom
	tableRoom = func() int { return n }
	return func() { tableRoom = before }
}

// Acceptors returns at how many sockets the first listener accepts.
func Acceptors(g *Gateway) int { return len(g.listeners[0].accepts) }

// Tables returns how many event loops have tables of their own.
func Tables(g *Gateway) int {
	if g.loopRoom == 0 {
		return 0
	}
	return len(g.loops)
}
