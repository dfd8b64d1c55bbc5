package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/config"
)

// inForce returns the settings by key, as VALUE (FROM).
func inForce(t *testing.T, c config.Config, err error) map[string]string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]string{}
	_, all, leftOut := c.InForce()
	for _, s := range all {
		if by[s.Key] != "" {
			t.Errorf("%s is there twice", s.Key)
		}
		by[s.Key] = fmt.Sprintf("%s (%s)", s.Value, s.From)
	}
	if leftOut != 0 {
		t.Errorf("%d are left out", leftOut)
	}
	return by
}

func wantInForce(t *testing.T, got, want map[string]string) {
	t.Helper()
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s is %q, want %q", key, got[key], value)
		}
	}
}

func TestInForce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	text := `
http: 127.0.0.1:9
token: hunter2
database: postgres://holter:hunter3@db.example/holter?password=hunter4
tls: {cert: a.pem, key: a.key}
listen: [127.0.0.1:7700, "mqtt://127.0.0.1:1883"]
policy: &p {timeout: 1m, quiet: ["01:00-02:00", "03:00-04:00"]}
groups: [{name: a, match: a/*, policy: *p}]
devices: {x: {timeout: 2m}, y: {timeout: 2m}}
http_allow_origins: []
log: {}
http_rate: 20_000
playbooks: [{name: p, steps: [{name: s, note: hunter5}]}]
`
	text = strings.Replace(text, "http_allow_origins: []\n", "", 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Resolve(file, []config.Setting{
		{Key: "http", Value: "127.0.0.1:10", Origin: "HOLTER_HTTP"},
		{Key: "http", Value: "127.0.0.1:11", Origin: "--http"},
		{Key: "http_console", Value: "off", Origin: "--http-console"},
		{Key: "bridge.password", Value: "", Origin: "HOLTER_MQTT_PASSWORD"},
	})
	got := inForce(t, c, err)
	wantInForce(t, got, map[string]string{
		"http": "127.0.0.1:11 (--http)", "http_console": "off (--http-console)", "token": "*** (file)", "database": "postgres:*** (file)",
		"tls.cert": "a.pem (file)", "tls.key": "a.key (file)", "listen": "127.0.0.1:7700, mqtt://127.0.0.1:1883 (file)",
		"policy.timeout": "1m (file)", "policy.quiet": "01:00-02:00, 03:00-04:00 (file)", "policy.probes": "0 (default)",
		"groups[0].match": "a/* (file)", "groups[0].policy.timeout": "1m (file)", "groups": "",
		"devices": "2, see the file (file)", "playbooks": "1, see the file (file)", "http_rate": "20_000 (file)",
		"log.level": "info (default)", "node": "the host's name (default)", "bridges": "none (default)", "bridges.password": "",
	})
	for key, value := range got {
		if strings.Contains(value, "hunter") {
			t.Errorf("%s shows a secret: %s", key, value)
		}
	}
	if name, all, _ := c.InForce(); name != file || all[0].Key != "listen" || all[1].Key != "http" {
		t.Errorf("%s %v, want the file, and the order of the reference", name, all)
	}
}

func TestInForceOptions(t *testing.T) {
	c, err := config.Resolve("", []config.Setting{
		{Key: "listen", Value: "127.0.0.1:1", Origin: "--listen"},
		{Key: "listen", Value: "127.0.0.1:2", Origin: "--listen"},
		{Key: "token", Value: "hunter2", Origin: "HOLTER_TOKEN"},
		{Key: "database", Value: "sqlite:/var/lib/holter.db", Origin: "--database"},
	})
	wantInForce(t, inForce(t, c, err), map[string]string{
		"listen": "127.0.0.1:1, 127.0.0.1:2 (--listen)", "token": "*** (HOLTER_TOKEN)", "database": "sqlite:/var/lib/holter.db (--database)",
		"http": "127.0.0.1:8080 (default)", "http_console": "on (default)",
	})
	if file, _, _ := c.InForce(); file != "" {
		t.Errorf("the file is %s", file)
	}
	c, err = config.ResolveMonitor("", []config.Setting{
		{Key: "bridge.url", Value: "mqtt://a", Origin: "--broker"},
		{Key: "bridge.preset", Value: "raw", Origin: "--preset"},
		{Key: "bridge.username", Value: "me", Origin: "--username"},
		{Key: "bridge.password", Value: "hunter2", Origin: "HOLTER_MQTT_PASSWORD"},
		{Key: "bridge.report", Value: "true", Origin: "--report"},
	})
	wantInForce(t, inForce(t, c, err), map[string]string{
		"bridges.url": "mqtt://a (--broker)", "bridges.preset": "raw (--preset)", "bridges.username": "me (--username)",
		"bridges.password": "*** (HOLTER_MQTT_PASSWORD)", "report.to": "mqtt:a (--report)", "report.home_assistant": "false (default)",
		"listen": "", "mqtt.listen": "", "link.listen": "", "bridges": "",
	})
}

func TestInForceIsBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString("groups:\n")
	for i := range 2000 {
		fmt.Fprintf(&text, "  - {name: g%d, match: \"g%d/*\"}\n", i, i)
	}
	fmt.Fprintf(&text, "data: %s\n", strings.Repeat("d", 10_000))
	c, err := config.ParseText("fleet.yaml", text.String())
	if err != nil {
		t.Fatal(err)
	}
	_, all, leftOut := c.InForce()
	if len(all) != 2000 || leftOut < 2000 || leftOut > 2200 {
		t.Errorf("%d settings, and %d left out", len(all), leftOut)
	}
	i := slices.IndexFunc(all, func(s config.InForce) bool { return s.Key == "data" })
	if n := len(all[i].Value); n < 500 || n > 510 {
		t.Errorf("a value of %d bytes", n)
	}
}
