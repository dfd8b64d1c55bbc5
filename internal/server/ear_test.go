package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/test/testcert"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// heard is an ear that runs in this process.
type heard struct {
	served

	devices string // where these connect
	ended   chan struct{}
}

// alsoUDP is a line for an ear that hears datagrams, too, at the port of its connections.
const alsoUDP = "# UDP"

// hear starts an ear with lines for its file, which ends with the test; without a name it has the default one. Unless these say otherwise, it
// drains at once.
func hear(t *testing.T, name string, lines ...string) *heard {
	t.Helper()
	h := &heard{served: served{t: t, api: "http://" + testenv.FreeAddress(t)}, devices: testenv.FreeAddress(t), ended: make(chan struct{})}
	all := strings.Join(lines, "\n")
	if !strings.Contains(all, "drain:") {
		all += "\ndrain: {delay: 0s}"
	}
	listen := "'" + h.devices + "'"
	if strings.Contains(all, alsoUDP) {
		listen += ", 'udp+line://" + h.devices + "'"
	}
	if name != "" {
		all = "node: " + name + "\n" + all
	}
	text := fmt.Sprintf("http: %s\nlisten: [%s]\n%s\n", strings.TrimPrefix(h.api, "http://"), listen, withoutMQTT(all))
	cfg, err := config.ResolveEar(tempFile(t, text), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // before the judge, which was started before it
	go func() {
		defer close(h.ended)
		err = Ear(ctx, cfg, nil, io.Discard, io.Discard)
	}()
	h.stop = sync.OnceValue(func() error {
		cancel()
		<-h.ended
		return err
	})
	t.Cleanup(func() {
		if err := h.stop(); err != nil && !strings.Contains(err.Error(), "another ear that is called") {
			t.Errorf("ear %s: %v", name, err)
		}
	})
	return h
}

func (h *heard) ready() bool {
	status, _, _ := h.ask("GET", "/readyz")
	return status == http.StatusOK
}

// judged starts a judge with a link at a Unix socket, and lines for its file. It returns the line with which an ear finds it.
func judged(t *testing.T, lines ...string) (judge *served, at string) {
	t.Helper()
	socket := "unix:" + filepath.Join(t.TempDir(), "j")
	return serveWith(t, testdb.SQLite(t), fmt.Sprintf("link: {listen: '%s'}\n%s", socket, strings.Join(lines, "\n"))), "judges: ['" + socket + "']"
}

// device is a connection of one.
type device struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func connect(t *testing.T, address string) *device {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &device{t, c, bufio.NewReader(c)}
}

// says sends a line, and fails unless the answer begins with what is wanted.
func (d *device) says(line, want string) {
	d.t.Helper()
	if _, err := io.WriteString(d.conn, line+"\n"); err != nil {
		d.t.Fatal(err)
	}
	d.gets(want)
}

func (d *device) gets(want string) {
	d.t.Helper()
	if got, err := d.in.ReadString('\n'); err != nil || !strings.HasPrefix(got, want) {
		d.t.Errorf("the device got %q, %v, want %s", got, err, want)
	}
}

// types returns the types of a device's events.
func (s *served) types(id string) (all []string) {
	s.t.Helper()
	_, _, body := s.ask("GET", "/v1/events?device="+id)
	for _, part := range strings.Split(body, `"type":"io.holter.device.`)[1:] {
		kind, _, _ := strings.Cut(part, `"`)
		all = append(all, kind)
	}
	return all
}

// A device may connect to any ear, and goes on at another when one is gone, as it would at the judge.
func TestEars(t *testing.T) {
	t.Parallel()
	judge, at := judged(t)
	one, two := hear(t, "one", at), hear(t, "two", at)
	testwait.Until(t, "both ears are ready", func() bool { return one.ready() && two.ready() })
	first := connect(t, one.devices)
	first.says("HELLO pump ttl=300s", "OK 1 ttl=300")
	first.says("PING 1", "PONG 1")
	first.says("HELLO pump ttl=200s epoch=5", "OK 5 ttl=200")
	if _, _, body := judge.ask("GET", "/v1/devices/pump"); !strings.Contains(body, `"state":"online"`) || !strings.Contains(body, `"source":"gateway/one"`) ||
		!strings.Contains(body, `"connected":true`) {
		t.Errorf("the device is %s", body)
	}
	second := connect(t, two.devices)
	second.says("HELLO pump ttl=200s epoch=6", "OK 6")
	first.gets("BYE replaced")
	other := connect(t, two.devices)
	other.says("HELLO lamp ttl=300s", "OK 1")
	before := len(judge.types("lamp"))
	if err := two.stop(); err != nil {
		t.Error(err)
	}
	other.gets("BYE moved")
	testwait.Until(t, "the ear is not on the list", func() bool {
		_, _, body := judge.ask("GET", "/v1/nodes")
		return !strings.Contains(body, `"node":"two"`) && strings.Contains(body, `"node":"one","process":"","role":"ear","alive":true`)
	})
	if got := len(judge.types("lamp")); got != before {
		t.Errorf("the end of an ear caused events: %q", judge.types("lamp"))
	}
	again := connect(t, one.devices)
	again.says("HELLO lamp ttl=300s", "OK 2")
	if got := judge.types("lamp")[before:]; len(got) > 0 {
		t.Errorf("the move to another ear caused events: %q", got)
	}
	for of, want := range map[*served]string{judge: "holter_link_ears 1\n", &one.served: "holter_link_sessions 1\n"} {
		if _, _, body := of.ask("GET", "/metrics"); !strings.Contains(body, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if status, _, _ := one.ask("GET", "/healthz"); status != http.StatusOK {
		t.Errorf("/healthz of an ear: %d", status)
	}
}

// An ear has the devices' tokens, and says when it has no judge.
func TestEarAlone(t *testing.T) {
	t.Parallel()
	e := hear(t, "one", "judges: ['unix:"+filepath.Join(t.TempDir(), "j")+"']", "token: secret")
	testwait.Until(t, "the ear says why it is not ready", func() bool {
		status, _, body := e.ask("GET", "/readyz")
		return status == http.StatusServiceUnavailable && strings.HasPrefix(body, "no judge: none of unix:")
	})
	refuses(t, e)
}

// refuses fails unless nobody listens where devices of an ear connect.
func refuses(t *testing.T, e *heard) {
	t.Helper()
	if _, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", e.devices); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a connection to an ear without a judge: %v", err)
	}
}

// An ear that has lost its judge listens again when there is one.
func TestEarWithoutJudgeForAWhile(t *testing.T) {
	t.Parallel()
	judge, at := judged(t)
	one := hear(t, "one", at, "token: secret")
	testwait.Until(t, "the ear is ready", one.ready)
	d := connect(t, one.devices)
	d.says("HELLO pump wrong", "ERR unauthorized")
	d = connect(t, one.devices)
	d.says("HELLO pump secret", "OK 1")
	if err := judge.stop(); err != nil {
		t.Fatal(err)
	}
	d.gets("BYE nothing was heard of a judge")
	refuses(t, one)
}

// An ear whose name another one has ends, and listens to no device meanwhile. The default names of ears on one
// host differ.
func TestEarNames(t *testing.T) {
	t.Parallel()
	judge, at := judged(t)
	one := hear(t, "one", at)
	testwait.Until(t, "the ear is ready", one.ready)
	again := hear(t, "one", at)
	testwait.Until(t, "the second is there", func() bool {
		status, _, _ := again.ask("GET", "/healthz")
		return status == http.StatusOK
	})
	refuses(t, again)
	first, second := hear(t, "", at), hear(t, "", at)
	testwait.Until(t, "both have a judge", func() bool { return first.ready() && second.ready() })
	host, _ := os.Hostname()
	_, _, body := judge.ask("GET", "/v1/nodes")
	for _, e := range []*heard{first, second} {
		if name := host + e.api[strings.LastIndex(e.api, ":"):]; !strings.Contains(body, `"node":"`+strings.Replace(name, ":", "-", 1)+`"`) {
			t.Errorf("the nodes are %s, without %s", body, name)
		}
	}
	<-again.ended
	if err := again.stop(); err == nil || !strings.Contains(err.Error(), "node (--node): the judge has another ear that is called one") {
		t.Errorf("the second of one name ended with %v", err)
	}
	if !one.ready() {
		t.Error("the first of one name is not ready")
	}
}

// The link is for those whose certificates an authority of both sides has signed, and has not revoked.
// Both sides notice when their files change.
func TestLinkCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, other := testcert.New(t), testcert.New(t)
	testcert.Write(t, dir, "ca.pem", ca.PEM())
	testcert.Write(t, dir, "later.pem", other.PEM())
	certificates := make(map[string]tls.Certificate)
	files := func(by *testcert.Authority, name, more string) string {
		certificates[name] = by.Issue(t, testcert.Ask{Name: name})
		certPEM, keyPEM := testcert.PEM(t, certificates[name])
		testcert.Write(t, dir, name+".pem", certPEM)
		testcert.Write(t, dir, name+".key", keyPEM)
		return fmt.Sprintf("tls: {cert: %[1]s/%[2]s.pem, key: %[1]s/%[2]s.key, %[3]s}", dir, name, strings.ReplaceAll(more, "DIR", dir))
	}
	const authority = "ca: DIR/ca.pem"
	address := testenv.FreeAddress(t)
	gone := hear(t, "gone", "judges: ['"+address+"']", "link: {"+files(ca, "gone", authority)+"}")
	testcert.Write(t, dir, "crl.pem", pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: ca.Revoke(t, certificates["gone"])}))
	judge := serveWith(t, testdb.SQLite(t), fmt.Sprintf("link: {listen: '%s', %s}", address, files(ca, "judge", authority+", crl: DIR/crl.pem")))
	good := hear(t, "good", "judges: ['"+address+"']", "link: {"+files(ca, "good", authority)+"}")
	bad := hear(t, "bad", "judges: ['"+address+"']", "link: {"+files(other, "bad", authority)+"}")
	later := hear(t, "later", "judges: ['"+address+"']", "link: {"+files(ca, "later-own", "ca: DIR/later.pem")+"}")
	plain := hear(t, "plain", "judges: ['"+address+"']")
	testwait.Until(t, "the ear with a good certificate is ready", good.ready)
	connect(t, good.devices).says("HELLO pump ttl=300s", "OK 1")
	for _, e := range []*heard{bad, plain, gone, later} {
		if e.ready() {
			t.Errorf("an ear without a good certificate is ready: %s", e.api)
		}
	}
	if _, _, body := judge.ask("GET", "/v1/nodes"); strings.Contains(body, `"bad"`) || strings.Contains(body, `"plain"`) {
		t.Errorf("the ears are %s", body)
	}
	testcert.Write(t, dir, "later.pem", ca.PEM())
	testwait.Until(t, "the ear knows the judge's authority", later.ready)
}

