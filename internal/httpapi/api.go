package httpapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holter-iot/holter/internal/cluster"
	"github.com/holter-iot/holter/internal/cron"
	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/net/sockets"
	"github.com/holter-iot/holter/internal/playbook"
	"github.com/holter-iot/holter/internal/replay"
	"github.com/holter-iot/holter/liveness"
)

// DefaultAddress is where programs serve an API, and look for one, unless they are told otherwise.
const DefaultAddress = "127.0.0.1:8080"

// Config describes an API. The zero Config suits an address that only this machine can reach: it
// asks for no token.
type Config struct {
	// Version is the program's version, shown in /openapi.json, /v1/stats and the metrics. Default:
	// "unknown".
	Version string
	// Node is the name of this process in events. Default: the host's name.
	Node string
	// Logger receives errors that no client is told, and all changes with the token that made them.
	// Default: nothing is logged.
	Logger *slog.Logger
	// MaxConnections is the largest number of connections served at a time. Further ones wait in
	// the listener's backlog, and hold up the listening clock of the heartbeats. To make room, a
	// connection is closed: the oldest without a valid token of the address that has the most of
	// these, if they are more than a 16th, after 250 ms; else that which has been idle longest, for at
	// least 1 s. The others are closed after their next answer. At least 4. Default: 1,024.
	MaxConnections int
	// MaxStreams is the largest number of streams of events. Further ones are refused. It is three
	// quarters of MaxConnections at most, so that there is always room for health checks. Default:
	// three quarters of MaxConnections.
	MaxStreams int
	// Rate is the largest number of requests per second from an address (for IPv6, a network of 64
	// bits), with bursts of twice that. More are refused with 429, heartbeats as well. Health
	// checks are not limited. Default: 0, no limit.
	Rate float64
	// TLS makes Serve speak HTTPS, with TLS 1.2 or later. Package internal/cert provides one that
	// reloads its files. Default: plain HTTP.
	TLS *tls.Config
	// Auth looks up the roles of tokens. Default: all requests are allowed.
	Auth Auth
	// Local says that only this machine is meant to reach the API. While no token is required,
	// requests are then refused that name another host: they are from pages whose name was made to
	// point here (DNS rebinding).
	Local bool
	// AllowOrigins are the origins whose pages may read the API in a browser (CORS), such as
	// https://board.example. They may change nothing, and send no heartbeats. Default: none; then only
	// pages that the API serves itself.
	AllowOrigins []string
	// Starting returns an error while the process is starting. Then everything below /v1 is
	// answered with it and 503, and the source of the heartbeats is deaf. It is called concurrently
	// and must return at once. Default: always started.
	Starting func() error
	// Ready returns an error while the process cannot do its work; /readyz shows it. It is called
	// concurrently and must return at once. Default: always ready.
	Ready func() error
	// Detail returns a warning that /readyz shows below the ok. It is called concurrently and must
	// return at once. Default: no warning.
	Detail func() string
	// NoBeats disables heartbeats by HTTP and their source.
	NoBeats bool
	// BeatSource is the name of the source of heartbeats by HTTP. Default: "http".
	BeatSource string
	// Checkpoint writes a checkpoint at once. The answer to the retirement of a source waits for
	// it. It is called concurrently. Default: none.
	Checkpoint func(context.Context) error
	// Sender writes messages to connected devices. Default: none; then all devices count as not
	// connected for messages.
	Sender Sender
	// Delivery serves jobs, queues, endpoints, routes and dead letters. Default: none; then the API
	// does not have them.
	Delivery *delivery.Engine
	// Playbooks serves playbooks and their runs. Default: none; then the API does not have them.
	Playbooks *playbook.Engine
	// Schedules serves schedules and their runs. It requires Delivery. Default: none; then the API
	// does not have them.
	Schedules *cron.Engine
	// History serves the availability of devices and groups. Default: none; then the API does not have it.
	History History
	// Replay answers what other settings would have done. Default: none; then the API does
	// not have them.
	Replay *replay.Engine
	// Roster serves the servers of the fleet. Default: none; then the API does not have them.
	Roster *cluster.Roster
	// Ears are the ears of this judge. Roster is required with it. Default: none.
	Ears Ears
	// Tokens lists, makes and deletes the tokens that Auth looks up. Default: none; then the API does
	// not do so.
	Tokens TokenStore
	// Settings returns the settings in force, without secrets. It is called concurrently and must
	// return at once. Default: none; then the API does not show them.
	Settings func() Settings
	// Reload reads the configuration again, on behalf of somebody; its error is of the server, mistakes are in
	// the answer. It is called concurrently, and may take some seconds. Default: none; then the API does not do so.
	Reload func(ctx context.Context, who string) (Reloaded, error)
	// Examine checks the machine and the server for problems, as holter doctor does. It is never
	// called concurrently. Its context ends after 20 s; then nobody waits for it any more. Default:
	// none; then the API does not do so.
	Examine func(context.Context) []Finding
	// Ways returns commands that send a first heartbeat, with the addresses of this process; host
	// stands for it where it listens at all of its addresses. It is called concurrently and must
	// return at once. Default: none; then the API does not tell them.
	Ways func(host string) []Way
	// Console is the web console, served at /console/ and below without a token, so it may hold no
	// secrets. It is given the whole path, and overrides the headers of the API, such as
	// Cache-Control. Default: none.
	Console http.Handler
	// Collectors are served at /metrics, besides the API's own metrics.
	Collectors []prometheus.Collector
}

