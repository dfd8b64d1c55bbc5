package config_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/playbook"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
	"github.com/holter-iot/holter/mqttbridge"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

func TestResolveFull(t *testing.T) {
	got, err := config.Resolve("testdata/full.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	slow := liveness.Policy{
		Interval: 20 * time.Second, Timeout: time.Minute, LateAfter: 40 * time.Second,
		CloseGrace: 5 * time.Second, SleepLimit: 12 * time.Hour, Probes: 3, ProbeWait: 4 * time.Second,
		RecoverAfter: 3, Quiet: "22:00-06:00 Europe/Berlin; Sun 12:00-13:00 UTC", Expect: "*/10 * * * * UTC",
		Learn: judgement.LearnApply, LearnBudget: 3 * 30.0 / 7, LearnMax: 12 * time.Hour,
	}
	want := config.Config{
		Listen: fullListeners(),
		HTTP:   "localhost:8081", Data: "/var/lib/holter", AcceptLoss: true, Open: true, ForgetAfter: 720 * time.Hour, ForgetUnverified: 48 * time.Hour,
		Token: config.NewSecret("0123456789"),
		Log:   config.Log{Level: slog.LevelWarn, Format: config.LogJSON},
		Fleet: liveness.Config{
			Policy: slow, MinTimeout: 5 * time.Second, MaxDevices: 700_000,
			Groups: []liveness.GroupConfig{
				{
					Name: "site 7", Match: "site-7/*", Policy: liveness.Policy{Timeout: 5 * time.Minute},
					Outage: liveness.OutageConfig{Share: 0.3, Window: 30 * time.Second, MinDevices: 20},
				},
				{Name: "rest", Match: "*", Policy: slow},
			},
			Devices: map[string]liveness.Policy{
				"007":             {Timeout: time.Hour},
				"site-7/pump 3":   {LateAfter: 10 * time.Second},
				"nothing-special": {},
			},
			Flapping: liveness.FlappingConfig{Threshold: 7, Window: 15 * time.Minute},
		},
		Source: liveness.SourceConfig{
			ReconnectGrace: 15 * time.Second, ReconnectGraceMax: 4 * time.Minute,
		},
		Gateway: gateway.Config{
			ReusePort: true, MaxConnections: 600_000, MaxPerAddress: 1000, AcceptRate: 5000,
			HandshakeTimeout: 3 * time.Second, IdleTimeout: 10 * time.Minute,
			KeepAlive: time.Minute,
		},
		MaxLine:  2048,
		Store:    store.Config{Checkpoint: 2 * time.Second, Keep: 5000, MaxAge: 168 * time.Hour, MaxBytes: 1 << 30, GapsMaxAge: 240 * time.Hour, GapsMaxBytes: 5_000_000},
		Jobs:     config.Jobs{Keep: 3000, MaxAge: 2 * time.Hour},
		TLS:      cert.Files{Cert: "/etc/holter/cert.pem", Key: "/etc/holter/key.pem"},
		Database: config.NewSecret("postgres://holter:secret@db.example/holter"),
		Node:     "berlin-1", Advertise: "https://berlin-1.example:8081",
		HTTPRate: 500, Console: "off", Origins: []string{"https://board.example", "http://localhost:3000"},
		MQTT: config.MQTT{
			Users: "/etc/holter/users", Rules: "/etc/holter/rules.yaml", Anonymous: config.AnonymousAnyone, MaxPacket: 65536,
			SessionExpiry: 168 * time.Hour, MaxQueue: 5000, MaxRetained: 20_000, MaxRetainedBytes: 16 << 20, Routed: true,
		},
		Link: config.Link{
			Listen: "0.0.0.0:7710",
			TLS:    cert.Files{Cert: "/etc/holter/link.pem", Key: "/etc/holter/link.key", Clients: "/etc/holter/link-ca.pem", Revoked: "/etc/holter/link-crl.pem"},
		},
		Drain:     config.Drain{Delay: 5 * time.Second, Limit: 30 * time.Second},
		Bridges:   fullBridges(),
		Report:    config.Report{To: "plant", Prefix: "fleet", HomeAssistant: true, DiscoveryPrefix: "ha"},
		Playbooks: fullPlaybooks(),
	}
	got = config.Plain(got)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Resolve(full.yaml) =\n%+v, want\n%+v", got, want)
	}
	// A field that the file above leaves out would make the comparison weaker.
	if zero := unset(want); !slices.Equal(zero, []string{"Config.Judges", "Config.DevicesFile", "Config.file", "Config.again", "Config.mqttListen"}) { // judges are for ears, devices_file goes without a token
		t.Errorf("testdata/full.yaml does not set %v", zero)
	}
	const others = "Secret at.src at.line at.column at.path Config.Password Config.TLS Config.Session Config.Conventions Config.Identify Config.Ignore Config.KeepAlive Config.ConnectTimeout " +
		"Config.ProbeTimeout Config.MaxGap Config.ReconnectGrace Config.ReconnectGraceMax Config.Logger Config.answersOnly Config.network"
	for _, field := range zeroFields(reflect.ValueOf(want.Bridges[0]), "Bridge") {
		if !slices.Contains(strings.Fields(others), strings.TrimPrefix(field, "Bridge.")) {
			t.Errorf("testdata/full.yaml does not set %s", field)
		}
	}
}

