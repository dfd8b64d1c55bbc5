package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/cluster"
	"github.com/holter-iot/holter/internal/cluster/link"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/test/testcert"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// TestEveryProtocol: package config, which may not ask the gateway, knows the protocols that there are, and what comes in datagrams.
func TestEveryProtocol(t *testing.T) {
	for _, text := range []string{"any://127.0.0.1:0", "udp+any://127.0.0.1:0"} {
		cfg, err := config.Resolve("", []config.Setting{{Key: "listen", Value: text, Origin: "--listen"}})
		if err != nil {
			t.Fatal(err)
		}
		f := front{config: cfg}
		all, err := f.protocolsOf(&cfg.Listen[0])
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range all {
			if p.Name() != "websocket" { // which carries MQTT
				names = append(names, p.Name())
			}
		}
		if want := cfg.Listen[0].Protocols; !reflect.DeepEqual(names, want) {
			t.Errorf("%s: %q, want %q", text, names, want)
		}
	}
}

// built returns a server that does not run, with addresses for devices.
func built(t *testing.T, devices string) *server {
	t.Helper()
	cfg := resolvedFrom(t, "node: a\nhttp: 127.0.0.1:0\nmqtt: {listen: off}\nlisten: ["+devices+"]\ndata: "+t.TempDir()+"\n")
	s := &server{front: front{config: cfg, log: slog.New(slog.DiscardHandler), stdout: io.Discard}, http: listen(t)}
	if err := s.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// What is printed at the start says what is spoken where.
func TestAnnounceListeners(t *testing.T) {
	s := built(t, "jt808+gt06://127.0.0.1:0, udp+line://127.0.0.1:0, line://127.0.0.1:0")
	text := s.summary()
	line := s.gateway.Addrs()[2].String()
	for _, want := range []string{"devices   jt808+gt06://127.0.0.1:", "          udp+line://127.0.0.1:", "          line://" + line, "nc 127.0.0.1 " + line[strings.LastIndexByte(line, ':')+1:] + "\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing from\n%s", want, text)
		}
	}
}

// What is printed at the start says where the console is, in a form that a browser takes, and nothing if there is none.
func TestAnnounceConsole(t *testing.T) {
	s := built(t, "off")
	tests := []struct {
		name string
		at   net.IP
		cert string
		mode string
		want string
	}{
		{"at this machine alone", net.IPv4(127, 0, 0, 1), "", "on", "    console   http://127.0.0.1:8123/\n    API       http://127.0.0.1:8123/docs\n"},
		{"at all addresses", net.IPv6unspecified, "", "on", "    console   http://127.0.0.1:8123/\n    API       http://[::]:8123/docs\n"},
		{"with a certificate", net.IPv4(10, 0, 0, 5), "a.pem", "on", "    console   https://10.0.0.5:8123/\n    API       https://10.0.0.5:8123/docs\n"},
		{"off", net.IPv4(127, 0, 0, 1), "", "off", "    API       http://127.0.0.1:8123/docs\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s.http, s.config.TLS.Cert, s.config.Console = atAddress{net.TCPAddr{IP: tt.at, Port: 8123}}, tt.cert, tt.mode
			text := s.summary()
			if !strings.Contains(text, tt.want) || strings.Contains(text, "console") != (tt.mode == "on") {
				t.Errorf("got\n%s\nwant in it\n%s", text, tt.want)
			}
		})
	}
}

// atAddress is a listener of which only the address matters.
type atAddress struct{ at net.TCPAddr }

func (l atAddress) Addr() net.Addr          { return &l.at }
func (atAddress) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (atAddress) Close() error              { return nil }

// Whoever is told that the server is starting is told so once, by the API and by /readyz.
func TestStartingIsSaidOnce(t *testing.T) {
	s := &server{}
	s.wait("the database is being opened")
	if err := s.waiting(); err == nil || err.Error() != "the database is being opened" {
		t.Errorf("waiting() = %v", err)
	}
	if err := s.ready(); err == nil || err.Error() != "starting: the database is being opened" {
		t.Errorf("ready() = %v", err)
	}
}

func TestSendErrors(t *testing.T) {
	api := func(k sendKind) error { return k.api }
	for _, k := range sendKinds() {
		for _, of := range []error{k.gateway, k.link} {
			if of == nil {
				continue
			}
			err := sendError(fmt.Errorf("%w: on purpose", of), api)
			if !errors.Is(err, k.api) || !strings.HasSuffix(err.Error(), ": on purpose") || strings.Contains(err.Error(), "gateway: ") || strings.Contains(err.Error(), "link: ") {
				t.Errorf("%v is not %v", err, k.api)
			}
		}
	}
	if err := sendError(context.Canceled, api); !errors.Is(err, context.Canceled) || sendError(nil, api) != nil {
		t.Errorf("another error became %v", err)
	}
	if _, err := (sender{ears: new(atomic.Pointer[link.Judge])}).Send(t.Context(), "d", []byte("x"), false); !errors.Is(err, httpapi.ErrNotConnected) {
		t.Errorf("without a gateway and ears: %v", err)
	}
}

// listen returns a listener for an API, which is closed with the test.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// tempFile writes a file that ends with the test.
func tempFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "holter.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// New certificates count at the API, the broker and the device ports.
func TestCertificatesAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := testcert.New(t)
	issue := func(name string) {
		certPEM, keyPEM := testcert.PEM(t, ca.Issue(t, testcert.Ask{Name: name}))
		testcert.Write(t, dir, "key.pem", keyPEM)
		testcert.Write(t, dir, "cert.pem", certPEM)
	}
	issue("first")
	files := fmt.Sprintf("{cert: %[1]s/cert.pem, key: %[1]s/key.pem}", dir)
	cfg, err := config.Resolve(tempFile(t, fmt.Sprintf("node: a\nhttp: 127.0.0.1:0\ntls: %[1]s\nmqtt: {listen: off}\n"+
		"listen: [{address: '127.0.0.1:0', tls: %[1]s}, {address: 'mqtt://127.0.0.1:0', tls: %[1]s}]\ndata: %[2]s\n", files, t.TempDir())), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{started: func() {}, service: new(service), front: front{config: cfg, live: liveOf(cfg), log: slog.New(slog.DiscardHandler), stdout: io.Discard, reloaders: make(map[cert.Files]*cert.Reloader)}, http: listen(t), roster: cluster.NewRoster(cluster.Member{Node: "me"}), peers: http.DefaultClient}
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
	for _, name := range []string{"first", "second"} {
		issue(name)
		for server, address := range map[string]string{"API": s.http.Addr().String(), "device port": s.gateway.Addrs()[0].String(), "MQTT": s.gateway.Addrs()[1].String()} {
			var got string
			testwait.Until(t, server+": the certificate "+name, func() bool { got = shown(address); return got == name }, func() string { return "got " + got })
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run() = %v", err)
	}
}
