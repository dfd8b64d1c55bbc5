package config

import (
	"cmp"
	"fmt"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/duration"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/strictyaml"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// defaultTimeout is the timeout of the fleet's policy where none is given.
const defaultTimeout = 90 * time.Second

// defaultProbeWait is the default of probe_wait in a policy with probes.
const defaultProbeWait = 5 * time.Second

// aYear is the longest duration of a policy.
const aYear = 365 * 24 * time.Hour

// root lists the keys of the file.
func (r *resolver) root(d *strictyaml.Reader) []strictyaml.Field {
	c := &r.cfg
	return []strictyaml.Field{
		{Key: "listen", Set: listenList(d, &c.Listen)},
		{Key: "http", Set: strictyaml.Value(d, &c.HTTP, parseAddress)},
		{Key: "http_rate", Set: strictyaml.Plain(d, &c.HTTPRate, count{min: 1, max: 1_000_000, off: true}.parse)},
		{Key: "http_console", Set: strictyaml.Value(d, &c.Console, parseConsole)},
		{Key: "http_allow_origins", Set: list(d, &c.Origins, "write an origin", parseOrigin)},
		{Key: "tls", Fields: certificate(d, &c.TLS)},
		{Key: "data", Set: strictyaml.Value(d, &c.Data, parseData)},
		{Key: "database", Set: strictyaml.Value(d, &c.Database, parseDatabase)},
		{Key: "node", Set: strictyaml.Value(d, &c.Node, parseNode)},
		{Key: "advertise", Set: strictyaml.Value(d, &c.Advertise, parseAdvertise)},
		{Key: "checkpoint", Set: strictyaml.Value(d, &c.Store.Checkpoint, span{min: 100 * time.Millisecond, max: time.Hour}.parse)},
		{Key: "accept_loss", Set: strictyaml.Flag(d, &c.AcceptLoss)},
		{Key: "open", Set: strictyaml.Flag(d, &c.Open)},
		{Key: "token", Set: strictyaml.Value(d, &c.Token, parseToken)},
		{Key: "devices_file", Set: strictyaml.Value(d, &c.DevicesFile, parseFile)},
		{Key: "reuse_port", Set: strictyaml.Flag(d, &c.Gateway.ReusePort)},
		{Key: "log", Fields: []strictyaml.Field{
			{Key: "level", Set: strictyaml.Value(d, &c.Log.Level, parseLevel)},
			{Key: "format", Set: strictyaml.Value(d, &c.Log.Format, parseFormat)},
		}},
		{Key: "policy", Set: policy(d, &c.Fleet.Policy, defaultTimeout)},
		{Key: "min_timeout", Set: strictyaml.Value(d, &c.Fleet.MinTimeout, span{min: time.Millisecond, max: defaultTimeout}.parse)},
		{Key: "max_devices", Set: strictyaml.Plain(d, &c.Fleet.MaxDevices, count{min: 1, max: liveness.MaxDevices}.parse)},
		{Key: "forget_after", Set: strictyaml.Value(d, &c.ForgetAfter, span{min: time.Minute, max: aYear, off: true}.parse)},
		{Key: "forget_unverified_after", Set: strictyaml.Value(d, &c.ForgetUnverified, span{min: time.Minute, max: aYear, off: true}.parse)},
		{Key: "groups", Set: groups(d, &c.Fleet.Groups)},
		{Key: "devices", Set: devices(d, &c.Fleet.Devices)},
		{Key: "flapping", Fields: []strictyaml.Field{
			{Key: "threshold", Set: strictyaml.Plain(d, &c.Fleet.Flapping.Threshold, count{min: 2, max: 64}.parse)},
			{Key: "window", Set: strictyaml.Value(d, &c.Fleet.Flapping.Window, span{min: time.Second, max: aYear}.parse)},
		}},
		{Key: "source", Fields: sourceFields(d, c)},
		{Key: "gateway", Fields: gatewayFields(d, c)},
		{Key: "link", Fields: linkFields(d, &c.Link)},
		{Key: "judges", Set: list(d, &c.Judges, "write where a judge is", parseJudge)},
		{Key: "drain", Fields: drainFields(d, &c.Drain)},
		{Key: "mqtt", Fields: mqttFields(d, &r.mqttListen, &c.MQTT)},
		{Key: "bridges", Set: bridgeList(d, &c.Bridges)},
		{Key: "report", Set: reportSection(d, &c.Report)},
		{Key: "events", Fields: eventsFields(d, &c.Store)},
		{Key: "gaps", Fields: gapsFields(d, &c.Store)},
		{Key: "jobs", Fields: []strictyaml.Field{
			{Key: "keep", Set: strictyaml.Plain(d, &c.Jobs.Keep, count{max: 100_000_000}.parse)},
			{Key: "max_age", Set: strictyaml.Value(d, &c.Jobs.MaxAge, span{min: time.Minute, max: aYear}.parse)},
		}},
		{Key: "playbooks", Set: playbookList(d, &c.Playbooks)},
	}
}

func sourceFields(d *strictyaml.Reader, c *Config) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "reconnect_grace", Set: strictyaml.Value(d, &c.Source.ReconnectGrace, span{min: time.Millisecond, max: aYear}.parse)},
		{Key: "reconnect_grace_max", Set: strictyaml.Value(d, &c.Source.ReconnectGraceMax, span{min: time.Millisecond, max: aYear}.parse)},
	}
}

