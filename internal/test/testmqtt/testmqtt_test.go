package testmqtt_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"go.uber.org/goleak"

	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testmqtt"
	"github.com/holter-iot/holter/internal/test/testwait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dial connects a client that ends with the test: it does not connect again, which it would be at for a second after it was told to end.
func dial(t *testing.T, opt *mqtt.ClientOptions) mqtt.Client {
	t.Helper()
	c := mqtt.NewClient(opt.SetAutoReconnect(false))
	if token := c.Connect(); !token.WaitTimeout(20*time.Second) || token.Error() != nil {
		t.Fatalf("connect to %v: %v", opt.Servers, token.Error())
	}
	t.Cleanup(func() { c.Disconnect(0) })
	return c
}

// clientTLS is the configuration of a client that the broker lets in.
func clientTLS(t *testing.T, files testmqtt.Files) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(files.CA)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}
}

func TestListeners(t *testing.T) {
	s := testmqtt.Mosquitto(t, testmqtt.Options{
		Users: map[string]string{"ada": "secret"}, ACL: []string{"user ada", "topic readwrite a/#"},
		TLS: true, ClientCert: true, WebSocket: true,
	})
	config := clientTLS(t, s.Files())
	for _, url := range []string{s.URL(), s.TLSURL(), s.WebSocketURL(), s.SecureWebSocketURL()} {
		t.Run(strings.Split(url, ":")[0], func(t *testing.T) {
			opt := mqtt.NewClientOptions().AddBroker(url).SetUsername("ada").SetPassword("secret").SetTLSConfig(config)
			c := dial(t, opt)
			got := make(chan string, 1)
			if token := c.Subscribe("a/b", 1, func(_ mqtt.Client, m mqtt.Message) { got <- string(m.Payload()) }); token.Wait() && token.Error() != nil {
				t.Fatal(token.Error())
			}
			c.Publish("a/b", 1, false, "hello")
			if p := <-got; p != "hello" {
				t.Errorf("got %q", p)
			}
		})
	}
	wrong := mqtt.NewClient(mqtt.NewClientOptions().AddBroker(s.URL()).SetUsername("ada").SetPassword("wrong"))
	if token := wrong.Connect(); !token.WaitTimeout(20*time.Second) || token.Error() == nil {
		t.Errorf("a wrong password: %v", token.Error())
	}
}

func TestKillAndStop(t *testing.T) {
	s := testmqtt.Mosquitto(t, testmqtt.Options{Lines: []string{"max_inflight_messages 1"}})
	addr := s.Addr()
	s.Kill()
	if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil { //nolint:noctx // a moment
		c.Close()
		t.Error("a broker that was killed answers")
	}
	s.Restart()
	if s.Addr() != addr {
		t.Errorf("it came back at %s, not %s", s.Addr(), addr)
	}
	s.Stop()
	c := mqtt.NewClient(mqtt.NewClientOptions().AddBroker(s.URL()).SetConnectTimeout(300 * time.Millisecond))
	if token := c.Connect(); !token.WaitTimeout(20*time.Second) || token.Error() == nil {
		t.Error("a broker that was stopped answers")
	}
	s.Cont()
	dial(t, mqtt.NewClientOptions().AddBroker(s.URL()))
	s.Stop() // and the test can end nevertheless
}

// TestLeash: a broker does not outlive the process that started it.
func TestLeash(t *testing.T) {
	testenv.Program(t, "mosquitto")
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^TestChild$")
	cmd.Env = append(cmd.Environ(), "TESTMQTT_CHILD=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var addr string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if after, ok := strings.CutPrefix(lines.Text(), "broker at "); ok {
			addr = after
			break
		}
	}
	if addr == "" {
		t.Fatal("the child did not say where its broker is")
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	testwait.Until(t, "the broker of a process that was killed still answers", func() bool {
		c, err := net.DialTimeout("tcp", addr, time.Second) //nolint:noctx // a moment
		if err == nil {
			c.Close()
		}
		return err != nil
	})
}

// TestChild is the process of TestLeash.
func TestChild(t *testing.T) {
	if os.Getenv("TESTMQTT_CHILD") == "" {
		return
	}
	s := testmqtt.Mosquitto(t, testmqtt.Options{})
	if _, err := fmt.Fprintf(os.Stdout, "broker at %s\n", s.Addr()); err != nil {
		t.Fatal(err)
	}
	<-t.Context().Done() // until it is killed
}

func TestProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { // after the proxy has closed its connections
		l.Close()
		wg.Wait()
	})
	wg.Go(func() { // echoes
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
	p := testmqtt.Proxy(t, "tcp://"+l.Addr().String())
	open := func() net.Conn {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	echo := func(c net.Conn, want string, patience time.Duration) error {
		c.SetDeadline(time.Now().Add(patience))
		if want != "" {
			if _, err := c.Write([]byte(want)); err != nil {
				return err
			}
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	}
	for _, d := range []testmqtt.Direction{testmqtt.Both, testmqtt.Up, testmqtt.Down} {
		c := open()
		if err := echo(c, "x", 5*time.Second); err != nil {
			t.Fatalf("before: %v", err)
		}
		p.Stall(d)
		if err := echo(c, "x", 50*time.Millisecond); !isTimeout(err) {
			t.Errorf("%d, stalled: %v, want a timeout", d, err)
		}
		p.Heal()
		if err := echo(c, "", 5*time.Second); err != nil {
			t.Errorf("%d, after a stall: %v", d, err)
		}
		p.Cut(d)
		if err := echo(c, "x", 50*time.Millisecond); !isTimeout(err) {
			t.Errorf("%d, cut: %v, want a timeout", d, err)
		}
		p.Heal()
		if err := echo(c, "", 5*time.Second); err == nil || isTimeout(err) {
			t.Errorf("%d, after a cut: %v, want an end", d, err)
		}
	}
	c := open()
	if err := echo(c, "x", 5*time.Second); err != nil {
		t.Fatal(err)
	}
	p.Break()
	if err := echo(c, "", 5*time.Second); err == nil || isTimeout(err) {
		t.Errorf("broken: %v, want an end", err)
	}
	p.Heal()
	if err := echo(open(), "x", 5*time.Second); err != nil {
		t.Errorf("after a break: %v", err)
	}
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

func TestFleet(t *testing.T) {
	s := testmqtt.Mosquitto(t, testmqtt.Options{})
	c := dial(t, mqtt.NewClientOptions().AddBroker(s.URL()))
	var beats, wills atomic.Int64
	c.Subscribe("fleet/+/beat", 0, func(mqtt.Client, mqtt.Message) { beats.Add(1) }).Wait()
	c.Subscribe("fleet/+/status", 1, func(_ mqtt.Client, m mqtt.Message) {
		if string(m.Payload()) == "offline" {
			wills.Add(1)
		}
	}).Wait()
	f, err := testmqtt.NewFleet(testmqtt.FleetConfig{Broker: s.URL(), Devices: 200, Wills: 20, Interval: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = f.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	testwait.Until(t, "each has beaten three times", func() bool { return slowest(f) >= 3 })
	at, ok := f.Kill("device-00007")
	if !ok {
		t.Fatal("Kill did not find it")
	}
	f.Kill("will-00003")
	testwait.Until(t, "the will of one that was killed", func() bool { return wills.Load() == 1 })
	before := f.Devices()
	s.Kill()
	s.Restart()
	testwait.Until(t, "all are connected again", func() bool { return f.Reconnects() == 4+19 })
	testwait.Until(t, "the others beat on", func() bool {
		for i, d := range f.Devices() {
			if d.Killed.IsZero() && d.Beats < before[i].Beats+3 {
				return false
			}
		}
		return true
	})
	d, _ := f.Device("device-00007")
	if d.Last.Sub(at) > 2*time.Second || !d.Killed.Equal(at.Round(0)) {
		t.Errorf("killed at %v: %+v", at, d)
	}
	if beats.Load() == 0 {
		t.Error("nobody heard a beat")
	}
}

// slowest is the least number of beats of a device.
func slowest(f *testmqtt.Fleet) int64 {
	least := int64(1 << 62)
	for _, d := range f.Devices() {
		least = min(least, d.Beats)
	}
	return least
}

func TestFleetConfig(t *testing.T) {
	for name, cfg := range map[string]testmqtt.FleetConfig{
		"no broker":   {Devices: 1, Interval: time.Second},
		"no interval": {Broker: "x:1", Devices: 1},
	} {
		if _, err := testmqtt.NewFleet(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
