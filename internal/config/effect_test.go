package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/config"
)

// Every setting has all that its line in the table is for, and a place of its own in the configuration.
func TestTable(t *testing.T) {
	var c config.Config
	at := map[any]string{}
	for _, s := range config.Table(&c) {
		list := slices.Contains([]string{"groups", "devices", "bridges", "playbooks"}, s.Key) // which have tables of their own
		if s.Set.Read == nil || s.Default == "" || (s.Doc == "") != list || s.Set.To == nil || at[s.Set.To] != "" {
			t.Errorf("%s: default %q, at %T, which %q has, too: %s", s.Key, s.Default, s.Set.To, at[s.Set.To], s.Doc)
		}
		at[s.Set.To] = s.Key
	}
}

// resolved resolves a file with a text.
func resolved(t *testing.T, file, text string, settings ...config.Setting) config.Config {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Resolve(file, settings)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCompare(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	const secured = "token: hunter2hunter2\n"
	for _, tt := range []struct{ name, before, after, want string }{
		{"nothing", "http_rate: 5", "# a remark\nhttp_rate: 5", ""},
		{"a default that is written", "{}", "http: 127.0.0.1:8080", ""},
		{"another form of the same", "policy: {timeout: 90s}", "policy: {timeout: 1m30s}", ""},
		{"a value", "{}", "http_rate: 7", "http_rate live 20000 -> 7"},
		{"an address", "http: 127.0.0.1:1", "http: 127.0.0.1:2", "http fixed 127.0.0.1:1 -> 127.0.0.1:2"},
		{"a secret", secured, "token: hunter3hunter3", "token live *** -> ***"},
		{"a secret that goes", secured, "{}", "token rebuilt *** -> no token"},
		{"a secret, and who needs none", secured, "token: hunter3hunter3\nopen: true", "token rebuilt *** -> ***, open rebuilt false -> true"},
		{"a port", "listen: [127.0.0.1:1]", "listen: [127.0.0.1:1, 127.0.0.1:2]", "listen rebuilt 127.0.0.1:1 -> 127.0.0.1:1, 127.0.0.1:2"},
		{
			"the limit of a port", "listen: [{address: 127.0.0.1:1, max_devices: 5}]", "listen: [{address: 127.0.0.1:1, max_devices: 6}]",
			"listen live listen[0].max_devices 5 -> listen[0].max_devices 6",
		},
		{
			"the first limit of a port", "listen: [{address: 127.0.0.1:1}]", "listen: [{address: 127.0.0.1:1, max_devices: 6}]",
			"listen rebuilt  -> listen[0].max_devices 6",
		},
		{
			"a group", "groups: [{name: a, match: a*, policy: {timeout: 5s}}]", "groups: [{name: a, match: a*, policy: {timeout: 6s}}]",
			"groups live groups[0].policy.timeout 5s -> groups[0].policy.timeout 6s",
		},
		{
			"another group", "groups: [{name: a, match: a*}]", "groups: [{name: a, match: a*}, {name: b, match: b*}]",
			"groups live  -> groups[1].name b; groups[1].match b*",
		},
		{"devices", "devices: {a: {timeout: 5s}}", "devices: {a: {timeout: 6s}}", "devices live 1, see the file -> 1, see the file"},
		{"a place of a bridge", "bridges: [{url: mqtt://a, presets: [raw]}]", "\n\nbridges: [{url: mqtt://a, presets: [raw]}]", ""},
		{"a bridge", "bridges: [{url: mqtt://a, presets: [raw]}]", "bridges: [{url: mqtt://b, presets: [raw]}]", "bridges rebuilt bridges[0].url mqtt://a -> bridges[0].url mqtt://b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := resolved(t, file, tt.before)
			if err := os.WriteFile(file, []byte(tt.after), 0o600); err != nil {
				t.Fatal(err)
			}
			after, err := before.Again()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range before.Compare(&after) {
				got = append(got, c.Key+" "+[]string{"live", "rebuilt", "fixed"}[c.Effect]+" "+c.Before+" -> "+c.After)
			}
			got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "mqtt.") })
			if text := strings.Join(got, ", "); text != tt.want {
				t.Errorf("Compare = %s\nwant %s", text, tt.want)
			}
		})
	}
}

// What is kept is as before, where it is shown, too; all else is as in the file.
func TestKeeping(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	before := resolved(t, file, "http: 127.0.0.1:1\nhttp_rate: 5\ngroups: [{name: a, match: a*}]")
	after := resolved(t, file, "\nhttp: 127.0.0.1:2\nhttp_rate: 6")
	c := after.Keeping(&before, []string{"http", "groups"})
	if c.HTTP != "127.0.0.1:1" || c.HTTPRate != 6 || len(c.Fleet.Groups) != 1 {
		t.Errorf("Keeping = %+v", c)
	}
	shown := map[string]string{}
	_, all, _ := c.InForce()
	for _, s := range all {
		shown[s.Key] = s.Value + " " + filepath.Base(s.At)
	}
	wantInForce(t, shown, map[string]string{"http": "127.0.0.1:1 fleet.yaml:1", "http_rate": "6 fleet.yaml:3", "groups[0].name": "a fleet.yaml:3"})
	if all[0].Key != "listen" || all[1].Key != "http" {
		t.Errorf("the order is %v", all[:2])
	}
	if left := c.Compare(&after); len(left) != 2 {
		t.Errorf("what is left: %+v", left)
	}
	if _, old, _ := after.InForce(); len(old) == 0 || old[1].Value != "127.0.0.1:2" {
		t.Errorf("the other one has changed: %+v", old[1])
	}
}

// What is given otherwise than in the file stays.
func TestAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	c := resolved(t, file, "http_rate: 5", config.Setting{Key: "http", Value: "127.0.0.1:7", Origin: "--http"})
	for range 2 {
		if err := os.WriteFile(file, []byte("http_rate: 6\nhttp: 127.0.0.1:8"), 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if c, err = c.Again(); err != nil || c.HTTP != "127.0.0.1:7" || c.HTTPRate != 6 {
			t.Fatalf("Again = %v, %v, %v", c.HTTP, c.HTTPRate, err)
		}
	}
	for _, tt := range []struct {
		name  string
		spoil func() error
	}{
		{"a mistake", func() error { return os.WriteFile(file, []byte("http_rate: x\nzzz: 1"), 0o600) }},
		{"half", func() error { return os.WriteFile(file, []byte("policy: {timeout: 5"), 0o600) }},
		{"gone", func() error { return os.Remove(file) }},
		{"a directory", func() error { return os.Mkdir(file, 0o700) }},
	} {
		if err := tt.spoil(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Again(); err == nil || !strings.Contains(err.Error(), "fleet.yaml") {
			t.Errorf("%s: Again = %v", tt.name, err)
		}
	}
	var none config.Config
	if _, err := none.Again(); err == nil {
		t.Error("Again of no configuration = nil")
	}
}
