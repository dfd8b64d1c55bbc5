package config_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/config"
)

// mqttOnly is what --mqtt does.
func mqttOnly(address string) []config.Setting { return given("mqtt.listen", address) }

func TestPortsThatSpeakMQTT(t *testing.T) {
	const line, port = "line://127.0.0.1:7700", "mqtt://127.0.0.1:1883"
	tests := []struct {
		name, file string
		settings   []config.Setting
		want       []string
	}{
		{"default", "{}\n", nil, []string{line, port}},
		{"beside another device port", "listen: [127.0.0.1:1]\n", nil, []string{"line://127.0.0.1:1", port}},
		{"beside datagrams", "listen: ['udp+any://127.0.0.1:1']\n", nil, []string{"udp+teltonika+frame+line://127.0.0.1:1", port}},
		{"among the ports", "listen: ['mqtt://127.0.0.1:1']\n", nil, []string{"mqtt://127.0.0.1:1"}},
		{"at a port that speaks all", "{}\n", given("listen", "any://127.0.0.1:1"), []string{"mqtt+jt808+gt06+teltonika+frame+line://127.0.0.1:1"}},
		{"over TLS", "tls: {cert: c, key: k}\nlisten: ['tls+mqtt://127.0.0.1:1']\n", nil, []string{"tls+mqtt://127.0.0.1:1"}},
		{"with a list of protocols", "listen: [{address: '127.0.0.1:1', protocols: [line, mqtt]}]\n", nil, []string{"mqtt+line://127.0.0.1:1"}},
		{"in both places", "listen: ['mqtt://127.0.0.1:1']\nmqtt: {listen: '127.0.0.1:2'}\n", nil, []string{"mqtt://127.0.0.1:1", "mqtt://127.0.0.1:2"}},
		{"off", "{}\n", mqttOnly("off"), []string{line}},
		{"off, but among the ports", "listen: ['mqtt://127.0.0.1:1']\nmqtt: {listen: off}\n", nil, []string{"mqtt://127.0.0.1:1"}},
		{"a setting before the file", "mqtt: {listen: '127.0.0.1:1'}\n", mqttOnly("[::1]:2"), []string{line, "mqtt://[::1]:2"}},
		{"no device port", "listen: [off]\n", nil, nil},
		{"no other port", "{}\n", given("listen", "off", "mqtt.listen", "127.0.0.1:1"), []string{"mqtt://127.0.0.1:1"}},
		{"no other port, in the file", "listen: [off]\nmqtt: {listen: '127.0.0.1:1'}\n", nil, []string{"mqtt://127.0.0.1:1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "fleet.yaml", tt.file)
			check := func(resolve func(string, []config.Setting) (config.Config, error), settings ...config.Setting) {
				t.Helper()
				cfg, err := resolve("fleet.yaml", append(settings, tt.settings...))
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, l := range cfg.Listen {
					got = append(got, l.String())
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("listens at %q, want %q", got, tt.want)
				}
			}
			check(config.Resolve)
			if tt.want != nil {
				check(config.ResolveEar, given("judges", "unix:j")...)
			}
		})
	}
}

// All settings of a port hold for MQTT, too.
func TestLongPortThatSpeaksMQTT(t *testing.T) {
	const port = "{address: 'tls+mqtt://0.0.0.0:8883', tls: {cert: c, key: k, client_ca: a}, proxies: [10.0.0.1], max_messages: 5, max_devices: 9}"
	cfg, err := config.ParseText("fleet.yaml", "listen: ["+port+"]\nmqtt: {anonymous: never}\nreport: {to: broker}\n")
	if err != nil {
		t.Fatal(err)
	}
	l := cfg.Listen[0]
	if len(cfg.Listen) != 1 || !l.Certified() || l.Messages != 5 || l.MaxDevices != 9 || len(l.Proxies) != 1 || !slices.Equal(l.Protocols, []string{"mqtt"}) {
		t.Errorf("listens at %+v", cfg.Listen)
	}
}

func TestMQTTOfAnEar(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "ear.yaml", "judges: ['unix:j']\nlisten: [off]\nmqtt: {listen: ':1883', users: u, rules: r, anonymous: never, max_packet: 2048, session_expiry: 1s, "+
		"max_queue: 1, max_retained: 2, max_retained_bytes: 4096, route: cluster}\n")
	cfg, err := config.ResolveEar("ear.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := config.MQTT{
		Users: "u", Rules: "r", Anonymous: config.AnonymousNever, MaxPacket: 2048, SessionExpiry: time.Second,
		MaxQueue: 1, MaxRetained: 2, MaxRetainedBytes: 4096, Routed: true,
	}
	if listens := config.Plain(cfg).Listen; cfg.MQTT != want || !reflect.DeepEqual(listens, []config.Listener{mqttAt(":1883")}) {
		t.Errorf("MQTT = %+v at %+v, want %+v", cfg.MQTT, listens, want)
	}
}

