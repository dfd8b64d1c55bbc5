package config

import (
	"reflect"
	"slices"

	"github.com/holter-iot/holter/internal/playbook"
)

// Effect says how a setting comes in force that has changed in the file.
type Effect uint8

const (
	// Live: at once, by a reload.
	Live Effect = iota
	// Rebuilt: a standby takes it by a reload, for when it judges; any other process needs a restart.
	Rebuilt
	// Fixed: every process needs a restart.
	Fixed
)

// setting is a key of the file, or of the files of ears: how it comes in force, and where it is in a Config.
type setting struct {
	key    string
	effect Effect
	field  func(c *Config) any              // a pointer to it
	live   func(before, after *Config) bool // narrows Live down: otherwise it is Rebuilt; nil: always
}

// effects lists all keys, in the order of the reference. A new setting decides here how it comes in force.
func effects() []setting {
	all := slices.Concat(serverEffects(), policyEffects(), gatewayEffects(), mqttEffects(), storeEffects())
	return append(all,
		setting{key: "judges", effect: Rebuilt, field: func(c *Config) any { return &c.Judges }},
		setting{key: "drain.delay", field: func(c *Config) any { return &c.Drain.Delay }},
		setting{key: "drain.limit", field: func(c *Config) any { return &c.Drain.Limit }},
	)
}

func serverEffects() []setting {
	return []setting{
		{"listen", Live, func(c *Config) any { return &c.Listen }, onlyLimits},
		{"http", Fixed, func(c *Config) any { return &c.HTTP }, nil},
		{"http_rate", Live, func(c *Config) any { return &c.HTTPRate }, nil},
		{"http_console", Rebuilt, func(c *Config) any { return &c.Console }, nil},
		{"http_allow_origins", Live, func(c *Config) any { return &c.Origins }, nil},
		{"tls.cert", Fixed, func(c *Config) any { return &c.TLS.Cert }, nil},
		{"tls.key", Fixed, func(c *Config) any { return &c.TLS.Key }, nil},
		{"data", Fixed, func(c *Config) any { return &c.Data }, nil},
		{"database", Fixed, func(c *Config) any { return &c.Database }, nil},
		{"node", Fixed, func(c *Config) any { return &c.Node }, nil},
		{"advertise", Fixed, func(c *Config) any { return &c.Advertise }, nil},
		{"accept_loss", Fixed, func(c *Config) any { return &c.AcceptLoss }, nil},
		{"checkpoint", Rebuilt, func(c *Config) any { return &c.Store.Checkpoint }, nil},
		{"token", Live, func(c *Config) any { return &c.Token }, sameAccess},
		{"devices_file", Rebuilt, func(c *Config) any { return &c.DevicesFile }, nil},
		{"open", Rebuilt, func(c *Config) any { return &c.Open }, nil},
		{"reuse_port", Rebuilt, func(c *Config) any { return &c.Gateway.ReusePort }, nil},
		{"min_timeout", Live, func(c *Config) any { return &c.Fleet.MinTimeout }, nil},
		{"max_devices", Live, func(c *Config) any { return &c.Fleet.MaxDevices }, nil},
		{"forget_after", Live, func(c *Config) any { return &c.ForgetAfter }, nil},
		{"forget_unverified_after", Live, func(c *Config) any { return &c.ForgetUnverified }, nil},
		{"log.level", Live, func(c *Config) any { return &c.Log.Level }, nil},
		{"log.format", Live, func(c *Config) any { return &c.Log.Format }, nil},
	}
}

