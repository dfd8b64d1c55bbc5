package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/credential"
)

// credentials makes the directory of credentials.
func credentials(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"token": "hunter2\n", "database": "postgres://holter:p%40ss@db/holter\n", "password": "p@ss:/word\n", "spaced": "hunter2 hunter2\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(credential.DirectoryEnv, dir)
	return dir
}

func TestCredentials(t *testing.T) {
	dir := credentials(t)
	file := filepath.Join(dir, "fleet.yaml")
	text := "token: credential:token\ndatabase: postgres://holter:credential:password@db:5432/holter?sslmode=require\ntls: {cert: credential:tls.pem, key: credential:tls.key}\n" +
		"bridges:\n  - {url: mqtt://b, presets: [raw], username: u, password_file: credential:password}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Resolve(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct{ what, got, want string }{
		{"token", c.Token.Reveal(), "hunter2"},
		{"database", c.Database.Reveal(), "postgres://holter:p%40ss%3A%2Fword@db:5432/holter?sslmode=require"},
		{"tls.cert", c.TLS.Cert, filepath.Join(dir, "tls.pem")},
		{"tls.key", c.TLS.Key, filepath.Join(dir, "tls.key")},
		{"password_file", c.Bridges[0].PasswordFile, filepath.Join(dir, "password")},
	} {
		if v.got != v.want {
			t.Errorf("%s = %q, want %q", v.what, v.got, v.want)
		}
	}
	c, err = config.Resolve("", []config.Setting{
		{Key: "token", Value: "credential:token", Origin: "HOLTER_TOKEN"},
		{Key: "database", Value: "credential:database", Origin: "HOLTER_DATABASE"},
		{Key: "bridge.url", Value: "mqtt://a", Origin: "--broker"},
		{Key: "bridge.preset", Value: "raw", Origin: "--preset"},
		{Key: "bridge.username", Value: "me", Origin: "--username"},
		{Key: "bridge.password", Value: "credential:password", Origin: "HOLTER_MQTT_PASSWORD"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if token, db, password := c.Token.Reveal(), c.Database.Reveal(), c.Bridges[0].Secret.Reveal(); token != "hunter2" ||
		db != "postgres://holter:p%40ss@db/holter" || password != "p@ss:/word" {
		t.Errorf("from the environment: %q, %q, %q", token, db, password)
	}
}

// A credential that is not to be had is a mistake with its place, and no secret is shown.
func TestCredentialMistakes(t *testing.T) {
	dir := credentials(t)
	for _, c := range []struct{ name, text, want string }{
		{"a missing token", "token: credential:tokn", "fleet.yaml:1:8: token: a credential of CREDENTIALS_DIRECTORY: open " + dir + "/tokn: no such file or directory; look at"},
		{"a bad token", "token: credential:spaced", "only visible ASCII characters"},
		{"a missing password", "database: postgres://holter:credential:pass@db/holter", "fleet.yaml:1:11: database: a credential of CREDENTIALS_DIRECTORY: open " + dir + "/pass:"},
		{"a database that is none", "database: credential:token", "not the URL of a database"},
		{"a path", "tls: {cert: a.pem, key: credential:../key}", "without a slash"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := message(t, c.text+"\n"); !strings.Contains(got, c.want) || strings.Contains(got, "hunter2") || strings.Contains(got, "p@ss") {
				t.Errorf("message\n%s\nwant %q", got, c.want)
			}
		})
	}
}