func eventsFields(d *strictyaml.Reader, c *store.Config) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "keep", Set: strictyaml.Plain(d, &c.Keep, count{min: 1, max: 1_000_000_000}.parse)},
		{Key: "max_age", Set: strictyaml.Value(d, &c.MaxAge, span{min: time.Minute, max: 20 * aYear}.parse)},
		{Key: "max_bytes", Set: strictyaml.Plain(d, &c.MaxBytes, count{min: 1 << 20, max: 1 << 40}.parse)},
	}
}

func gapsFields(d *strictyaml.Reader, c *store.Config) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "max_age", Set: strictyaml.Value(d, &c.GapsMaxAge, span{min: time.Hour, max: aYear}.parse)},
		{Key: "max_bytes", Set: strictyaml.Plain(d, &c.GapsMaxBytes, count{min: 1 << 20, max: 1 << 40}.parse)},
	}
}

func gatewayFields(d *strictyaml.Reader, c *Config) []strictyaml.Field {
	g := &c.Gateway
	const million, mebibyte = 1_000_000, 1 << 20
	return []strictyaml.Field{
		{Key: "max_connections", Set: strictyaml.Plain(d, &g.MaxConnections, count{min: 1, max: 100 * million}.parse)},
		{Key: "max_connections_per_address", Set: strictyaml.Plain(d, &g.MaxPerAddress, count{min: 1, max: 100 * million, off: true}.parse)},
		{Key: "accept_rate", Set: strictyaml.Plain(d, &g.AcceptRate, count{min: 1, max: 10 * million}.parse)},
		{Key: "handshake_timeout", Set: strictyaml.Value(d, &g.HandshakeTimeout, span{min: time.Millisecond, max: time.Hour}.parse)},
		{Key: "idle_timeout", Set: strictyaml.Value(d, &g.IdleTimeout, span{min: time.Millisecond, max: aYear, off: true}.parse)},
		{Key: "max_line", Set: strictyaml.Plain(d, &c.MaxLine, count{min: 64, max: mebibyte}.parse)},
		{Key: "keepalive", Set: strictyaml.Value(d, &g.KeepAlive, span{min: time.Second, max: 9 * time.Hour, off: true}.parse)},
	}
}

// certificate lists the files of a certificate.
func certificate(d *strictyaml.Reader, files *cert.Files) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "cert", Set: strictyaml.Value(d, &files.Cert, parseFile)},
		{Key: "key", Set: strictyaml.Value(d, &files.Key, parseFile)},
	}
}

