package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/cluster/link"
	"github.com/holter-iot/holter/internal/cluster/route"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/metrics"
	"github.com/holter-iot/holter/internal/net/sockets"
	"github.com/holter-iot/holter/internal/remote"
	"github.com/holter-iot/holter/internal/terminal"
	"github.com/holter-iot/holter/internal/version"
	"github.com/holter-iot/holter/liveness"
)

// ear holds connections of devices that a judge elsewhere judges.
type ear struct {
	front

	reloads  reloads
	link     *link.Ear
	spoke    *route.Spoke // nil without mqtt.route: cluster
	http     net.Listener
	asked    chan struct{} // room for one; never closed; receives when the judge asks the ear to end
	draining atomic.Bool
	listens  atomic.Bool // at the device ports
	service  service
	letGo    atomic.Uint64 // times that all connections were closed for want of a judge
	deaf     chan error    // room for one; never closed; receives why the ear cannot listen though a judge has taken it in
}

// Ear runs an ear until ctx is done, or its judge asks it to end. Then its devices are led elsewhere, and
// the judge is told: that causes no event, unless a device does not come back. Each value of hangups, see
// [Hangups], has it read its configuration again; nil: none.
func Ear(ctx context.Context, cfg config.Config, hangups <-chan os.Signal, stdout, stderr io.Writer) error {
	r := newReloads(newLogs(cfg.Log, cfg.Node, stderr))
	live := &atomic.Pointer[config.Config]{}
	live.Store(&cfg)
	e := &ear{asked: make(chan struct{}, 1), deaf: make(chan error, 1), reloads: r, front: front{
		config: cfg, live: live, logs: r.logs, log: r.log, stdout: stdout, reloaders: make(map[cert.Files]*cert.Reloader),
	}}
	slog.SetDefault(e.log)
	e.config.Gateway.Loops = eventLoops()
	e.reloads.turn <- struct{}{} // until it is built; nobody else has a turn yet
	defer reloading(ctx, hangups, e.log, e.reload)()
	err := e.build(ctx)
	e.reloads.leave()
	if err != nil {
		return err
	}
	defer e.service.begin(ctx)()
	if err := e.run(ctx); err != nil {
		e.log.Error("the ear has stopped", "error", err)
		return err
	}
	e.log.Info("the ear has stopped")
	return nil
}

// reload reads the configuration again.
func (e *ear) reload(ctx context.Context, who string) (httpapi.Reloaded, error) {
	if err := e.reloads.enter(ctx); err != nil {
		return httpapi.Reloaded{}, err
	}
	defer e.reloads.leave()
	check := func(*config.Config) error { return e.look() }
	return e.reloads.once(who, e.live.Load(), check, func(next *config.Config) (httpapi.Reloaded, error) {
		p := newPlan(e.live.Load(), next, false)
		e.apply(p, e.logs)
		e.live.Store(p.next)
		return p.done(), nil
	})
}

// build creates the parts and binds the addresses; nothing runs yet. Nobody listens at those of devices until
// a judge has taken the ear in.
func (e *ear) build(ctx context.Context) (err error) {
	var lc net.ListenConfig
	if e.http, err = lc.Listen(ctx, "tcp", e.config.HTTP); err != nil {
		return explainBind(err, "--http")
	}
	if err := e.buildParts(ctx); err != nil {
		ended, end := context.WithCancel(ctx)
		end()
		e.release(ended)
		return errors.Join(err, e.http.Close())
	}
	return nil
}

func (e *ear) buildParts(ctx context.Context) (err error) {
	if err := e.nameIt(); err != nil {
		return BadConfig(err)
	}
	if e.link, err = e.newLink(); err != nil {
		return err
	}
	if e.registry, err = liveness.New(nowhere{}, liveness.Config{}); err != nil {
		return err
	}
	e.config.Gateway.Judge = farJudge{e.link}
	if err := e.buildGateway(ctx); err != nil {
		return err
	}
	return errors.Join(e.gateway.Operator().Pause(), e.buildSpoke())
}

