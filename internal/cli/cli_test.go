package cli

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/config"
)

// resolve parses a command line that begins with serve.
func resolve(t *testing.T, args ...string) (config.Config, error) {
	t.Helper()
	var c commandLine
	parser, err := newParser(&c, kong.Writers(io.Discard, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	command, err := parse(parser, append([]string{"serve"}, args...))
	if err != nil {
		t.Fatalf("Parse(%q): %v", args, err)
	}
	return resolveFlags(command, c.Serve.Server.Config, config.Resolve)
}

func tempFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A setting in each of the four places, from the weakest on.
func TestPrecedence(t *testing.T) {
	tests := []struct {
		name       string
		of         func(config.Config) any
		byDefault  any
		file       string
		fromFile   any
		env, value string
		fromEnv    any
		flag       string
		fromFlag   any
	}{
		{
			"listen", func(c config.Config) any { return urlsOf(c.Listen[:len(c.Listen)-1]) }, lineAt("127.0.0.1:7700"),
			"listen: [127.0.0.1:1, 127.0.0.1:2]", lineAt("127.0.0.1:1", "127.0.0.1:2"),
			"HOLTER_LISTEN", "127.0.0.1:3, line://[::1]:4", lineAt("127.0.0.1:3", "[::1]:4"),
			"--listen=127.0.0.1:5", lineAt("127.0.0.1:5"),
		},
		{
			"http", func(c config.Config) any { return c.HTTP }, "127.0.0.1:8080",
			"http: 127.0.0.1:1", "127.0.0.1:1",
			"HOLTER_HTTP", "127.0.0.1:2", "127.0.0.1:2", "--http=127.0.0.1:3", "127.0.0.1:3",
		},
		{
			"mqtt", func(c config.Config) any { return strings.Join(urlsOf(c.Listen)[1:], " ") }, "mqtt://127.0.0.1:1883",
			"mqtt: {listen: 127.0.0.1:1}", "mqtt://127.0.0.1:1", "HOLTER_MQTT", "127.0.0.1:2", "mqtt://127.0.0.1:2", "--mqtt=off", "",
		},
		{
			"origins", func(c config.Config) any { return strings.Join(c.Origins, " ") }, "",
			"http_allow_origins: ['http://file']", "http://file",
			"HOLTER_HTTP_ALLOW_ORIGINS", "http://env,http://b", "http://env http://b", "--http-allow-origins=http://flag", "http://flag",
		},
		{
			"console", func(c config.Config) any { return c.Console }, "on",
			"http_console: on", "on", "HOLTER_HTTP_CONSOLE", "off", "off", "--http-console=on", "on",
		},
		{
			"data", func(c config.Config) any { return c.Data }, "./holter-data",
			"data: file", "file", "HOLTER_DATA", "env", "env", "--data=flag", "flag",
		},
		{
			"database", func(c config.Config) any { return c.Database.Reveal() }, "",
			"database: sqlite:file", "sqlite:file", "HOLTER_DATABASE", "sqlite:env", "sqlite:env", "--database=sqlite:flag", "sqlite:flag",
		},
		{
			"certificate", func(c config.Config) any { return c.TLS.Cert }, "",
			"tls: {cert: file, key: k}", "file", "HOLTER_TLS_CERT", "env", "env", "--tls-cert=flag", "flag",
		},
		{
			"open", func(c config.Config) any { return c.Open }, false,
			"open: true", true, "HOLTER_OPEN", "false", false, "--open", true,
		},
		{
			"accept loss", func(c config.Config) any { return c.AcceptLoss }, false,
			"accept_loss: true", true, "HOLTER_ACCEPT_LOSS", "false", false, "--accept-loss", true,
		},
		{
			"closed", func(c config.Config) any { return c.Open }, false,
			"open: true", true, "HOLTER_OPEN", "1", true, "--open=false", false,
		},
		{
			"token", func(c config.Config) any { return c.Token.Reveal() }, "",
			"token: file", "file", "HOLTER_TOKEN", "env", "env", "--token=-flag", "-flag",
		},
		{
			"devices", func(c config.Config) any { return c.DevicesFile }, "",
			"devices_file: file", "file", "HOLTER_DEVICES_FILE", "env", "env", "--devices-file=flag", "flag",
		},
		{
			"reuse port", func(c config.Config) any { return c.Gateway.ReusePort }, false,
			"reuse_port: true", true, "HOLTER_REUSE_PORT", "0", false, "--reuse-port", true,
		},
		{
			"link", func(c config.Config) any { return c.Link.Listen }, "",
			"link: {listen: '127.0.0.1:1'}", "127.0.0.1:1", "HOLTER_LINK", "127.0.0.1:2", "127.0.0.1:2", "--link=unix:flag", "unix:flag",
		},
		{
			"log level", func(c config.Config) any { return c.Log.Level }, slog.LevelInfo,
			"log: {level: error}", slog.LevelError,
			"HOLTER_LOG_LEVEL", "warn", slog.LevelWarn, "--log-level=debug", slog.LevelDebug,
		},
		{
			"log format", func(c config.Config) any { return c.Log.Format }, config.LogAuto,
			"log: {format: text}", config.LogText,
			"HOLTER_LOG_FORMAT", "json", config.LogJSON, "--log-format=auto", config.LogAuto,
		},
	}
	byDefault, err := resolve(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check := func(where string, want any, args ...string) {
				t.Helper()
				cfg, err := resolve(t, args...)
				if err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				if got := tt.of(cfg); !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %v, want %v", where, got, want)
				}
			}
			file := "--config=" + tempFile(t, tt.file)
			if got := tt.of(byDefault); !reflect.DeepEqual(got, tt.byDefault) {
				t.Errorf("default: %v, want %v", got, tt.byDefault)
			}
			check("file", tt.fromFile, file)
			t.Setenv(tt.env, "")
			check("file beside an empty variable", tt.fromFile, file)
			t.Setenv(tt.env, tt.value)
			check("environment", tt.fromEnv, file)
			check("command line", tt.fromFlag, file, tt.flag)
		})
	}
}

