package gateway

import "time"

// SoonCalm makes a gateway tell devices a shorter interval again after a time.
func SoonCalm(g *Gateway, after time.Duration) { g.pacer.calmFor.Store(int64(after)) }
