package config

import (
	"log/slog"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/playbook"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/strictyaml"
	"github.com/holter-iot/holter/liveness"
)

// Defaults of settings that are given neither on the command line, in the environment nor in the file.
const (
	DefaultListen  = "127.0.0.1:7700"
	DefaultEarHTTP = "127.0.0.1:8081" // of holter ear
	DefaultData    = "./holter-data"
	DefaultMQTT    = "127.0.0.1:1883"
)

// DefaultMinTimeout is the default of min_timeout.
const DefaultMinTimeout = time.Second

// DefaultHTTPRate is the default of http_rate, in requests per second from one address.
const DefaultHTTPRate = 20_000

// DefaultKeepJobs is the default of jobs.keep.
const DefaultKeepJobs = 1_000_000

// DefaultForgetUnverified is the default of forget_unverified_after.
const DefaultForgetUnverified = 7 * 24 * time.Hour

// DefaultDrainDelay and DefaultDrainLimit are the defaults of drain.
const (
	DefaultDrainDelay = 10 * time.Second
	DefaultDrainLimit = time.Minute
)

// Config is the whole configuration of holter serve, checked by Resolve, of
// holter monitor, checked by ResolveMonitor, or of holter ear, checked by ResolveEar.
//
// In Fleet, Source, Gateway, MQTT, Bridges, Report and Store a zero field was
// not given, and the package that uses it applies its default; if 0 turns
// something off, it is off. No value is negative.
type Config struct {
	Listen    []Listener            // where devices and MQTT clients connect; never empty for holter ear, always for holter monitor
	HTTP      string                // HOST:PORT of the API
	HTTPRate  int                   // requests per second from one IP address; 0 is no limit
	Console   string                // on or off: whether the web console is served; never for holter ear
	Origins   []string              // whose pages may read the API in a browser
	TLS       cert.Files            // of the API; unset means plain HTTP
	Data      string                // directory for what is stored; relative to the working directory
	Database  Secret                // URL of the database, which may hold a password; unset means SQLite in Data
	Node      string                // name of this server among those that share the database; empty: that of the host
	Advertise string                // URL at which the others reach the API, without a path; empty: the address of HTTP
	Open      bool                  // accept devices and API calls without a token, also from other machines
	Token     Secret                // shared by all devices; unset means no authentication, but for DevicesFile and certificates
	Log       Log                   // what is logged, and how
	Fleet     liveness.Config       // Outbox is never given; MinTimeout always is
	Source    liveness.SourceConfig // without its Name, Note and Parts
	Gateway   gateway.Config        // without its ports, Guard, Logger and the fields of Source
	MaxLine   int                   // bytes of one message of the line protocol
	MQTT      MQTT                  // never for holter monitor
	Bridges   []Bridge              // at least one for holter monitor
	Report    Report
	Link      Link         // never for holter monitor; of holter ear without Listen
	Judges    []string     // HOST:PORT or unix:PATH; at least one for holter ear, else none
	Drain     Drain        // never for holter monitor
	Store     store.Config // Memory, Node and Outbox are never given
	Jobs      Jobs
	Playbooks []playbook.Playbook

	ForgetAfter time.Duration // of listening without a sign of life an offline device is forgotten; 0: never
	// ForgetUnverified is ForgetAfter for devices that were never verified. Both hold for these.
	ForgetUnverified time.Duration
	DevicesFile      string // file of the devices that may connect, with their secrets; empty: all devices, or those with Token
	AcceptLoss       bool   // start a new fleet although the database of the old one is gone

	file    *strictyaml.Reader // nil: there is none
	inForce *inForce           // nil if it is not from Resolve
	again   func() (Config, error)

	mqttListen string // as it was given; its port is in Listen
}

// Jobs says which jobs that ended can be looked up.
type Jobs struct {
	Keep   int           // how many, the latest; 0: none
	MaxAge time.Duration // for how long after their end; 0 if it was not given
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

// spot is where something was written. Its zero value is nowhere.
type spot = strictyaml.Place
