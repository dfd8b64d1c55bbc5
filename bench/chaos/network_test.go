package chaos

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holter-iot/holter/bench/internal/network"
	"github.com/holter-iot/holter/internal/test/testenv"
)

// newNetworkTrial returns a run with a network, and skips the test if there is none to be had.
func newNetworkTrial(t *testing.T) *trial {
	t.Helper()
	r := &trial{config: Config{Dir: t.TempDir(), Namespaces: true, Rules: defaults().Rules}, record: newRecord()}
	if r.newNetwork(); r.network == nil {
		if r.config.Namespaces || len(r.notes) != 1 {
			t.Errorf("without a network, namespaces are %v and the notes %q", r.config.Namespaces, r.notes)
		}
		t.Skip(r.notes)
	}
	t.Cleanup(func() {
		if err := r.network.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// Without a network all is at addresses of this machine.
func TestPlaceHere(t *testing.T) {
	r := &trial{}
	r.newNetwork()
	var p program
	if at, err := r.place(&p, 100, 7); at != "127.0.100.7" || err != nil || p.within != nil {
		t.Errorf("it is at %q, in %q, %v", at, p.within, err)
	}
	if at := r.here(atDatabase, loopback); at != loopback || r.opens() != nil || r.secured() != nil || r.certify() != nil {
		t.Errorf("the database is at %q, and there are flags for a network", at)
	}
}

// A program that was placed has an address of its own, and what it says by way of a wire arrives, however slow and lossy that is.
func TestWire(t *testing.T) {
	r := newNetworkTrial(t)
	var p program
	at, err := r.place(&p, 100, 1)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(r.here(atDatabase, ""), "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	address := listener.Addr().String()
	w, err := r.newWire(net.JoinHostPort(at, "1"), address)
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(w.address(), ":")
	talker := append(p.within, "bash", "-c", "exec 3<>/dev/tcp/"+host+"/"+port+"; exec cat >&3")
	cmd := exec.CommandContext(t.Context(), talker[0], talker[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { _ = in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if from, _, _ := strings.Cut(conn.RemoteAddr().String(), ":"); from != at {
		t.Errorf("it is at %s, want %s", from, at)
	}
	lines := bufio.NewReader(conn)
	for _, state := range []linkState{whole, slow, lossy, whole} {
		w.set(state)
		if _, err := in.Write([]byte("hello\n")); err != nil {
			t.Fatal(err)
		}
		if text, err := lines.ReadString('\n'); text != "hello\n" || err != nil {
			t.Errorf("state %d: got %q, %v", state, text, err)
		}
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
	for _, bad := range [][2]string{{"x", address}, {address, "x"}} {
		if _, err := r.newWire(bad[0], bad[1]); err == nil {
			t.Errorf("a wire from %s to %s", bad[0], bad[1])
		}
	}
}

func TestCondition(t *testing.T) {
	for range 100 {
		if c := lossy.condition(); c.Delay < lossyLeast || c.Delay > lossyMost || c.Jitter > c.Delay || c.Loss < lossLeast || c.Loss > lossMost {
			t.Errorf("a lossy link is %+v", c)
		}
	}
	if c := slow.condition(); c.Delay-c.Jitter != slowLeast || c.Delay+c.Jitter != slowMost || c.Loss != 0 {
		t.Errorf("a slow link is %+v", c)
	}
	for _, s := range []linkState{whole, hanging, hangingTo, hangingFrom} {
		if c := s.condition(); c != (network.Condition{}) {
			t.Errorf("in state %d, what comes through is %+v", s, c)
		}
	}
}

// In a network the proxy before the database resets connections, and the wire does all else.
func TestLinkOverWire(t *testing.T) {
	r := newNetworkTrial(t)
	l, err := linkTo(t.Context(), r.here(atDatabase, ""), "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.close() }()
	if l.wire, err = r.newWire(l.address(), l.address()); err != nil {
		t.Fatal(err)
	}
	for state, want := range map[linkState]linkState{refused: refused, hanging: whole, slow: whole, whole: whole} {
		if l.set(state); l.state != want {
			t.Errorf("in state %d the proxy is in state %d, want %d", state, l.state, want)
		}
	}
}

// Both ends of a link over the network show a certificate, which names the nodes.
func TestCertify(t *testing.T) {
	r := newNetworkTrial(t)
	r.nodes, r.ears.all = []*server{{ears: "198.18.0.77:7710"}}, []*ear{{}}
	if err := r.certify(); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{1, 3, 5} {
		if file := r.secured()[i]; filepath.Dir(file) != r.config.Dir {
			t.Errorf("the file %q is elsewhere", file)
		} else if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	if r.nodes[0].ears = "x"; r.certify() == nil {
		t.Error("there is a certificate for a node at x")
	}
}

func TestNoAddressLeft(t *testing.T) {
	testenv.Check(t) // it makes 250 namespaces
	r := newNetworkTrial(t)
	for err := error(nil); err == nil; {
		_, err = r.place(new(program), 100, 1)
	}
	r.config.Ears = 1
	if err := r.newEars(t.Context()); !errors.Is(err, network.ErrFull) {
		t.Errorf("an ear without an address: %v", err)
	}
	if err := r.newNode(t.Context(), new(server), ""); !errors.Is(err, network.ErrFull) {
		t.Errorf("a node without an address: %v", err)
	}
}
