package config

import (
	"log/slog"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/cert"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/store"
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
// In Fleet, Source, Gateway, Broker, Bridges, Report and Store a
// zero field was not given, and the package it is meant for applies its own
// default; where 0 is off, that is off. Negative values do not occur.
type Config struct {
	Listen    []Listener      // where devices connect; empty only for holter monitor
	HTTP      string          // HOST:PORT of the API
	HTTPRate  int             // requests per second from one IP address; 0 is no limit
	TLS       cert.Files      // of the API; unset means plain HTTP
	Data      string          // directory for what is stored; relative to the working directory
	Database  Secret          // URL of the database, which may hold a password; unset means SQLite in Data
	Open      bool            // accept devices and API calls without a token, also from other machines
	Token     Secret          // shared by all devices; unset means no authentication, but for DevicesFile and certificates
	Log       Log             // what is logged, and how
	Fleet     liveness.Config // MaxDevices and Outbox are never given; MinTimeout always is
	Source    Source
	Gateway   gateway.Config // but for its ports, Guard, Logger and what Source says
	MaxLine   int            // bytes of one message of the line protocol
	Broker    Broker         // never for holter monitor
	Bridges   []Bridge       // at least one for holter monitor
	Report    Report
	Store     store.Config // Memory and Outbox are never given
	Playbooks []Playbook

	DevicesFile string // the devices that may come in, and their secrets; empty means all, or Token
	AcceptLoss  bool   // begin a new fleet in place of one whose database is gone
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
