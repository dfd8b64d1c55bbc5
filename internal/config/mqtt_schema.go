package config

import (
	"fmt"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// brokerSection stores the broker inside the program.
func (r *resolver) brokerSection(d *decoder) setter {
	b := &r.cfg.Broker
	listen := value(d, &b.Listen, parseAddressOrOff)
	return section(d,
		field{"listen", func(path string, n ast.Node) {
			listen(path, n)
			r.brokerAt = d.spot(path, n).mistake
		}},
		field{"users", value(d, &b.Users, parseFile)},
		field{"anonymous", func(path string, n ast.Node) {
			value(d, &b.Anonymous, parseAnonymous)(path, n)
			r.anonymousAt = d.spot(path, n).mistake
		}},
		field{"max_clients", plain(d, &b.MaxClients, count{min: 1, max: 10_000_000}.parse)},
		field{"max_packet", plain(d, &b.MaxPacket, count{min: 1024, max: 256 << 20}.parse)},
		field{"tls", func(path string, n ast.Node) {
			section(d,
				field{"cert", value(d, &b.TLS.Cert, parseFile)},
				field{"key", value(d, &b.TLS.Key, parseFile)},
			)(path, n)
			if (b.TLS.Cert == "") != (b.TLS.Key == "") {
				d.fail(path, n, "a certificate needs its key: give both cert and key, or neither")
			}
		}},
	)
}

// bridgeList stores the file's list of bridges.
func (r *resolver) bridgeList(d *decoder) setter {
	return func(path string, n ast.Node) {
		for i, item := range d.items(path, n) {
			at := fmt.Sprintf("%s[%d]", path, i)
			if b, ok := bridge(d, at, item); ok {
				r.cfg.Bridges = append(r.cfg.Bridges, b)
			}
		}
	}
}

// bridge reads one entry; ok says that it is a mapping with a usable URL.
func bridge(d *decoder, path string, n ast.Node) (b Bridge, ok bool) {
	b.at = d.spot(path, n)
	before := d.mistakes()
	seen := d.mapping(path, n, []field{
		{"name", value(d, &b.Name, parseBridgeName)},
		{"url", value(d, &b.URL, parseBrokerURL)},
		{"username", value(d, &b.Username, parseUsername)},
		{"password_file", value(d, &b.PasswordFile, parseFile)},
		{"client_id", value(d, &b.ClientID, parseClientID)},
		{"tls", bridgeTLS(d, &b.TLS)},
		{"presets", presetList(d, &b.Presets)},
		{"rules", ruleList(d, &b.Rules)},
		{"share", value(d, &b.Share, parseShareName)},
		{"qos", plain(d, &b.QoS, parseQoS)},
		{"watermark", value(d, &b.Watermark, parseWatermark)},
		{"queue", plain(d, &b.Queue, count{min: 64, max: 10_000_000}.parse)},
		{"max_payload", plain(d, &b.MaxPayload, count{min: 64, max: 128 << 20}.parse)},
		{"reconnect_max", value(d, &b.ReconnectMax, span{min: 100 * time.Millisecond, max: time.Hour}.parse)},
	})
	if len(seen) == 0 && d.mistakes() > before {
		return b, false // not even a mapping
	}
	if seen["url"] == nil {
		d.fail(path, n, "url is missing; a bridge needs one, as in mqtt://broker.example:1883")
	}
	if seen["presets"] == nil && seen["rules"] == nil {
		d.fail(path, n, "nothing says what the messages mean; write presets or rules")
	}
	if err := checkBridgeTLS(&b); err != nil {
		d.fail(join(path, "tls"), seen["tls"], "%v", err)
	}
	if b.PasswordFile != "" && b.Username == "" && seen["username"] == nil {
		d.fail(join(path, "password_file"), seen["password_file"], "username is missing: a password goes with a name")
	}
	return b, b.URL != ""
}

func bridgeTLS(d *decoder, t *BridgeTLS) setter {
	return section(d,
		field{"ca", value(d, &t.CA, parseFile)},
		field{"cert", value(d, &t.Cert, parseFile)},
		field{"key", value(d, &t.Key, parseFile)},
		field{"server_name", value(d, &t.ServerName, parseName)},
	)
}

func presetList(d *decoder, all *[]Preset) setter {
	return func(path string, n ast.Node) {
		for i, item := range d.someItems(path, n, "name a preset") {
			p := Preset{at: d.spot(fmt.Sprintf("%s[%d]", path, i), item)}
			value(d, &p.Name, parseName)(p.at.path, item)
			for _, other := range *all {
				if p.Name != "" && other.Name == p.Name {
					d.fail(p.at.path, item, "%s is named twice", quote(p.Name))
				}
			}
			*all = append(*all, p)
		}
	}
}

// reportSection stores where verdicts are published.
func (r *resolver) reportSection(d *decoder) setter {
	c := &r.cfg.Report
	fields := []field{
		{"to", func(path string, n ast.Node) {
			value(d, &c.To, parseName)(path, n)
			r.reportAt = d.spot(path, n).mistake
		}},
		{"prefix", value(d, &c.Prefix, parsePrefix)},
		{"home_assistant", plain(d, &c.HomeAssistant, parseBool)},
		{"discovery_prefix", value(d, &c.DiscoveryPrefix, parsePrefix)},
	}
	return func(path string, n ast.Node) {
		seen := d.mapping(path, n, fields)
		if len(seen) > 0 && seen["to"] == nil {
			d.fail(path, n, "to is missing; write broker, or the name of a bridge")
		}
	}
}
