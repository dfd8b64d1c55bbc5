package cli

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testmqtt"
	"github.com/holter-iot/holter/mqttbridge/presets"
)

// startMonitor runs holter monitor, with further arguments, and waits until it is ready.
func startMonitor(t *testing.T, args ...string) *program {
	t.Helper()
	env := environment(args)
	args = slices.Concat(args[:env], []string{"monitor", "--http", "127.0.0.1:0", "--data", t.TempDir(), "--log-format", "json"}, args[env:])
	p, ready := launchProgram(t, args...)
	if !<-ready {
		t.Fatalf("holter monitor did not start:\n%s", p.logged())
	}
	return p
}

// publisher returns what publishes retained messages to a broker.
func publisher(t *testing.T, url string, options ...func(*paho.ClientOptions)) func(topic, payload string) {
	t.Helper()
	o := paho.NewClientOptions().AddBroker(url).SetClientID("publisher").SetAutoReconnect(false)
	for _, option := range options {
		option(o)
	}
	client := paho.NewClient(o)
	done := func(token paho.Token) {
		t.Helper()
		if !token.WaitTimeout(time.Minute) || token.Error() != nil {
			t.Fatalf("the publisher failed: %v", token.Error())
		}
	}
	done(client.Connect())
	t.Cleanup(func() { client.Disconnect(0) })
	return func(topic, payload string) {
		t.Helper()
		done(client.Publish(topic, 1, true, payload))
	}
}

// happens waits for an event that has all these texts in it.
func (p *program) happens(texts ...string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.api+"/v1/events/stream?after=0", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		missing := 0
		for _, text := range texts {
			if !strings.Contains(lines.Text(), text) {
				missing++
			}
		}
		if missing == 0 {
			return
		}
	}
	p.t.Fatalf("there was no event with %q: %v\n%s", texts, lines.Err(), p.logged())
}

// Devices are found by what the broker kept, judged by what comes, and explained.
func TestMonitor(t *testing.T) {
	t.Parallel()
	server := testmqtt.Mosquitto(t, testmqtt.Options{})
	publish := publisher(t, server.URL())
	publish("tele/kitchen/LWT", "Online")
	publish("tele/cellar/LWT", "Offline")
	file := tempFile(t, "policy: {close_grace: 50ms}\n")
	p := startMonitor(t, "--broker", server.URL(), "--preset", "tasmota", "--config", file)
	p.until(`"found":"2 devices: 1 online, 1 offline"`)
	for _, want := range []string{`"msg":"the broker is being watched"`, `tele/#`, `"watermark":"message"`, `"brokers":"` + server.URL()} {
		if !strings.Contains(p.logged(), want) {
			t.Errorf("%s is missing from\n%s", want, p.logged())
		}
	}
	publish("tele/kitchen/LWT", "Offline")
	p.happens(`"io.holter.device.offline"`, `"kitchen"`, `"will"`)
	publish("tele/attic/STATE", "{}")
	p.happens(`"io.holter.device.online"`, `"attic"`)
	tests := []struct{ path, want string }{
		{"/v1/devices/kitchen", `"reason":"will"`},
		{"/v1/sources", `"name":"mqtt:127.0.0.1"`},
		{"/metrics", `holter_mqtt_connected{bridge="mqtt:127.0.0.1"} 1`},
		{"/metrics", `holter_mqtt_watermark_message{bridge="mqtt:127.0.0.1"} 1`},
		{"/metrics", `holter_mqtt_retained_total{bridge="mqtt:127.0.0.1"}`},
	}
	for _, tt := range tests {
		p.untilGet(tt.path, 200, tt.want)
	}
	if out, want := p.operate("its last will", "explain", "kitchen"), "a bridge to "+server.URL()+"; its clock follows the bridge's messages to itself"; !strings.Contains(out, want) {
		t.Errorf("holter explain: want %q\n%s", want, out)
	}
	if err := p.stop(os.Interrupt); err != nil {
		t.Errorf("ended with %v, want status 0\n%s", err, p.logged())
	}
}

// A broker that cannot be reached is no reason to end, and it is said what is wrong.
func TestMonitorWithoutABroker(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	server := testmqtt.Mosquitto(t, testmqtt.Options{Users: map[string]string{"ada": "right"}, TLS: true})
	gone := testmqtt.Mosquitto(t, testmqtt.Options{})
	gone.Kill()
	passwordFile := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(passwordFile, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"wrong password", []string{"--broker", server.URL(), "--username", "ada", "--password-file", passwordFile}, "check the user name and the password"},
		{"no password", []string{"--broker", server.URL()}, "check the user name and the password"},
		{"no password file", []string{"--broker", server.URL(), "--username", "ada", "--password-file", passwordFile + ".not"}, "no such file"},
		{"nobody there", []string{"--broker", gone.URL()}, "no broker listens there"},
		{"unknown authority", []string{"--broker", server.TLSURL()}, "check the CA"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := startMonitor(t, append(tt.args, "--preset", "raw")...)
			p.until("cannot connect to the broker; retrying")
			if log := p.logged(); !strings.Contains(log, tt.want) || strings.Contains(log, "hunter2") {
				t.Errorf("it does not say %q, or shows the password:\n%s", tt.want, log)
			}
			if status, body := p.get("/v1/devices"); status != http.StatusOK {
				t.Errorf("GET /v1/devices = %d %s", status, body)
			}
			if err := p.stop(syscall.SIGTERM); err != nil {
				t.Errorf("ended with %v, want status 0\n%s", err, p.logged())
			}
		})
	}
}

