package gateway_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
	"github.com/pires/go-proxyproto/tlvparse"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/internal/test/testcert"
	"github.com/holter-iot/holter/liveness"
)

// header returns a PROXY header of version 2 with parts that follow the address.
func header(tb testing.TB, from string, tlvs ...proxyproto.TLV) []byte {
	tb.Helper()
	source := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))
	to := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 7700}
	h := proxyproto.Header{Version: 2, Command: proxyproto.PROXY, TransportProtocol: proxyproto.TCPv4, SourceAddr: source, DestinationAddr: to}
	if source.IP.To4() == nil {
		h.TransportProtocol, to.IP = proxyproto.TCPv6, net.IPv6loopback
	}
	if err := h.SetTLVs(tlvs); err != nil {
		tb.Fatal(err)
	}
	b, err := h.Format()
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// certificate returns what a proxy says of a client's certificate.
func certificate(tb testing.TB, name string, client uint8, verify uint32) proxyproto.TLV {
	tb.Helper()
	ssl := tlvparse.PP2SSL{Client: client, Verify: verify, TLV: []proxyproto.TLV{{Type: proxyproto.PP2_SUBTYPE_SSL_VERSION, Value: []byte("TLSv1.3")}}}
	if name != "" {
		ssl.TLV = append(ssl.TLV, proxyproto.TLV{Type: proxyproto.PP2_SUBTYPE_SSL_CN, Value: []byte(name)})
	}
	t, err := ssl.Marshal()
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// wholeCertificate returns what a proxy says that passes on the certificate itself.
func wholeCertificate(tb testing.TB, der []byte, verify uint32) proxyproto.TLV {
	tb.Helper()
	t, err := tlvparse.PP2SSL{Client: withCert, Verify: verify, TLV: []proxyproto.TLV{
		{Type: proxyproto.PP2_SUBTYPE_SSL_VERSION, Value: []byte("TLSv1.3")},
		{Type: proxyproto.PP2_SUBTYPE_SSL_CN, Value: []byte("pump-1")},
		{Type: proxyproto.PP2_SUBTYPE_SSL_CLIENT_CERT, Value: der},
	}}.Marshal()
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

const (
	overTLS  = tlvparse.PP2_BITFIELD_CLIENT_SSL
	withCert = overTLS | tlvparse.PP2_BITFIELD_CLIENT_CERT_CONN | tlvparse.PP2_BITFIELD_CLIENT_CERT_SESS
	resumed  = overTLS | tlvparse.PP2_BITFIELD_CLIENT_CERT_SESS
)

// raw returns a header of version 2 with any command, family and body.
func raw(command, family byte, body ...byte) []byte {
	b := append(bytes.Clone(proxyproto.SIGV2), command, family)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(body))), body...)
}

