package config_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/config"
)

// given returns settings of pairs of a key and a value.
func given(pairs ...string) (all []config.Setting) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, config.Setting{Key: pairs[i], Value: pairs[i+1], Origin: "--" + pairs[i]})
	}
	return all
}

func TestResolveLink(t *testing.T) {
	files := cert.Files{Cert: "c", Key: "k", Clients: "a"}
	tests := []struct {
		name, file string
		settings   []config.Setting
		want       config.Link
	}{
		{"none", "{}\n", nil, config.Link{}},
		{"loopback", "link: {listen: '[::1]:7710'}\n", nil, config.Link{Listen: "[::1]:7710"}},
		{"Unix socket", "{}\n", given("link.listen", "unix:run/judge.sock"), config.Link{Listen: "unix:run/judge.sock"}},
		{"network", "link: {listen: ':7710', tls: {cert: c, key: k, ca: a}}\n", nil, config.Link{Listen: ":7710", TLS: files}},
		{"settings", "link: {listen: ':7710'}\n", given("link.tls.cert", "c", "link.tls.key", "k", "link.tls.ca", "a"), config.Link{Listen: ":7710", TLS: files}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "fleet.yaml", tt.file)
			cfg, err := config.Resolve("fleet.yaml", tt.settings)
			if err != nil || cfg.Link != tt.want || cfg.Judges != nil {
				t.Errorf("Resolve() = %+v, judges %q, %v, want %+v", cfg.Link, cfg.Judges, err, tt.want)
			}
		})
	}
}