func policyEffects() []setting {
	return []setting{
		{"policy.interval", Live, func(c *Config) any { return &c.Fleet.Policy.Interval }, nil},
		{"policy.timeout", Live, func(c *Config) any { return &c.Fleet.Policy.Timeout }, nil},
		{"policy.late_after", Live, func(c *Config) any { return &c.Fleet.Policy.LateAfter }, nil},
		{"policy.close_grace", Live, func(c *Config) any { return &c.Fleet.Policy.CloseGrace }, nil},
		{"policy.sleep_limit", Live, func(c *Config) any { return &c.Fleet.Policy.SleepLimit }, nil},
		{"policy.probes", Live, func(c *Config) any { return &c.Fleet.Policy.Probes }, nil},
		{"policy.probe_wait", Live, func(c *Config) any { return &c.Fleet.Policy.ProbeWait }, nil},
		{"policy.recover_after", Live, func(c *Config) any { return &c.Fleet.Policy.RecoverAfter }, nil},
		{"policy.quiet", Live, func(c *Config) any { return &c.Fleet.Policy.Quiet }, nil},
		{"policy.expect", Live, func(c *Config) any { return &c.Fleet.Policy.Expect }, nil},
		{"policy.learn.mode", Live, func(c *Config) any { return &c.Fleet.Policy.Learn }, nil},
		{"policy.learn.budget", Live, func(c *Config) any { return &c.Fleet.Policy.LearnBudget }, nil},
		{"policy.learn.max", Live, func(c *Config) any { return &c.Fleet.Policy.LearnMax }, nil},
		{"groups", Live, func(c *Config) any { return &c.Fleet.Groups }, nil},
		{"devices", Live, func(c *Config) any { return &c.Fleet.Devices }, nil},
		{"flapping.threshold", Live, func(c *Config) any { return &c.Fleet.Flapping.Threshold }, nil},
		{"flapping.window", Live, func(c *Config) any { return &c.Fleet.Flapping.Window }, nil},
		{"source.reconnect_grace", Rebuilt, func(c *Config) any { return &c.Source.ReconnectGrace }, nil},
		{"source.reconnect_grace_max", Rebuilt, func(c *Config) any { return &c.Source.ReconnectGraceMax }, nil},
	}
}

func gatewayEffects() []setting {
	return []setting{
		{"gateway.max_connections", Live, func(c *Config) any { return &c.Gateway.MaxConnections }, nil},
		{"gateway.max_connections_per_address", Live, func(c *Config) any { return &c.Gateway.MaxPerAddress }, stillCounted},
		{"gateway.accept_rate", Live, func(c *Config) any { return &c.Gateway.AcceptRate }, nil},
		{"gateway.handshake_timeout", Live, func(c *Config) any { return &c.Gateway.HandshakeTimeout }, nil},
		{"gateway.idle_timeout", Rebuilt, func(c *Config) any { return &c.Gateway.IdleTimeout }, nil},
		{"gateway.max_line", Rebuilt, func(c *Config) any { return &c.MaxLine }, nil},
		{"gateway.keepalive", Live, func(c *Config) any { return &c.Gateway.KeepAlive }, nil},
		{"link.listen", Fixed, func(c *Config) any { return &c.Link.Listen }, nil},
		{"link.tls.cert", Fixed, func(c *Config) any { return &c.Link.TLS.Cert }, nil},
		{"link.tls.key", Fixed, func(c *Config) any { return &c.Link.TLS.Key }, nil},
		{"link.tls.ca", Fixed, func(c *Config) any { return &c.Link.TLS.Clients }, nil},
		{"link.tls.crl", Fixed, func(c *Config) any { return &c.Link.TLS.Revoked }, nil},
	}
}

func mqttEffects() []setting {
	return []setting{
		{"mqtt.listen", Rebuilt, func(c *Config) any { return &c.mqttListen }, nil},
		{"mqtt.users", Rebuilt, func(c *Config) any { return &c.MQTT.Users }, nil},
		{"mqtt.rules", Rebuilt, func(c *Config) any { return &c.MQTT.Rules }, nil},
		{"mqtt.anonymous", Rebuilt, func(c *Config) any { return &c.MQTT.Anonymous }, nil},
		{"mqtt.max_packet", Rebuilt, func(c *Config) any { return &c.MQTT.MaxPacket }, nil},
		{"mqtt.session_expiry", Rebuilt, func(c *Config) any { return &c.MQTT.SessionExpiry }, nil},
		{"mqtt.max_queue", Rebuilt, func(c *Config) any { return &c.MQTT.MaxQueue }, nil},
		{"mqtt.max_retained", Rebuilt, func(c *Config) any { return &c.MQTT.MaxRetained }, nil},
		{"mqtt.max_retained_bytes", Rebuilt, func(c *Config) any { return &c.MQTT.MaxRetainedBytes }, nil},
		{"mqtt.route", Rebuilt, func(c *Config) any { return &c.MQTT.Routed }, nil},
		{"bridges", Rebuilt, func(c *Config) any { return &c.Bridges }, nil},
		{"report.to", Rebuilt, func(c *Config) any { return &c.Report.To }, nil},
		{"report.prefix", Rebuilt, func(c *Config) any { return &c.Report.Prefix }, nil},
		{"report.home_assistant", Rebuilt, func(c *Config) any { return &c.Report.HomeAssistant }, nil},
		{"report.discovery_prefix", Rebuilt, func(c *Config) any { return &c.Report.DiscoveryPrefix }, nil},
	}
}

