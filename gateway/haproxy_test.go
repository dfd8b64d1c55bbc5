package gateway_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/internal/test/testcert"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/liveness"
)

// haproxy is a process of HAProxy that serves in front of a gateway.
type haproxy struct {
	t     *testing.T
	cmd   *exec.Cmd
	addrs []string // of its front ends
	said  *lockedBuffer
	ended chan struct{} // closed when the process has ended
}

// front is one front end of HAProxy and what is behind it.
type front struct {
	bind   string // options of the address that devices connect to
	server string // HOST:PORT
	option string // how the server is spoken to
}

// startHAProxy starts HAProxy on free ports. It is given the listening sockets, so that nobody else
// takes the ports, and so that devices can connect from the first moment on.
func startHAProxy(t *testing.T, fronts ...front) *haproxy {
	t.Helper()
	h := &haproxy{t: t, said: new(lockedBuffer), ended: make(chan struct{})}
	var config strings.Builder
	config.WriteString("defaults\n mode tcp\n timeout connect 5s\n timeout client 1m\n timeout server 1m\n")
	var sockets []*os.File
	for i, f := range fronts {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		file, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		h.addrs = append(h.addrs, l.Addr().String())
		_ = l.Close()
		sockets = append(sockets, file)
		fmt.Fprintf(&config, "listen front%d\n bind fd@%d %s\n server gateway %s %s\n", i, 3+i, f.bind, f.server, f.option)
	}
	file := testcert.Write(t, t.TempDir(), "haproxy.cfg", []byte(config.String()))
	h.cmd = exec.CommandContext(t.Context(), testenv.Program(t, "haproxy"), "-db", "-f", file)
	h.cmd.ExtraFiles = sockets
	h.cmd.Stdout, h.cmd.Stderr = h.said, h.said
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, s := range sockets {
		_ = s.Close()
	}
	go func() {
		defer close(h.ended)
		_ = h.cmd.Wait() // it is killed
	}()
	t.Cleanup(h.kill)
	return h
}

// kill ends HAProxy at once, as SIGKILL does.
func (h *haproxy) kill() {
	_ = h.cmd.Process.Kill()
	<-h.ended
}

// dial connects to a front end from an address of this machine, over TLS if c is not nil.
func (h *haproxy) dial(front int, from string, c *tls.Config) *device {
	h.t.Helper()
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(h.t.Context(), "tcp", h.addrs[front])
	if err != nil {
		h.t.Fatalf("%v; HAProxy said: %s", err, h.said)
	}
	h.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute)) // only so that a failing test ends
	d := &device{t: h.t, conn: conn}
	d.init()
	if c != nil {
		d.secure(c)
	}
	return d
}

// termination writes what HAProxy needs to speak TLS, and returns the options of bind.
func (k keys) termination(t *testing.T, verify string) string {
	t.Helper()
	dir := t.TempDir()
	certPEM, keyPEM := testcert.PEM(t, k.server.Certificates[0])
	return fmt.Sprintf("ssl crt %s ca-file %s verify %s",
		testcert.Write(t, dir, "server.pem", certPEM, keyPEM), testcert.Write(t, dir, "ca.pem", k.ca.PEM()), verify)
}

// ofDevices waits until there are n events of devices and returns them. On a busy machine there may
// be others: that the gateway was deaf.
func (r *rig) ofDevices(n int) []liveness.Event {
	r.t.Helper()
	for all := n; ; all++ {
		events := slices.DeleteFunc(r.events(all), func(e liveness.Event) bool { return strings.HasPrefix(e.Subject, "source/") })
		if len(events) >= n {
			return events
		}
	}
}

// HAProxy speaks TLS with the devices, looks at their certificates, and says in the PROXY header
// whose they are.
func TestHAProxy(t *testing.T) {
	testenv.Check(t)
	k := newKeys(t)
	r := startRig(t, liveness.Config{Policy: liveness.Policy{Timeout: time.Minute, CloseGrace: 300 * time.Millisecond}},
		gateway.Config{Listen: []gateway.Listener{proxied()}, MaxPerAddress: 1, Guard: gateway.Password("s3cret")})
	h := startHAProxy(t, front{k.termination(t, "required"), r.addr, "send-proxy-v2-ssl-cn check check-send-proxy inter 50ms"})

	pump := k.client(k.device(t, "pump-1"))
	d := h.dial(0, "127.0.0.2", pump)
	d.say("HELLO pump-1\n") // no token: the certificate says it
	d.expect("OK 1 ttl=60")
	d.say("PING 1\n")
	d.expect("PONG 1")

	// It can be nobody else, and its address is its own.
	liar := h.dial(0, "127.0.0.3", pump)
	liar.say("HELLO pump-2 s3cret\n")
	liar.expect(`ERR unauthorized your certificate is that of "pump-1"`)
	full := h.dial(0, "127.0.0.2", k.client(k.device(t, "pump-2")))
	full.expect("ERR full …")

	// Newest wins, behind the proxy too.
	newer := h.dial(0, "127.0.0.4", pump)
	newer.say("HELLO pump-1\n")
	newer.expect("OK 2 …")
	d.expect("BYE replaced…")
	d.expect("EOF")

	// A client that is gone without a word.
	_ = newer.conn.(*tls.Conn).NetConn().(*net.TCPConn).SetLinger(0)
	_ = newer.conn.(*tls.Conn).NetConn().Close()
	if e := r.ofDevices(3)[2]; e.ID() != "pump-1:3" || e.Type != liveness.DeviceOffline || e.Reason != liveness.Closed {
		t.Errorf("after its end: %s %s %s, want that pump-1 is offline, closed", e.ID(), e.Type, e.Reason)
	}
	// A client that says nothing any more.
	silent := h.dial(0, "127.0.0.5", k.client(k.device(t, "pump-3")))
	silent.say("HELLO pump-3 ttl=300ms\n")
	silent.expect("OK 1 …")
	silent.expect("BYE silence")
	silent.expect("EOF")

	// Health checks are welcome: there have been some by now, and they are nobody's mistake.
	st := r.gateway.Stats()
	for i := 0; st.Accepted < 20 && i < 200; st, i = r.gateway.Stats(), i+1 {
		<-time.After(50 * time.Millisecond)
	}
	if st.Accepted < 20 || st.BadProxyHeader != 0 || st.Broken != 1 { // the liar
		t.Errorf("accepted = %d, bad headers = %d, broken = %d, want 20 or more, 0 and 1", st.Accepted, st.BadProxyHeader, st.Broken)
	}

	// When HAProxy dies, its devices have the grace of connections that were closed, and then they
	// are offline.
	last := h.dial(0, "127.0.0.6", k.client(k.device(t, "pump-4")))
	last.say("HELLO pump-4\n")
	last.expect("OK 1 …")
	before := len(r.ofDevices(6))
	killed := time.Now()
	h.kill()
	e := r.ofDevices(before + 1)[before]
	if e.ID() != "pump-4:2" || e.Type != liveness.DeviceOffline || e.Reason != liveness.Closed {
		t.Errorf("after HAProxy was killed: %s %s %s, want that pump-4 is offline, closed", e.ID(), e.Type, e.Reason)
	}
	if took := time.Since(killed); took < 200*time.Millisecond {
		t.Errorf("the verdict came %v after the end of HAProxy, want the grace of 300ms", took)
	}
}

