// Package server builds the running program from its configuration: store, liveness, gateway, MQTT,
// delivery, schedules, playbooks, API and metrics, and runs it until its context ends.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/holter-iot/holter/internal/cluster"
	"github.com/holter-iot/holter/internal/cluster/link"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/cron"
	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/metrics"
	"github.com/holter-iot/holter/internal/mqttreport"
	"github.com/holter-iot/holter/internal/mqttstore"
	"github.com/holter-iot/holter/internal/playbook"
	"github.com/holter-iot/holter/internal/replay"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/version"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqttbridge"
)

// server holds the parts of holter serve and holter monitor.
type server struct {
	front

	database   *sqldb.DB
	store      *store.Store
	follower   *store.Follower // of this process, while it stood by; nil if it cannot
	tail       *store.Tail     // of this process, also of the times that it judged before; nil if it cannot
	terms      *sqldb.Terms    // the same
	jobs       *jobs.Store
	bridges    []*mqttbridge.Bridge // may be none
	forgotten  atomic.Uint64        // devices that were silent for too long
	delivery   *delivery.Engine
	books      *playbook.Engine
	cron       *cron.Engine
	reporter   *mqttreport.Reporter // nil without a report
	api        *httpapi.API
	auth       *tokenAuth
	examine    Examine // nil: none
	reload     func(ctx context.Context, who string) (httpapi.Reloaded, error)
	started    func() // called when the start is done
	http       net.Listener
	ears       net.Listener // where ears connect; nil if there are none
	linkServer *grpc.Server
	link       atomic.Pointer[link.Judge] // nil until the state is restored, and without ears
	roster     *cluster.Roster
	peers      *http.Client // reaches the other servers
	service    *service
	starting   atomic.Pointer[string] // what the start waits for; nil once it is done
	draining   atomic.Bool            // this process ends
	known      int                    // devices restored from the database
	listened   time.Time              // when the previous process listened last; zero if there was none
}

// eventLoops returns the number of event loops, and lets Go run one goroutine more than these at a
// time. A loop that waits for the kernel keeps its place among GOMAXPROCS until Go's monitor notices,
// after up to 10 ms: while all places are kept so, nothing else would run, such as handshakes.
var eventLoops = sync.OnceValue(func() int { //nolint:gochecknoglobals // GOMAXPROCS is one of the process
	n := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(n + 1)
	return n
})

// Check reports the mistakes that Resolve does not look for: those in other files, and in playbooks.
func Check(c *config.Config) error {
	_, err := bridgeConfigs(c, nil)
	return errors.Join(err, c.CheckPlaybooks())
}

// build creates the parts and binds the addresses of devices; nothing runs yet.
func (s *server) build(ctx context.Context) (err error) {
	bridges, err := bridgeConfigs(&s.config, s.log)
	if err != nil {
		return BadConfig(err)
	}
	if err := s.buildStore(); err != nil {
		return err
	}
	if s.registry, err = liveness.New(s.store, s.config.Fleet); err != nil {
		return err
	}
	if err := s.buildDelivery(); err != nil {
		return err
	}
	if err := s.buildSchedules(); err != nil {
		return err
	}
	certificates, err := s.certificates(s.config.TLS, "tls (--tls-cert, --tls-key)")
	if err != nil {
		return err
	}
	if s.ears != nil {
		if s.linkServer, err = s.newLinkServer(); err != nil {
			return err
		}
	}
	if err := errors.Join(s.buildGateway(ctx), s.buildMQTT(bridges)); err != nil { //nolint:contextcheck // a source ends with the registry's Run
		return err
	}
	s.buildHub()
	s.auth = newTokenAuth(s.database, s.config)
	return s.buildAPI(certificates) //nolint:contextcheck // a source ends with the registry's Run
}

