// Package archtest_test holds the direction of the imports: cmd, edges,
// services, liveness, engine, each of them below the one before.
//
// It reads the source and compiles nothing, so it also speaks while some other
// package is broken. What only another platform builds is not seen.
package archtest_test

import "slices"

// A table says for each part of the module which other parts it may import, in
// its tests too. A part is a folder with all that is below it, but for those
// folders that are parts themselves; within a part imports are free.
type table map[string][]string

// directions is the table of this module. What a part may import from outside
// the module is for the depguard rules in .golangci.yml to say.
func directions() table {
	belowServices := []string{"dag", "dualmap", "internal", "internal/keep", "internal/operate", "liveness", "liveness/judgement", "schedule", "timer"}
	belowEdges := slices.Concat(belowServices, []string{"internal/replay/availability", "internal/cluster", "internal/delivery", "internal/jobs", "internal/playbook", "internal/replay", "internal/cron", "internal/sqldb", "internal/store", "internal/net/eventloop", "internal/net/sockets"})
	codecs := []string{"gateway/codec", "gateway/codec/dtu", "gateway/codec/frame", "gateway/codec/gt06", "gateway/codec/jt808", "gateway/codec/line", "gateway/codec/teltonika"}
	broker := []string{"gateway/codec/mqtt", "gateway/codec/websocket", "mqtt", "mqtt/access", "mqtt/packet"}
	product := slices.Concat(belowEdges, codecs, broker, []string{"internal/cluster/route", "internal/mqttstore", "internal/console", "gateway", "internal/httpapi", "internal/cluster/link", "internal/remote", "internal/guard", "internal/homeassistant", "internal/mqttreport", "mqttbridge"})

	codec := []string{"gateway/codec", "internal"}

	// A database, and those that the tests have.
	database := []string{"internal/sqldb", "internal/test/testdb", "internal/test/testsqldb"}

	return table{
		// Engine.
		"dag":      {},
		"dualmap":  {},
		"schedule": {"dualmap", "internal", "timer"},
		"timer":    {"dualmap"},

		// Domain.
		"internal/replay/availability": {"liveness", "liveness/judgement"},
		"internal/keep":                {"liveness/judgement", "timer"},
		"internal/operate":             {"liveness/judgement"},
		"liveness":                     {"liveness/judgement", "dualmap", "internal", "internal/keep", "internal/operate", "schedule", "timer"},
		"liveness/judgement":           {"schedule", "timer"}, // pure: no lock, no source

		// Services.
		"internal/cluster":  slices.Concat(belowServices, database),
		"internal/delivery": slices.Concat(belowServices, database, []string{"internal/jobs", "internal/store"}),
		"internal/jobs":     slices.Concat(belowServices, database, []string{"internal/store"}), // store in its tests
		"internal/playbook": slices.Concat(belowServices, database, []string{"internal/delivery", "internal/jobs", "internal/store"}),
		"internal/replay":   {"internal", "internal/keep", "internal/operate", "liveness", "liveness/judgement"},
		"internal/cron":     slices.Concat(belowServices, database, []string{"internal/delivery", "internal/jobs", "internal/store"}),
		"internal/sqldb":    slices.Concat(database, []string{"internal"}),
		"internal/store":    slices.Concat(belowServices, database),

		// Edges.
		"internal/console":        {"internal"},
		"internal/cluster/link":   {"internal", "internal/keep", "internal/operate", "liveness"},
		"gateway":                 slices.Concat(belowEdges, codecs, broker, []string{"internal/remote", "internal/guard", "internal/test/mqttconformance"}), // the broker in its tests
		"gateway/codec":           {},
		"gateway/codec/dtu":       codec,
		"gateway/codec/frame":     codec,
		"gateway/codec/gt06":      codec,
		"gateway/codec/jt808":     codec,
		"gateway/codec/line":      codec,
		"gateway/codec/mqtt":      slices.Concat(codec, []string{"mqtt", "mqtt/access", "mqtt/packet"}),
		"gateway/codec/teltonika": codec,
		"gateway/codec/websocket": codec,
		"internal/httpapi":        slices.Concat(belowEdges, database),
		"mqtt":                    {"internal/relay", "mqtt/packet"},
		"mqtt/packet":             {},
		"mqtt/access":             {"internal"},
		"internal/cluster/route":  {"internal", "internal/relay", "mqtt", "mqtt/packet"},
		"internal/mqttstore":      slices.Concat(database, []string{"internal", "mqtt", "mqtt/packet"}),
		"mqttbridge":              slices.Concat(belowEdges, []string{"internal/homeassistant"}),
		"internal/homeassistant":  {"internal", "liveness", "mqttbridge"},
		"internal/mqttreport":     {"internal", "internal/homeassistant", "internal/keep", "liveness", "mqttbridge"},

		// The program. `holter loadgen` is one of its commands.
		"cmd":                {"internal/cli"},
		"internal/apiclient": {"internal/httpapi", "internal"},
		"internal/cli":       slices.Concat(product, database, []string{"internal/apiclient", "internal/config", "internal/crontab", "internal/doctor", "internal/exports", "internal/loadgen", "internal/server", "loadgen"}),
		"internal/crontab":   {"schedule"},
		"internal/remote":    {"liveness"},
		"internal/guard":     {"gateway/codec", "internal", "liveness"},
		"internal/exports":   {"internal", "liveness", "liveness/judgement"},
		"internal/doctor":    slices.Concat(product, database, []string{"internal/apiclient", "internal/config", "internal/server"}),
		"internal/server":    slices.Concat(product, database, []string{"internal/config"}),

		// Beside the product. The benchmarks are a module of their own, which this one cannot import.
		"deploy":            {"internal"},
		"docs":              {"internal", "internal/cli", "internal/config"}, // its help and its settings, in tests
		"examples/gnet":     {"gateway/codec", "gateway/codec/line", "liveness"},
		"examples/leases":   {"liveness"},
		"examples/pulse":    {"gateway", "gateway/codec", "gateway/codec/line", "liveness"},
		"examples/sessions": {"timer"},
		"loadgen":           slices.Concat(product, []string{"internal/loadgen"}),
		"internal/loadgen":  product,

		// Tests of a broker, for the tests of whoever has one.
		"internal/test/mqttconformance": {"internal"},

		"internal":       {},
		"internal/relay": {}, // how brokers exchange messages

		// Databases for the tests of what uses them, and servers for a run of all tests.
		"internal/test/run":       {"internal", "internal/test/testdb"},
		"internal/test/testdb":    {"internal", "internal/sqldb", "internal/test/testsqldb"},
		"internal/test/testsqldb": {"internal/sqldb"},

		// What the edges read from the network with.
		"internal/net/eventloop": {"internal"},

		// Listeners and connections, with the listening clock of those who have a goroutine for each.
		"internal/net/sockets": {"internal", "liveness"},

		// The file of settings, in the types of whom they are for; only the program reads it.
		"internal/config": product,
	}
}

// timerNeeds lists all that a program which imports only timer may pull in
// beyond the standard library: dualmap, and ants with what ants needs itself.
func timerNeeds() []string {
	return []string{
		module + "/dualmap",
		module + "/timer",
		"github.com/panjf2000/ants/v2",
		"golang.org/x/sync",
	}
}

// vagueNames lists the package names that say nothing of what a package provides.
func vagueNames() []string {
	return []string{"common", "helper", "helpers", "models", "pkg", "types", "util", "utils"}
}
