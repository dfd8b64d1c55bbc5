package config

import (
	"log/slog"
	"time"
)

// What holds where neither command line, environment nor file says otherwise.
const (
	DefaultListen = "127.0.0.1:7700"
	DefaultHTTP   = "127.0.0.1:8080"
	DefaultData   = "./holter-data"
	DefaultBroker = "127.0.0.1:1883"
)

// DefaultMinTimeout is the least timeout of a device where nothing else is said.
const DefaultMinTimeout = time.Second

// DefaultHTTPRate is how many requests an address may make of the API per
// second where nothing else is said.
const DefaultHTTPRate = 20_000

// Config is the whole configuration of holter serve, checked by Resolve, or of
// holter monitor, checked by ResolveMonitor.
//
// In Policy, Groups, Devices, Flapping, Source, Gateway, Broker, Bridges,
// Report, Events and Checkpoint a zero field was not given, and the package it
// is meant for applies its own default; where 0 is off, that is off. Negative
// values do not occur.
type Config struct {
	Listen    []Listener // where devices connect; empty only for holter monitor
	HTTP      string     // HOST:PORT of the API
	HTTPRate  int        // requests per second from one IP address; 0 is no limit
	TLS       TLS        // of the API; unset means plain HTTP
	Data      string     // directory for what is stored; relative to the working directory
	Database  Secret     // URL of the database, which may hold a password; unset means SQLite in Data
	Open      bool       // accept devices and API calls without a token, also from other machines
	Token     Secret     // shared by all devices; unset means no authentication, but for DevicesFile and certificates
	ReusePort bool       // open device ports with SO_REUSEPORT
	Log       Log        // what is logged, and how
	Policy    Policy     // the fleet's default
	// MinTimeout is the least timeout that holds for a device. Default: 1 s.
	MinTimeout time.Duration
	Groups     []Group           // the first whose pattern matches a device applies
	Devices    map[string]Policy // by device id; stands above the groups; nil if there are none
	Flapping   Flapping
	Source     Source
	Gateway    Gateway
	Broker     Broker   // never for holter monitor
	Bridges    []Bridge // at least one for holter monitor
	Report     Report
	Events     Events
	Playbooks  []Playbook

	DevicesFile string        // the devices that may come in, and their secrets; empty means all, or Token
	AcceptLoss  bool          // begin a new fleet in place of one whose database is gone
	Checkpoint  time.Duration // between two pictures of the last heartbeats
}

// TLS names the files of a certificate. Both are set or neither.
type TLS struct {
	Cert string // PEM: the certificate, and the intermediate ones
	Key  string // PEM
}

// Log says what is logged, and how.
type Log struct {
	Level  slog.Level // Debug, Info, Warn or Error; the zero value is Info
	Format LogFormat  // never empty after Resolve
}

// LogFormat is the form of a log line.
type LogFormat string

// The forms of a log line.
const (
	LogAuto LogFormat = "auto" // text on a terminal, JSON otherwise
	LogText LogFormat = "text" // for people
	LogJSON LogFormat = "json" // one JSON object a line
)

// Policy says when the silence of a device means something.
//
// Where several policies apply to a device, each field is taken from the most
// specific one that gives it: device, then group, then what the device itself
// announced, then the fleet's default.
type Policy struct {
	Interval   time.Duration // expected between two heartbeats; shorter than Timeout where both are given
	Timeout    time.Duration // heard silence after which a device is offline, or Never
	LateAfter  time.Duration // heard silence after which it is late; 0 is off; shorter than Timeout where both are given
	CloseGrace time.Duration // time to come back after its connection ended
	SleepLimit time.Duration // longest sleep it may announce
	Probes     int           // how often it is asked for a sign of life before it is offline; 0 is off
	ProbeWait  time.Duration // from one of them to the next, and to the verdict; Probes × ProbeWait is shorter than Timeout where both are given
}

// Group is a set of devices with a policy of its own.
type Group struct {
	Name string // unique, not empty

	// Match is a pattern on the device id, not empty. * stands for any run of
	// characters, / included, also for none; ? stands for exactly one
	// character (a code point); all else stands for itself. The characters
	// [ ] { } \ do not occur.
	Match string

	Policy Policy
	Outage Outage
}

// Outage says when many silent members of a group are one event.
type Outage struct {
	Share      float64       // of the members, 0 to 1; 0 is off
	Window     time.Duration // in which they fall silent
	MinDevices int           // a smaller group has no outages
}

// Flapping says when a device changes its state too often.
type Flapping struct {
	Threshold int           // changes within Window; 2 to 64
	Window    time.Duration // over which changes are counted
}

// Source tunes the listening clock.
type Source struct {
	MaxGap            time.Duration // most that the clock advances between two watermarks
	ReconnectGrace    time.Duration // that each device gets beside its interval once its connection has to be made anew
	ReconnectGraceMax time.Duration // of both together
	RetireAfter       time.Duration // of a source that is configured no more
}

// Gateway bounds the device connections.
type Gateway struct {
	MaxConnections           int           // at once
	MaxConnectionsPerAddress int           // at once from one IP address; 0 is no limit
	AcceptRate               int           // new connections per second
	HandshakeTimeout         time.Duration // from connecting to the first valid message
	MaxHandshakes            int           // of TLS, computed at a time; 0 is by the cores
	IdleTimeout              time.Duration // without a byte before a connection is closed; 0 is off
	MaxLine                  int           // bytes of one message
	MaxOutbound              int           // bytes waiting to be sent to one device
	CloseRate                int           // connections closed per second while shutting down
	MaxBeatRate              int           // heartbeats per second that are meant to come; 0 is no limit
	KeepAlive                time.Duration // idle time before TCP probes; 0 is off
	UserTimeout              time.Duration // unacknowledged data before TCP gives up
}

// Events bounds the event log.
type Events struct {
	Keep   int           // the newest that are kept in the database
	MaxAge time.Duration // of those that are kept
	Cache  int           // the newest that are kept in memory
}
