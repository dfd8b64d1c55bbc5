package gateway_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/websocket"
	"github.com/holter-iot/holter/internal/test/testcert"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqtt/access"
	"github.com/holter-iot/holter/mqtt/packet"
)

// refused is what a client of a version is told with a code; false if that version has no word for it.
func refused(v packet.Version, code packet.Code) (packet.Code, bool) {
	if v == packet.V5 {
		return code, true
	}
	switch code {
	case packet.QuotaExceeded, packet.ServerBusy:
		return packet.ServerUnavailable, true
	case packet.InvalidClientID, packet.Success:
		return code, true
	default:
		return 0, false
	}
}

// refuses wants a client to be told a code, or only cut off, and its connection to end.
func (c *mqttClient) refuses(p packet.Connect, want packet.Code) {
	c.t.Helper()
	code, err := c.tryConnect(p)
	told, ok := refused(c.v, want)
	if ok != (err == nil) || code != told {
		c.t.Errorf("CONNECT of %.20q: %v, %v; want %v", p.ClientID, code, err, told)
	}
	if want != packet.Success {
		c.over()
	}
}

// A client identifier is the device's id, and has to be good for one.
func TestMQTTClientIDs(t *testing.T) {
	long := strings.Repeat("x", liveness.MaxID)
	tests := map[string]packet.Code{
		long: packet.Success, "a/+#": packet.Success, "a b": packet.Success,
		long + "x": packet.InvalidClientID, "a\tb": packet.InvalidClientID, "a\x7fb": packet.InvalidClientID,
		"a\xff": packet.MalformedPacket, "a\x00": packet.MalformedPacket,
	}
	eachJudge(t, func(t *testing.T) {
		t.Helper()
		eachVersion(t, func(t *testing.T, v packet.Version) {
			t.Helper()
			r, _ := startMQTT(t, liveness.Config{}, gateway.Config{}, access.Config{})
			for id, want := range tests {
				r.mqttIn(v).refuses(mqttDevice(id, 60), want)
			}
			if n := r.registry.Stats().Devices; n != 3 {
				t.Errorf("%d devices, want 3", n)
			}
		})
	})
}

// What does not begin with a CONNECT of at most 64 KiB ends its connection, and makes no device.
func TestMQTTFirstPacket(t *testing.T) {
	r := startBoth(t, gateway.Config{HandshakeTimeout: time.Hour})
	for _, first := range []string{
		"\x10\xff\xff\x7f\x00\x04MQTT\x05", // of 2 MiB
		"\x10\xff\xff\xff\xff\x7f",
		"\x10\x00",
		"\x10\x0c\x00\x04HTTP\x05",
		"\x11\x0c\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x00",
		"GET / HTTP/1.1\r\n\r\n",
		"\xc0\x00", // PINGREQ
	} {
		d := r.dial()
		d.say(first)
		if text := d.hear(); strings.Contains(text, "timeout") {
			t.Errorf("%q is not answered by the end: %s", first, text)
		}
	}
	if n := r.registry.Stats().Devices; n != 0 {
		t.Errorf("%d devices, want none", n)
	}
}

// A message above the limit ends its connection, one below does not.
func TestMQTTTooLarge(t *testing.T) {
	r, broker := startMQTT(t, quick, gateway.Config{}, access.Config{})
	c := r.mqtt().welcome(mqttDevice("c", 60))
	c.publish("x", strings.Repeat("x", broker.MaxPacket()-100), 1)
	c.ping()
	out := packet.Out{Topic: "x", Payload: make([]byte, broker.MaxPacket())}
	_, _ = c.conn.Write(out.Append(nil, c.v)) // it may be cut off in the middle
	c.over()
	if e := r.event("c", liveness.DeviceOffline); e.Reason != liveness.Protocol {
		t.Errorf("reason is %v, want protocol", e.Reason)
	}
}

