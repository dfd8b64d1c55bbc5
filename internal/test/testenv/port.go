package testenv

import (
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// FreePort returns a port of 127.0.0.1 at which nobody listens, below those that the kernel gives to clients: none of them has it before
// the caller, or while a server that was there is stopped.
func FreePort(ctx context.Context) (int, error) {
	for {
		port := 20_000 + rand.IntN(12_000)
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		if ctx.Err() != nil {
			return 0, err
		}
	}
}

// FreeAddress is [FreePort] as an address, for a test.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	port, err := FreePort(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
