//go:build linux

package network_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/bench/internal/network"
)

// newNetwork makes a network in which this program has two addresses.
func newNetwork(t *testing.T) *network.Network {
	t.Helper()
	n, err := network.New(2)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) {
		t.Skipf("there are no networks here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// listen listens for datagrams, on a machine or, if there is none, here.
func listen(t *testing.T, h *network.Host, address netip.Addr) *net.UDPConn {
	t.Helper()
	var conn *net.UDPConn
	open := func() (err error) {
		conn, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(address, 0)))
		return err
	}
	do := open
	if h != nil {
		do = func() error { return h.Do(open) }
	}
	if err := do(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func send(t *testing.T, from, to *net.UDPConn, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if _, err := from.WriteTo([]byte(text), to.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
}

func wantNext(t *testing.T, at *net.UDPConn, want string) {
	t.Helper()
	_ = at.SetReadDeadline(time.Now().Add(time.Minute)) // fails only if it is closed
	buf := make([]byte, 100)
	if n, err := at.Read(buf); err != nil || string(buf[:n]) != want {
		t.Errorf("got %q, %v; want %q", buf[:n], err, want)
	}
}

// What a machine says reaches another one, unless the way there is cut. The way back is another one.
func TestCut(t *testing.T) {
	n := newNetwork(t)
	a, err := n.Add()
	if err != nil {
		t.Fatal(err)
	}
	b, err := n.Add()
	if err != nil {
		t.Fatal(err)
	}
	here, atA, atB := listen(t, nil, n.Own(1)), listen(t, a, a.Addr), listen(t, b, b.Addr)
	for _, lost := range []network.Condition{{Cut: true}, {Loss: 1}} {
		n.Set(a.Addr, b.Addr, lost)
		send(t, atA, atB, "lost")
		send(t, atB, atA, "back")
		wantNext(t, atA, "back")
		send(t, atA, here, "elsewhere")
		wantNext(t, here, "elsewhere")
		n.Set(a.Addr, b.Addr, network.Condition{})
		send(t, atA, atB, "there")
		wantNext(t, atB, "there")
	}
}

// A slow way takes its time, and keeps the order.
func TestDelay(t *testing.T) {
	n := newNetwork(t)
	a, err := n.Add()
	if err != nil {
		t.Fatal(err)
	}
	here, there := listen(t, nil, n.Own(0)), listen(t, a, a.Addr)
	n.Set(n.Own(0), a.Addr, network.Condition{Delay: 30 * time.Millisecond, Jitter: 20 * time.Millisecond})
	began := time.Now()
	send(t, here, there, "1", "2", "3", "4", "5")
	wantNext(t, there, "1")
	if took := time.Since(began); took < 10*time.Millisecond {
		t.Errorf("it took %v", took)
	}
	for _, want := range []string{"2", "3", "4", "5"} {
		wantNext(t, there, want)
	}
}

// A program runs on a machine: it has that machine's address and no other.
func TestCommand(t *testing.T) {
	n := newNetwork(t)
	h, err := n.Add()
	if err != nil {
		t.Fatal(err)
	}
	command := append(h.Command(), "cat", "/proc/net/fib_trie")
	out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
	if err != nil {
		t.Skipf("nsenter: %v, %s", err, out)
	}
	if text := string(out); !strings.Contains(text, h.Addr.String()) || strings.Contains(text, n.Own(0).String()) {
		t.Errorf("the machine %v has %s", h.Addr, text)
	}
}

// Two networks at a time have different addresses, and a full one has none left.
func TestAddresses(t *testing.T) {
	n, other := newNetwork(t), newNetwork(t)
	if n.Own(0) == other.Own(0) || n.Own(0).Next() != n.Own(1) {
		t.Errorf("the networks are at %v and %v", n.Own(0), other.Own(0))
	}
	if _, err := network.New(300); !errors.Is(err, network.ErrFull) {
		t.Errorf("a network of 300 addresses: %v", err)
	}
}