// fullBridges are those of testdata/full.yaml.
func fullBridges() []config.Bridge {
	online := "ONLINE"
	return []config.Bridge{
		{
			Config: mqttbridge.Config{
				Name: "plant", URL: "mqtts://broker.example:8883", Username: "holter", ClientID: "holter-plant",
				Share: "holter", QoS: 1, Watermark: "ours/watermark", Queue: 10_000, MaxPayload: 4096, ReconnectMax: 10 * time.Second,
			},
			PasswordFile: "/etc/holter/mqtt-password",
			Files: config.TLSFiles{
				CA: "/etc/holter/ca.pem", Cert: "/etc/holter/client.pem", Key: "/etc/holter/client.key", ServerName: "broker.internal",
			},
			Presets: []string{"tasmota", "zigbee2mqtt"},
			Rules: []convention.Rule{
				{
					Topic: "plant/{line}/{device}/status", Device: "{line}/{device}", QoS: 1, Behind: "{line}", Interval: 30 * time.Second,
					Timeout: convention.Never, OrderJSON: "/ts", Else: convention.Beat,
					Cases: []convention.Case{
						{Text: &online, Means: convention.Online},
						{JSON: "/state", Equals: []any{"gone", 3.0, true, nil}, Means: convention.Offline},
						{JSON: "/state", Equals: []any{"3"}, Means: convention.Sleep},
						{Regex: "^sleep (?P<seconds>[0-9]+)$", Means: convention.Sleep},
						{Empty: true, Means: convention.Gone},
					},
				},
				{
					Topic: "$SYS/brokers/+/clients/+/connected", DeviceJSON: "/clientid", IntervalJSON: "/i", Factor: 2.5, TTDJSON: "/ttd",
					KeepaliveJSON: "/keepalive", SleepJSON: "/s", EpochJSON: "/connected_at",
				},
			},
		},
		{Config: mqttbridge.Config{Name: "mqtt:[::1]", URL: "ws://[::1]:80/mqtt"}, Presets: []string{"raw"}},
	}
}

// fullPlaybooks are those of testdata/full.yaml.
func fullPlaybooks() []playbook.Playbook {
	return []playbook.Playbook{
		{
			Name: "escalate",
			On:   &playbook.Trigger{Types: []string{"device.offline"}, Reasons: []string{"silence"}, Group: "site *", Device: "site-7/*", All: true},
			Steps: []playbook.Step{
				{Name: "ask", Do: playbook.Probe{Times: 2, Wait: 5 * time.Second}},
				{
					Name: "tell", Attempts: 5, Pause: 2 * time.Second, Timeout: 20 * time.Second,
					Do: playbook.Deliver{
						As: "webhook", Endpoint: "ops", Queue: "pager", Body: []byte(`{"text":"${device}","n":12,"list":[1.5,true,null]}`),
					},
				},
				{Name: "there", After: []string{}, Do: playbook.Deliver{URL: "https://ops.example/x"}},
				{Name: "patience", After: []string{"tell", "there"}, Do: playbook.Wait{For: 10 * time.Minute}},
				{Name: "still", Do: playbook.Condition{Is: []string{"offline", "unknown"}}},
				{Name: "run", If: "still", Do: playbook.Command{Argv: []string{"/usr/bin/page", "--now"}, Dir: "/tmp"}},
				{Name: "line", If: "still", Not: true, After: []string{"still"}, Do: playbook.Command{Shell: "echo $HOLTER_DEVICE"}},
				{Name: "note", Do: playbook.Note{Text: "done"}},
			},
			Recovery:  playbook.Divert,
			Recovered: []playbook.Step{{Name: "resolve", Do: playbook.Deliver{As: "mqtt", Endpoint: "bus"}}},
		},
		{Name: "by-hand", Recovery: playbook.Ignore, Steps: []playbook.Step{{Name: "note", Do: playbook.Note{Text: "0123"}}}},
	}
}

