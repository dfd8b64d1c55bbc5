package config

import (
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/internal/strictyaml"
)

// mqttFields lists the keys of the broker inside the program. The address of its port goes to listen.
func mqttFields(d *strictyaml.Reader, listen *string, m *MQTT) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "listen", Set: strictyaml.Value(d, listen, parseAddressOrOff)},
		{Key: "users", Set: strictyaml.Value(d, &m.Users, parseFile)},
		{Key: "rules", Set: strictyaml.Value(d, &m.Rules, parseFile)},
		{Key: "anonymous", Set: strictyaml.Value(d, &m.Anonymous, parseAnonymous)},
		{Key: "max_packet", Set: strictyaml.Plain(d, &m.MaxPacket, count{min: 1 << 10, max: 256 << 20}.parse)},
		{Key: "session_expiry", Set: strictyaml.Value(d, &m.SessionExpiry, span{min: time.Second, max: aYear + 24*time.Hour}.parse)},
		{Key: "max_queue", Set: strictyaml.Plain(d, &m.MaxQueue, count{min: 1, max: 60_000}.parse)},
		{Key: "max_retained", Set: strictyaml.Plain(d, &m.MaxRetained, count{min: 1, max: 1 << 30}.parse)},
		{Key: "max_retained_bytes", Set: strictyaml.Plain(d, &m.MaxRetainedBytes, count{min: 1 << 10, max: 1 << 40}.parse)},
		{Key: "route", Set: strictyaml.Value(d, &m.Routed, parseRoute)},
	}
}

// bridgeList stores the file's list of bridges that have a usable URL.
func bridgeList(d *strictyaml.Reader, all *[]Bridge) strictyaml.Setter {
	return func(path string, n ast.Node) {
		for i, item := range d.Items(path, n) {
			if b := bridge(d, strictyaml.Element(path, i), item); b.URL != "" {
				*all = append(*all, b)
			}
		}
	}
}

// bridgeFields lists the keys of a bridge.
func bridgeFields(d *strictyaml.Reader, b *Bridge) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "name", Set: strictyaml.Value(d, &b.Name, parseBridgeName)},
		{Key: "url", Need: "a bridge needs one, as in mqtt://broker.example:1883", Set: strictyaml.Value(d, &b.URL, parseBrokerURL)},
		{Key: "username", Set: strictyaml.Value(d, &b.Username, text("username", 1024))},
		{Key: "password_file", Set: strictyaml.Value(d, &b.PasswordFile, parseFile)},
		{Key: "client_id", Set: strictyaml.Value(d, &b.ClientID, text("client id", 128))},
		{Key: "tls", Fields: []strictyaml.Field{
			{Key: "ca", Set: strictyaml.Value(d, &b.Files.CA, parseFile)},
			{Key: "cert", Set: strictyaml.Value(d, &b.Files.Cert, parseFile)},
			{Key: "key", Set: strictyaml.Value(d, &b.Files.Key, parseFile)},
			{Key: "server_name", Set: strictyaml.Value(d, &b.Files.ServerName, parseName)},
		}},
		{Key: "presets", Set: presetList(d, &b.Presets)},
		{Key: "rules", Set: ruleList(d, &b.Rules)},
		{Key: "share", Set: strictyaml.Value(d, &b.Share, parseShareName)},
		{Key: "qos", Set: strictyaml.Plain(d, &b.QoS, parseQoS)},
		{Key: "watermark", Set: strictyaml.Value(d, &b.Watermark, parseWatermark)},
		{Key: "queue", Set: strictyaml.Plain(d, &b.Queue, count{min: 64, max: 10_000_000}.parse)},
		{Key: "max_payload", Set: strictyaml.Plain(d, &b.MaxPayload, count{min: 64, max: 128 << 20}.parse)},
		{Key: "reconnect_max", Set: strictyaml.Value(d, &b.ReconnectMax, span{min: 100 * time.Millisecond, max: time.Hour}.parse)},
	}
}

func bridge(d *strictyaml.Reader, path string, n ast.Node) (b Bridge) {
	b.at = d.Place(path, n)
	seen := d.Mapping(path, n, bridgeFields(d, &b))
	if seen == nil {
		return b
	}
	if seen["presets"] == nil && seen["rules"] == nil {
		d.Fail(path, n, "nothing says what the messages mean; write presets or rules")
	}
	if err := checkBridgeTLS(&b); err != nil {
		d.FailAt(strictyaml.Join(path, "tls"), err.Error())
	}
	if b.PasswordFile != "" && b.Username == "" && seen["username"] == nil {
		d.FailAt(strictyaml.Join(path, "password_file"), "username is missing: a password goes with a name")
	}
	return b
}

func presetList(d *strictyaml.Reader, all *[]string) strictyaml.Setter {
	return func(path string, n ast.Node) {
		for i, item := range d.SomeItems(path, n, "name a preset") {
			at, name := strictyaml.Element(path, i), ""
			strictyaml.Value(d, &name, ParsePreset)(at, item)
			if name != "" && slices.Contains(*all, name) {
				d.Fail(at, item, "%s is named twice", strictyaml.Quote(name))
			}
			*all = append(*all, name)
		}
	}
}

// reportSection stores where verdicts are published.
func reportSection(d *strictyaml.Reader, c *Report) strictyaml.Setter {
	fields := []strictyaml.Field{
		{Key: "to", Set: strictyaml.Value(d, &c.To, parseName)},
		{Key: "prefix", Set: strictyaml.Value(d, &c.Prefix, parsePrefix)},
		{Key: "home_assistant", Set: strictyaml.Flag(d, &c.HomeAssistant)},
		{Key: "discovery_prefix", Set: strictyaml.Value(d, &c.DiscoveryPrefix, parsePrefix)},
	}
	return func(path string, n ast.Node) {
		seen := d.Mapping(path, n, fields)
		if len(seen) > 0 && seen["to"] == nil {
			d.Fail(path, n, "to is missing; write broker, or the name of a bridge")
		}
	}
}