func TestProxyHeader(t *testing.T) {
	unix := make([]byte, 216)
	ca := testcert.New(t)
	whole := func(verify uint32, ask testcert.Ask) []byte {
		return header(t, "198.51.100.7:5000", wholeCertificate(t, ca.Issue(t, ask).Leaf.Raw, verify))
	}
	tests := []struct {
		name          string
		header        []byte
		address, cert string // "" : not said
		bad           string
	}{
		{name: "v1", header: []byte("PROXY TCP4 198.51.100.7 192.0.2.1 5000 7700\r\n"), address: "198.51.100.7"},
		{name: "v1 of IPv6", header: []byte("PROXY TCP6 2001:db8::7 2001:db8::1 5000 7700\r\n"), address: "2001:db8::7"},
		{name: "v1 of mapped IPv4", header: []byte("PROXY TCP6 ::ffff:198.51.100.7 ::ffff:192.0.2.1 5000 7700\r\n"), address: "198.51.100.7"},
		{name: "v1 unknown", header: []byte("PROXY UNKNOWN\r\n")},
		{name: "v1 unknown with more", header: []byte("PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n")},
		{name: "v2", header: header(t, "198.51.100.7:5000"), address: "198.51.100.7"},
		{name: "v2 of IPv6", header: header(t, "[2001:db8::7]:5000"), address: "2001:db8::7"},
		{name: "v2 local", header: raw(0x20, 0x00)},
		{name: "v2 local with an address", header: raw(0x20, 0x11, 198, 51, 100, 7, 192, 0, 2, 1, 1, 1, 1, 1)},
		{name: "v2 local of any length", header: raw(0x20, 0x11, 1, 2, 3)},
		{name: "v2 unspec", header: raw(0x21, 0x00)},
		{name: "v2 unspec with more", header: raw(0x21, 0x00, 4, 0, 1, 0)},
		{name: "v2 of a unix socket", header: raw(0x21, 0x31, unix...)},
		{name: "certificate", header: header(t, "198.51.100.7:5000", certificate(t, "pump-1", withCert, 0)), address: "198.51.100.7", cert: "pump-1"},
		{name: "certificate of a resumed session", header: header(t, "198.51.100.7:5000", certificate(t, "pump-1", resumed, 0)), address: "198.51.100.7", cert: "pump-1"},
		{name: "certificate that was not good", header: header(t, "198.51.100.7:5000", certificate(t, "pump-1", withCert, 10)), address: "198.51.100.7"},
		{name: "TLS without a certificate", header: header(t, "198.51.100.7:5000", certificate(t, "", overTLS, 0)), address: "198.51.100.7"},
		{name: "name without a certificate", header: header(t, "198.51.100.7:5000", certificate(t, "pump-1", overTLS, 0)), address: "198.51.100.7"},
		{name: "whole certificate", header: whole(0, testcert.Ask{Name: "pump-1"}), address: "198.51.100.7", cert: "pump-1"},
		{name: "whole certificate with an RSA key", header: whole(0, testcert.Ask{Name: "pump-1", RSA: true}), address: "198.51.100.7", cert: "pump-1"},
		{name: "whole certificate of another name", header: whole(0, testcert.Ask{Name: "pump-2"}), address: "198.51.100.7", cert: "pump-2"},
		{name: "whole certificate without a common name", header: whole(0, testcert.Ask{DNS: []string{"pump-1"}}), address: "198.51.100.7"},
		{name: "whole certificate that was not good", header: whole(10, testcert.Ask{Name: "pump-1", Names: []string{"pump-2"}}), address: "198.51.100.7"},
		{name: "two common names", header: whole(0, testcert.Ask{Name: "pump-1", Names: []string{"pump-2"}}), bad: "the client's certificate: it has 2 common names, and must have one"},
		{name: "broken certificate", header: header(t, "198.51.100.7:5000", wholeCertificate(t, []byte("no DER"), 0)), bad: "the client's certificate cannot be read"},
		{name: "TLS, and no version of it", header: header(t, "198.51.100.7:5000", proxyproto.TLV{Type: proxyproto.PP2_TYPE_SSL, Value: append([]byte{withCert, 0, 0, 0, 0}, "\x22\x00\x06pump-1"...)}), bad: "what the header says of TLS cannot be read"},
		{name: "TLS in part", header: header(t, "198.51.100.7:5000", proxyproto.TLV{Type: proxyproto.PP2_TYPE_SSL, Value: []byte{0, 0}}), bad: "what the header says of TLS cannot be read"},
		{name: "no TLS", header: header(t, "198.51.100.7:5000", proxyproto.TLV{Type: proxyproto.PP2_TYPE_SSL, Value: make([]byte, 5)}), address: "198.51.100.7"},
		{name: "other parts", header: header(t, "198.51.100.7:5000", proxyproto.TLV{Type: proxyproto.PP2_TYPE_AUTHORITY, Value: []byte("devices.example.com")}), address: "198.51.100.7"},
		{name: "none", header: []byte("HELLO pump-1\n"), bad: "there is no PROXY header"},
		{name: "v1 in lower case", header: []byte("proxy TCP4 198.51.100.7 192.0.2.1 5000 7700\r\n"), bad: "there is no PROXY header"},
		{name: "v1 without end", header: []byte("PROXY " + strings.Repeat("x", 200)), bad: "107 bytes at most"},
		{name: "v1 without carriage return", header: []byte("PROXY TCP4 198.51.100.7 192.0.2.1 5000 7700\n"), bad: "must end with"},
		{name: "v1 of another protocol", header: []byte("PROXY UDP4 198.51.100.7 192.0.2.1 5000 7700\r\n"), bad: "address family"},
		{name: "v1 with a name", header: []byte("PROXY TCP4 localhost 192.0.2.1 5000 7700\r\n"), bad: "invalid address"},
		{name: "v1 with a bad port", header: []byte("PROXY TCP4 198.51.100.7 192.0.2.1 70000 7700\r\n"), bad: "invalid port"},
		{name: "v2 with a bad version", header: raw(0x31, 0x11, make([]byte, 12)...), bad: "version and command"},
		{name: "v2 with a bad family", header: raw(0x21, 0x13, make([]byte, 12)...), bad: "address family"},
		{name: "v2 too short for its address", header: raw(0x21, 0x11, 1, 2, 3), bad: "invalid length"},
		{name: "v2 for datagrams", header: raw(0x21, 0x12, make([]byte, 12)...), bad: "for datagrams"},
		{name: "v2 too long", header: raw(0x21, 0x11, make([]byte, gateway.MaxProxyHeader)...), bad: "want at most"},
		{name: "v2 with half a part", header: raw(0x21, 0x11, append(make([]byte, 12), 2, 0, 9)...), bad: "truncated"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const after = "HELLO pump-1\n"
			input := append(bytes.Clone(tt.header), after...)
			n, address, name, err := gateway.ParseProxy(input)
			if tt.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tt.bad) {
					t.Fatalf("error = %v, want %q in it", err, tt.bad)
				}
				return
			}
			said := ""
			if address.IsValid() {
				said = address.String()
			}
			if err != nil || n != len(tt.header) || said != tt.address || name != tt.cert {
				t.Errorf("ParseProxy() = %d, %q, %q, %v, want %d, %q, %q", n, said, name, err, len(tt.header), tt.address, tt.cert)
			}
			if !bytes.HasSuffix(input, []byte(after)) || !bytes.HasPrefix(input, tt.header) {
				t.Error("the input was changed")
			}
			for k := range n {
				if m, _, _, err := gateway.ParseProxy(input[:k]); m != 0 || err != nil {
					t.Fatalf("ParseProxy() of the first %d bytes = %d, %v, want that more is asked for", k, m, err)
				}
			}
		})
	}
}

