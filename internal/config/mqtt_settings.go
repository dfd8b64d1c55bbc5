package config

import (
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/internal/strictyaml"
)

// mqttFields lists the keys of the broker inside the program.
func mqttFields(c *Config) []strictyaml.Field {
	m := &c.MQTT
	return []strictyaml.Field{
		strictyaml.Key("listen", strictyaml.Value(&c.mqttListen, parseAddressOrOff), DefaultMQTT+"; none if listen has a port that speaks mqtt, or is off",
			"`HOST:PORT` for MQTT, without TLS; `off`: no port but those of `listen`"),
		strictyaml.Key("users", strictyaml.Value(&m.Users, parseFile), "no users",
			"file with a line for each [user](mqtt.md#users-and-rules), as `holter password NAME` prints it"),
		strictyaml.Key("rules", strictyaml.Value(&m.Rules, parseFile), "everything is allowed",
			"file of [what clients may](mqtt.md#rules) publish and subscribe to, and of their client ids"),
		strictyaml.Key("anonymous", strictyaml.Value(&m.Anonymous, parseAnonymous), "loopback; with open: true, and neither users nor token nor devices_file, anyone",
			"clients that need not prove who they are: `loopback` (those on this machine), `never` (none) or `anyone` (only with `open: true`)"),
		strictyaml.Key("max_packet", strictyaml.Number(&m.MaxPacket, 1<<10, 256<<20), "262144 (256 KiB)", "bytes of one packet"),
		strictyaml.Key("session_expiry", strictyaml.Span(&m.SessionExpiry, time.Second, aYear+24*time.Hour), "24h",
			"longest time for which the session of a client is kept that is away"),
		strictyaml.Key("max_queue", strictyaml.Number(&m.MaxQueue, 1, 60_000), "1000", "messages that a session holds for its client; more are dropped, and counted"),
		strictyaml.Key("max_retained", strictyaml.Number(&m.MaxRetained, 1, 1<<30), "100000", "retained messages; more are delivered, but not kept"),
		strictyaml.Key("max_retained_bytes", strictyaml.Number(&m.MaxRetainedBytes, 1<<10, 1<<40), "268435456 (256 MiB)", "their bytes"),
		strictyaml.Key("route", strictyaml.Value(&m.Routed, parseRoute), "local",
			"how far messages go: `local` (the clients of this process), `cluster` (those of the judge and of [all its ears](../run/cluster.md#mqtt-messages-between-ears)). "+
				"A server needs `link.listen` for it, an ear a port that speaks `mqtt`"),
	}
}

