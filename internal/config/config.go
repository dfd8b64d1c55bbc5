package config

import (
	"log/slog"
	"time"

	"github.com/holter-iot/holter/liveness"
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
// In Fleet, Source, Gateway, Broker, Bridges, Report, Events and Checkpoint a
// zero field was not given, and the package it is meant for applies its own
// default; where 0 is off, that is off. Negative values do not occur.
type Config struct {
	Listen    []Listener      // where devices connect; empty only for holter monitor
	HTTP      string          // HOST:PORT of the API
	HTTPRate  int             // requests per second from one IP address; 0 is no limit
	TLS       TLS             // of the API; unset means plain HTTP
	Data      string          // directory for what is stored; relative to the working directory
	Database  Secret          // URL of the database, which may hold a password; unset means SQLite in Data
	Open      bool            // accept devices and API calls without a token, also from other machines
	Token     Secret          // shared by all devices; unset means no authentication, but for DevicesFile and certificates
	ReusePort bool            // open device ports with SO_REUSEPORT
	Log       Log             // what is logged, and how
	Fleet     liveness.Config // MaxDevices and Outbox are never given; MinTimeout always is
	Source    Source
	Gateway   Gateway
	Broker    Broker   // never for holter monitor
	Bridges   []Bridge // at least one for holter monitor
	Report    Report
	Events    Events
	Playbooks []Playbook

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

// Source tunes the listening clock.
type Source struct {
	MaxGap            time.Duration // most that the clock advances between two watermarks
	ReconnectGrace    time.Duration // that each device gets beside its interval once its connection has to be made anew
	ReconnectGraceMax time.Duration // of both together
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