// nameIt makes sure that the ear has a name that no source of a judge has. The default is one that the next
// start has as well, and no other ear of this host: they have other ports.
func (e *ear) nameIt() error {
	if e.config.Node == "" {
		host, err := os.Hostname()
		if err != nil || host == "" {
			return errors.New("node (--node): the host has no name; give this ear one")
		}
		e.config.Node = fmt.Sprintf("%s-%d", host, e.http.Addr().(*net.TCPAddr).Port)
	}
	if link.Reserved(e.config.Node) {
		return fmt.Errorf("node (--node): an ear cannot be called %s; give it another name", e.config.Node)
	}
	return nil
}

// newLink returns the ear's end of the link.
func (e *ear) newLink() (*link.Ear, error) {
	cfg := link.EarConfig{
		Name: e.config.Node, Judges: e.config.Judges, Version: version.String(), Logger: e.log,
		Now:    func() time.Duration { return e.gateway.Operator().Elapsed() },
		Pass:   func(done func()) { e.gateway.Operator().Pass(done) },
		Send:   e.sendFar,
		Joined: func() { e.listen(true) },
		LetGo: func(why string) {
			e.letGo.Add(1)
			e.listen(false)
			e.gateway.Operator().LetGo(why)
		},
		Drain: func() {
			select {
			case e.asked <- struct{}{}:
			default:
			}
		},
	}
	if e.config.MQTT.Routed {
		cfg.Beside = func(ctx context.Context, judge *grpc.ClientConn) { e.spoke.Serve(ctx, judge) }
	}
	if slices.ContainsFunc(e.config.Listen, func(l config.Listener) bool { return l.Packets }) {
		cfg.PassDatagrams = func(done func(uint64)) { e.gateway.Operator().PassDatagrams(done) }
	}
	r, err := e.linkCertificates()
	if err != nil {
		return nil, err
	}
	if r != nil {
		cfg.Credentials = func() credentials.TransportCredentials {
			own, _ := r.GetConfigForClient(nil) // never fails
			return credentials.NewTLS(&tls.Config{
				MinVersion: tls.VersionTLS13, RootCAs: own.ClientCAs, Certificates: own.Certificates, VerifyConnection: own.VerifyConnection,
			})
		}
	}
	return link.NewEar(cfg)
}

// listen has the device ports taken, or left. An ear that cannot do so ends: devices are not heard there, or
// not led to ears that have a judge.
func (e *ear) listen(to bool) {
	change := e.gateway.Operator().Pause
	if to {
		change = e.gateway.Operator().Resume
	}
	err := change()
	e.listens.Store(to && err == nil)
	if err != nil {
		select {
		case e.deaf <- explainBind(err, "--listen"):
		default:
		}
	}
}

// run runs the parts until the ear has drained or one of them fails. At the end the connections are
// closed first, then the link.
func (e *ear) run(parent context.Context) error {
	last, end := context.WithCancel(context.WithoutCancel(parent))
	defer end()
	services, failed := errgroup.WithContext(last)
	services.Go(func() error { return e.registry.Run(failed) })
	services.Go(func() error { return e.runBroker(failed) })
	services.Go(func() error { return e.runLink(failed) })
	services.Go(func() error { return e.serveHTTP(failed) })
	ctx, stop := context.WithCancel(failed)
	defer stop()
	edges, ctx := errgroup.WithContext(ctx)
	for _, r := range e.reloaders {
		edges.Go(func() error { return r.Run(ctx) })
	}
	for _, run := range e.edges {
		edges.Go(func() error { return run(ctx) })
	}
	edges.Go(func() error {
		defer stop()
		return e.awaitDrain(parent, ctx)
	})
	e.service.is(e.activity())
	e.announce()
	err := edges.Wait()
	end()
	return errors.Join(err, services.Wait())
}

// runLink keeps the link to the judge until ctx is done.
func (e *ear) runLink(ctx context.Context) error {
	err := orderly(e.link.Run)(ctx)
	if errors.Is(err, link.ErrNameTaken) {
		return fmt.Errorf("node (--node): the judge has another ear that is called %s; give each ear a name of its own", e.config.Node)
	}
	return err
}

// maxHealthConnections is how many connections an ear serves at a time for what load balancers and
// Prometheus ask, so that no descriptors of devices are used up there.
const maxHealthConnections = 256

