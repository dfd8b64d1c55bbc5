package gateway_test

import (
	"net"
	"testing"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// Of two gateways at one address, the one that is not paused gets every connection and every datagram.
func TestPause(t *testing.T) {
	at := testenv.FreeAddress(t)
	both := func() *rig {
		speaks := []codec.Protocol{line.Protocol{}}
		return startRig(t, liveness.Config{}, gateway.Config{ReusePort: true, Loops: 2, Listen: []gateway.Listener{
			{Address: at, Protocols: speaks}, {Address: at, Protocols: speaks, Packets: true},
		}})
	}
	one, two := both(), both()
	const n = 40
	heard := func(r *rig) (connections, datagrams uint64) {
		st := r.gateway.Stats()
		return st.Accepted, st.Packets.Received
	}
	for _, turn := range []struct{ paused, other *rig }{{one, two}, {two, one}, {one, two}} {
		if err := turn.paused.gateway.Operator().Pause(); err != nil {
			t.Fatal(err)
		}
		before, beforePackets := heard(turn.paused)
		connections, datagrams := heard(turn.other)
		for range n {
			for _, network := range []string{"tcp", "udp"} {
				c, err := (&net.Dialer{}).DialContext(t.Context(), network, at)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, err := c.Write([]byte("HELLO pump\n")); err != nil {
					t.Fatal(err)
				}
			}
		}
		testwait.Until(t, "the other has all", func() bool {
			c, d := heard(turn.other)
			return c == connections+n && d == datagrams+n
		})
		if c, d := heard(turn.paused); c != before || d != beforePackets {
			t.Errorf("a paused gateway has %d more connections and %d more datagrams", c-before, d-beforePackets)
		}
		if err := turn.paused.gateway.Operator().Resume(); err != nil {
			t.Fatal(err)
		}
	}
}

// A port that the kernel has chosen is the same after a pause.
func TestPauseOfAnyPort(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: []gateway.Listener{{Address: "127.0.0.1:0"}, {Address: ":0", Packets: true}}})
	for range 2 {
		if err := r.gateway.Operator().Pause(); err != nil {
			t.Fatal(err)
		}
		if _, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.addr); err == nil {
			t.Error("a paused gateway accepts")
		}
		if err := r.gateway.Operator().Resume(); err != nil {
			t.Fatal(err)
		}
	}
	d := r.dial()
	d.say("HELLO pump\n")
	d.expect("OK 1 ttl=90")
	c, err := (&net.Dialer{}).DialContext(t.Context(), "udp", r.gateway.Addrs()[1].String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("HELLO lamp\n")); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the datagram is read", func() bool { return r.gateway.Stats().Packets.Received == 1 })
}