// A connection whose CONNECT does not come in time ends; so does one of which nobody can decide in time,
// and that is told so.
func TestMQTTHandshakeTimeout(t *testing.T) {
	cfg := gateway.Config{HandshakeTimeout: 300 * time.Millisecond}
	r, _ := startMQTT(t, liveness.Config{}, cfg, access.Config{})
	late := r.mqtt()
	late.send([]byte{0x10, 20, 0})
	r.mqtt().over()
	late.over()
	cfg.Judge = silent{}
	eachVersion(t, func(t *testing.T, v packet.Version) {
		t.Helper()
		r, _ := startMQTT(t, liveness.Config{}, cfg, access.Config{})
		r.mqttIn(v).refuses(mqttDevice("a", 60), packet.ServerBusy)
	})
}

// Where there is no room for another device, it is told so. Guests are no devices.
func TestMQTTFull(t *testing.T) {
	eachJudge(t, func(t *testing.T) {
		t.Helper()
		eachVersion(t, func(t *testing.T, v packet.Version) {
			t.Helper()
			r, _ := startMQTT(t, liveness.Config{MaxDevices: 2}, gateway.Config{}, access.Config{})
			a := r.mqttIn(v).welcome(mqttDevice("a", 60))
			r.mqttIn(v).welcome(mqttDevice("b", 60))
			r.mqttIn(v).refuses(mqttDevice("c", 60), packet.QuotaExceeded)
			r.mqtt().welcome(mqttDevice("", 60)).ping()
			a.ping()
		})
	})
}

// While no event has room, no device is made, and who asks is told at once.
func TestMQTTBusy(t *testing.T) {
	eachVersion(t, func(t *testing.T, v packet.Version) {
		t.Helper()
		t.Parallel()
		r, valve := startMQTTValved(t, liveness.Config{Outbox: 1})
		valve.set(true)
		first := r.mqttIn(v)
		hello := mqttDevice("first", 60)
		hello.Version = v
		first.send(hello.Append(nil))
		testwait.Until(t, "the outbox is full", func() bool { return r.registry.Operator().Known("first") })
		for i := range 5 {
			r.mqttIn(v).refuses(mqttDevice(fmt.Sprint("new-", i), 60), packet.ServerBusy)
		}
		if r.registry.Operator().Known("new-4") {
			t.Error("a device was made although its event had no room")
		}
	})
}

// A login that panics costs its own connection, and no other.
func TestMQTTPanic(t *testing.T) {
	token := func(id string, _ []byte) bool {
		if id == "trap" {
			panic("trapped")
		}
		return id == "trusted"
	}
	r, _ := startMQTT(t, quick, gateway.Config{}, access.Config{Token: token, Anonymous: access.Never})
	as := func(id string) packet.Connect {
		p := mqttDevice(id, 60)
		p.HasPassword, p.Password = true, []byte("s3cret")
		return p
	}
	c := r.mqtt().welcome(as("trusted"))
	if code, err := r.mqtt().tryConnect(as("trap")); err == nil {
		t.Errorf("CONNACK with %v, want none", code)
	}
	c.ping()
	if n := r.gateway.Stats().Panics; n != 1 {
		t.Errorf("%d panics, want 1", n)
	}
}

// Whatever is logged of a client, its password is not.
func TestMQTTLogHasNoPassword(t *testing.T) {
	var log lockedBuffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r, _ := startMQTT(t, quick, gateway.Config{Logger: logger}, access.Config{Anonymous: access.Never, Logger: logger})
	p := mqttDevice("a", 60)
	p.HasUser, p.User, p.HasPassword, p.Password = true, []byte("ann"), true, []byte("hunter2")
	for range 20 {
		if code, err := r.mqtt().tryConnect(p); err != nil || code != packet.BadUserOrPassword {
			t.Errorf("CONNACK with %v, %v", code, err)
		}
	}
	if text := log.String(); text == "" || strings.Contains(text, "hunter2") || strings.Contains(text, "104 117 110") {
		t.Errorf("the log shows a password, or nothing: %s", text)
	}
}