func storeEffects() []setting {
	return []setting{
		{"events.keep", Live, func(c *Config) any { return &c.Store.Keep }, nil},
		{"events.max_age", Live, func(c *Config) any { return &c.Store.MaxAge }, nil},
		{"events.max_bytes", Live, func(c *Config) any { return &c.Store.MaxBytes }, nil},
		{"gaps.max_age", Live, func(c *Config) any { return &c.Store.GapsMaxAge }, nil},
		{"gaps.max_bytes", Live, func(c *Config) any { return &c.Store.GapsMaxBytes }, nil},
		{"jobs.keep", Live, func(c *Config) any { return &c.Jobs.Keep }, nil},
		{"jobs.max_age", Live, func(c *Config) any { return &c.Jobs.MaxAge }, nil},
		{"playbooks", Live, func(c *Config) any { return &c.Playbooks }, nil},
	}
}

// EffectOf returns how a key of the file comes in force; false if there is no such key.
func EffectOf(key string) (Effect, bool) {
	for _, s := range effects() {
		if s.key == key {
			return s.effect, true
		}
	}
	return 0, false
}

// same reports whether two configurations agree in a setting, wherever it was written.
func (s *setting) same(a, b *Config) bool {
	switch s.key {
	case "listen":
		return slices.EqualFunc(a.Listen, b.Listen, sameListener)
	case "bridges":
		return slices.EqualFunc(a.Bridges, b.Bridges, func(a, b Bridge) bool {
			a.at, b.at = spot{}, spot{}
			return reflect.DeepEqual(a, b)
		})
	case "playbooks":
		return slices.EqualFunc(a.Playbooks, b.Playbooks, func(a, b playbook.Playbook) bool {
			a.Place, b.Place = "", ""
			return reflect.DeepEqual(a, b)
		})
	}
	return reflect.DeepEqual(s.field(a), s.field(b))
}

// set gives a configuration what another one has of a setting.
func (s *setting) set(to, from *Config) {
	reflect.ValueOf(s.field(to)).Elem().Set(reflect.ValueOf(s.field(from)).Elem())
}

func sameListener(a, b Listener) bool {
	a.at, b.at = spot{}, spot{}
	return reflect.DeepEqual(a, b)
}

// onlyLimits reports whether the device ports differ in how many devices may come in there, and in nothing else.
// A port that counts its devices goes on to count them, and no other begins to.
func onlyLimits(before, after *Config) bool {
	return slices.EqualFunc(before.Listen, after.Listen, func(a, b Listener) bool {
		if (a.MaxDevices > 0) != (b.MaxDevices > 0) {
			return false
		}
		a.MaxDevices = b.MaxDevices
		return sameListener(a, b)
	})
}

// sameAccess reports whether nothing else changes about who is let in, which would have to change together with
// the token: otherwise a port would be open in between.
func sameAccess(before, after *Config) bool {
	for _, s := range effects() {
		switch s.key {
		case "listen", "devices_file", "open", "mqtt.users", "mqtt.anonymous", "mqtt.listen":
			if !s.same(before, after) && (s.live == nil || !s.live(before, after)) {
				return false
			}
		}
	}
	return before.DevicesFile == "" && before.Token.IsSet() == after.Token.IsSet()
}

// stillCounted reports whether the connections of each address are counted, before and after.
func stillCounted(before, after *Config) bool {
	return before.Gateway.MaxPerAddress > 0 && after.Gateway.MaxPerAddress > 0
}