// All that a broker may ask for before it lets somebody in, from a file.
func TestMonitorLogsIn(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	server := testmqtt.Mosquitto(t, testmqtt.Options{Users: map[string]string{"ada": "right"}, TLS: true, ClientCert: true})
	file := tempFile(t, "bridges:\n- name: plant\n  url: "+strings.Replace(server.TLSURL(), "ssl://", "mqtts://", 1)+"\n  username: ada\n"+
		"  tls: {ca: "+server.Files().CA+", cert: "+server.Files().Cert+", key: "+server.Files().Key+"}\n"+
		"  rules:\n  - topic: plant/{device}\n")
	p := startMonitor(t, passwordEnv+"=right", "--config", file)
	publisher(t, server.URL(), func(o *paho.ClientOptions) { o.SetUsername("ada").SetPassword("right") })("other", "x")
	p.until(`"bridge":"plant","url":"mqtts:`)
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v, want status 0\n%s", err, p.logged())
	}
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	broker := "tcp://" + startServe(t).mqtt
	publish := publisher(t, broker)
	publish("tele/kitchen/LWT", `{"online":1}`)
	dir := t.TempDir()
	file := tempFile(t, "bridges:\n- url: "+broker+`
  rules:
  - topic: tele/{device...}/LWT
    timeout: never
    cases:
    - {json: /online, means: online}
    - {json: /a, means: offline}
`)
	cmd := command(t, "monitor", "--config", file, "--dry-run", "--data", filepath.Join(dir, "data"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	next := func(wants ...string) {
		t.Helper()
		line, err := lines.ReadString('\n')
		for _, want := range wants {
			if err != nil || !strings.Contains(line, want) {
				t.Errorf("the line %q (%v) has no %q", line, err, want)
			}
		}
	}
	next("tele/kitchen/LWT", `"{\"online\":1}" (retained)`, "-> online kitchen, timeout never (rules: rule 1 ")
	publish("tele/kitchen/LWT", `{"a":1}`)
	next("tele/kitchen/LWT", `"{\"a\":1}"  -> offline kitchen`)
	publish("tele/kitchen/STATE", strings.Repeat("\x00", 100))
	next("tele/kitchen/STATE", strings.Repeat(`\x00`, 80)+`"… (100 bytes)  -> nothing matches`)
	publish("tele/kitchen/LWT", "{")
	next("tele/kitchen/LWT", `"{"  -> rejected (rules: json: `)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v, want status 0\n%s", err, stderr.String())
	}
	if want := "\n4 messages: 1 online, 1 offline, 1 rejected, 1 that nothing matches\n\nTopics that nothing matches:\n\n         1  tele/kitchen/STATE\n"; string(rest) != want {
		t.Errorf("the summary is %q, want %q", rest, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		t.Error("it made a data directory")
	}
}

// What is shown of a preset is its rules; package server proves that they mean the same in a file.
func TestShowPreset(t *testing.T) {
	for _, name := range presets.Names() {
		spec, ok := presets.Spec(name)
		if !ok {
			continue
		}
		if got := typeLine(t.Context(), t, "monitor", "--show-preset", name); got != (typed{0, spec.YAML(), ""}) {
			t.Errorf("--show-preset %s = %+v, want\n%s", name, got, spec.YAML())
		}
	}
}

func TestPresetErrors(t *testing.T) {
	tests := []struct{ name, want string }{
		{"tasmoto", `--show-preset: there is no preset "tasmoto"; did you mean "tasmota"?`},
		{"sparkplug", "--show-preset: sparkplug cannot be written as rules"},
		{"", `--show-preset: there is no preset ""`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			code := run(t.Context(), []string{"monitor", "--show-preset=" + tt.name}, &stdout, &stderr)
			if code != exitUsage || !strings.HasPrefix(stderr.String(), "holter: "+tt.want) {
				t.Errorf("code %d, %q, want %d, %q", code, stderr.String(), exitUsage, tt.want)
			}
		})
	}
	var stdout, stderr strings.Builder
	if code := run(t.Context(), []string{"monitor", "--list-presets"}, &stdout, &stderr); code != 0 || strings.Count(stdout.String(), "\n") != len(presets.Names()) {
		t.Errorf("--list-presets = %d %q", code, stdout.String())
	}
}

// The MQTT broker of holter serve.
func TestServeMQTT(t *testing.T) {
	t.Parallel()
	p := startServe(t)
	publish := publisher(t, "tcp://"+p.mqtt)
	publish("hello", "world")
	p.happens(`"io.holter.device.online"`, `"publisher"`)
	tests := []struct{ path, want string }{
		{"/v1/devices/publisher", `"source":"gateway"`},
		{"/metrics", "holter_broker_clients 1"},
	}
	for _, tt := range tests {
		p.untilGet(tt.path, 200, tt.want)
	}
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v, want status 0\n%s", err, p.logged())
	}
}

