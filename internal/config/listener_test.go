package config_test

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec/dtu"
	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/config"
)

// lines are device ports of the line protocol.
func lines(addresses ...string) (all []config.Listener) {
	for _, a := range addresses {
		all = append(all, config.Listener{Address: a, Protocols: []string{config.ProtocolLine}})
	}
	return all
}

// mqttAt is a port for MQTT clients.
func mqttAt(address string) config.Listener {
	return config.Listener{Address: address, Protocols: []string{config.ProtocolMQTT}}
}

// fullListeners are the device ports of testdata/full.yaml.
func fullListeners() []config.Listener {
	const pem, key, ca = "/etc/holter/cert.pem", "/etc/holter/key.pem", "/etc/holter/ca.pem"
	all := []string{"mqtt", "jt808", "gt06", "teltonika", "frame", "line"}
	return append(lines("0.0.0.0:7700", "[::1]:7701"),
		config.Listener{Address: "127.0.0.1:7702", Protocols: []string{"jt808", "gt06", "line"}},
		config.Listener{Address: "127.0.0.1:7703", Protocols: all},
		config.Listener{Address: "0.0.0.0:7700", Protocols: []string{"teltonika", "frame", "line"}, Packets: true},
		config.Listener{Address: ":7704", Protocols: []string{"line"}, TLS: &cert.Files{Cert: pem, Key: key}},
		config.Listener{
			Address: "0.0.0.0:7705", Protocols: slices.Insert(slices.Clone(all), 5, "dtu"),
			TLS: &cert.Files{
				Cert: "/etc/holter/devices.pem", Key: "/etc/holter/devices.key", Clients: ca, Optional: true,
				Revoked: "/etc/holter/revoked.crl", MinVersion: "1.2", Ciphers: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
			},
			Identity: gateway.CommonName, Lenient: true, Messages: 100, MaxDevices: 5000, Bytes: -1,
			Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8::/32")},
			DTU: &dtu.Options{
				Registration: "([0-9a-f]{8})00", Hex: true, Mode: "prefix", Heartbeat: []byte("\x00ping"),
				Poll: []byte{1, 3, 0, 0, 0, 1, 0x84, 0xa},
			},
		},
		config.Listener{
			Address: "127.0.0.1:7706", Protocols: []string{"frame"},
			TLS: &cert.Files{Cert: pem, Key: key, Clients: ca},
		},
		config.Listener{Address: "127.0.0.1:7707", Protocols: []string{"dtu"}, DTU: &dtu.Options{Registration: `\d{15}`}},
		config.Listener{Address: "0.0.0.0:8883", Protocols: []string{"mqtt"}, TLS: &cert.Files{Cert: pem, Key: key}},
		mqttAt("0.0.0.0:1883"),
	)
}

func TestListenerString(t *testing.T) {
	var got []string
	for _, l := range fullListeners() {
		got = append(got, l.String())
	}
	want := []string{
		"line://0.0.0.0:7700", "line://[::1]:7701", "jt808+gt06+line://127.0.0.1:7702", "mqtt+jt808+gt06+teltonika+frame+line://127.0.0.1:7703",
		"udp+teltonika+frame+line://0.0.0.0:7700", "tls+line://:7704", "tls+mqtt+jt808+gt06+teltonika+frame+dtu+line://0.0.0.0:7705",
		"tls+frame://127.0.0.1:7706", "dtu://127.0.0.1:7707", "tls+mqtt://0.0.0.0:8883", "mqtt://0.0.0.0:1883",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func checkListenersUsable(t *testing.T, cfg config.Config) {
	t.Helper()
	for _, l := range cfg.Listen {
		known := func(p string) bool { return slices.Contains(config.Protocols(), p) }
		if l.Address == "" || len(l.Protocols) == 0 || len(slices.Compact(slices.Clone(l.Protocols))) < len(l.Protocols) ||
			slices.ContainsFunc(l.Protocols, func(p string) bool { return !known(p) }) {
			t.Errorf("listener %+v", l)
		}
		if slices.Contains(l.Protocols, config.ProtocolDTU) != (l.DTU != nil) || l.DTU != nil && l.DTU.Registration == "" {
			t.Errorf("listener %+v: dtu %+v", l, l.DTU)
		}
		if l.TLS != nil && (l.TLS.Cert == "" || l.TLS.Key == "" || l.TLS.Optional && l.TLS.Clients == "") {
			t.Errorf("listener %+v: TLS %+v", l, l.TLS)
		}
		if l.Packets && (l.TLS != nil || len(l.Proxies) > 0) {
			t.Errorf("listener %+v: %+v %v", l, l.TLS, l.Proxies)
		}
		if (!config.Loopback(l.Address) || len(l.Proxies) > 0) && !cfg.Open && !cfg.Token.IsSet() && cfg.DevicesFile == "" && !l.Certified() &&
			(cfg.MQTT.Users == "" || !slices.Equal(l.Protocols, []string{config.ProtocolMQTT})) {
			t.Errorf("listener %+v lets everybody in", l)
		}
	}
	if cfg.DevicesFile != "" && cfg.Token.IsSet() {
		t.Errorf("devices %s and a token", cfg.DevicesFile)
	}
}