// The other ways in which HAProxy may stand in front of a gateway.
func TestHAProxyOtherwise(t *testing.T) {
	testenv.Check(t)
	k := newKeys(t).asking(tls.VerifyClientCertIfGiven)
	secure := k.listener()
	secure.Proxies = proxied().Proxies
	r := startRig(t, liveness.Config{}, gateway.Config{
		Listen: []gateway.Listener{proxied(), secure}, MaxPerAddress: 1, Guard: gateway.Password("s3cret"),
	})
	plain, overTLS := r.gateway.Addrs()[0].String(), r.gateway.Addrs()[1].String()
	h := startHAProxy(t,
		front{"", plain, "send-proxy"},
		front{"", overTLS, "send-proxy-v2"},
		front{k.termination(t, "optional"), plain, "send-proxy-v2-ssl-cn"},
		front{k.termination(t, "optional crt-ignore-err all ca-ignore-err all"), plain, "send-proxy-v2-ssl-cn"})
	stranger := testcert.New(t).Issue(t, testcert.Ask{Name: "pump-4"})
	tests := []struct {
		name  string
		front int
		tls   *tls.Config
		say   string
		want  string
	}{
		{"version 1", 0, nil, "HELLO pump-1 s3cret\n", "OK 1 …"},
		{"TLS passed through", 1, k.client(k.device(t, "pump-2")), "HELLO pump-2\n", "OK 1 …"},
		{"TLS passed through, without a certificate", 1, k.client(), "HELLO pump-2\n", "ERR unauthorized wrong…"},
		{"without a certificate", 2, k.client(), "HELLO pump-3\n", "ERR unauthorized wrong…"},
		{"without a certificate, but a token", 2, k.client(), "HELLO pump-3 s3cret\n", "OK 1 …"},
		{"certificate that HAProxy let pass, though it is bad", 3, k.client(stranger), "HELLO pump-4\n", "ERR unauthorized wrong…"},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := *h
			h.t = t
			from := fmt.Sprintf("127.0.1.%d", i+1)
			d := h.dial(tt.front, from, tt.tls)
			d.say(tt.say)
			d.expect(tt.want)
			if tt.front == 0 { // the address is the device's
				h.dial(0, from, nil).expect("ERR full …")
				other := h.dial(0, "127.0.2.1", nil)
				other.say("HELLO pump-9 s3cret\n")
				other.expect("OK 1 …")
			}
		})
	}
}

// HAProxy passes on the first of two common names, and no sign of the other; with the rule that
// docs/reference/protocols.md gives it, it refuses such a certificate, as the gateway's own TLS does.
func TestHAProxyTwoNames(t *testing.T) {
	testenv.Check(t)
	const rule = "tcp-request session reject if { ssl_c_s_dn(CN,2) -m found }"
	page, err := os.ReadFile("../docs/reference/protocols.md")
	if err != nil || !strings.Contains(string(page), "\n    "+rule+"\n") {
		t.Errorf("the rule is not in docs/reference/protocols.md: %v", err)
	}
	k := newKeys(t)
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: []gateway.Listener{proxied()}, Guard: gateway.Password("s3cret")})
	bind := k.termination(t, "required")
	h := startHAProxy(t, front{bind, r.addr, "send-proxy-v2-ssl-cn"}, front{bind + "\n " + rule, r.addr, "send-proxy-v2-ssl-cn"})
	one, two := k.client(k.device(t, "pump-1")), k.client(k.ca.Issue(t, testcert.Ask{Name: "pump-1", Names: []string{"pump-2"}}))
	for front, c := range []*tls.Config{two, one} {
		d := h.dial(front, "127.0.0.2", c)
		d.say("HELLO pump-1\n")
		d.expect("OK …")
	}
	h.dial(1, "127.0.0.2", two).expect("EOF")
}
