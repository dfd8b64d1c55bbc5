package config

import (
	"fmt"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// defaultTimeout is the timeout of the fleet's policy where none is given.
const defaultTimeout = 90 * time.Second

// aYear bounds every duration of a policy: what is longer is a mistake.
const aYear = 365 * 24 * time.Hour

// value stores a scalar that parse understands.
func value[T any](d *decoder, dst *T, parse func(string) (T, error)) setter {
	return func(path string, n ast.Node) {
		text, ok := d.text(path, n)
		if !ok {
			return
		}
		v, err := parse(text)
		if err != nil {
			d.fail(path, n, "%v", err)
			return
		}
		*dst = v
	}
}

// plain is value for numbers and booleans, which must not be in quotes.
func plain[T any](d *decoder, dst *T, parse func(string) (T, error)) setter {
	set := value(d, dst, parse)
	return func(path string, n ast.Node) {
		if v := d.resolve(path, n); v != nil && quoted(v) {
			d.fail(path, n, "is a text; write the value without quotes")
			return
		}
		set(path, n)
	}
}

// section stores a mapping whose keys are fields.
func section(d *decoder, fields ...field) setter {
	return func(path string, n ast.Node) { d.mapping(path, n, fields) }
}

// root lists the keys of the file.
func (r *resolver) root(d *decoder) []field {
	c := &r.cfg
	return []field{
		{"listen", r.listenList(d)},
		{"http", r.httpAddress(d)},
		{"http_rate", plain(d, &c.HTTPRate, count{min: 1, max: 1_000_000, off: true}.parse)},
		{"tls", r.tls(d)},
		{"data", value(d, &c.Data, parseData)},
		{"database", value(d, &c.Database, parseDatabase)},
		{"checkpoint", value(d, &c.Checkpoint, span{min: 100 * time.Millisecond, max: time.Hour}.parse)},
		{"open", plain(d, &c.Open, parseBool)},
		{"token", value(d, &c.Token, parseToken)},
		{"reuse_port", plain(d, &c.ReusePort, parseBool)},
		{"log", section(d,
			field{"level", value(d, &c.Log.Level, parseLevel)},
			field{"format", value(d, &c.Log.Format, parseFormat)},
		)},
		{"policy", fleetPolicy(d, &c.Policy)},
		{"groups", groups(d, &c.Groups)},
		{"devices", devices(d, &c.Devices)},
		{"flapping", section(d,
			field{"threshold", plain(d, &c.Flapping.Threshold, count{min: 2, max: 64}.parse)},
			field{"window", value(d, &c.Flapping.Window, span{min: time.Second, max: aYear}.parse)},
		)},
		{"source", section(d,
			field{"max_gap", value(d, &c.Source.MaxGap, span{min: time.Millisecond, max: time.Hour}.parse)},
			field{"reconnect_allowance", value(d, &c.Source.ReconnectAllowance, span{min: time.Millisecond, max: aYear}.parse)},
		)},
		{"gateway", gateway(d, &c.Gateway)},
		{"broker", r.brokerSection(d)},
		{"bridges", r.bridgeList(d)},
		{"report", r.reportSection(d)},
		{"events", section(d,
			field{"keep", plain(d, &c.Events.Keep, count{min: 1, max: 1_000_000_000}.parse)},
			field{"max_age", value(d, &c.Events.MaxAge, span{min: time.Minute, max: 20 * aYear}.parse)},
			field{"cache", plain(d, &c.Events.Cache, count{min: 1000, max: 100_000_000}.parse)},
		)},
	}
}

func gateway(d *decoder, g *Gateway) setter {
	const million, mebibyte = 1_000_000, 1 << 20
	return section(d,
		field{"max_connections", plain(d, &g.MaxConnections, count{min: 1, max: 100 * million}.parse)},
		field{"max_connections_per_address", plain(d, &g.MaxConnectionsPerAddress, count{min: 1, max: 100 * million, off: true}.parse)},
		field{"accept_rate", plain(d, &g.AcceptRate, count{min: 1, max: 10 * million}.parse)},
		field{"handshake_timeout", value(d, &g.HandshakeTimeout, span{min: time.Millisecond, max: time.Hour}.parse)},
		field{"idle_timeout", value(d, &g.IdleTimeout, span{min: time.Millisecond, max: aYear, off: true}.parse)},
		field{"max_line", plain(d, &g.MaxLine, count{min: 64, max: mebibyte}.parse)},
		field{"max_outbound", plain(d, &g.MaxOutbound, count{min: 1024, max: 1024 * mebibyte}.parse)},
		field{"close_rate", plain(d, &g.CloseRate, count{min: 1, max: 10 * million}.parse)},
		field{"keepalive", value(d, &g.KeepAlive, span{min: time.Second, max: 9 * time.Hour, off: true}.parse)},
		field{"user_timeout", value(d, &g.UserTimeout, span{min: time.Millisecond, max: 24 * time.Hour}.parse)},
	)
}

// policy stores the fields of a policy and checks them against each other.
// timeout is what holds where the mapping gives none; 0 is not known.
func policy(d *decoder, p *Policy, timeout time.Duration) setter {
	some := span{min: time.Millisecond, max: aYear}
	late := some
	late.off = true
	fields := []field{
		{"interval", value(d, &p.Interval, some.parse)},
		{"timeout", value(d, &p.Timeout, some.orNever)},
		{"late_after", value(d, &p.LateAfter, late.parse)},
		{"close_grace", value(d, &p.CloseGrace, some.parse)},
		{"sleep_limit", value(d, &p.SleepLimit, some.parse)},
	}
	return func(path string, n ast.Node) {
		seen := d.mapping(path, n, fields)
		limit := short(p.Timeout)
		if p.Timeout == 0 && seen["timeout"] == nil {
			p := *p
			p.Timeout = timeout
			limit = short(timeout) + ", the default"
			checkPolicy(d, path, seen, p, limit)
			return
		}
		checkPolicy(d, path, seen, *p, limit)
	}
}

// checkPolicy compares the durations with the timeout, where there is one.
func checkPolicy(d *decoder, path string, seen map[string]ast.Node, p Policy, limit string) {
	if p.Timeout == 0 {
		return
	}
	if p.LateAfter >= p.Timeout {
		d.fail(join(path, "late_after"), seen["late_after"],
			"%s is not shorter than the timeout (%s): a device would be offline before it is late", short(p.LateAfter), limit)
	}
	if p.Interval >= p.Timeout {
		d.fail(join(path, "interval"), seen["interval"],
			"%s is not shorter than the timeout (%s): a device would go offline between two heartbeats", short(p.Interval), limit)
	}
}

func fleetPolicy(d *decoder, p *Policy) setter { return policy(d, p, defaultTimeout) }

func devices(d *decoder, all *map[string]Policy) setter {
	return func(path string, n ast.Node) {
		pairs := d.pairs(path, n)
		if len(pairs) == 0 {
			return
		}
		*all = make(map[string]Policy, len(pairs))
		for _, pair := range pairs {
			id, err := parseID(pair.key)
			if err != nil {
				d.fail(path, pair.at, "%v", err)
				continue
			}
			var p Policy
			policy(d, &p, 0)(fmt.Sprintf("%s[%q]", path, id), pair.value)
			(*all)[id] = p
		}
	}
}
