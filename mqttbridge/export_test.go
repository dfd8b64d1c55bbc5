package mqttbridge

import (
	"context"
	"net"
)

// Within returns a configuration of a bridge that connects by a network of its own.
func Within(cfg Config, network func(ctx context.Context, network, address string) (net.Conn, error)) Config {
	cfg.network = network
	return cfg
}