const (
	heartbeatEvery = 15 * time.Second
	writeTimeout   = 10 * time.Second
	maxBody        = 1 << 20
	maxBatchBody   = 2 << 20
)

// API serves a registry and its events. Make one with [New].
type API struct {
	registry *liveness.Registry
	events   Events
	config   Config
	handler  http.Handler
	now      func() time.Time
	seed     maphash.Seed // seed of the check sums in cursors
	began    time.Time

	ear     *hearing                  // nil without heartbeats by HTTP
	tokens  *tokens                   // nil without Auth
	rates   atomic.Pointer[addresses] // nil without a limit
	origins atomic.Pointer[[]string]
	fleet   *pictures
	news    newsroom
	sockets *sockets.Set
	turns   turns
	callers *limits[caller] // of messages to devices
	tagKey  [32]byte        // key of the entity tags
	adding  chan struct{}   // capacity 1: holds a value while the availability of a group is worked out; never closed
	examine chan struct{}   // capacity 1: holds a value while Examine runs; never closed
	editing chan struct{}   // capacity 1: holds a value while settings are changed through the API; never closed

	committing atomic.Int64 // requests that wait until their change is stored

	streams atomic.Int64  // open streams
	dropped atomic.Uint64 // streams ended because their reader was too slow
	refused atomic.Uint64 // streams refused because there were too many
	limited atomic.Uint64 // requests refused because their address made too many
	denied  atomic.Uint64 // requests refused because they had no token, or one without the role
	sends   *prometheus.CounterVec
}

