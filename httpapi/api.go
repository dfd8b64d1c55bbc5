package httpapi

import (
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holter-iot/holter/liveness"
)

// Config describes an API. The zero Config is a good one.
type Config struct {
	// Version of the program, shown in /openapi.json, /v1/stats and the metrics. Default: "unknown".
	Version string
	// Node is the name under which this process signs events. Default: the host's name.
	Node string
	// Logger gets what cannot be answered to a client. Default: nothing is logged.
	Logger *slog.Logger
	// MaxConnections is how many connections are served at a time; further ones wait in the listener's backlog. Three quarters of
	// them may be streams of events; a further stream is refused, so that there is always room for health checks. At least 4,
	// default: 1,024.
	MaxConnections int
	// Ready says why the process cannot do its work; its error is shown at /readyz. It is called concurrently and must return
	// at once. Default: always ready.
	Ready func() error
	// Collectors are served at /metrics beside the API's own.
	Collectors []prometheus.Collector
}

const (
	heartbeatEvery = 15 * time.Second
	writeTimeout   = 10 * time.Second
	maxBody        = 1 << 20
)

// API serves a registry and its log. Make one with [New].
type API struct {
	registry *liveness.Registry
	log      *liveness.Log
	config   Config
	handler  http.Handler
	now      func() time.Time
	seed     maphash.Seed // of the check sums in cursors

	streams atomic.Int64  // that are open
	dropped atomic.Uint64 // streams ended because their reader was too slow
	refused atomic.Uint64 // streams refused because there were too many
}

// New returns an API of a registry and of the log that its events go to. It starts nothing. Errors: a bad config, a collector that
// collides with another.
func New(registry *liveness.Registry, log *liveness.Log, cfg Config) (*API, error) {
	if registry == nil || log == nil {
		return nil, errors.New("httpapi: New needs a registry and a log")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &API{registry: registry, log: log, config: cfg, now: time.Now, seed: maphash.MakeSeed()}
	metrics, err := a.metrics()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	description := newDescription(cfg.Version)
	api := humago.New(routes{mux}, description)
	a.registerDevices(api)
	a.registerEvents(api)
	a.registerOverview(api)
	a.registerStream(mux, api)
	a.registerHealth(mux, api, metrics)
	if err := a.registerDocs(mux, api.OpenAPI()); err != nil {
		return nil, err
	}
	a.handler = http.MaxBytesHandler(withHeaders(mux), maxBody)
	return a, nil
}

// Handler returns the API as a handler, for a server of your own. It needs one whose response writers have deadlines, as those of
// net/http do: they end streams that nobody reads.
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
	if c.MaxConnections < 4 {
		return c, fmt.Errorf("httpapi: MaxConnections is %d, want 4 or more", c.MaxConnections)
	}
	if c.Ready == nil {
		c.Ready = func() error { return nil }
	}
	return c, nil
}

// newDescription returns what huma needs to know. The routes that huma would add by itself are left out: its page of documentation
// loads scripts from the internet, and its description is marshaled by the first requests without a lock.
func newDescription(version string) huma.Config {
	cfg := huma.DefaultConfig("Holter", version)
	cfg.Info.Description = "The state of each device of a fleet, why it is in it, and what happened. Times are RFC 3339 in UTC, " +
		"durations are milliseconds and may have a fraction. Errors are problem details (RFC 9457)."
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath, cfg.CreateHooks = "", "", "", nil
	cfg.RejectUnknownQueryParameters = true
	cfg.Transformers = []huma.Transformer{explainProblem}
	return cfg
}

// withHeaders adds what each answer carries.
func withHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// milliseconds returns a duration without loss up to some 100 days, and to a microsecond far beyond.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