// buildAPI makes the API, with the console if there is to be one. certificates is its TLS configuration; nil for plain HTTP.
func (s *server) buildAPI(certificates *tls.Config) error {
	page, err := s.console()
	if err != nil {
		return err
	}
	s.api, err = httpapi.New(s.registry, s.store, httpapi.Config{
		Version:      version.String(),
		Node:         s.config.Node,
		History:      s.store,
		Replay:       replay.New(s.registry, s.store),
		Roster:       s.roster,
		Ears:         earList{s},
		Logger:       s.log,
		Rate:         float64(s.config.HTTPRate),
		TLS:          certificates,
		AllowOrigins: s.config.Origins,
		Auth:         s.auth,
		Local:        config.Loopback(s.config.HTTP) && !s.config.Open,
		Starting:     s.waiting,
		Ready:        s.ready,
		Detail:       s.detail,
		Checkpoint:   func(ctx context.Context) error { return s.store.Checkpoint(ctx, s.registry) },
		Sender:       sender{s.gateway, &s.link},
		Delivery:     s.delivery,
		Playbooks:    s.books,
		Schedules:    s.cron,
		Ways:         s.ways,
		Tokens:       s.auth,
		Settings:     s.settings,
		Reload:       s.reload,
		Examine:      s.examination(),
		Console:      page,
		Collectors:   []prometheus.Collector{metrics.Collector(s.collect)},
	})
	return err
}

// run runs the parts until parent is done and the server has drained, or one of them fails. The API starts first, so that it can tell
// what the start waits for; devices may connect once the stored state is restored. At the end the edges
// stop first, then the registry, then the store: the last events of connections are still judged,
// stored and sent.
func (s *server) run(parent context.Context) error {
	ctx, endEdges := context.WithCancel(context.WithoutCancel(parent))
	defer endEdges()
	edges, ctx := errgroup.WithContext(ctx)
	edges.Go(func() error {
		defer endEdges()
		s.awaitEnd(parent, ctx)
		return nil
	})
	edges.Go(func() error { return s.api.Serve(ctx, s.http) })
	for _, r := range s.reloaders {
		edges.Go(func() error { return r.Run(ctx) })
	}
	s.log.Info("holter is starting", "http", s.http.Addr().String(), "database", s.store.Place())
	if err := s.holdEars(ctx, s.begin); err != nil {
		if ctx.Err() != nil {
			err = nil // the end was asked for, or the API reports its own error
		}
		endEdges()
		err = errors.Join(err, edges.Wait())
		s.release(ctx)
		return errors.Join(err, s.store.Close())
	}
	servicesCtx, endServices := context.WithCancel(context.WithoutCancel(ctx))
	defer endServices()
	var services errgroup.Group
	s.startServices(servicesCtx, &services)
	s.startEdges(ctx, edges)
	s.auth.look(ctx)
	s.starting.Store(nil)
	s.service.is(s.judgeActivity())
	s.started()
	s.announce()
	err := edges.Wait()
	s.stepDown(ctx, err)
	endServices()
	return errors.Join(err, services.Wait(), s.store.Close())
}

// startServices starts what the edges need until they have ended.
func (s *server) startServices(ctx context.Context, services *errgroup.Group) {
	services.Go(func() error { return s.registry.Run(ctx) })
	services.Go(func() error { return s.runBroker(ctx) })
}

// startEdges starts all that ends first, but for the API.
func (s *server) startEdges(ctx context.Context, edges *errgroup.Group) {
	edges.Go(func() error { return s.store.Run(ctx, s.registry) })
	edges.Go(func() error { return s.watchStore(ctx) })
	edges.Go(func() error { return s.auth.run(ctx) })
	edges.Go(func() error { return s.forget(ctx) })
	edges.Go(func() error { return s.watchLease(ctx) })
	edges.Go(func() error {
		s.roster.Run(ctx, s.database, cluster.Judge, s.database.Fence())
		return nil
	})
	if s.ears != nil {
		j := s.newJudge()
		edges.Go(func() error { return serveLink(ctx, s.linkServer, s.ears, j.Run) })
	}
	for _, run := range s.edges {
		edges.Go(func() error { return run(ctx) })
	}
}

