package broker_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/holter-iot/holter/internal/testcert"
	"github.com/holter-iot/holter/internal/testmqtt"
	"github.com/holter-iot/holter/internal/testnode"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/broker"
)

func wait(t *testing.T, token paho.Token) {
	t.Helper()
	<-token.Done()
	if err := token.Error(); err != nil {
		t.Fatal(err)
	}
}

func TestPaho(t *testing.T) {
	s := start(t, quick, broker.Config{})
	address := "tcp://" + s.broker.Addr().String()
	c := paho.NewClient(paho.NewClientOptions().AddBroker(address).SetClientID("c").SetKeepAlive(2 * time.Second))
	wait(t, c.Connect())
	defer c.Disconnect(100)
	got := make(chan paho.Message, 10)
	for qos := range byte(3) {
		wait(t, c.Subscribe(fmt.Sprint("x/", qos), qos, func(_ paho.Client, m paho.Message) { got <- m }))
	}
	wait(t, c.Subscribe("w/+", 1, func(_ paho.Client, m paho.Message) { got <- m }))
	for qos := range byte(3) {
		text := fmt.Sprint("with QoS ", qos)
		wait(t, c.Publish(fmt.Sprint("x/", qos), qos, false, text))
		if m := <-got; m.Qos() != qos || string(m.Payload()) != text {
			t.Errorf("message %q with QoS %d, want %d", m.Payload(), m.Qos(), qos)
		}
	}
	d := paho.NewClient(paho.NewClientOptions().AddBroker(address).SetClientID("d").SetWill("w/d", "gone", 1, false).SetAutoReconnect(false).
		SetCustomOpenConnectionFn(func(*url.URL, paho.ClientOptions) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", s.broker.Addr().String())
			time.AfterFunc(50*time.Millisecond, func() { conn.Close() })
			return conn, err
		}))
	wait(t, d.Connect())
	if m := <-got; string(m.Payload()) != "gone" || m.Topic() != "w/d" {
		t.Errorf("message %q on %q", m.Payload(), m.Topic())
	}
	if e := s.event("d", liveness.DeviceOffline); e.Reason != liveness.Will {
		t.Errorf("reason is %v, want will", e.Reason)
	}
	d.Disconnect(0)
	e := s.event("c", liveness.DeviceOnline)
	if e.Timeout != 3*time.Second {
		t.Errorf("timeout is %v, want 3 s", e.Timeout)
	}
}

func TestMosquittoClients(t *testing.T) {
	pub, sub := testmqtt.Program(t, "mosquitto_pub"), testmqtt.Program(t, "mosquitto_sub")
	for _, version := range []string{"mqttv31", "mqttv311", "mqttv5"} {
		t.Run(version, func(t *testing.T) {
			s := start(t, quick, broker.Config{})
			_, port, err := net.SplitHostPort(s.broker.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			run := func(program string, args ...string) *exec.Cmd {
				cmd := exec.CommandContext(t.Context(), program, append([]string{"-h", "127.0.0.1", "-p", port, "-V", version}, args...)...)
				cmd.Stderr = os.Stderr
				return cmd
			}
			if err := run(pub, "-i", "dev", "-t", "a/b", "-m", "kept", "-r", "-q", "1").Run(); err != nil {
				t.Fatal(err)
			}
			if e := s.event("dev", liveness.DeviceOffline); e.Reason != liveness.Bye || e.Timeout != 90*time.Second {
				t.Errorf("event %+v, want bye with a timeout of 90 s", e)
			}
			reader := run(sub, "-i", "reader", "-t", "a/#", "-C", "2", "-W", "30", "-v", "-q", "2")
			out, err := reader.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := reader.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for _, want := range []string{"a/b kept", "a/c live"} {
				if !lines.Scan() || lines.Text() != want {
					t.Fatalf("mosquitto_sub printed %q (%v), want %q", lines.Text(), lines.Err(), want)
				}
				if strings.HasSuffix(want, "kept") {
					if err := run(pub, "-i", "dev", "-t", "a/c", "-m", "live", "-q", "2").Run(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := reader.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	ca := testcert.New(t)
	certificates := []tls.Certificate{ca.Issue(t, testcert.Ask{Name: "holter"})}
	s := start(t, quick, broker.Config{TLS: &tls.Config{Certificates: certificates}, ConnectTimeout: time.Second})
	trust := &tls.Config{RootCAs: ca.Pool()}
	dial := func() *client {
		conn, err := (&tls.Dialer{Config: trust}).DialContext(t.Context(), "tcp", s.broker.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return &client{tb: t, conn: conn, in: bufio.NewReader(conn), version: 4}
	}
	s.dial().over() // no handshake
	c := dial()
	if code := c.hello(hello{id: "a", keepAlive: 60, will: "w"}); code != 0 {
		t.Fatalf("CONNACK with %#x", code)
	}
	c.ping()
	c.subscribe("x", 0)
	c.publish("x", strings.Repeat("x", 200_000), 0, false)
	c.message("x", strings.Repeat("x", 200_000))
	c.conn.Close()
	if e := s.event("a", liveness.DeviceOffline); e.Reason != liveness.Will {
		t.Errorf("reason is %v, want will", e.Reason)
	}
	c = dial()
	if code := c.hello(hello{id: "b", keepAlive: 1}); code != 0 {
		t.Fatalf("CONNACK with %#x", code)
	}
	c.over()
	if e := s.event("b", liveness.DeviceOffline); e.Reason != liveness.Silence {
		t.Errorf("reason is %v, want silence", e.Reason)
	}
}

// TestMQTTJS: mqtt.js speaks MQTT 5 to the broker, which passes user properties on.
func TestMQTTJS(t *testing.T) {
	node, nodePath := testnode.Need(t, "mqtt")
	s := start(t, quick, broker.Config{})
	const script = `
const client = require('mqtt').connect(process.argv[1], {protocolVersion: 5, connectTimeout: 20000})
client.on('connect', () => client.subscribe('a/b', () => client.publish('a/b', 'hello', {properties: {userProperties: {k: 'v'}}})))
client.on('message', (topic, payload, packet) => { console.log(topic, String(payload), packet.properties.userProperties.k); client.end() })
client.on('error', (err) => { console.error(err); process.exit(1) })`
	cmd := exec.CommandContext(t.Context(), node, "-e", script, "--", "mqtt://"+s.broker.Addr().String())
	cmd.Env = append(cmd.Environ(), "NODE_PATH="+nodePath)
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "a/b hello v\n" {
		t.Errorf("%v: %s", err, out)
	}
}