// policy stores the fields of a policy and checks them against each other. timeout is the default if
// the mapping has none; 0 if it is unknown.
func policy(d *strictyaml.Reader, p *liveness.Policy, timeout time.Duration) strictyaml.Setter {
	some := span{min: time.Millisecond, max: aYear}
	late := some
	late.off = true
	fields := []strictyaml.Field{
		{Key: "interval", Set: strictyaml.Value(d, &p.Interval, some.parse)},
		{Key: "timeout", Set: strictyaml.Value(d, &p.Timeout, some.orNever)},
		{Key: "late_after", Set: strictyaml.Value(d, &p.LateAfter, late.parse)},
		{Key: "close_grace", Set: strictyaml.Value(d, &p.CloseGrace, some.parse)},
		{Key: "sleep_limit", Set: strictyaml.Value(d, &p.SleepLimit, some.parse)},
		{Key: "probes", Set: strictyaml.Plain(d, &p.Probes, count{max: 100}.parse)},
		{Key: "probe_wait", Set: strictyaml.Value(d, &p.ProbeWait, some.parse)},
		{Key: "recover_after", Set: strictyaml.Plain(d, &p.RecoverAfter, count{min: 1, max: 255}.parse)},
		{Key: "quiet", Set: quiet(d, &p.Quiet)},
		{Key: "expect", Set: strictyaml.Value(d, &p.Expect, parseExpect)},
		{Key: "learn", Fields: []strictyaml.Field{
			{Key: "mode", Set: strictyaml.Value(d, &p.Learn, judgement.ParseLearnMode)},
			{Key: "budget", Set: strictyaml.Value(d, &p.LearnBudget, judgement.ParseLearnBudget)},
			{Key: "max", Set: strictyaml.Value(d, &p.LearnMax, span{min: time.Second, max: judgement.MaxLearned}.parse)},
		}},
	}
	return func(path string, n ast.Node) {
		seen := d.Mapping(path, n, fields)
		checked, limit := *p, duration.String(p.Timeout)
		if seen["timeout"] == nil && p.Expect != "" {
			timeout = time.Hour
		}
		if seen["timeout"] == nil {
			checked.Timeout, limit = timeout, duration.String(timeout)+", the default"
		}
		checkPolicy(d, path, seen, checked, limit)
	}
}

// quiet stores a list of windows of the day.
func quiet(d *strictyaml.Reader, text *string) strictyaml.Setter {
	return func(path string, n ast.Node) {
		var windows []string
		before := d.Mistakes()
		list(d, &windows, `write a window, as in ["22:00-06:00 Europe/Berlin"]`, parseQuiet)(path, n)
		if d.Mistakes() > before {
			return
		}
		joined, err := judgement.ParseQuiet(windows)
		if err != nil { // of all together
			d.Fail(path, n, "%v", err)
			return
		}
		*text = joined
	}
}

func parseExpect(text string) (string, error) { return judgement.ParseExpect(text, "") }

func parseQuiet(window string) (string, error) { return judgement.ParseQuiet([]string{window}) }

// checkPolicy compares the durations with the timeout, where there is one.
func checkPolicy(d *strictyaml.Reader, path string, seen map[string]ast.Node, p liveness.Policy, limit string) {
	if p.Timeout == 0 {
		return
	}
	if p.LateAfter >= p.Timeout {
		d.Fail(strictyaml.Join(path, "late_after"), seen["late_after"],
			"%s is not shorter than the timeout (%s): a device would be offline before it is late", duration.String(p.LateAfter), limit)
	}
	if p.Interval >= p.Timeout && p.Expect == "" {
		d.Fail(strictyaml.Join(path, "interval"), seen["interval"],
			"%s is not shorter than the timeout (%s): a device would go offline between two heartbeats", duration.String(p.Interval), limit)
	}
	if span := time.Duration(p.Probes) * cmp.Or(p.ProbeWait, defaultProbeWait); span >= p.Timeout {
		d.Fail(strictyaml.Join(path, "probes"), cmp.Or(seen["probes"], seen["probe_wait"]),
			"%d × probe_wait (%s) is not shorter than the timeout (%s), but the first question comes so long before the verdict",
			p.Probes, duration.String(cmp.Or(p.ProbeWait, defaultProbeWait)), limit)
	}
}

func devices(d *strictyaml.Reader, all *map[string]liveness.Policy) strictyaml.Setter {
	return func(path string, n ast.Node) {
		pairs := d.Pairs(path, n)
		if len(pairs) == 0 {
			return
		}
		*all = make(map[string]liveness.Policy, len(pairs))
		for _, pair := range pairs {
			id, err := parseID(pair.Key)
			if err != nil {
				d.Fail(path, pair.At, "%v", err)
				continue
			}
			var p liveness.Policy
			policy(d, &p, 0)(devicePath(path, id), pair.Value)
			(*all)[id] = p
		}
	}
}

func devicePath(path, id string) string { return fmt.Sprintf("%s[%q]", path, id) }
