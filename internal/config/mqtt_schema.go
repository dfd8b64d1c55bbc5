package config

import (
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/internal/strictyaml"
)

// brokerSection stores the broker inside the program.
func (r *resolver) brokerSection(d *strictyaml.Reader) strictyaml.Setter {
	b := &r.cfg.Broker
	listen := strictyaml.Value(d, &b.Listen, parseAddressOrOff)
	return strictyaml.Section(d, []strictyaml.Field{
		{Key: "listen", Set: func(path string, n ast.Node) {
			listen(path, n)
			r.brokerAt = d.Place(path, n).Mistake
		}},
		{Key: "users", Set: strictyaml.Value(d, &b.Users, parseFile)},
		{Key: "anonymous", Set: func(path string, n ast.Node) {
			strictyaml.Value(d, &b.Anonymous, parseAnonymous)(path, n)
			r.anonymousAt = d.Place(path, n).Mistake
		}},
		{Key: "max_clients", Set: strictyaml.Plain(d, &b.MaxClients, count{min: 1, max: 10_000_000}.parse)},
		{Key: "max_packet", Set: strictyaml.Plain(d, &b.MaxPacket, count{min: 1024, max: 256 << 20}.parse)},
		{Key: "tls", Set: func(path string, n ast.Node) {
			strictyaml.Section(d, []strictyaml.Field{
				{Key: "cert", Set: strictyaml.Value(d, &b.TLS.Cert, parseFile)},
				{Key: "key", Set: strictyaml.Value(d, &b.TLS.Key, parseFile)},
			})(path, n)
			if (b.TLS.Cert == "") != (b.TLS.Key == "") {
				d.Fail(path, n, "a certificate needs its key: give both cert and key, or neither")
			}
		}},
	})
}

// bridgeList stores the file's list of bridges.
func (r *resolver) bridgeList(d *strictyaml.Reader) strictyaml.Setter {
	return func(path string, n ast.Node) {
		for i, item := range d.Items(path, n) {
			at := strictyaml.Element(path, i)
			if b, ok := bridge(d, at, item); ok {
				r.cfg.Bridges = append(r.cfg.Bridges, b)
			}
		}
	}
}

// bridge reads one entry; ok says that it is a mapping with a usable URL.
func bridge(d *strictyaml.Reader, path string, n ast.Node) (b Bridge, ok bool) {
	b.at = d.Place(path, n)
	before := d.Mistakes()
	seen := d.Mapping(path, n, []strictyaml.Field{
		{Key: "name", Set: strictyaml.Value(d, &b.Name, parseBridgeName)},
		{Key: "url", Set: strictyaml.Value(d, &b.URL, parseBrokerURL)},
		{Key: "username", Set: strictyaml.Value(d, &b.Username, parseUsername)},
		{Key: "password_file", Set: strictyaml.Value(d, &b.PasswordFile, parseFile)},
		{Key: "client_id", Set: strictyaml.Value(d, &b.ClientID, parseClientID)},
		{Key: "tls", Set: bridgeTLS(d, &b.TLS)},
		{Key: "presets", Set: presetList(d, &b.Presets)},
		{Key: "rules", Set: ruleList(d, &b.Rules)},
		{Key: "share", Set: strictyaml.Value(d, &b.Share, parseShareName)},
		{Key: "qos", Set: strictyaml.Plain(d, &b.QoS, parseQoS)},
		{Key: "watermark", Set: strictyaml.Value(d, &b.Watermark, parseWatermark)},
		{Key: "queue", Set: strictyaml.Plain(d, &b.Queue, count{min: 64, max: 10_000_000}.parse)},
		{Key: "max_payload", Set: strictyaml.Plain(d, &b.MaxPayload, count{min: 64, max: 128 << 20}.parse)},
		{Key: "reconnect_max", Set: strictyaml.Value(d, &b.ReconnectMax, span{min: 100 * time.Millisecond, max: time.Hour}.parse)},
	})
	if len(seen) == 0 && d.Mistakes() > before {
		return b, false // not even a mapping
	}
	if seen["url"] == nil {
		d.Fail(path, n, "url is missing; a bridge needs one, as in mqtt://broker.example:1883")
	}
	if seen["presets"] == nil && seen["rules"] == nil {
		d.Fail(path, n, "nothing says what the messages mean; write presets or rules")
	}
	if err := checkBridgeTLS(&b); err != nil {
		d.Fail(strictyaml.Join(path, "tls"), seen["tls"], "%v", err)
	}
	if b.PasswordFile != "" && b.Username == "" && seen["username"] == nil {
		d.Fail(strictyaml.Join(path, "password_file"), seen["password_file"], "username is missing: a password goes with a name")
	}
	return b, b.URL != ""
}

func bridgeTLS(d *strictyaml.Reader, t *BridgeTLS) strictyaml.Setter {
	return strictyaml.Section(d, []strictyaml.Field{
		{Key: "ca", Set: strictyaml.Value(d, &t.CA, parseFile)},
		{Key: "cert", Set: strictyaml.Value(d, &t.Cert, parseFile)},
		{Key: "key", Set: strictyaml.Value(d, &t.Key, parseFile)},
		{Key: "server_name", Set: strictyaml.Value(d, &t.ServerName, parseName)},
	})
}

func presetList(d *strictyaml.Reader, all *[]Preset) strictyaml.Setter {
	return func(path string, n ast.Node) {
		for i, item := range d.SomeItems(path, n, "name a preset") {
			at := strictyaml.Element(path, i)
			p := Preset{at: d.Place(at, item)}
			strictyaml.Value(d, &p.Name, parseName)(at, item)
			for _, other := range *all {
				if p.Name != "" && other.Name == p.Name {
					d.Fail(at, item, "%s is named twice", strictyaml.Quote(p.Name))
				}
			}
			*all = append(*all, p)
		}
	}
}

// reportSection stores where verdicts are published.
func (r *resolver) reportSection(d *strictyaml.Reader) strictyaml.Setter {
	c := &r.cfg.Report
	fields := []strictyaml.Field{
		{Key: "to", Set: func(path string, n ast.Node) {
			strictyaml.Value(d, &c.To, parseName)(path, n)
			r.reportAt = d.Place(path, n).Mistake
		}},
		{Key: "prefix", Set: strictyaml.Value(d, &c.Prefix, parsePrefix)},
		{Key: "home_assistant", Set: strictyaml.Plain(d, &c.HomeAssistant, strictyaml.Bool)},
		{Key: "discovery_prefix", Set: strictyaml.Value(d, &c.DiscoveryPrefix, parsePrefix)},
	}
	return func(path string, n ast.Node) {
		seen := d.Mapping(path, n, fields)
		if len(seen) > 0 && seen["to"] == nil {
			d.Fail(path, n, "to is missing; write broker, or the name of a bridge")
		}
	}
}
