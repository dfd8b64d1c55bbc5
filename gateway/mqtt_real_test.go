package gateway_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/websocket"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqtt/access"
	"github.com/holter-iot/holter/mqtt/packet"
)

// startBoth starts a gateway that speaks MQTT and MQTT over WebSocket at the same port.
func startBoth(t *testing.T, cfg gateway.Config) *rig {
	t.Helper()
	p := newMQTT(t, access.Config{Anonymous: access.Anyone})
	if cfg.Listen == nil {
		cfg.Listen = []gateway.Listener{{Address: "127.0.0.1:0"}}
	}
	overWebSocket := &websocket.Protocol{Inner: p, Path: "/mqtt", Subprotocols: []string{"mqtt", "mqttv3.1"}}
	cfg.Listen[0].Protocols = []codec.Protocol{p, overWebSocket}
	return startRig(t, quick, cfg)
}

// wait waits for what paho does.
func wait(t *testing.T, token paho.Token) {
	t.Helper()
	<-token.Done()
	if err := token.Error(); err != nil {
		t.Fatal(err)
	}
}

// The client of Eclipse Paho for Go is at home here, also by WebSocket.
func TestPaho(t *testing.T) {
	for name, url := range map[string]string{"TCP": "tcp://%s", "WebSocket": "ws://%s/mqtt"} {
		t.Run(name, func(t *testing.T) {
			eachJudge(t, func(t *testing.T) {
				t.Helper()
				r := startBoth(t, gateway.Config{})
				options := paho.NewClientOptions().AddBroker(fmt.Sprintf(url, r.addr)).SetClientID("c").SetKeepAlive(2 * time.Second)
				c := paho.NewClient(options)
				wait(t, c.Connect())
				defer c.Disconnect(100)
				got := make(chan paho.Message, 10)
				for qos := range byte(3) {
					wait(t, c.Subscribe(fmt.Sprint("x/", qos), qos, func(_ paho.Client, m paho.Message) { got <- m }))
				}
				wait(t, c.Subscribe("will/+", 1, func(_ paho.Client, m paho.Message) { got <- m }))
				for qos := range byte(3) {
					for _, text := range []string{"short", strings.Repeat("long", 30_000)} {
						wait(t, c.Publish(fmt.Sprint("x/", qos), qos, false, text))
						if m := <-got; m.Qos() != qos || string(m.Payload()) != text {
							t.Errorf("message %.20q with QoS %d, want %.20q with %d", m.Payload(), m.Qos(), text, qos)
						}
					}
				}
				r.mqtt().welcome(withWill(mqttDevice("d", 60))).conn.Close()
				if m := <-got; string(m.Payload()) != "gone" || m.Topic() != "will/of" {
					t.Errorf("message %q on %q", m.Payload(), m.Topic())
				}
				if e := r.event("d", liveness.DeviceOffline); e.Reason != liveness.Will {
					t.Errorf("reason is %v, want will", e.Reason)
				}
				if e := r.event("c", liveness.DeviceOnline); e.Timeout != 3*time.Second {
					t.Errorf("timeout is %v, want 3 s", e.Timeout)
				}
				c.Disconnect(100)
				if e := r.event("c", liveness.DeviceOffline); e.Reason != liveness.Bye {
					t.Errorf("reason is %v, want bye", e.Reason)
				}
			})
		})
	}
}

