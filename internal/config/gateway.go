package config

import (
	"time"

	"github.com/holter-iot/holter/internal/strictyaml"
)

func gatewaySettings(c *Config) []setting {
	const million, mebibyte = 1_000_000, 1 << 20
	g := &c.Gateway
	return []setting{
		live("gateway.max_connections", strictyaml.Number(&g.MaxConnections, 1, 100*million), "the limit of open files, minus a reserve; may be more",
			"connections at once, MQTT clients included, and devices over UDP at once; [more than open files](../run/size.md#more-devices-than-open-files) are possible. Above what fits into the event loops a change needs a restart"),
		live("gateway.max_connections_per_address", strictyaml.Limit(&g.MaxPerAddress, 1, 100*million), "0",
			"connections at once from one IP address; from or to 0 a change needs a restart").when(stillCounted),
		live("gateway.accept_rate", strictyaml.Number(&g.AcceptRate, 1, 10*million), "20000", "new connections per second"),
		live("gateway.handshake_timeout", strictyaml.Span(&g.HandshakeTimeout, time.Millisecond, time.Hour), "10s",
			"time from connecting to the first valid message; waiting for Holter in a TLS handshake does not count, up to 2 minutes"),
		rebuilt("gateway.idle_timeout", strictyaml.SpanOrOff(&g.IdleTimeout, time.Millisecond, aYear), "off", "time without a byte after which a connection is closed"),
		rebuilt("gateway.max_line", strictyaml.Number(&c.MaxLine, 64, mebibyte), "1024", "bytes of one message"),
		live("gateway.keepalive", strictyaml.SpanOrOff(&g.KeepAlive, time.Second, 9*time.Hour), "off", "idle time before TCP checks whether the peer is still there"),
	}
}

// stillCounted reports whether the connections of each address are counted, before and after.
func stillCounted(before, after *Config) bool {
	return before.Gateway.MaxPerAddress > 0 && after.Gateway.MaxPerAddress > 0
}