// A client with a password that was checked is a verified device, one that anybody could be is not.
func TestMQTTUnverified(t *testing.T) {
	token := func(_ string, token []byte) bool { return string(token) == "s3cret" }
	for name, tt := range map[string]struct {
		who      access.Config
		password string
		want     bool
	}{
		"nobody":                        {access.Config{}, "", true},
		"a password that nobody checks": {access.Config{Anonymous: access.Anyone}, "s3cret", true},
		"its token":                     {access.Config{Token: token}, "s3cret", false},
		"without its token":             {access.Config{Token: token}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			eachJudge(t, func(t *testing.T) {
				t.Helper()
				r, _ := startMQTT(t, liveness.Config{}, gateway.Config{}, tt.who)
				p := mqttDevice("a", 60)
				p.HasPassword, p.Password = tt.password != "", []byte(tt.password)
				r.mqtt().welcome(p)
				if v := r.device("a"); v.Unverified != tt.want {
					t.Errorf("unverified: %v, want %v", v.Unverified, tt.want)
				}
			})
		})
	}
}

// A subscriber that takes nothing for a while holds nobody up. It loses what there is no room for, and gets
// the rest once it reads.
func TestMQTTSlowSubscriber(t *testing.T) {
	const size, n = 100_000, 200
	r, broker := startMQTT(t, quick, gateway.Config{Loops: 1}, access.Config{})
	slow := r.mqtt().welcome(mqttDevice("slow", 0)).subscribe("x", 1)
	slower := r.mqtt().welcome(mqttDevice("slower", 0)).subscribe("x", 0)
	p := r.mqtt().welcome(mqttDevice("p", 60))
	for range n {
		p.publish("x", strings.Repeat("x", size), 1)
	}
	dropped := broker.Stats().Dropped
	if dropped == 0 || dropped >= 2*n {
		t.Errorf("%d of %d messages were dropped", dropped, 2*n)
	}
	got := uint64(0)
	for _, c := range []*mqttClient{slow, slower} {
		c.send(packet.AppendPingreq(nil))
		for h, _ := c.next(); h.Type != packet.TypePingresp; h, _ = c.next() {
			if h.Type != packet.TypePublish {
				t.Fatalf("a packet of type %v", h.Type)
			}
			got++
		}
	}
	if got == 0 || got > 2*n-dropped {
		t.Errorf("%d messages came, %d were dropped, of %d", got, dropped, 2*n)
	}
	if st := r.gateway.Stats(); st.SlowReaders != 0 {
		t.Errorf("%d slow readers were cut off", st.SlowReaders)
	}
}

// The log says of a client that shows a wrong password what is wrong: the devices file need not list it.
func TestMQTTRefusalIsTold(t *testing.T) {
	var said lockedBuffer
	cfg := guarded(t, "pump-1")
	cfg.Logger = slog.New(slog.NewTextHandler(&said, nil))
	users := testcert.Write(t, t.TempDir(), "users", []byte("# nobody\n"))
	r, _ := startMQTT(t, liveness.Config{}, cfg, access.Config{Users: users})
	p := mqttDevice("meter-1", 60)
	p.HasUser, p.User, p.HasPassword, p.Password = true, []byte("ann"), true, []byte("hunter2")
	r.mqtt().refuses(p, packet.BadUserOrPassword)
	want := `device=meter-1 address=127.0.0.1 protocol=mqtt reason="its login is refused" times=1`
	if log := said.String(); !strings.Contains(log, want) || !strings.Contains(log, "wrong user name or password") || strings.Contains(log, "hunter2") {
		t.Errorf("the log lacks %s, and what is wrong, or shows the password:\n%s", want, log)
	}
}