// The clients of mosquitto are at home here.
func TestMosquittoClients(t *testing.T) {
	testenv.Check(t)
	pub, sub := testenv.Program(t, "mosquitto_pub"), testenv.Program(t, "mosquitto_sub")
	for _, version := range []string{"mqttv31", "mqttv311", "mqttv5"} {
		t.Run(version, func(t *testing.T) {
			r, _ := startMQTT(t, quick, gateway.Config{}, access.Config{})
			_, port, err := net.SplitHostPort(r.addr)
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
			if e := r.event("dev", liveness.DeviceOffline); e.Reason != liveness.Bye || e.Policy != "announced" || e.Timeout != 90*time.Second {
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

// mqtt.js speaks MQTT 5 with the broker, also by WebSocket; user properties are passed on.
func TestMQTTJS(t *testing.T) {
	testenv.Check(t)
	node, nodePath := testenv.Node(t, "mqtt")
	const script = `
const client = require('mqtt').connect(process.argv[1], {protocolVersion: 5, connectTimeout: 20000, clientId: 'js'})
client.on('connect', () => client.subscribe('a/b', () => client.publish('a/b', 'hello', {properties: {userProperties: {k: 'v'}}})))
client.on('message', (topic, payload, packet) => { console.log(topic, String(payload), packet.properties.userProperties.k); client.end() })
client.on('error', (err) => { console.error(err); process.exit(1) })`
	for _, url := range []string{"mqtt://%s", "ws://%s/mqtt"} {
		t.Run(url[:strings.Index(url, ":")], func(t *testing.T) {
			r := startBoth(t, gateway.Config{})
			cmd := exec.CommandContext(t.Context(), node, "-e", script, "--", fmt.Sprintf(url, r.addr))
			cmd.Env = append(cmd.Environ(), "NODE_PATH="+nodePath)
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != "a/b hello v\n" {
				t.Errorf("%v: %s", err, out)
			}
			if e := r.event("js", liveness.DeviceOffline); e.Reason != liveness.Bye {
				t.Errorf("reason is %v, want bye", e.Reason)
			}
		})
	}
}

// Clients of Eclipse Paho for Python are at home here: the script tries what clients do.
func TestPahoPython(t *testing.T) {
	testenv.Check(t)
	python := testenv.Python(t, "paho.mqtt.client")
	for _, version := range []string{"3.1.1", "5"} {
		t.Run(version, func(t *testing.T) {
			r, _ := startMQTT(t, quick, gateway.Config{}, access.Config{})
			if out, err := pythonClient(t, python, r.addr, version, "play").CombinedOutput(); err != nil {
				t.Errorf("%v:\n%s", err, out)
			}
			for id, want := range map[string]liveness.Reason{"py": liveness.Bye, "py-bye": liveness.Bye, "py-killed": liveness.Will, "py-kept": liveness.Bye} {
				if e := r.event(id, liveness.DeviceOffline); e.Reason != want {
					t.Errorf("%s is offline for %v, want %v", id, e.Reason, want)
				}
			}
		})
	}
}

// A process with a client of Eclipse Paho for Python is online until it is killed.
func TestPahoPythonKilled(t *testing.T) {
	testenv.Check(t)
	python := testenv.Python(t, "paho.mqtt.client")
	for _, version := range []string{"3.1.1", "5"} {
		for mode, want := range map[string]liveness.Reason{"hold": liveness.Closed, "hold-will": liveness.Will} {
			t.Run(version+" "+mode, func(t *testing.T) {
				r, _ := startMQTT(t, quick, gateway.Config{}, access.Config{})
				watcher := r.mqtt().welcome(mqttDevice("watcher", 60)).subscribe("will/#", 0)
				cmd := pythonClient(t, python, r.addr, version, mode)
				cmd.Stderr = os.Stderr
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if said := bufio.NewScanner(out); !said.Scan() || said.Text() != "connected" {
					t.Errorf("the script says %q (%v), want connected", said.Text(), said.Err())
				}
				if d, err := r.registry.Device("py"); err != nil || d.State != liveness.Online || d.Policy.Timeout != 90*time.Second {
					t.Errorf("the device is %v with a timeout of %v, %v; want it online with 90 s", d.State, d.Policy.Timeout, err)
				}
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
				_ = cmd.Wait() // it was killed
				if e := r.event("py", liveness.DeviceOffline); e.Reason != want {
					t.Errorf("reason is %v, want %v", e.Reason, want)
				}
				if want == liveness.Will {
					watcher.message("will/of/py", "gone")
				}
				watcher.ping() // nothing else came
			})
		}
	}
}

// pythonClient returns a client of the script in testdata.
func pythonClient(t *testing.T, python, addr, version, mode string) *exec.Cmd {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), python, "testdata/python_client.py", host, port, version, mode)
}

// MQTT below TLS: what ends a connection is told apart, and large messages pass.
func TestMQTTOverTLS(t *testing.T) {
	k := newKeys(t)
	eachJudge(t, func(t *testing.T) {
		t.Helper()
		r, _ := startMQTT(t, quick, k.config(), access.Config{})
		dial := func() *mqttClient {
			c := r.mqtt()
			c.conn = (&device{t: t, conn: c.conn}).secure(k.client()).conn
			return c
		}
		c := dial().welcome(withWill(mqttDevice("a", 60)))
		c.ping()
		c.subscribe("x", 0)
		c.publish("x", strings.Repeat("x", 200_000), 0)
		c.message("x", strings.Repeat("x", 200_000))
		_ = c.conn.Close()
		if e := r.event("a", liveness.DeviceOffline); e.Reason != liveness.Will {
			t.Errorf("reason is %v, want will", e.Reason)
		}
		dial().welcome(mqttDevice("b", 1)).closed(packet.KeepAliveTimeout)
		if e := r.event("b", liveness.DeviceOffline); e.Reason != liveness.Silence {
			t.Errorf("reason is %v, want silence", e.Reason)
		}
		c = dial().welcome(withWill(mqttDevice("c", 60)))
		c.bye()
		if e := r.event("c", liveness.DeviceOffline); e.Reason != liveness.Bye {
			t.Errorf("reason is %v, want bye", e.Reason)
		}
	})
}
