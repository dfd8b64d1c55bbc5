package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway/cert"
	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/testcert"
)

// TestEveryProtocol: package config, which may not ask the gateway, knows the protocols that there are, and what comes in datagrams.
func TestEveryProtocol(t *testing.T) {
	for _, text := range []string{"any://127.0.0.1:0", "udp+any://127.0.0.1:0"} {
		cfg, err := config.Resolve("", []config.Setting{{Key: "listen", Value: text, Origin: "--listen"}})
		if err != nil {
			t.Fatal(err)
		}
		all, err := deviceProtocols(&cfg)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range all[0] {
			names = append(names, p.Name())
		}
		if want := cfg.Listen[0].Protocols; !reflect.DeepEqual(names, want) {
			t.Errorf("%s: %q, want %q", text, names, want)
		}
	}
}

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
	dir := t.TempDir()
	ca := testcert.New(t)
	certPEM, keyPEM := testcert.PEM(t, ca.Issue(t, testcert.Ask{Name: "gateway", DNS: []string{"localhost"}}))
	caFile, certFile, keyFile := testcert.Write(t, dir, "ca.pem", ca.PEM()), testcert.Write(t, dir, "cert.pem", certPEM), testcert.Write(t, dir, "key.pem", keyPEM)
	devices := tempFile(t, "12345678901\n355837089512343\npump-1 secret:t0ken\npump-2 secret:t0ken\npump-3\n")
	file := tempFile(t, fmt.Sprintf(`
devices_file: %s
broker: {listen: off}
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
	const all = "jt808+gt06+teltonika+frame+line"
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
		p.waitFor("/v1/devices/"+id, `"state":"online"`)
	}
	p.waitFor("/metrics", `holter_gateway_odd_total{protocol="jt808",what="garbage"} 1`)
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Errorf("holter serve ended with %v\n%s", err, p.logged())
	}
	key, err := filepath.Glob(filepath.Join(data, "devices.key"))
	if err != nil || len(key) != 1 {
		t.Errorf("the key of devices that register: %v, %v", key, err)
	}
}

// waitFor asks until an answer holds a text.
func (p *program) waitFor(path, want string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		status, text := p.get(path)
		if status == 200 && strings.Contains(text, want) {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			p.t.Fatalf("GET %s = %d %s, want %q in it\n%s", path, status, text, want, p.logged())
		}
	}
}

// New certificates count at the API, the broker and the device ports.
func TestCertificatesAnew(t *testing.T) {
	dir := t.TempDir()
	ca := testcert.New(t)
	issue := func(name string) {
		certPEM, keyPEM := testcert.PEM(t, ca.Issue(t, testcert.Ask{Name: name}))
		testcert.Write(t, dir, "key.pem", keyPEM)
		testcert.Write(t, dir, "cert.pem", certPEM)
	}
	issue("first")
	files := fmt.Sprintf("{cert: %[1]s/cert.pem, key: %[1]s/key.pem}", dir)
	cfg, err := config.Resolve(tempFile(t, fmt.Sprintf("http: 127.0.0.1:0\ntls: %[1]s\nbroker: {listen: 127.0.0.1:0, tls: %[1]s}\n"+
		"listen: [{address: '127.0.0.1:0', tls: %[1]s}]\ndata: %[2]s\n", files, t.TempDir())), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{config: cfg, log: slog.New(slog.DiscardHandler), stdout: io.Discard, reloaders: make(map[cert.Files]*cert.Reloader)}
	if err := s.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(s.reloaders) != 1 {
		t.Errorf("the same files are looked at by %d, want 1", len(s.reloaders))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.run(ctx) }()
	shown := func(address string) string {
		dialer := tls.Dialer{Config: &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1"}}
		c, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return err.Error()
		}
		defer c.Close()
		return c.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for _, name := range []string{"first", "second"} {
		issue(name)
		for server, address := range map[string]string{"API": s.http.Addr().String(), "broker": s.broker.Addr().String(), "device port": s.gateway.Addrs()[0].String()} {
			got := shown(address)
			for end := time.Now().Add(20 * time.Second); got != name && time.Now().Before(end); got = shown(address) {
				<-again.C
			}
			if got != name {
				t.Errorf("%s: %q, want the certificate %q", server, got, name)
			}
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run() = %v", err)
	}
}

func TestListenersFail(t *testing.T) {
	dir := t.TempDir()
	other := tempFile(t, "a\na\n")
	for name, tt := range map[string]struct{ file, want string }{
		"no certificate": {"listen: [{address: '127.0.0.1:0', tls: {cert: " + dir + "/none.pem, key: " + dir + "/none.key}}]\n", "tls+line://127.0.0.1:0: certificates: open " + dir + "/none.pem"},
		"no devices":     {"devices_file: " + dir + "/none\n", "guard: file of devices: stat " + dir + "/none"},
		"bad devices":    {"devices_file: " + other + "\n", "guard: " + other + `:2: device "a" stands here for the second time`},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs strings.Builder
			code := run(t.Context(), []string{"serve", "--config", tempFile(t, tt.file), "--data", dir, "--http", "127.0.0.1:0", "--mqtt", "off"}, &out, &errs)
			if code != exitFailed || !strings.Contains(errs.String(), tt.want) {
				t.Errorf("code %d, want %q in\n%s", code, tt.want, errs.String())
			}
		})
	}
}

func TestDoctorDevices(t *testing.T) {
	dir := t.TempDir()
	ca := testcert.New(t)
	good, expired := ca.Issue(t, testcert.Ask{Name: "gateway"}), ca.Issue(t, testcert.Ask{Name: "gateway", Expired: true})
	files := func(name string, c tls.Certificate) string {
		certPEM, keyPEM := testcert.PEM(t, c)
		return fmt.Sprintf("{cert: %s, key: %s}", testcert.Write(t, dir, name+".pem", certPEM), testcert.Write(t, dir, name+".key", keyPEM))
	}
	devices := tempFile(t, "a\nb\n")
	tests := []struct {
		name, file, rmem string
		want             []string
	}{
		{"nothing said", "{}\n", "1", []string{"ok device ports"}},
		{"devices", "devices_file: " + devices + "\n", "1", []string{"ok device ports", "ok devices file"}},
		{"broken devices", "devices_file: " + tempFile(t, "a b\n") + "\n", "1", []string{"ok device ports", "fail devices file"}},
		{"datagrams", "listen: ['udp+line://127.0.0.1:1']\n", "4194304", []string{"ok device ports", "ok datagrams"}},
		{"few datagrams", "listen: ['udp+line://127.0.0.1:1']\n", "212992", []string{"ok device ports", "warn datagrams"}},
		{"soon", "listen: [{address: '127.0.0.1:1', tls: " + files("good", good) + "}]\n", "1", []string{"ok device ports", "warn device TLS"}},
		{"expired", "listen: [{address: '127.0.0.1:1', tls: " + files("old", expired) + "}]\n", "1", []string{"ok device ports", "fail device TLS"}},
		{"no certificate", "listen: [{address: '127.0.0.1:1', tls: {cert: /none, key: /none}}]\n", "1", []string{"ok device ports", "fail device TLS"}},
		{"bad expression", "listen: [{address: '127.0.0.1:1', dtu: {registration: '('}}]\n", "1", []string{"fail device ports"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := config.Resolve(tempFile(t, tt.file), nil)
			if err != nil {
				t.Fatal(err)
			}
			d := &doctor{machine: fakeMachine(t, map[string]string{"proc/sys/net/core/rmem_max": tt.rmem})}
			d.checkDevices(cfg)
			d.wants(t, tt.want...)
		})
	}
	d := &doctor{}
	d.checkCertificate(config.Listener{TLS: &config.ListenerTLS{Cert: dir + "/good.pem", Key: dir + "/good.key"}}, time.Now().Add(-30*24*time.Hour))
	d.wants(t, "ok device TLS")
	if plain, secret := perConnection([]config.Listener{{}}), perConnection([]config.Listener{{}, {TLS: &config.ListenerTLS{}}}); secret <= plain {
		t.Errorf("a connection takes %d, with TLS %d", plain, secret)
	}
}

// What is printed at the start says what is spoken where.
func TestAnnounceListeners(t *testing.T) {
	cfg, err := config.Resolve(tempFile(t, "http: 127.0.0.1:0\nbroker: {listen: off}\nlisten: [jt808+gt06://127.0.0.1:0, udp+line://127.0.0.1:0, line://127.0.0.1:0]\ndata: "+t.TempDir()+"\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{config: cfg, log: slog.New(slog.DiscardHandler), stdout: io.Discard}
	if err := s.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.http.Close() })
	text := s.summary()
	line := s.gateway.Addrs()[2].String()
	for _, want := range []string{"devices   jt808+gt06://127.0.0.1:", "          udp+line://127.0.0.1:", "          line://" + line, "nc 127.0.0.1 " + line[strings.LastIndexByte(line, ':')+1:] + "\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing from\n%s", want, text)
		}
	}
}
