package server

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// datagrams is a socket of a device that sends them.
type datagrams struct {
	t    *testing.T
	conn net.Conn
}

func speakTo(t *testing.T, address string) *datagrams {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "udp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute)) // only so that a failing test ends
	return &datagrams{t, c}
}

func (d *datagrams) say(text string) {
	d.t.Helper()
	if _, err := d.conn.Write([]byte(text)); err != nil {
		d.t.Fatal(err)
	}
}

// says sends a datagram, and fails unless the answer is what is wanted.
func (d *datagrams) says(text, want string) {
	d.t.Helper()
	d.say(text)
	d.gets(want)
}

func (d *datagrams) gets(want string) {
	d.t.Helper()
	b := make([]byte, 1<<16)
	if n, err := d.conn.Read(b); err != nil || string(b[:n]) != want {
		d.t.Errorf("the device got %q, %v, want %q", b[:n], err, want)
	}
}

// A device may send its datagrams to any ear: it has one session, and no event tells where it was heard.
// It is sent messages where it was heard last. Answers come once what they confirm is stored.
func TestEarsOverUDP(t *testing.T) {
	t.Parallel()
	judge, judges := judged(t)
	one, two := hear(t, "one", judges, alsoUDP, "token: secret"), hear(t, "two", judges, alsoUDP, "token: secret")
	testwait.Until(t, "both ears are ready", func() bool { return one.ready() && two.ready() })
	first, second := speakTo(t, one.devices), speakTo(t, two.devices)
	const hello = "HELLO meter secret ttl=300s\n"
	for range 2 {
		first.says(hello+"PING 7", "OK 1 ttl=300\nPONG 7\n")
	}
	second.says(hello, "OK 1 ttl=300\n")
	first.says(hello+"FAIL oil\n", "OK 1 ttl=300\nOK\n")
	first.says("HELLO meter secret ttl=200s\n", "OK 1 ttl=200\n")
	if got := strings.Join(judge.types("meter"), " "); got != "online failed changed" {
		t.Errorf("the events are %s", got)
	}
	if _, _, body := judge.ask("GET", "/v1/devices/meter"); !strings.Contains(body, `"source":"gateway-udp/one"`) || !strings.Contains(body, `"connected":true`) {
		t.Errorf("the device is %s", body)
	}
	second.says("HELLO meter secret ttl=200s\nSLEEP 60\n", "OK 1 ttl=200\nOK sleep=60\n")
	for _, at := range []*datagrams{first, second} {
		at.says("HELLO meter secret ttl=200s\n", "OK 1 ttl=200\n")
		status := make(chan string, 1)
		go func() {
			code, body := judge.posts("meter", `{"text": "open the valve", "timeout": "60s"}`)
			status <- fmt.Sprint(code, " ", body)
		}()
		b := make([]byte, 1<<10)
		n, err := at.conn.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(string(b[:n]), "MSG #"), " ")
		at.say("HELLO meter secret ttl=200s\nACK " + number + "\n")
		if got := <-status; !strings.HasPrefix(got, "200 ") || !strings.Contains(got, `"acknowledged":true`) {
			t.Errorf("send: %s", got)
		}
		at.gets("OK 1 ttl=200\n")
	}
	if code, body := judge.posts("meter", `{"text": "nobody confirms this", "timeout": "0.1s"}`); code != 504 || !strings.Contains(body, "did not acknowledge") {
		t.Errorf("send: %d %s", code, body)
	}
	connect(t, one.devices).says("HELLO meter secret ttl=200s", "OK 2")
	kinds := judge.types("meter")
	if got := strings.Join(kinds[3:], " "); got != "sleeping online session_replaced changed" && got != "sleeping online session_replaced" {
		t.Errorf("then they are %s", got)
	}
	if _, _, body := one.ask("GET", "/metrics"); !strings.Contains(body, "holter_link_dropped_total 0\n") {
		t.Error("the metrics lack what was dropped")
	}
}

// An ear that ends gives its devices to others. While there is no judge, devices that are new are told to
// come back later, and the others are heard.
func TestEarsOverUDPEnd(t *testing.T) {
	t.Parallel()
	socket := "unix:" + filepath.Join(t.TempDir(), "j")
	database, at := testdb.SQLite(t), fmt.Sprintf("link: {listen: '%s'}", socket)
	judge := serveWith(t, database, at)
	judges := "judges: ['" + socket + "']"
	one, two := hear(t, "one", judges, alsoUDP), hear(t, "two", judges, alsoUDP)
	defer func() { _ = two.stop() }() // while it has a judge
	testwait.Until(t, "both ears are ready", func() bool { return one.ready() && two.ready() })
	first, second := speakTo(t, one.devices), speakTo(t, two.devices)
	const hello = "HELLO pump ttl=300s\n"
	first.says(hello, "OK 1 ttl=300\n")
	second.says("HELLO lamp ttl=300s\n", "OK 1 ttl=300\n")
	if err := one.stop(); err != nil {
		t.Error(err)
	}
	testwait.Until(t, "the ear is not on the list", func() bool {
		_, _, body := judge.ask("GET", "/v1/nodes")
		return !strings.Contains(body, `"node":"one"`)
	})
	second.says(hello, "OK 2 ttl=300\n")
	if got := strings.Join(judge.types("pump"), " "); got != "online" {
		t.Errorf("the events are %s", got)
	}
	if err := judge.stop(); err != nil {
		t.Error(err)
	}
	second.says("HELLO lamp ttl=300s\n", "OK 1 ttl=300\n") // it is known
	second.say("HELLO new ttl=300s" + strings.Repeat(" ", 200))
	testwait.Until(t, "the ear lets go", func() bool {
		_, _, body := two.ask("GET", "/metrics")
		return strings.Contains(body, "_let_go_total 1\n")
	})
	b := make([]byte, 1<<10)
	if n, err := second.conn.Read(b); err != nil || !strings.HasPrefix(string(b[:n]), "ERR busy") {
		t.Errorf("a new device is told %q, %v", b[:n], err)
	}
	judge = serveWith(t, database, at)
	testwait.Until(t, "the ear has its judge", func() bool { return judge.judges() && two.ready() })
	second.says("HELLO lamp ttl=300s\n", "OK 2 ttl=300\n")
	second.says("HELLO new ttl=300s\n", "OK 1 ttl=300\n")
	for id, want := range map[string]string{"lamp": "online", "new": "online"} {
		if got := strings.Join(judge.types(id), " "); got != want {
			t.Errorf("the events of %s are %s", id, got)
		}
	}
	if status, _, body := judge.ask("GET", "/v1/devices/pump"); status != http.StatusOK || strings.Contains(body, "offline") {
		t.Errorf("the device is %s", body)
	}
}
