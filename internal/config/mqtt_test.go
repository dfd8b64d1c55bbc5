package config_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/mqttbridge"
)

// typed returns settings as --broker URL --preset NAME … make them: keys without bridge., and values, in turn.
func typed(pairs ...string) (all []config.Setting) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, config.Setting{Key: "bridge." + pairs[i], Value: pairs[i+1], Origin: "--" + pairs[i]})
	}
	return all
}

func TestResolveMonitor(t *testing.T) {
	raw := []string{"raw"}
	tests := []struct {
		name, file string
		settings   []config.Setting
		bridges    []config.Bridge
		report     config.Report
	}{
		{
			name: "all options", settings: typed("url", "MQTTS://a", "preset", "raw", "preset", "shelly", "username", "u",
				"password_file", "p", "tls.ca", "ca.pem", "tls.cert", "c.pem", "tls.key", "k.pem", "share", "g"),
			file: "{}\n",
			bridges: []config.Bridge{{
				Config: mqttbridge.Config{Name: "mqtt:a", URL: "mqtts://a:8883", Username: "u", Share: "g"}, PasswordFile: "p",
				Files: config.TLSFiles{CA: "ca.pem", Cert: "c.pem", Key: "k.pem"}, Presets: []string{"raw", "shelly"},
			}},
		},
		{
			name: "instead of those of the file", file: "bridges: [{url: z, presets: [emqx]}]\n",
			settings: typed("url", "tcp://a:1", "url", "a:2", "preset", "raw"),
			bridges:  []config.Bridge{{Config: mqttbridge.Config{Name: "mqtt:a", URL: "tcp://a:1"}, Presets: raw}, {Config: mqttbridge.Config{Name: "mqtt:a:2", URL: "mqtt://a:2"}, Presets: raw}},
		},
		{
			name: "password for those who need one", settings: typed("password", "hunter2"),
			file: "bridges: [{url: a, presets: [raw]}, {url: b, presets: [raw], username: u}, {url: c, presets: [raw], username: u, password_file: p}]\n",
			bridges: []config.Bridge{
				{Config: mqttbridge.Config{Name: "mqtt:a", URL: "mqtt://a:1883"}, Presets: raw},
				{Config: mqttbridge.Config{Name: "mqtt:b", URL: "mqtt://b:1883", Username: "u"}, Presets: raw, Secret: config.NewSecret("hunter2")},
				{Config: mqttbridge.Config{Name: "mqtt:c", URL: "mqtt://c:1883", Username: "u"}, Presets: raw, PasswordFile: "p"},
			},
		},
		{
			name: "report", file: "{}\n", settings: typed("url", "a", "preset", "raw", "home_assistant", "1"),
			bridges: []config.Bridge{{Config: mqttbridge.Config{Name: "mqtt:a", URL: "mqtt://a:1883"}, Presets: raw}},
			report:  config.Report{To: "mqtt:a", HomeAssistant: true},
		},
		{
			name: "what holds for serve does not matter", file: "listen: [':7700']\nmqtt: {listen: ':1883', users: u, anonymous: never}\nbridges: [{url: a, presets: [raw]}]\n",
			bridges: []config.Bridge{{Config: mqttbridge.Config{Name: "mqtt:a", URL: "mqtt://a:1883"}, Presets: raw}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "fleet.yaml", tt.file)
			cfg, err := config.ResolveMonitor("fleet.yaml", tt.settings)
			if err != nil {
				t.Fatal(err)
			}
			cfg = config.Plain(cfg)
			if !reflect.DeepEqual(cfg.Bridges, tt.bridges) || cfg.Report != tt.report {
				t.Errorf("ResolveMonitor() = %+v and %+v, want %+v and %+v", cfg.Bridges, cfg.Report, tt.bridges, tt.report)
			}
			if cfg.Listen != nil || cfg.MQTT != (config.MQTT{}) {
				t.Errorf("Listen, MQTT = %v, %+v, want none", cfg.Listen, cfg.MQTT)
			}
		})
	}
}

func TestResolveMonitorMistakes(t *testing.T) {
	tests := []struct {
		name, file string
		settings   []config.Setting
		want       string
	}{
		{"nothing", "{}\n", nil, "there is no broker to watch: add --broker URL and --preset NAME, or --config FILE with bridges in it"},
		{"no preset", "{}\n", typed("url", "a"), "--url: nothing says what the messages mean: add --preset NAME"},
		{"unknown preset", "{}\n", typed("url", "a", "preset", "shely"), `--preset: there is no preset "shely"; did you mean "shelly"? (there are: aws, `},
		{"no broker", "{}\n", typed("preset", "raw"), "--preset: goes with --broker URL; for a bridge of the file, write it there, below bridges"},
		{"bad url", "{}\n", typed("url", "a:b:c", "preset", "raw"), `--url: "a:b:c": "a:b:c" is not an address`},
		{"password in the url", "{}\n", typed("url", "mqtt://a:hunter2@b", "preset", "raw"), "--url: name and password are not written into the url"},
		{"encrypted nothing", "{}\n", typed("url", "a", "preset", "raw", "tls.ca", "x"), "--url: mqtt://a:1883 is not encrypted; write mqtts:// or wss://"},
		{"half a certificate", "{}\n", typed("url", "mqtts://a", "preset", "raw", "tls.cert", "x"), "--url: a certificate needs its key"},
		{"password of nobody", "{}\n", typed("url", "a", "preset", "raw", "password_file", "x"), "--url: --password-file goes with --username"},
		{"report to several", "{}\n", typed("url", "a", "url", "b", "preset", "raw", "report", "true"), "--report: there are 2 brokers; write in a file to which"},
		{"report to no broker", "bridges: [{url: a, presets: [raw]}]\nreport: {to: broker}\n", nil, "fleet.yaml:2:14: report.to: there is no broker inside the program here"},
		{"twice", "{}\n", typed("url", "a", "url", "mqtt://a:1883", "url", "a", "preset", "raw"), `--url: a bridge before has the name "mqtt:a:1883", too`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "fleet.yaml", tt.file)
			cfg, err := config.ResolveMonitor("fleet.yaml", tt.settings)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("ResolveMonitor() = %+v, %v, want %s…", cfg, err, tt.want)
			}
		})
	}
}

func TestBrokerURLs(t *testing.T) {
	tests := []struct{ text, want string }{
		{"broker.example", "mqtt://broker.example:1883"},
		{"tcp://10.0.0.1:11883", "tcp://10.0.0.1:11883"},
		{"TLS://a/", "tls://a:8883"},
		{"wss://a/mqtt/x", "wss://a:443/mqtt/x"},
		{"ws://[::1]", "ws://[::1]:80"},
		{"mqtt://[fe80::1]:1884", "mqtt://[fe80::1]:1884"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			cfg, err := config.ParseText("fleet.yaml", "bridges: [{url: '"+tt.text+"', presets: [raw]}]\n")
			if err != nil || cfg.Bridges[0].URL != tt.want {
				t.Errorf("%s becomes %+v, %v, want %s", tt.text, cfg.Bridges, err, tt.want)
			}
		})
	}
}