func lineAt(addresses ...string) (all []string) {
	for _, a := range addresses {
		all = append(all, "line://"+a)
	}
	return all
}

func urlsOf(listeners []config.Listener) (all []string) {
	for _, l := range listeners {
		all = append(all, l.String())
	}
	return all
}

func TestListenRepeated(t *testing.T) {
	t.Setenv("HOLTER_LISTEN", "127.0.0.1:9")
	cfg, err := resolve(t, "--listen", "127.0.0.1:1", "--listen", "line://[::1]:2,localhost:3")
	if err != nil {
		t.Fatal(err)
	}
	if want := append(lineAt("127.0.0.1:1", "[::1]:2", "localhost:3"), "mqtt://127.0.0.1:1883"); !reflect.DeepEqual(urlsOf(cfg.Listen), want) {
		t.Errorf("Listen = %v, want %v", urlsOf(cfg.Listen), want)
	}
}

func TestConfigFromEnvironment(t *testing.T) {
	t.Setenv("HOLTER_CONFIG", tempFile(t, "data: file"))
	if cfg, err := resolve(t); err != nil || cfg.Data != "file" {
		t.Errorf("Data = %q, %v, want file", cfg.Data, err)
	}
	if cfg, err := resolve(t, "--config", tempFile(t, "data: other")); err != nil || cfg.Data != "other" {
		t.Errorf("Data = %q, %v, want other", cfg.Data, err)
	}
}

// A mistake names the place where it was made.
func TestOrigins(t *testing.T) {
	tests := []struct {
		name string
		env  map[string]string
		args []string
		want string
	}{
		{"environment", map[string]string{"HOLTER_HTTP": "80"}, nil, `HOLTER_HTTP: "80" is a port`},
		{"command line", map[string]string{"HOLTER_HTTP": "127.0.0.1:1"}, []string{"--http=80"}, `--http: "80" is a port`},
		{"switch", map[string]string{"HOLTER_REUSE_PORT": "ja"}, nil, `HOLTER_REUSE_PORT: "ja" is neither true nor false`},
		{"nested key", nil, []string{"--log-level", "loud"}, `--log-level: "loud" is not a log level`},
		{"empty value", nil, []string{"--data="}, "--data: the directory is empty"},
		{"empty file name", nil, []string{"--config="}, "--config: the name of the file is empty"},
		{"missing file", nil, []string{"--config=none.yaml"}, "none.yaml: cannot read the configuration file: no such file"},
		{"mqtt", map[string]string{"HOLTER_MQTT": "1883"}, nil, `HOLTER_MQTT: "1883" is a port without a host`},
		{"open to others", map[string]string{"HOLTER_LISTEN": "0.0.0.0:1"}, nil, "HOLTER_LISTEN: other machines reach 0.0.0.0:1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			_, err := resolve(t, tt.args...)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("resolve(%q) = %v, want %s…", tt.args, err, tt.want)
			}
		})
	}
}
