//go:build linux

package attack

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
)

const (
	// newcomersEvery is the time between two honest devices that come while an attack goes on, and
	// admittedWithin how long each of them may take, with as many tries as it needs.
	newcomersEvery = 250 * time.Millisecond
	admittedWithin = 5 * time.Second
)

// newcomers are honest devices with the right token that come while an attack goes on.
type newcomers struct {
	came, admitted atomic.Int64
}

// come lets devices come to an address until ctx ends, and waits for the last of them.
func (n *newcomers) come(ctx context.Context, to string) {
	var all sync.WaitGroup
	for i := 0; run.Wait(ctx, newcomersEvery) == nil; i++ {
		all.Go(func() {
			n.came.Add(1)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), admittedWithin)
			defer cancel()
			for ctx.Err() == nil {
				if hello(ctx, to, fmt.Sprintf("newcomer-%d", i)) {
					n.admitted.Add(1)
					return
				}
				_ = run.Wait(ctx, 100*time.Millisecond) // as a device that tries again
			}
		})
	}
	all.Wait()
}

// hello says hello and goodbye on a connection, and reports whether the device was admitted.
func hello(ctx context.Context, to, id string) bool {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 2, 1)}}
	c, err := d.DialContext(ctx, "tcp", to)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	end, _ := ctx.Deadline()
	_ = c.SetDeadline(end)
	if _, err := fmt.Fprintf(c, "HELLO %s %s ttl=1h\n", id, token); err != nil {
		return false
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	_, _ = c.Write([]byte("BYE\n"))
	return err == nil && strings.HasPrefix(answer, "OK ")
}