func TestLinkMistakes(t *testing.T) {
	tests := []struct {
		name, file string
		settings   []config.Setting
		want       string
	}{
		{"network without TLS", "link: {listen: 0.0.0.0:7710}\n", nil, "fleet.yaml:1:16: link.listen: 0.0.0.0:7710 is reached over the network, where others could read what devices say, and say it for them: add --link-cert FILE, --link-key FILE and --link-ca FILE"},
		{"half a certificate", "link: {listen: ':7710', tls: {cert: c, key: k}}\n", nil, "fleet.yaml:1:30: link.tls: both sides of a link show certificates: give --link-cert, --link-key and --link-ca"},
		{"list for no certificates", "link: {listen: '127.0.0.1:7710', tls: {crl: c}}\n", nil, "fleet.yaml:1:45: link.tls.crl: there are no certificates that could be revoked"},
		{"certificate for nobody", "{}\n", given("link.tls.cert", "c", "link.tls.key", "k", "link.tls.ca", "a"), "--link.tls.ca: nothing listens for ears: add --link HOST:PORT"},
		{"TLS over a Unix socket", "link: {listen: 'unix:a', tls: {cert: c, key: k, ca: a}}\n", nil, "fleet.yaml:1:16: link.listen: unix:a is a Unix socket, over which there is no TLS"},
		{"no path", "{}\n", given("link.listen", "unix:"), `--link.listen: "unix:" is not a Unix socket; write unix:PATH`},
		{"no address", "{}\n", given("link.listen", "7710"), `--link.listen: "7710" is a port without a host; write 127.0.0.1:7710`},
		{"used twice", "{}\n", given("link.listen", "127.0.0.1:7700"), "--link.listen: 127.0.0.1:7700 is used twice"},
		{"judges", "judges: [127.0.0.1:7710]\n", nil, `fleet.yaml:1:9: judges: only an ear has judges, see "holter ear"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "fleet.yaml", tt.file)
			if cfg, err := config.Resolve("fleet.yaml", tt.settings); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("Resolve() = %+v, %v, want %s…", cfg.Link, err, tt.want)
			}
		})
	}
}

func TestResolveEar(t *testing.T) {
	tests := []struct {
		name, file string
		settings   []config.Setting
		judges     []string
		http       string
	}{
		{"a judge", "{}\n", given("judges", "localhost:7710"), []string{"localhost:7710"}, "127.0.0.1:8081"},
		{"judges of the file", "judges: [127.0.0.1:1, 'unix:a/b']\nhttp: 127.0.0.1:9\n", nil, []string{"127.0.0.1:1", "unix:a/b"}, "127.0.0.1:9"},
		{"settings before the file", "judges: [127.0.0.1:1]\n", given("judges", "unix:x", "judges", "unix:y"), []string{"unix:x", "unix:y"}, "127.0.0.1:8081"},
		{"drain", "drain: {delay: 0, limit: 5m}\n", given("judges", "unix:x", "drain.delay", "1s"), []string{"unix:x"}, "127.0.0.1:8081"},
		{"over the network", "link: {tls: {cert: c, key: k, ca: a}}\n", given("judges", "judge.example:7710"), []string{"judge.example:7710"}, "127.0.0.1:8081"},
		{
			"all that an ear has", "listen: [{address: ':7700', tls: {}}]\ntls: {cert: c, key: k}\ndata: d\nnode: n\ntoken: t\nreuse_port: true\nopen: false\n" +
				"log: {level: warn}\ngateway: {max_connections: 5, accept_rate: 1}\nhttp: 127.0.0.1:9\njudges: [unix:a]\n", nil, []string{"unix:a"}, "127.0.0.1:9",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "ear.yaml", tt.file)
			cfg, err := config.ResolveEar("ear.yaml", tt.settings)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(cfg.Judges, tt.judges) || cfg.HTTP != tt.http || cfg.MQTT != (config.MQTT{Anonymous: config.AnonymousLoopback}) || len(cfg.Listen) != 2 {
				t.Errorf("ResolveEar() = %+v, want the judges %q, HTTP at %s, two listeners", cfg, tt.judges, tt.http)
			}
			drain := config.Drain{Delay: 10 * time.Second, Limit: time.Minute}
			if tt.name == "drain" {
				drain = config.Drain{Delay: time.Second, Limit: 5 * time.Minute}
			}
			if cfg.Drain != drain {
				t.Errorf("it drains by %+v, want %+v", cfg.Drain, drain)
			}
		})
	}
}

func TestEarMistakes(t *testing.T) {
	judge := given("judges", "unix:a")
	const has = "an ear does not have this, its judge has; remove it here"
	tests := []struct {
		name, file string
		settings   []config.Setting
		want       string
	}{
		{"no judge", "{}\n", nil, "there is no judge: add --judge HOST:PORT, or unix:PATH, where a server listens with --link (judges: in the file)"},
		{"empty list", "judges: []\n", nil, "ear.yaml:1:9: judges: the list is empty; write where a judge is"},
		{"no host", "{}\n", given("judges", ":7710"), `--judges: ":7710" does not say where the judge is; write HOST:PORT`},
		{"network without TLS", "{}\n", given("judges", "judge.example:7710"), "--judges: judge.example:7710 is reached over the network"},
		{"half a certificate", "{}\n", append(given("link.tls.ca", "x"), judge...), "--link.tls.ca: both sides of a link show certificates"},
		{"TLS over a Unix socket", "link: {tls: {cert: c, key: k, ca: a}}\n", judge, "--judges: unix:a is a Unix socket, over which there is no TLS"},
		{"max_devices of a port", "listen: [{address: '127.0.0.1:1', max_devices: 5}]\n", judge, "ear.yaml:1:10: listen[0]: the ports of an ear have no max_devices"},
		{"no port at all", "listen: [off]\n", judge, "ear.yaml:1:10: listen[0]: an ear without device ports hears nobody; write where devices connect"},
		{"no port, nor one for MQTT clients", "mqtt: {listen: off}\n", append(given("listen", "off"), judge...), "--listen: an ear without device ports hears nobody"},
		{"none beside one", "{}\n", append(given("listen", "off", "listen", "127.0.0.1:1"), judge...), "--listen: off stands beside device ports; remove it, or them"},
		{"reachable", "{}\n", append(given("listen", ":7700"), judge...), "--listen: other machines reach :7700, and there is no token"},
		{"database", "database: 'sqlite:a'\n", judge, "ear.yaml:1:11: database: " + has},
		{"grace", "source: {reconnect_grace: 5s}\n", judge, "ear.yaml:1:9: source: " + has},
		{"drain", "drain: {delay: -1s, limit: 0s}\n", judge, "ear.yaml:1:16: drain.delay: "},
		{"drain without a limit", "drain: {limit: 0s}\n", judge, "ear.yaml:1:16: drain.limit: 0s is out of range; allowed are 100ms to 1d"},
		{"link", "link: {listen: 'unix:b'}\n", judge, "ear.yaml:1:16: link.listen: " + has},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "ear.yaml", tt.file)
			if cfg, err := config.ResolveEar("ear.yaml", tt.settings); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("ResolveEar() = %+v, %v, want %s…", cfg, err, tt.want)
			}
		})
	}
}