// serveHTTP serves what a load balancer and Prometheus ask, until ctx is done.
func (e *ear) serveHTTP(ctx context.Context) error {
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), metrics.Collector(e.collect),
	} {
		if err := registry.Register(c); err != nil {
			return err
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", e.serveReady)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(e.log.Handler(), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	limited, err := sockets.NewSet().Limit(e.http, maxHealthConnections)
	if err != nil {
		return errors.Join(fmt.Errorf("serve HTTP: %w", err), e.http.Close())
	}
	if err := server.Serve(limited); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

// serveReady answers whether devices should be led here.
func (e *ear) serveReady(w http.ResponseWriter, _ *http.Request) {
	if err := e.ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}

// ready returns why devices should not be led here; nil if they should.
func (e *ear) ready() error {
	switch {
	case e.draining.Load():
		return errors.New("draining: this ear ends")
	case !e.link.Ready() || !e.listens.Load():
		return fmt.Errorf("no judge: none of %s has taken this ear in; see its log", strings.Join(e.config.Judges, ", "))
	}
	return nil
}

// activity is what an ear is for the service manager.
func (e *ear) activity() activity {
	return activity{ready: true, progress: e.gateway.Operator().Progress, status: func() string {
		status := "holding " + terminal.Plural(e.gateway.Stats().Connections, "connection", "connections") + deafText(e.registry)
		if err := e.ready(); err != nil {
			status += "; not ready: " + err.Error()
		}
		return status
	}}
}

// collect reports the metrics of an ear.
func (e *ear) collect(m metrics.Sample) {
	m.Add("build_info", "1, with what was built, and the name of the node that runs it.", 1, "version", version.String(), "goversion", runtime.Version(), "node", e.config.Node)
	memoryMetrics(m)
	e.gatewayMetrics(m)
	e.brokerMetrics(m)
	m = m.Sub("link_")
	st := e.link.Stats()
	m.Flag("connected", "Whether the ear has a judge, or had one within the last 2.7 s.", st.Ready)
	m.Add("sessions", "Sessions of devices that the ear keeps at its judge.", float64(st.Sessions))
	m.Add("unanswered", "Questions that the judge has not answered yet.", float64(st.Unanswered))
	m.Count("joins_total", "Times that a judge has taken the ear in.", st.Joins)
	m.Count("dropped_total", "Signs of life that could not be kept for a judge; until the ear's devices are heard again, they are not judged.", st.Dropped)
	m.Count("let_go_total", "Times that all connections were closed because there was no judge.", e.letGo.Load())
}

// announce logs that the ear listens, and tells a person at a terminal where.
func (e *ear) announce() {
	judges := strings.Join(e.config.Judges, ", ")
	e.log.Info("holter ear is listening", append(e.appendPorts([]any{"ear", e.config.Node}), "judges", judges, "http", e.http.Addr().String())...)
	if e.config.Open {
		e.log.Warn("open to every device that can reach it", "help", "leave --open out, and set --token or --devices-file")
	}
	if !terminal.IsTerminal(e.stdout) {
		return
	}
	var out strings.Builder
	fmt.Fprintf(&out, "\n  The ear %s is listening.\n\n", e.config.Node)
	e.portLines(func(label, value string) { fmt.Fprintf(&out, "    %-8s  %s\n", label, value) })
	fmt.Fprintf(&out, "    %-8s  %s\n    %-8s  http://%s/readyz\n\n", "judge", judges, "ready", e.http.Addr())
	_, _ = e.stdout.Write([]byte(out.String()))
}

// farJudge is the judge of an ear's gateway.
type farJudge struct{ ear *link.Ear }

// Open implements [remote.Judge].
func (j farJudge) Open(id string, h liveness.Hello, peer liveness.Peer, heard time.Duration, done func(liveness.Welcome, error)) remote.Session {
	return j.ear.Open(id, h, peer, heard, done)
}

// OpenDatagrams implements [remote.Judge].
func (j farJudge) OpenDatagrams(id string, h liveness.Hello, peer liveness.Peer, heard time.Duration, done func(liveness.Welcome, error)) remote.Session {
	return j.ear.OpenDatagrams(id, h, peer, heard, done)
}

// nowhere takes the events of a registry without devices.
type nowhere struct{}

// Append implements [liveness.Sink].
func (nowhere) Append(context.Context, []liveness.Event) error { return nil }
