package httpapi

import (
	"context"
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

	"github.com/holter-iot/holter/delivery"
	"github.com/holter-iot/holter/internal/sockets"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/playbook"
	"github.com/holter-iot/holter/schedule/cron"
)

// Config describes an API. The zero Config is a good one for an address that only this machine can reach: it asks nobody who he is.
type Config struct {
	// Version of the program, shown in /openapi.json, /v1/stats and the metrics. Default: "unknown".
	Version string
	// Node is the name under which this process signs events. Default: the host's name.
	Node string
	// Logger gets what cannot be answered to a client, and who changed what. Default: nothing is logged.
	Logger *slog.Logger
	// MaxConnections is how many connections are served at a time. Further ones wait in the listener's backlog, and the listening clock of
	// the heartbeats waits for them to be served; the connection that has been idle longest, for 1 s at least, is closed for the next, and
	// meanwhile each is closed with the answer to its request. Three quarters of them may be streams of events; a further stream is refused, so that
	// there is always room for health checks. At least 4, default: 1,024.
	MaxConnections int
	// Rate is how many requests an address (of IPv6, a network of 64 bits) may make per second, twice that at once; more are refused
	// with 429, heartbeats among them. Health checks are free. Default: 0, no limit.
	Rate float64
	// TLS makes Serve speak HTTPS. Package gateway/cert reads one from files, and again when they change. Anything older than TLS 1.2 is refused in any case.
	// Default: plain HTTP.
	TLS *tls.Config
	// Auth says whose token may do what. Default: everybody may do everything.
	Auth Auth
	// Starting says what the process is still waiting for; while it returns an error, everything below /v1 is answered with that and
	// 503, and no heartbeat is listened to. It is called concurrently and must return at once. Default: always started.
	Starting func() error
	// Ready says why the process cannot do its work; its error is shown at /readyz. It is called concurrently and must return
	// at once. Default: always ready.
	Ready func() error
	// Detail says what does not keep the process from its work but should be looked at; it is shown at /readyz, below the ok. As Ready.
	// Default: nothing.
	Detail func() string
	// NoBeats leaves out the heartbeats by HTTP, and their source.
	NoBeats bool
	// BeatSource is the name of the source that heartbeats by HTTP come from. Default: "http".
	BeatSource string
	// Checkpoint writes down at once what is otherwise written down every few seconds; the retirement of a source is answered after it.
	// It is called concurrently. Default: none.
	Checkpoint func(context.Context) error
	// Sender writes messages to connected devices. Default: none; then no device is connected where a message could be sent to it.
	Sender Sender
	// Delivery is what jobs, queues, endpoints, routes and dead letters are asked of. Default: none; then the API has nothing of them.
	Delivery *delivery.Engine
	// Playbooks is what playbooks and their runs are asked of. Default: none; then the API has nothing of them.
	Playbooks *playbook.Engine
	// Schedules is what schedules and their runs are asked of; it needs Delivery. Default: none; then the API has nothing of them.
	Schedules *cron.Engine
	// Collectors are served at /metrics beside the API's own.
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
	seed     maphash.Seed // of the check sums in cursors
	began    time.Time

	ear     *hearing   // nil without heartbeats by HTTP
	tokens  *tokens    // nil without Auth
	rates   *addresses // nil without a limit
	groups  groupCounts
	sockets *sockets.Set
	turns   turns
	callers *limits[caller] // of messages to devices

	committing atomic.Int64 // requests that wait until what they changed is stored

	streams atomic.Int64  // that are open
	dropped atomic.Uint64 // streams ended because their reader was too slow
	refused atomic.Uint64 // streams refused because there were too many
	limited atomic.Uint64 // requests refused because their address made too many
	denied  atomic.Uint64 // requests refused for want of a token, or of a role
	sends   [sendResults]atomic.Uint64
}

// New returns an API of a registry and of the events that it handed over; a [eventlog.Log] is one in a [LogEvents]. Unless told
// otherwise it adds a source of heartbeats to the registry. It starts nothing. Errors: a bad config, a collector that collides with
// another, a source name that is taken.
func New(registry *liveness.Registry, events Events, cfg Config) (*API, error) {
	if registry == nil || events == nil || events == (LogEvents{}) {
		return nil, errors.New("httpapi: New needs a registry and its events")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &API{registry: registry, events: events, config: cfg, now: time.Now, seed: maphash.MakeSeed(), began: time.Now(), sockets: sockets.NewSet(), turns: newTurns()}
	a.callers = newLimits[caller](sendRate, sendRate)
	if cfg.Auth != nil {
		a.tokens = newTokens(cfg.Auth)
	}
	if cfg.Rate > 0 {
		a.rates = newAddresses(cfg.Rate, max(1, int(math.Ceil(2*cfg.Rate))))
	}
	metrics, err := a.metrics()
	if err != nil {
		return nil, err
	}
	if !cfg.NoBeats {
		if a.ear, err = newHearing(registry, cfg.BeatSource, a.deaf, a.sockets); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	if err := a.register(routes{mux, a}, metrics); err != nil {
		return nil, err
	}
	a.handler = a.front(mux)
	return a, nil
}

// register adds all routes, and what describes them.
func (a *API) register(mux routes, metrics http.Handler) error {
	api := humago.New(mux, newDescription(a.config.Version))
	a.registerDevices(api)
	a.registerAdmin(api)
	a.registerSend(api)
	a.registerDelivery(api)
	a.registerPlaybooks(api)
	a.registerSchedules(api)
	a.registerEvents(api)
	a.registerOverview(api)
	a.registerSources(api)
	a.registerStream(mux, api)
	if a.ear != nil {
		a.registerBeats(mux, api)
	}
	a.registerHealth(mux, api, metrics)
	a.registerProfiles(mux, api)
	describeTokens(api.OpenAPI())
	return a.registerDocs(mux, api.OpenAPI())
}

// Handler returns the API as a handler, for a server of your own. It needs one whose response writers have deadlines, as those of
// net/http do: they end streams that nobody reads. Run [API.Listen] beside it.
func (a *API) Handler() http.Handler { return a.handler }

func (c Config) withDefaults() (Config, error) {
	if c.Version == "" {
		c.Version = "unknown"
	}
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
	if c.MaxConnections == 0 {
		c.MaxConnections = 1024
	}
	if c.BeatSource == "" {
		c.BeatSource = "http"
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
	var errs []error
	if c.MaxConnections < 4 {
		errs = append(errs, fmt.Errorf("httpapi: MaxConnections is %d, want 4 or more", c.MaxConnections))
	}
	if !(c.Rate >= 0 && c.Rate <= 1e6) { // nor NaN
		errs = append(errs, fmt.Errorf("httpapi: Rate is %v, want 0 to 1000000 requests per second", c.Rate))
	}
	return c, errors.Join(errs...)
}

// newDescription returns what huma needs to know. The routes that huma would add by itself are left out: its page of documentation
// loads scripts from the internet, and its description is marshaled by the first requests without a lock.
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

// milliseconds returns a duration without loss up to some 100 days, and to a microsecond far beyond.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
