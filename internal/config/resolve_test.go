package config_test

import (
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/liveness"
)

func TestNoDevicePort(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "fleet.yaml", "listen: [127.0.0.1:1, 127.0.0.1:2]\n")
	write(t, "none.yaml", "listen: [off]\n")
	tests := []struct {
		name, file string
		settings   []config.Setting
		want       []config.Listener
		err        string
	}{
		{"in the file", "none.yaml", nil, nil, ""},
		{"instead of those of the file", "fleet.yaml", given("listen", "off"), nil, ""},
		{"ports instead of none", "none.yaml", given("listen", "127.0.0.1:6", "mqtt.listen", "off"), lines("127.0.0.1:6"), ""},
		{"beside a port", "", given("listen", "127.0.0.1:6", "listen", "off"), nil, "--listen: off stands beside device ports; remove it, or them"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := config.Resolve(tt.file, tt.settings)
			if (err != nil || tt.err != "") && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if got = config.Plain(got); !slices.EqualFunc(got.Listen, tt.want, func(a, b config.Listener) bool { return reflect.DeepEqual(a, b) }) {
				t.Errorf("listens at %v, want %v", got.Listen, tt.want)
			}
		})
	}
}

func TestResolveSettings(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "fleet.yaml", "listen: [127.0.0.1:1, 127.0.0.1:2]\nhttp: 127.0.0.1:3\ndata: file\nopen: true\n"+
		"token: file\nreuse_port: true\nlog: {level: error, format: text}\n")
	settings := []config.Setting{
		{Key: "listen", Value: "line://[::1]:5"},
		{Key: "listen", Value: "127.0.0.1:6"},
		{Key: "http", Value: "localhost:7"},
		{Key: "data", Value: "flag"},
		{Key: "open", Value: "false"},
		{Key: "token", Value: "flag"},
		{Key: "reuse_port", Value: "0"},
		{Key: "log.level", Value: "debug"},
		{Key: "log.format", Value: "json"},
		{Key: "mqtt.listen", Value: "off"},
	}
	got, err := config.Resolve("fleet.yaml", settings)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Config{
		Listen: lines("[::1]:5", "127.0.0.1:6"),
		HTTP:   "localhost:7", Data: "flag", Token: config.NewSecret("flag"),
		Log: config.Log{Level: slog.LevelDebug, Format: config.LogJSON}, HTTPRate: 20_000, Console: "on", ForgetUnverified: config.DefaultForgetUnverified, Jobs: config.Jobs{Keep: config.DefaultKeepJobs}, Fleet: liveness.Config{MinTimeout: config.DefaultMinTimeout},
		MQTT: config.MQTT{Anonymous: config.AnonymousLoopback},
	}
	if got = config.Plain(got); !reflect.DeepEqual(got, want) {
		t.Errorf("Resolve() = %+v, want %+v", got, want)
	}
}