// A standby sends ears on, and takes them in when it judges; the sessions of their devices stay. Neither
// has device ports.
func TestEarMovesToAStandby(t *testing.T) {
	t.Parallel()
	url := testdb.SQLite(t)
	sockets := [2]string{"unix:" + filepath.Join(t.TempDir(), "a"), "unix:" + filepath.Join(t.TempDir(), "b")}
	serve := func(node, socket string) *served {
		return serveFile(t, node, fmt.Sprintf("listen: [off]\ndatabase: %q\nlink: {listen: '%s'}\n", url, socket), io.Discard)
	}
	a := serve("a", sockets[0])
	testwait.Until(t, "a judges", a.judges)
	b := serve("b", sockets[1])
	testwait.Until(t, "b stands by", b.standsBy)
	testwait.Until(t, "b hands on what concerns ears", func() bool {
		status, _, body := b.ask("POST", "/v1/nodes/one/drain")
		return status == http.StatusNotFound && strings.Contains(body, "no ear is called") && strings.Contains(body, "there are: a, b")
	})
	e := hear(t, "one", fmt.Sprintf("judges: ['%s', '%s']", sockets[1], sockets[0]))
	testwait.Until(t, "the ear has found the judge", e.ready)
	d := connect(t, e.devices)
	d.says("HELLO pump ttl=300s", "OK 1")
	if err := a.stop(); err != nil {
		t.Error(err)
	}
	testwait.Until(t, "b judges, and has the ear", func() bool {
		_, _, body := b.ask("GET", "/v1/nodes")
		return b.judges() && strings.Contains(body, `"role":"ear"`)
	})
	d.says("PING 2", "PONG 2")
	testwait.Until(t, "the session is open at b", func() bool {
		_, _, body := b.ask("GET", "/v1/devices/pump")
		return strings.Contains(body, `"state":"online"`) && strings.Contains(body, `"connected":true`)
	})
	for _, kind := range b.types("pump") {
		if kind == "offline" || kind == "session_replaced" {
			t.Errorf("the takeover caused an event: %q", b.types("pump"))
		}
	}
}

// A socket that another process left behind is replaced, one that is used is not, and nothing else.
func TestListenAtUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	left, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listenLink(t.Context(), "unix:"+path); err == nil || !strings.Contains(err.Error(), "another program listens there") {
		t.Errorf("at a socket that is used: %v", err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = left.Close()
	l, err := listenLink(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	file := tempFile(t, "x")
	if _, err := listenLink(t.Context(), "unix:"+file); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("at a file: %v", err)
	}
}
