package cli

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/internal/test/testcert"
)

func TestDTUMistakes(t *testing.T) {
	file := tempFile(t, "listen:\n- address: 127.0.0.1:0\n  dtu:\n    registration: '(a)(b)'\n    heartbeat: "+strings.Repeat("h", 200)+"\n")
	var out, errs strings.Builder
	code := run(t.Context(), []string{"serve", "--config", file, "--data", t.TempDir(), "--http", "127.0.0.1:0", "--mqtt", "off"}, &out, &errs)
	for _, want := range []string{
		"the configuration has mistakes", file + ":4:19: listen[0].dtu.registration: has 2 groups, want one for the id",
		file + ":5:16: listen[0].dtu.heartbeat: has 200 bytes, want at most 128",
	} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%q is missing from\n%s", want, errs.String())
		}
	}
	if code != exitUsage {
		t.Errorf("code = %d, want %d", code, exitUsage)
	}
}

// ports are the device ports of a running program, by what is spoken there.
func (p *program) ports() map[string]string {
	all := map[string]string{}
	for text := range strings.SplitSeq(p.devices, ", ") {
		words, address, _ := strings.Cut(text, "://")
		all[words] = address
	}
	return all
}

// firstLine says something and returns the first line of the answer.
func firstLine(t *testing.T, c net.Conn, text string) string {
	t.Helper()
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute)) // only so that a failing test ends
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(answer)
}

// TestServeListeners: all kinds of device ports, from the file to a device that is online.
func TestServeListeners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := testcert.New(t)
	certPEM, keyPEM := testcert.PEM(t, ca.Issue(t, testcert.Ask{Name: "gateway", DNS: []string{"localhost"}}))
	caFile, certFile, keyFile := testcert.Write(t, dir, "ca.pem", ca.PEM()), testcert.Write(t, dir, "cert.pem", certPEM), testcert.Write(t, dir, "key.pem", keyPEM)
	devices := tempFile(t, "12345678901\n355837089512343\npump-1 secret:t0ken\npump-2 secret:t0ken\npump-3\n")
	file := tempFile(t, fmt.Sprintf(`
devices_file: %s
mqtt: {listen: off}
http: 127.0.0.1:0
log: {format: json}
listen:
- any://127.0.0.1:0
- udp+line://127.0.0.1:0
- {address: "127.0.0.1:0", dtu: {registration: '\d{15}'}}
- {address: "127.0.0.1:0", tls: {cert: %s, key: %s, client_ca: %s}}
`, devices, certFile, keyFile, caFile))
	data := filepath.Join(dir, "data")
	p, ready := launchProgram(t, "serve", "--config", file, "--data", data)
	if !<-ready {
		t.Fatalf("holter serve did not start:\n%s", p.logged())
	}
	ports := p.ports()
	dial := func(network, words string) net.Conn {
		t.Helper()
		c, err := (&net.Dialer{}).DialContext(t.Context(), network, ports[words])
		if err != nil {
			t.Fatalf("%s: %v; the ports are %v", words, err, ports)
		}
		return c
	}
	const all = "mqtt+jt808+gt06+teltonika+frame+line"
	if got := firstLine(t, dial("tcp", all), "HELLO pump-1 t0ken\n"); !strings.HasPrefix(got, "OK ") {
		t.Errorf("line: %q", got)
	}
	if got := firstLine(t, dial("tcp", all), "HELLO pump-1\n"); !strings.HasPrefix(got, "ERR unauthorized") {
		t.Errorf("line without a token: %q", got)
	}
	if got := firstLine(t, dial("udp", "udp+line"), "HELLO pump-2 t0ken\n"); !strings.HasPrefix(got, "OK ") {
		t.Errorf("datagram: %q", got)
	}
	tracker := dial("tcp", all)
	t.Cleanup(func() { _ = tracker.Close() })
	if _, err := tracker.Write(append([]byte("\x7e"), jt808.Client{Old: true}.AppendHello(nil, "12345678901", "", 0)...)); err != nil {
		t.Fatal(err)
	}
	modem := dial("tcp", "dtu")
	t.Cleanup(func() { _ = modem.Close() })
	if _, err := io.WriteString(modem, "355837089512343"); err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(ca.Cert)
	secured := tls.Client(dial("tcp", "tls+line"), &tls.Config{
		RootCAs: trusted, ServerName: "localhost", Certificates: []tls.Certificate{ca.Issue(t, testcert.Ask{Name: "pump-3"})},
	})
	if got := firstLine(t, secured, "HELLO pump-3\n"); !strings.HasPrefix(got, "OK ") {
		t.Errorf("TLS: %q", got)
	}
	for _, id := range []string{"12345678901", "355837089512343", "pump-1", "pump-2", "pump-3"} {
		p.untilGet("/v1/devices/"+id, http.StatusOK, `"state":"online"`)
	}
	p.untilGet("/metrics", http.StatusOK, `holter_gateway_odd_total{protocol="jt808",what="garbage"} 1`)
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Errorf("holter serve ended with %v\n%s", err, p.logged())
	}
	key, err := filepath.Glob(filepath.Join(data, "devices.key"))
	if err != nil || len(key) != 1 {
		t.Errorf("the key of devices that register: %v, %v", key, err)
	}
}
