//go:build linux

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports below those that the kernel gives to clients by default.
const firstPort, lastPort = 20_000, 32_000

// freePorts returns free ports of 127.0.0.1 that the kernel does not assign to clients while the
// server is away.
func freePorts(ctx context.Context, n int) ([]int, error) {
	var lc net.ListenConfig
	var ports []int
	for range 100 * n {
		port := firstPort + rand.IntN(lastPort-firstPort)
		ln, err := lc.Listen(ctx, "tcp", local(port))
		if err != nil {
			continue // taken
		}
		defer ln.Close() // in the end, so that none is given twice
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("there are no %d free ports between %d and %d", n, firstPort, lastPort)
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