// New returns an API for a registry and its events, for instance an [eventlog.Log] in a
// [LogEvents]. Unless cfg.NoBeats is set it adds a source to the registry. It starts nothing. It
// returns an error for a bad configuration, a collector that collides with another, or a source
// name that is taken.
func New(registry *liveness.Registry, events Events, cfg Config) (*API, error) {
	if registry == nil || events == nil || events == (LogEvents{}) {
		return nil, errors.New("httpapi: New needs a registry and its events")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &API{registry: registry, events: events, config: cfg, now: time.Now, seed: maphash.MakeSeed(), began: time.Now(), sockets: sockets.NewSet(), turns: newTurns()}
	a.callers, a.sends, a.editing = newLimits[caller](sendRate, sendRate), newSends(), make(chan struct{}, 1)
	a.adding, a.examine, a.fleet = make(chan struct{}, 1), make(chan struct{}, 1), newPictures()
	_, _ = rand.Read(a.tagKey[:]) // it never fails
	if cfg.Auth != nil {
		a.tokens = newTokens(cfg.Auth)
	}
	a.setLimits(cfg.Rate, cfg.AllowOrigins)
	metrics, err := a.metrics()
	if err != nil {
		return nil, err
	}
	if !cfg.NoBeats {
		if a.ear, err = newHearing(registry, cfg.BeatSource, a.deaf, a.sockets); err != nil {
			return nil, err
		}
	}
	compress, err := newCompressor()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	a.register(routes{mux, a, compress}, metrics)
	a.handler = a.front(mux)
	return a, nil
}

// register adds all routes and their descriptions.
func (a *API) register(mux routes, metrics http.Handler) {
	api := humago.New(mux, newDescription(a.config.Version))
	a.registerDevices(api)
	a.registerLearn(api)
	a.registerAvailability(api)
	a.registerAdmin(api)
	a.registerSend(api)
	a.registerDelivery(api)
	a.registerPlaybooks(api)
	a.registerSchedules(api)
	a.registerEvents(api)
	a.registerOverview(api)
	a.registerReplay(api)
	a.registerSources(api)
	a.registerNodes(api)
	a.registerStream(mux, api)
	a.registerSession(mux, api)
	a.registerTokens(api)
	a.registerSettings(api)
	a.registerReload(api)
	a.registerDoctor(api)
	a.registerWays(api)
	a.registerMap(mux, api)
	a.registerFleetStream(mux, api)
	if a.ear != nil {
		a.registerBeats(mux, api)
	}
	a.registerHealth(mux, api, metrics)
	a.registerProfiles(mux, api)
	a.registerConsole(mux)
	describeAll(api.OpenAPI())
	a.registerDocs(mux, api.OpenAPI())
}

// SetLimits replaces Config.Rate and Config.AllowOrigins while the API serves. Every address begins anew with a
// full burst. Errors: values that a Config may not have; then nothing has changed.
func (a *API) SetLimits(rate float64, origins []string) error {
	c := a.config
	c.Rate, c.AllowOrigins = rate, origins
	if _, err := c.withDefaults(); err != nil {
		return err
	}
	a.setLimits(rate, origins)
	return nil
}

func (a *API) setLimits(rate float64, origins []string) {
	var limited *addresses
	if rate > 0 {
		limited = newAddresses(rate, max(1, int(math.Ceil(2*rate))))
	}
	a.rates.Store(limited)
	a.origins.Store(&origins)
}

// Handler returns the API as a handler for another server. The server's response writers must
// support deadlines, as those of net/http do, because deadlines end streams that nobody reads. Call
// [API.Listen] as well.
func (a *API) Handler() http.Handler { return a.handler }

// maxConnections is the default of MaxConnections. Three quarters of it may be streams, 768 of some 28 KB of memory
// each: far more than there are browsers that show a fleet, and 21 MB if somebody opens them all.
const maxConnections = 1024

func (c Config) withDefaults() (Config, error) {
	c.Version, c.BeatSource = cmp.Or(c.Version, "unknown"), cmp.Or(c.BeatSource, "http")
	c.MaxConnections = cmp.Or(c.MaxConnections, maxConnections)
	c.MaxStreams = cmp.Or(c.MaxStreams, c.MaxConnections*3/4)
	if c.Node == "" {
		host, err := os.Hostname()
		if err != nil {
			return c, fmt.Errorf("httpapi: Node is not set, and the host has no name: %w", err)
		}
		c.Node = host
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	never := func() error { return nil }
	if c.Starting == nil {
		c.Starting = never
	}
	if c.Ready == nil {
		c.Ready = never
	}
	if c.Detail == nil {
		c.Detail = func() string { return "" }
	}
	errs := []error{checkOrigins(c.AllowOrigins)}
	if c.MaxConnections < 4 {
		errs = append(errs, fmt.Errorf("httpapi: MaxConnections is %d, want 4 or more", c.MaxConnections))
	}
	if c.MaxConnections >= 4 && (c.MaxStreams < 1 || c.MaxStreams > c.MaxConnections*3/4) {
		errs = append(errs, fmt.Errorf("httpapi: MaxStreams is %d, want 1 to %d, three quarters of MaxConnections", c.MaxStreams, c.MaxConnections*3/4))
	}
	if !(c.Rate >= 0 && c.Rate <= 1e6) { // excludes NaN
		errs = append(errs, fmt.Errorf("httpapi: Rate is %v, want 0 to 1000000 requests per second", c.Rate))
	}
	return c, errors.Join(errs...)
}

// newDescription returns huma's configuration. It disables the routes that huma would add: its
// documentation page loads scripts from the internet, and its description is marshaled by the first
// requests without a lock.
func newDescription(version string) huma.Config {
	cfg := huma.DefaultConfig("Holter", version)
	cfg.Info.Description = "The state of each device of a fleet, the reasons for it, its events, and heartbeats by HTTP. " +
		"Times are RFC 3339 in UTC. Durations in JSON are milliseconds and may have a fraction; those in a query, the ttl of a " +
		"heartbeat and the timeout of a message are written 90s, 10m or 1h30m, or as a number of seconds. Errors are problem details (RFC 9457). " +
		"A body may have 1 MiB, that of a batch 2 MiB, that of a job 64 KiB beside what is delivered, and the headers of a request 64 KiB."
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath, cfg.CreateHooks = "", "", "", nil
	cfg.RejectUnknownQueryParameters = true
	cfg.Transformers = []huma.Transformer{explainProblem}
	return cfg
}
