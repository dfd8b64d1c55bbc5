package gateway

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A connection that sends too much for a minute is closed; one that is quiet in between is not.
func TestFlood(t *testing.T) {
	for name, quiet := range map[string]bool{"without a rest": false, "with a rest": true} {
		t.Run(name, func(t *testing.T) {
			g, run := newGateway(t, Listener{Address: "127.0.0.1:0"})
			stop := run()
			c := newConn(g.loops[0], g.listeners[0], netip.MustParseAddr("192.0.2.1"))
			x := &exchange{gateway: g, counts: new(loopCounters)}
			c.prepare(x)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			begin := x.readAt
			flood := []byte("HELLO flooder ttl=60s\n" + strings.Repeat("PING\n", 1000))
			for step := time.Duration(0); step < mostSlow+burst; step += intakeStep {
				if quiet && step > mostSlow/2 && step < mostSlow/2+burst {
					continue
				}
				x.readAt, x.out = begin.Add(step), x.out[:0]
				used, end, _ := c.listen(x, flood)
				if end {
					t.Fatalf("after %v: the end: %q", step, x.out)
				}
				if flood = flood[used:]; len(flood) < 5000 {
					flood = append(flood, strings.Repeat("PING\n", 1000)...)
				}
			}
			want := []uint64{1, 1}
			if quiet {
				want = []uint64{2, 0}
			}
			if got := []uint64{g.counts.slowed.Load(), g.counts.floods.Load()}; !slices.Equal(got, want) {
				t.Errorf("slowed, floods = %v, want %v", got, want)
			}
		})
	}
}

// The sockets of a listener hold as little as its limit asks for. The kernel takes twice what it is asked for.
func TestBacklog(t *testing.T) {
	for limit, want := range map[int]int{0: 16 << 10, 8000: 8 << 10, 1 << 20: 256 << 10} {
		g, run := newGateway(t, Listener{Address: "127.0.0.1:0", MaxBytes: limit})
		run()
		raw, err := g.listeners[0].accepts[0].Listener.(*net.TCPListener).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		if e := raw.Control(func(fd uintptr) { size, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF) }); e != nil || err != nil {
			t.Fatal(e, err)
		}
		if size != want {
			t.Errorf("with %d bytes a second a socket holds %d bytes, want %d", limit, size, want)
		}
	}
}