func FuzzProxyHeader(f *testing.F) {
	f.Add([]byte("PROXY TCP4 198.51.100.7 192.0.2.1 5000 7700\r\nHELLO"))
	f.Add([]byte("PROXY UNKNOWN\r\n"))
	f.Add(header(f, "198.51.100.7:5000", certificate(f, "pump-1", withCert, 0)))
	f.Add(header(f, "198.51.100.7:5000", wholeCertificate(f, testcert.New(f).Issue(f, testcert.Ask{Name: "pump-1", Names: []string{"pump-2"}}).Leaf.Raw, 0)))
	f.Add(header(f, "[2001:db8::7]:5000"))
	f.Add(raw(0x20, 0x00))
	f.Add(raw(0x21, 0x00, 4, 0, 1, 0))
	f.Add(raw(0x21, 0x31, make([]byte, 216)...))
	f.Fuzz(func(t *testing.T, input []byte) {
		n, address, name, err := gateway.ParseProxy(input)
		switch {
		case err != nil:
			if n != 0 || address.IsValid() || name != "" {
				t.Errorf("an error, and %d, %v, %q", n, address, name)
			}
			return
		case n == 0:
			if len(input) >= gateway.MaxProxyHeader {
				t.Errorf("%d bytes are not enough", len(input))
			}
			return
		case n > len(input) || n > gateway.MaxProxyHeader:
			t.Fatalf("took %d of %d bytes", n, len(input))
		}
		if m, a, c, err := gateway.ParseProxy(input[:n]); m != n || a != address || c != name || err != nil {
			t.Errorf("the header alone = %d, %v, %q, %v, with more behind it %d, %v, %q", m, a, c, err, n, address, name)
		}
		if m, _, _, err := gateway.ParseProxy(input[:n-1]); m != 0 || err != nil {
			t.Errorf("without its last byte = %d, %v, want that more is asked for", m, err)
		}
	})
}