// zeroFields names the fields of a struct, and of the structs in it, that are zero.
func zeroFields(v reflect.Value, path string) (zero []string) {
	if v.Kind() != reflect.Struct || v.Type() == reflect.TypeFor[config.Secret]() {
		if v.IsZero() {
			zero = append(zero, path)
		}
		return zero
	}
	for i := range v.NumField() {
		zero = append(zero, zeroFields(v.Field(i), path+"."+v.Type().Field(i).Name)...)
	}
	return zero
}

// unset returns the fields of a configuration that are zero, but for those that no file can set.
func unset(cfg config.Config) []string {
	others := []string{
		"TLS.Clients", "TLS.Optional", "TLS.Revoked", "TLS.MinVersion", "TLS.Ciphers", "Fleet.Outbox", "Fleet.RetireAfter", "Gateway.Listen", "Gateway.Name", "Gateway.Guard", "Gateway.Judge", "Gateway.Pool", "Gateway.Loops",
		"Gateway.ProbeRate", "Gateway.ProbeInterval", "Gateway.MaxNewcomers", "Gateway.MaxHandshakes", "Gateway.MaxOutbound", "Gateway.ReconnectGrace", "Gateway.ReconnectGraceMax", "Gateway.Logger",
		"Link.TLS.Optional", "Link.TLS.MinVersion", "Link.TLS.Ciphers", "Store.Memory", "Store.Cache", "Store.Node", "Store.Outbox", "Store.Tail", "Store.Follower", "Source.Name", "Source.MaxGap", "Source.Note", "Source.Parts", "Source.Pool", "Source.Every", "Source.Connectionless", "inForce",
	}
	return slices.DeleteFunc(zeroFields(reflect.ValueOf(cfg), "Config"), func(field string) bool {
		return slices.Contains(others, strings.TrimPrefix(field, "Config."))
	})
}

func TestResolveDefaults(t *testing.T) {
	got, err := config.Resolve("", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Config{
		Listen: append(lines("127.0.0.1:7700"), mqttAt("127.0.0.1:1883")),
		HTTP:   "127.0.0.1:8080", HTTPRate: 20_000, Console: "on", ForgetUnverified: 168 * time.Hour, Jobs: config.Jobs{Keep: 1_000_000}, Fleet: liveness.Config{MinTimeout: time.Second},
		Data: "./holter-data",
		Log:  config.Log{Level: slog.LevelInfo, Format: config.LogAuto},
		MQTT: config.MQTT{Anonymous: config.AnonymousLoopback},
	}
	if got = config.Plain(got); !reflect.DeepEqual(got, want) {
		t.Errorf("Resolve() = %+v, want %+v", got, want)
	}
}

func TestAccepted(t *testing.T) {
	tests := []struct{ name, text string }{
		{"no settings", "{}"},
		{"byte order mark", "\ufeffhttp: 127.0.0.1:1\n"},
		{"windows line ends", "http: 127.0.0.1:1\r\npolicy:\r\n  timeout: 5m\r\n"},
		{"directive and document marks", "%YAML 1.2\n---\nhttp: 127.0.0.1:1\n...\n"},
		{"sections without keys", "policy:\n  # timeout: 5m\ngroups:\ndevices:\n"},
		{"flow style", "{http: 127.0.0.1:1, policy: {timeout: 5m}}"},
		{"addresses without quotes", "listen: [127.0.0.1:7700, localhost:7701, 127.8.9.10:0, 127.8.9.10:0]\n"},
		{"every address, open", "open: true\nhttp: :8080\nlisten: [':7700']\n"},
		{"mapped loopback", "http: '[::ffff:127.0.0.1]:80'\n"},
		{"late without a timeout of its own", "groups: [{name: a, match: b, policy: {late_after: 1h}}]\n"},
		{"late below the default timeout", "policy: {late_after: 89s}\n"},
		{"everything in the last group", "groups: [{name: a, match: a*}, {name: b, match: '**'}]\n"},
		{"offs", "policy: {late_after: 0s}\ngateway: {keepalive: 0, idle_timeout: 0s, max_connections_per_address: 0}\n"},
		{"longest device id", "devices: {" + strings.Repeat("é", 64) + ": {timeout: 5m}}\n"},
		{"literal text", "data: |-\n  /var/lib\n"},
		{"no timeout at all", "policy: {timeout: never, late_after: 1h, interval: 10m}\ndevices: {a: {timeout: never}}\n"},
		{"no limit of requests", "http_rate: 0\n"},
		{"no device port", "listen: [off]\n"},
		{"no MQTT", "mqtt: {listen: off}\nlisten: [127.0.0.1:1883]\n"},
		{"MQTT for all, with users", "mqtt: {listen: ':1883', users: users, anonymous: never}\n"},
		{"MQTT for all, with users, among the ports", "mqtt: {users: users}\nlisten: ['mqtt://:1883']\n"},
		{"MQTT for all, with secrets of devices", "mqtt: {listen: ':1883', anonymous: never}\ndevices_file: devices\n"},
		{"MQTT for all, with a token", "mqtt: {listen: ':1883', anonymous: never}\ntoken: secret\n"},
		{"MQTT for all, with certificates", "mqtt: {anonymous: never}\nlisten: [{address: 'tls+mqtt://:8883', tls: {cert: a, key: b, client_ca: c}}]\n"},
		{"MQTT for all, open", "open: true\nmqtt: {listen: ':1883', anonymous: anyone}\n"},
		{"MQTT through a proxy, with users", "mqtt: {users: users}\nlisten: [{address: 'mqtt://127.0.0.1:1883', proxies: [10.0.0.0/8]}]\n"},
		{"report to the broker", "report: {to: broker}\n"},
		{"bridges without names", "bridges: [{url: a, presets: [raw]}, {url: 'a:1884', presets: [raw]}, {url: 'wss://b/mqtt', presets: [raw]}]\n"},
		{"rules of an anchor", "bridges: [{url: a, rules: &r [{topic: 'a/{device}'}]}, {url: b, rules: *r}]\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := config.ParseText("fleet.yaml", tt.text); err != nil {
				t.Errorf("%q: %v", tt.text, err)
			}
		})
	}
}