// Names and passwords for the broker, from holter password to the login.
func TestServeMQTTUsers(t *testing.T) {
	t.Parallel()
	cmd := command(t, "password", "ada")
	cmd.Stdin = strings.NewReader("right\n")
	line, err := cmd.Output()
	if err != nil || !strings.HasPrefix(string(line), "ada:$argon2id$") {
		t.Fatalf("holter password = %q, %v", line, err)
	}
	p := startServe(t, "--config", tempFile(t, "mqtt: {users: "+tempFile(t, string(line))+", anonymous: never}\n"))
	publisher(t, "tcp://"+p.mqtt, func(o *paho.ClientOptions) { o.SetUsername("ada").SetPassword("right") })("hello", "world")
	for _, password := range []string{"wrong", ""} {
		client := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + p.mqtt).SetClientID("other").SetUsername("ada").SetPassword(password))
		if token := client.Connect(); !token.WaitTimeout(time.Minute) || token.Error() == nil {
			t.Errorf("it let in ada with the password %q", password)
		}
	}
	if out, err := command(t, "monitor", "--broker", "tcp://"+p.mqtt, "--preset", "raw", "--dry-run").CombinedOutput(); exitStatus(t, err) != exitFailed ||
		!strings.Contains(string(out), "holter: mqtt:127.0.0.1: connect: ") {
		t.Errorf("holter monitor --dry-run = %v\n%s", err, out)
	}
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v, want status 0\n%s", err, p.logged())
	}
}

func TestPasswordErrors(t *testing.T) {
	tests := []struct{ name, user, input, want string }{
		{"colon", "a:b", "x\n", "holds neither : nor"},
		{"comment", "#a", "x\n", "does not begin with #"},
		{"empty password", "a", "\n", "the password is empty"},
		{"no password", "a", "", "read the password: EOF"},
		{"long password", "a", strings.Repeat("x", 1025) + "\n", "longer than 1024 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := command(t, "password", tt.user)
			cmd.Stdin = strings.NewReader(tt.input)
			if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), tt.want) {
				t.Errorf("holter password = %v, want %q\n%s", err, tt.want, out)
			}
		})
	}
}

// subscriber returns the next message that a broker has, or gets, for a filter and with all these texts in topic or payload.
func subscriber(t *testing.T, url, filter string) func(texts ...string) {
	t.Helper()
	messages := make(chan string, 1024)
	client := paho.NewClient(paho.NewClientOptions().AddBroker(url).SetClientID("subscriber " + filter).SetAutoReconnect(false))
	if token := client.Connect(); !token.WaitTimeout(time.Minute) || token.Error() != nil {
		t.Fatalf("the subscriber failed: %v", token.Error())
	}
	t.Cleanup(func() { client.Disconnect(0) })
	token := client.Subscribe(filter, 1, func(_ paho.Client, m paho.Message) { messages <- m.Topic() + " " + string(m.Payload()) + " end" })
	if !token.WaitTimeout(time.Minute) || token.Error() != nil {
		t.Fatalf("the subscriber failed: %v", token.Error())
	}
	return func(texts ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for {
			select {
			case m := <-messages:
				if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(m, text) }) {
					return
				}
			case <-ctx.Done():
				t.Fatalf("there was no message on %s with %q", filter, texts)
			}
		}
	}
}

// Verdicts go back to the broker that they are about, and are not heard as heartbeats.
func TestMonitorReports(t *testing.T) {
	t.Parallel()
	broker := "tcp://" + startServe(t).mqtt
	publish := publisher(t, broker)
	p := startMonitor(t, "--broker", broker, "--preset", "raw", "--home-assistant")
	p.until(`"msg":"connected to the broker"`)
	publish("kitchen/temperature", "21")
	states, sensors := subscriber(t, broker, "holter/#"), subscriber(t, broker, "homeassistant/#")
	states("holter/kitchen/state ", `"state":"online"`)
	sensors("homeassistant/binary_sensor/holter_kitchen/connectivity/config ", `"device_class":"connectivity"`)
	p.do(http.MethodDelete, "/v1/devices/kitchen", "")
	states("holter/kitchen/state  end")
	sensors("homeassistant/binary_sensor/holter_kitchen/connectivity/config  end")
	if _, body := p.get("/v1/devices"); strings.Contains(body, `"id":`) {
		t.Errorf("there are devices left: %s", body)
	}
	p.untilGet("/metrics", 200, "holter_report_published_total")
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v, want status 0\n%s", err, p.logged())
	}
	states("holter/status offline end")
}

// Verdicts go to the broker inside the program, and nobody else publishes there.
func TestServeReports(t *testing.T) {
	t.Parallel()
	p := startServe(t, "--config", tempFile(t, "report: {to: broker, prefix: fleet}\n"))
	states := subscriber(t, "tcp://"+p.mqtt, "fleet/#")
	p.say("HELLO pump\n")
	states("fleet/pump/state ", `"state":"online"`)
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v, want status 0\n%s", err, p.logged())
	}
}