// stepDown leaves the cluster after the last checkpoint. err is that of the edges, which have ended.
func (s *server) stepDown(ctx context.Context, err error) {
	if !errors.Is(err, errCutOff) && !errors.Is(err, store.ErrChanged) { // else the database would be waited for, and nobody answers meanwhile
		s.lastCheckpoint(ctx)
		leave(ctx, s.roster, s.database)
	}
	if errors.Is(err, store.ErrChanged) || errors.Is(err, sqldb.ErrFenced) { // if it is still ours: a standby does not know what was lost
		s.database.KeepLease()
	}
}

// begin restores the stored state. It fails when ctx ends.
func (s *server) begin(ctx context.Context) error {
	if err := s.restore(ctx); err != nil {
		return err
	}
	if s.broker != nil {
		if err := s.broker.Open(ctx); err != nil {
			return err
		}
	}
	return s.loadDelivery(ctx)
}

// explainBind adds advice to the error of an address that could not be bound.
func explainBind(err error, flag string) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && flag == "--mqtt":
		return fmt.Errorf("%w: another program, perhaps a broker, listens there; choose another address with --mqtt, or --mqtt off for no broker "+
			"(\"holter monitor\" watches the devices of the one that is there)", err)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: another program listens there; stop it, or choose another address with %s", err, flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w: this machine has no such address; choose another with %s", err, flag)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w: ports below 1024 need privileges; choose another with %s", err, flag)
	}
	return err
}

// buildStore creates the store of the fleet, with the jobs as its outbox.
func (s *server) buildStore() (err error) {
	db := DatabaseConfig(s.config)
	db.Terms = s.terms
	if s.database, err = sqldb.New(db); err != nil {
		return err
	}
	s.records = mqttstore.New(s.database, cmp.Or(s.config.MQTT.MaxPacket, mqtt.DefaultMaxPacket))
	cfg := s.config.Store
	s.jobs = jobs.New(s.database)
	cfg.Outbox, cfg.Node, cfg.Follower, cfg.Tail = s.jobs, s.config.Node, s.follower, s.tail
	s.store, err = store.New(s.database, cfg)
	return err
}

// DatabaseConfig returns the database of a configuration.
func DatabaseConfig(c config.Config) sqldb.Config {
	url := c.Database.Reveal()
	if url == "" {
		url = "sqlite:" + filepath.Join(c.Data, "holter.db")
	}
	return sqldb.Config{URL: url, Dir: c.Data, Node: c.Node, AcceptLoss: c.AcceptLoss}
}

// KeptFiles returns the names of files in the data directory that a backup has: the key of what devices were
// told once.
func KeptFiles() []string { return []string{keyFile} }

// SQLitePath returns the file of an SQLite URL.
func SQLitePath(url string) (path string, ok bool) {
	scheme, rest, found := strings.Cut(url, ":")
	if !found {
		return "", false
	}
	switch strings.ToLower(scheme) {
	case "sqlite", "sqlite3", "file":
		if after, ok := strings.CutPrefix(rest, "//"); ok {
			rest = after
		}
		return rest, rest != ""
	}
	return "", false
}

// APIURL returns the URL of a configuration's API, as seen from this machine.
func APIURL(cfg config.Config) string {
	u := url.URL{Scheme: "http", Host: cfg.HTTP}
	if cfg.TLS.Cert != "" {
		u.Scheme = "https"
	}
	if host, port, err := net.SplitHostPort(cfg.HTTP); err == nil && (host == "" || net.ParseIP(host).IsUnspecified()) {
		u.Host = net.JoinHostPort("127.0.0.1", port)
	}
	return u.String()
}

// ConfigError is the error of a configuration with mistakes.
type ConfigError struct{ error }

func (e ConfigError) Unwrap() error { return e.error }

// ExitStatus is the exit code of the program.
func (ConfigError) ExitStatus() int { return 2 }

// BadConfig returns a ConfigError.
func BadConfig(err error) error {
	return ConfigError{fmt.Errorf("cannot start, the configuration has mistakes:\n%w", err)}
}