func TestSecretIsNeverShown(t *testing.T) {
	const text = "hunter2"
	cfg := config.Config{Token: config.NewSecret(text)}
	encoded, err := json.Marshal(struct{ Token config.Secret }{cfg.Token})
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	logger := slog.New(slog.NewTextHandler(&logged, nil))
	logger.Info("start", "config", cfg, "token", cfg.Token)
	shown := map[string]string{"json": string(encoded), "slog": logged.String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		shown[verb] = fmt.Sprintf(verb, cfg) + fmt.Sprintf(verb, &cfg) + fmt.Sprintf(verb, cfg.Token)
	}
	for how, out := range shown {
		if strings.Contains(out, text) || strings.Contains(out, fmt.Sprintf("%x", text)) || strings.Contains(out, "104 117") {
			t.Errorf("%s shows the token: %s", how, out)
		}
		if !strings.Contains(out, "[secret]") {
			t.Errorf("%s shows no placeholder: %s", how, out)
		}
	}
	if got := cfg.Token.Reveal(); got != text {
		t.Errorf("Reveal() = %q, want %q", got, text)
	}
	if s := config.NewSecret(""); s.IsSet() || s.String() != "" {
		t.Errorf("NewSecret(\"\") = %v, set %v, want an unset one", s, s.IsSet())
	}
}

// The full example of the documentation is a valid file.
func TestDocumentation(t *testing.T) {
	example, err := os.ReadFile("../../docs/reference/fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.ParseText("example.yaml", string(example))
	if err != nil {
		t.Fatal(err)
	}
	if zero := unset(cfg); !slices.Equal(zero, []string{"Config.Open", "Config.Token", "Config.Fleet.Policy.Expect", "Config.Judges", "Config.Drain.Delay", "Config.Drain.Limit", "Config.AcceptLoss", "Config.again"}) {
		t.Errorf("the example leaves out %v, want only what would be insecure, or lose something, or is for ears or scheduled jobs", zero)
	}
}

// The example of a playbook is a valid file.
func TestPlaybookDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/playbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```yaml\n")
	example, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("docs/reference/playbooks.md holds no ```yaml block")
	}
	if cfg, err := config.ParseText("example.yaml", example); err != nil || len(cfg.Playbooks) != 1 || len(cfg.Playbooks[0].Recovered) != 1 {
		t.Errorf("the example is %+v, %v", cfg.Playbooks, err)
	}
}