// proxied is a listener whose neighbours are proxies.
func proxied() gateway.Listener {
	return gateway.Listener{Address: "127.0.0.1:0", Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

// through connects as a proxy would, and sends a header.
func (r *rig) through(header []byte) *device {
	r.t.Helper()
	d := r.dial()
	d.say(string(header))
	return d
}

func TestThroughProxy(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: []gateway.Listener{proxied()}, MaxPerAddress: 1, Guard: gateway.Password("s3cret")})
	first := r.through(header(t, "198.51.100.7:5000"))
	first.say("HELLO pump-1 s3cret ttl=200ms\n")
	first.expect("OK 1 …")
	second := r.through([]byte("PROXY TCP4 198.51.100.8 192.0.2.1 5000 7700\r\nHELLO pump-2 s3cret\n")) // in one segment
	second.expect("OK 1 …")
	third := r.through(header(t, "198.51.100.8:5001"))
	third.expect("ERR full …")
	third.expect("EOF")
	first.expect("BYE silence")
	first.expect("EOF")
	r.story(3)
	// Who leaves makes room at his address.
	second.say("BYE\n")
	second.expect("BYE")
	second.expect("EOF")
	for range 1000 {
		d := r.through(header(t, "198.51.100.8:5002"))
		d.say("HELLO pump-3 s3cret\n")
		if d.hear() == "OK 1 ttl=90" {
			return
		}
	}
	t.Error("the address of one that left stays taken")
}

func TestProxyCertificate(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: []gateway.Listener{proxied()}, Guard: gateway.Password("s3cret")})
	good := header(t, "198.51.100.7:5000", certificate(t, "pump-1", withCert, 0))
	d := r.through(good)
	d.say("HELLO pump-1\n") // without a token
	d.expect("OK 1 …")
	d = r.through(good)
	d.say("HELLO pump-2 s3cret\n")
	d.expect(`ERR unauthorized your certificate is that of "pump-1"`)
	d.expect("EOF")
	for _, bad := range [][]byte{
		header(t, "198.51.100.7:5000", certificate(t, "pump-1", withCert, 20)),
		header(t, "198.51.100.7:5000", certificate(t, "pump-1", overTLS, 0)),
		header(t, "198.51.100.7:5000"),
		raw(0x20, 0x00),
	} {
		d = r.through(bad)
		d.say("HELLO pump-1\n")
		d.expect("ERR unauthorized …")
		d.expect("EOF")
	}
}

// Nor can a device register as another, and come in with that one's token elsewhere.
func TestProxyCertificateRegisters(t *testing.T) {
	l := proxied()
	l.Protocols = []codec.Protocol{jt808.Protocol{}}
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: []gateway.Listener{l}})
	for name, want := range map[string]byte{"12345678901": 0, "12345678902": 4} { // 4: there is no such device
		d := &terminal{r.through(header(t, "198.51.100.7:5000", certificate(t, name, withCert, 0))), "12345678901"}
		if result, token := d.register(); result != want || (token != "") != (want == 0) {
			t.Errorf("registering with the certificate of %s = %d, token %q, want %d", name, result, token, want)
		}
	}
}

// A proxy may ask whether the gateway is well, in a connection of its own, or just by connecting.
func TestProxyHealthCheck(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: []gateway.Listener{proxied()}, MaxPerAddress: 1})
	own := r.through(raw(0x20, 0x00))
	own.say("HELLO proxy\n")
	own.expect("OK 1 …") // and its address is that of the proxy
	other := r.through([]byte("PROXY UNKNOWN\r\n"))
	other.expect("ERR full …")
	for range 3 {
		_ = r.dial().conn.Close()
	}
	d := r.through(header(t, "198.51.100.7:5000"))
	d.say("HELLO pump-1\n")
	d.expect("OK 1 …")
	if n := r.gateway.Stats().BadProxyHeader; n != 0 {
		t.Errorf("bad headers = %d, want 0", n)
	}
}