// Of clients that send much before their CONNECT, or the beginning of their TLS handshake, is complete,
// there are as many of an address as it may have. They leave room for others.
func TestMQTTHalfConnects(t *testing.T) {
	const room, crowd = 32, 100
	upgrade := "GET /mqtt HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Protocol: mqtt\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x82\xfe\xea\x64\x00\x00\x00\x00" // and the head of a frame
	connect := "\x10\xe0\xd4\x03\x00\x04MQTT\x05" + strings.Repeat("x", 5000) // of 60,000 bytes
	hello := "\x16\x03\x01\x40\x00\x01\x00\xf0\x00" + strings.Repeat("x", 16_380) + "\x16\x03\x01\x40\x00" + strings.Repeat("x", 1000)
	k := newKeys(t)
	for name, half := range map[string]string{"mqtt": connect, "websocket": upgrade + connect, "tls": hello} {
		t.Run(name, func(t *testing.T) {
			p := newMQTT(t, access.Config{})
			r := startRig(t, liveness.Config{}, gateway.Config{MaxNewcomers: 2 * crowd, Listen: []gateway.Listener{
				{Address: "127.0.0.1:0", TLS: map[bool]*tls.Config{true: k.server}[name == "tls"], Protocols: []codec.Protocol{p, &websocket.Protocol{Inner: p, Path: "/mqtt", Subprotocols: []string{"mqtt"}}}},
			}})
			for range crowd {
				r.dial().say(half)
			}
			testwait.Until(t, "room", func() bool {
				st := r.gateway.Stats()
				return st.Evicted == crowd-room && st.Connections == room
			})
			if name == "tls" {
				return
			}
			large := mqttDevice("large", 60)
			large.Version = packet.V5
			large.HasWill, large.Will = true, packet.Will{Topic: []byte("will"), Payload: make([]byte, 50_000)}
			other := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
			conn, err := other.DialContext(t.Context(), "tcp", r.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err = conn.Write(large.Append(nil)); err == nil {
				err = conn.SetReadDeadline(time.Now().Add(time.Minute))
			}
			if err != nil {
				t.Fatal(err)
			}
			answer := make([]byte, 4)
			if _, err := io.ReadFull(conn, answer); err != nil || answer[0] != byte(packet.TypeConnack)<<4 || answer[3] != 0 {
				t.Errorf("a client from elsewhere has %x, %v", answer, err)
			}
		})
	}
}

// Who comes by WebSocket, or through a proxy that does not name him, may be anywhere, though the other
// end is on this machine: he is not anonymous for that.
func TestMQTTRelayed(t *testing.T) {
	frame := func(p packet.Connect) string {
		body := p.Append(nil)
		return string([]byte{0x82, 0x80 | byte(len(body)), 0, 0, 0, 0}) + string(body)
	}
	upgrade := "GET /mqtt HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Protocol: mqtt\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	p := newMQTT(t, access.Config{})
	protocols := []codec.Protocol{p, &websocket.Protocol{Inner: p, Path: "/mqtt", Subprotocols: []string{"mqtt"}}}
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: []gateway.Listener{
		{Address: "127.0.0.1:0", Protocols: protocols},
		{Address: "127.0.0.1:0", Protocols: protocols, Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	}})
	direct, behind := r.addr, r.gateway.Addrs()[1].String()
	client := mqttDevice("c", 60)
	client.Version = packet.V5
	hello := string(client.Append(nil))
	for name, tt := range map[string]struct {
		address, says string
		refused       bool
	}{
		"here":                    {direct, hello, false},
		"WebSocket":               {direct, upgrade + frame(client), true},
		"a proxy that names him":  {behind, "PROXY TCP4 127.0.0.1 127.0.0.1 5000 7700\r\n" + hello, false},
		"a proxy that does not":   {behind, "PROXY UNKNOWN\r\n" + hello, true},
		"a proxy, from elsewhere": {behind, "PROXY TCP4 192.0.2.1 127.0.0.1 5000 7700\r\n" + hello, true},
	} {
		d := (&rig{t: t, addr: tt.address}).dial()
		d.say(tt.says)
		answer := make([]byte, 4096)
		got := ""
		for !strings.Contains(got, "\x20") || len(got) < 4 || strings.HasPrefix(got, "HTTP") && !strings.Contains(got, "\r\n\r\n\x82") {
			n, err := d.conn.Read(answer)
			if got += string(answer[:n]); err != nil {
				break
			}
		}
		_, body, _ := strings.Cut(got, "\r\n\r\n")
		if body == "" {
			body = got
		}
		if refused := strings.Contains(body, "\x00\x86"); refused != tt.refused {
			t.Errorf("%s: refused: %v, want %v: %q", name, refused, tt.refused, got)
		}
	}
}