func TestResolveMistakes(t *testing.T) {
	tests := []struct {
		name, file string
		settings   []config.Setting
		want       []string
	}{
		{
			"file and settings together", "http: 80\n",
			[]config.Setting{{"log.level", "loud", "HOLTER_LOG_LEVEL"}, {"listen", "tcp://:1", "--listen"}},
			[]string{
				`fleet.yaml:1:7: http: "80" is a port without a host; write 127.0.0.1:80`,
				"   1 | http: 80", "     |       ^",
				`HOLTER_LOG_LEVEL: "loud" is not a log level; allowed are: debug, info, warn, error`,
				`--listen: "tcp://:1" has the unknown protocol "tcp" (known are: mqtt, jt808, gt06, teltonika, frame, dtu, line; ` +
					`any is all except dtu; tls and udp come first, as in tls+line)`,
			},
		},
		{
			"setting without a token", "http: 127.0.0.1:1\n",
			[]config.Setting{{"listen", "0.0.0.0:7700", "--listen"}},
			[]string{"--listen: other machines reach 0.0.0.0:7700, and there is no token: " +
				"add --token SECRET (HOLTER_TOKEN, or token: in the file), --devices-file FILE with the devices that may come in, " +
				"or --open to let every device in"},
		},
		{
			"no complaint of a missing token beside a bad one", "listen: [0.0.0.0:7700]\n",
			[]config.Setting{{"token", "", "--token"}},
			[]string{"--token: the token is empty; write a secret, or leave the option out"},
		},
		{
			"token is not shown", "{}\n",
			[]config.Setting{{"token", "hunter2 hunter2", "HOLTER_TOKEN"}},
			[]string{"HOLTER_TOKEN: the token may hold only visible ASCII characters and no spaces"},
		},
		{
			"broken file hides whether there is a token", "token: \"\nlisten: [\n",
			[]config.Setting{{"http", ":80", "--http"}},
			[]string{"fleet.yaml:1:8: is not valid YAML: could not find end character of double-quoted text", "   1 | token ***", "     |        ^"},
		},
		{
			"twice on the command line", "{}\n",
			[]config.Setting{{"listen", "127.0.0.1:5", "--listen"}, {"listen", "127.0.0.1:5", "--listen"}},
			[]string{"--listen: 127.0.0.1:5 is used twice"},
		},
		{
			"devices and a token", "token: x\n",
			[]config.Setting{{"devices_file", "devices", "--devices-file"}},
			[]string{"--devices-file: there is a token for all devices, too; remove one of both: in the file of devices each has its own"},
		},
		{
			"no complaint of missing devices beside bad ones", "listen: [0.0.0.0:7700]\n",
			[]config.Setting{{"devices_file", "", "--devices-file"}},
			[]string{`--devices-file: "" is not the name of a file`},
		},
		{
			"TLS without a certificate", "{}\n",
			[]config.Setting{{"listen", "tls+line://127.0.0.1:1", "--listen"}},
			[]string{"--listen: TLS needs a certificate: add --tls-cert FILE and --tls-key FILE (tls: in the file), which are those of the API, too, " +
				"or in the file tls: {cert: FILE, key: FILE} beside the address"},
		},
		{
			"dtu on the command line", "{}\n",
			[]config.Setting{{"listen", "dtu://127.0.0.1:1", "--listen"}},
			[]string{`--listen: "dtu://127.0.0.1:1": dtu needs an expression for the registration; write the port into the file, ` +
				`as {address: "dtu://127.0.0.1:1", dtu: {registration: '\d{15}'}}`},
		},
		{
			"unknown setting", "{}\n",
			[]config.Setting{{"nothing", "", "--nothing"}},
			[]string{`--nothing: there is no setting "nothing"`},
		},
		{
			"empty values", "{}\n",
			[]config.Setting{{"data", "", "--data"}, {"open", "maybe", "--open"}, {"http", "", "--http"}},
			[]string{
				"--data: the directory is empty; write a path, as in ./holter-data",
				`--open: "maybe" is neither true nor false`,
				"--http: the address is empty; write HOST:PORT, as in 127.0.0.1:7700",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "fleet.yaml", tt.file)
			_, err := config.Resolve("fleet.yaml", tt.settings)
			if err == nil {
				t.Fatal("Resolve() succeeded, want an error")
			}
			if got, want := err.Error(), strings.Join(tt.want, "\n"); got != want {
				t.Errorf("Resolve() =\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestResolveSettingsThatAllow(t *testing.T) {
	tests := []struct {
		name, file string
		settings   []config.Setting
	}{
		{"token as a setting", "listen: [0.0.0.0:1]\n", []config.Setting{{Key: "token", Value: "x"}}},
		{"open as a setting", "listen: [0.0.0.0:1]\n", []config.Setting{{Key: "open", Value: "1"}}},
		{"address replaced", "listen: [0.0.0.0:1]\n", []config.Setting{{Key: "listen", Value: "127.0.0.1:1"}}},
		{"token in the file", "token: x\n", []config.Setting{{Key: "listen", Value: "[::]:80"}}},
		{"devices as a setting", "listen: [0.0.0.0:1]\n", []config.Setting{{Key: "devices_file", Value: "devices"}}},
		{"devices in the file", "devices_file: devices\n", []config.Setting{{Key: "listen", Value: "any://:80"}}},
		{"certificates of devices", "tls: {cert: a, key: b}\nlisten: [{address: ':80', tls: {client_ca: ca}}]\n", nil},
		{"TCP and UDP at one port", "listen: [127.0.0.1:1, 'udp+line://127.0.0.1:1']\n", nil},
		{"open API", "open: true\n", []config.Setting{{Key: "http", Value: "[::]:80"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "fleet.yaml", tt.file)
			if _, err := config.Resolve("fleet.yaml", tt.settings); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestResolveUnreadable(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("dir", 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, "large.yaml", strings.Repeat("# comment\n", 1<<17))
	write(t, "secret.yaml", "{}")
	if err := os.Chmod("secret.yaml", 0); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, file, want string }{
		{"missing", "none.yaml", "none.yaml: cannot read the configuration file: no such file or directory"},
		{"directory", "dir", "dir: is a directory; --config takes a YAML file"},
		{"below a file", "large.yaml/x", "large.yaml/x: cannot read the configuration file: not a directory"},
		{"too large", "large.yaml", "large.yaml: is larger than 1 MiB"},
		{"endless", "/dev/zero", "/dev/zero: is larger than 1 MiB"},
		{"without permission", "secret.yaml", "secret.yaml: cannot read the configuration file: permission denied"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.file == "secret.yaml" && os.Geteuid() == 0 {
				t.Skip("root reads every file")
			}
			_, err := config.Resolve(tt.file, nil)
			if err == nil || err.Error() != tt.want {
				t.Errorf("Resolve(%q) = %v, want %s", tt.file, err, tt.want)
			}
		})
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