func TestHeaderByteByByte(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: []gateway.Listener{proxied()}, Guard: gateway.Password("s3cret")})
	d := r.dial()
	for _, b := range append(header(t, "198.51.100.7:5000", certificate(t, "pump-1", withCert, 0)), "HELLO pump-1\n"...) {
		d.say(string([]byte{b}))
	}
	d.expect("OK 1 …")
}

func TestBadProxyHeader(t *testing.T) {
	var said lockedBuffer
	r := startRig(t, liveness.Config{}, gateway.Config{
		Listen: []gateway.Listener{proxied()}, HandshakeTimeout: 300 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&said, nil)),
	})
	for _, bad := range []string{"HELLO pump-1\n", "PROXY nonsense\r\n", string(raw(0x21, 0x11, 1)), "\x16\x03\x01"} {
		r.through([]byte(bad)).expect("EOF")
	}
	if n := r.gateway.Stats().BadProxyHeader; n != 4 {
		t.Errorf("bad headers = %d, want 4", n)
	}
	if n := strings.Count(said.String(), "has no valid PROXY header"); n != 3 { // the 1st, 2nd and 4th
		t.Errorf("said %d times that headers are bad, want 3:\n%s", n, said.String())
	}
	slow := r.through([]byte("PROXY TCP4 198"))
	slow.expect("ERR timeout …")
	slow.expect("EOF")
	if st := r.gateway.Stats(); st.Connections != 0 || st.HandshakeTimeouts != 1 {
		t.Errorf("connections = %d, handshake timeouts = %d, want 0 and 1", st.Connections, st.HandshakeTimeouts)
	}
}

// From elsewhere a header is nothing but bytes.
func TestUntrustedProxy(t *testing.T) {
	l := proxied()
	l.Proxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: []gateway.Listener{l}, Guard: gateway.Password("s3cret")})
	d := r.through(header(t, "198.51.100.7:5000", certificate(t, "pump-1", withCert, 0)))
	d.say("HELLO pump-1\n")
	d.expect("ERR …")
	d = r.through([]byte("PROXY TCP4 198.51.100.7 192.0.2.1 5000 7700\r\n"))
	d.expect("ERR …")
	d = r.dial()
	d.say("HELLO pump-1 s3cret\n")
	d.expect("OK 1 …")
	if n := r.gateway.Stats().BadProxyHeader; n != 0 {
		t.Errorf("bad headers = %d, want 0", n)
	}
}

// Wrong tokens are limited for each device behind a proxy, and not for the proxy.
func TestFailuresBehindProxy(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: []gateway.Listener{proxied()}, Guard: gateway.Password("s3cret")})
	for i := range 70 {
		d := r.through(header(t, fmt.Sprintf("198.51.100.7:%d", 5000+i)))
		d.say("HELLO pump-1 wrong\n")
		d.expect("ERR unauthorized …")
	}
	if st := r.gateway.Stats(); st.Throttled == 0 {
		t.Error("wrong tokens of one device were not limited")
	}
	d := r.through(header(t, "198.51.100.8:5000"))
	d.say("HELLO pump-2 s3cret\n")
	d.expect("OK 1 …")
}

// What a client sends at once, behind its header, is not lost, however much it is.
func TestMuchBehindHeader(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: []gateway.Listener{proxied()}})
	d := r.dial()
	var all bytes.Buffer
	all.Write(header(t, "198.51.100.7:5000"))
	all.WriteString("HELLO pump-1\n")
	for i := range 2000 {
		fmt.Fprintf(&all, "PING %d\n", i)
	}
	go func() { _, _ = io.Copy(d.conn, &all) }()
	d.expect("OK 1 …")
	for i := range 2000 {
		d.expect(fmt.Sprintf("PONG %d", i))
	}
}