func TestAnonymousByDefault(t *testing.T) {
	for text, want := range map[string]config.Anonymous{
		"{}":                                "loopback",
		"open: true\n":                      "anyone",
		"open: true\nmqtt: {users: u}\n":    "loopback",
		"open: true\ntoken: secret\n":       "loopback",
		"open: true\ndevices_file: d\n":     "loopback",
		"mqtt: {users: u}\n":                "loopback",
		"mqtt: {listen: off}\nopen: true\n": "anyone",
	} {
		if cfg, err := config.ParseText("fleet.yaml", text); err != nil || cfg.MQTT.Anonymous != want {
			t.Errorf("%q: %q, %v, want %q", text, cfg.MQTT.Anonymous, err, want)
		}
	}
}

// Messages for the clients of other processes need some.
func TestRouteMistakes(t *testing.T) {
	t.Chdir(t.TempDir())
	tests := []struct {
		name, file string
		resolve    func(string, []config.Setting) (config.Config, error)
		want       string
	}{
		{"a server", "mqtt: {route: cluster}\nlink: {listen: 'unix:j'}\n", config.Resolve, ""},
		{"a server without MQTT", "mqtt: {listen: off, route: cluster}\nlink: {listen: 'unix:j'}\n", config.Resolve, ""},
		{"an ear", "mqtt: {listen: '127.0.0.1:1', route: cluster}\njudges: ['unix:j']\n", config.ResolveEar, ""},
		{"local", "mqtt: {listen: off, route: local}\n", config.Resolve, ""},
		{
			"a server without ears", "mqtt: {route: cluster}\n", config.Resolve,
			"fleet.yaml:1:15: mqtt.route: there are no ears whose clients messages could go to: add --link HOST:PORT or unix:PATH, where ears connect, or remove this",
		},
		{
			"an ear without MQTT", "mqtt: {listen: off, route: cluster}\njudges: ['unix:j']\n", config.ResolveEar,
			"fleet.yaml:1:28: mqtt.route: no port speaks mqtt: add --mqtt HOST:PORT, or remove this",
		},
		{
			"elsewhere", "mqtt: {route: everywhere}\n", config.Resolve,
			`fleet.yaml:1:15: mqtt.route: "everywhere" is not one of: local (the clients of this process), cluster (those of the judge and of all ears)`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			write(t, "fleet.yaml", tt.file)
			_, err := tt.resolve("fleet.yaml", nil)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

func TestMQTTMistakes(t *testing.T) {
	const (
		reached = "other machines reach 0.0.0.0:1883, and no client has to log in: add users: FILE below mqtt (holter password makes its lines), " +
			"--devices-file FILE with the devices that may come in, or --open to admit every client"
		noPort = "no port speaks mqtt: add --mqtt HOST:PORT, or remove this"
	)
	tests := []struct {
		name, file string
		settings   []config.Setting
		want       string
	}{
		{"reachable", "{}\n", mqttOnly("0.0.0.0:1883"), "--mqtt.listen: " + reached},
		{"reachable among the ports", "{}\n", given("listen", "mqtt://0.0.0.0:1883"), "--listen: " + reached},
		{
			"no users, for the token cannot be understood", "token: ''\n", mqttOnly("0.0.0.0:1883"),
			"fleet.yaml:1:8: token: the token is empty; write a secret, or leave the option out\n   1 | token ***\n     |        ^",
		},
		{"used twice", "{}\n", given("listen", "mqtt://127.0.0.1:1", "mqtt.listen", "127.0.0.1:1"), "--mqtt.listen: 127.0.0.1:1 is used twice"},
		{"with a protocol", "{}\n", mqttOnly("mqtt://127.0.0.1:1"), `--mqtt.listen: "mqtt://127.0.0.1:1" has a protocol, and takes none; write HOST:PORT`},
		{"users of no port", "{}\n", append(mqttOnly("off"), given("mqtt.users", "u")...), "--mqtt.users: " + noPort},
		{
			"one mistake at a time", "listen: ['mqt://127.0.0.1:1']\nmqtt: {listen: off, users: u}\n", nil,
			"fleet.yaml:1:10: listen[0]: \"mqt://127.0.0.1:1\" has the unknown protocol \"mqt\"; did you mean \"mqtt\"? " +
				"(known are: mqtt, jt808, gt06, teltonika, frame, dtu, line; any is all except dtu; tls and udp come first, as in tls+line)\n" +
				"   1 | listen: ['mqt://127.0.0.1:1']\n     |          ^",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "fleet.yaml", tt.file)
			for kind, resolve := range map[string]func(string, []config.Setting) (config.Config, error){"serve": config.Resolve, "ear": config.ResolveEar} {
				settings := tt.settings
				if kind == "ear" {
					settings = append(given("judges", "unix:j"), settings...)
				}
				_, err := resolve("fleet.yaml", settings)
				if err == nil || err.Error() != tt.want {
					t.Errorf("%s: %v\nwant %s", kind, err, tt.want)
				}
			}
		})
	}
}