// bridgeFields lists the keys of a bridge.
func bridgeFields(b *Bridge) []strictyaml.Field {
	return []strictyaml.Field{
		strictyaml.Key("name", strictyaml.Value(&b.Name, parseBridgeName), "mqtt:HOST, with the port where two are the same",
			"of the source, up to 128 bytes, unique; not `broker`, `mqtt`, `line`, `http`, `gateway`, `gateway-udp` or `gateway-tls`"),
		strictyaml.Key("url", strictyaml.Value(&b.URL, parseBrokerURL), "required",
			"`SCHEME://HOST:PORT`; the schemes are `mqtt` (or `tcp`), which is the default, `mqtts` (or `tls`, `ssl`), `ws` and `wss`, which may have a path. The default port is the usual one").
			Needed("a bridge needs one, as in mqtt://broker.example:1883"),
		strictyaml.Key("username", strictyaml.Text(&b.Username, "username", 1024), "none", "login name"),
		strictyaml.Key("password_file", strictyaml.Value(&b.PasswordFile, parseFile), "HOLTER_MQTT_PASSWORD", "file with the password on its first line; read again for each connection"),
		strictyaml.Key("client_id", strictyaml.Text(&b.ClientID, "client id", 128), "holter- and a random text",
			"up to 128 bytes; unique at the broker, but for [servers of one fleet](mqtt.md#when-another-server-takes-over): with PostgreSQL or MariaDB, the default is made from the database and the name of the bridge"),
		strictyaml.Key("tls.ca", strictyaml.Value(&b.Files.CA, parseFile), "the machine's", "PEM file: trusted authorities"),
		strictyaml.Key("tls.cert", strictyaml.Value(&b.Files.Cert, parseFile), "none", "PEM file: the client certificate for the broker"),
		strictyaml.Key("tls.key", strictyaml.Value(&b.Files.Key, parseFile), "none", "PEM file: its key"),
		strictyaml.Key("tls.server_name", strictyaml.Text(&b.Files.ServerName, "name", 128), "the host of the url", "name that must be in the broker's certificate"),
		strictyaml.Key("presets", presetList(&b.Presets), "", "list of names, see `holter monitor --list-presets`; `presets` or `rules` are required"),
		strictyaml.Key("rules", strictyaml.Entries(&b.Rules, "write a rule", rule), "", "list of [rules](#rules)"),
		strictyaml.Key("share", strictyaml.Value(&b.Share, parseShareName), "not shared",
			"group of a shared subscription, for brokers that allow nothing else. Each message goes to one member of the group only, so another member takes heartbeats away"),
		strictyaml.Key("qos", strictyaml.Plain(&b.QoS, parseQoS), "0", "least quality of service to subscribe with, 0 or 1; rules may raise it"),
		strictyaml.Key("watermark", strictyaml.Value(&b.Watermark, parseWatermark), "holter/watermark/ and the client id",
			"topic of a message that the bridge publishes to itself, to know that everything before it was read. "+
				"`off`, for brokers that forbid it: the bridge then relies on the broker's answers and an empty queue. It also does so if the message does not come back"),
		strictyaml.Key("queue", strictyaml.Number(&b.Queue, 64, 10_000_000), "65536, and no more than 64 MiB", "messages that may wait; more are dropped, and the source is deaf for that time"),
		strictyaml.Key("max_payload", strictyaml.Number(&b.MaxPayload, 64, 128<<20), "262144 (256 KiB)", "bytes of one message; larger ones are counted, and otherwise ignored"),
		strictyaml.Key("reconnect_max", strictyaml.Span(&b.ReconnectMax, 100*time.Millisecond, time.Hour), "30s", "longest pause between two attempts to connect"),
	}
}

// bridges stores the file's list of bridges that have a usable URL.
func bridges(all *[]Bridge) strictyaml.Setter {
	return strictyaml.Setter{To: all, Read: func(d *strictyaml.Reader, path string, n ast.Node) {
		for i, item := range d.Items(path, n, "") {
			if b := bridge(d, strictyaml.Element(path, i), item); b.URL != "" {
				*all = append(*all, b)
			}
		}
	}}
}

func bridge(d *strictyaml.Reader, path string, n ast.Node) (b Bridge) {
	b.at = d.Place(path, n)
	seen := d.Mapping(path, n, bridgeFields(&b))
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

func presetList(all *[]string) strictyaml.Setter {
	return strictyaml.Entries(all, "name a preset", func(d *strictyaml.Reader, path string, n ast.Node) (name string) {
		strictyaml.Value(&name, ParsePreset).Read(d, path, n)
		if name != "" && slices.Contains(*all, name) {
			d.Fail(path, n, "%s is named twice", strictyaml.Quote(name))
		}
		return name
	})
}

// reportFields lists the keys of where verdicts are published.
func reportFields(r *Report) []strictyaml.Field {
	return []strictyaml.Field{
		strictyaml.Key("to", strictyaml.Text(&r.To, "name", 128), "nowhere",
			"`broker`, for the broker inside `holter serve`, which needs a port that speaks `mqtt`, or the `name` of a bridge; needed with the others"),
		strictyaml.Key("prefix", strictyaml.Value(&r.Prefix, parsePrefix), "holter", "first levels of the topics"),
		strictyaml.Key("home_assistant", strictyaml.Flag(&r.HomeAssistant), "false", "also publish a connectivity sensor for each device, by the discovery of Home Assistant"),
		strictyaml.Key("discovery_prefix", strictyaml.Value(&r.DiscoveryPrefix, parsePrefix), "homeassistant", "first levels of the discovery topics"),
	}
}

// checkReportTo rejects a report that says something, but not where to.
func checkReportTo(d *strictyaml.Reader) {
	if given := d.Has("report.prefix") || d.Has("report.home_assistant") || d.Has("report.discovery_prefix"); given && !d.Has("report.to") {
		d.FailAt("report", "to is missing; write broker, or the name of a bridge")
	}
}
