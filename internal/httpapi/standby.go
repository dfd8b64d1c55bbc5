package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holter-iot/holter/internal/cluster"
	"github.com/holter-iot/holter/internal/metrics"
	"github.com/holter-iot/holter/internal/net/sockets"
)

// maxStandbyConnections is the largest number of connections to a server that stands by.
const maxStandbyConnections = 4096

// clientHeader names the client of a request that a standby hands on.
const clientHeader = "Holter-Client"

// Standby is the API of a server that stands by: it hands requests on to the judge, and answers
// /healthz, /readyz and /metrics itself. Make one with [NewStandby].
type Standby struct {
	roster  *cluster.Roster
	log     *slog.Logger
	tls     *tls.Config
	why     func() string
	sockets *sockets.Set
	proxy   httputil.ReverseProxy
	mux     http.ServeMux
}

// NewStandby returns the API of a standby. transport reaches the other servers; serverTLS is as
// [Config.TLS]. why tells why this server is not the judge; it is called concurrently.
func NewStandby(roster *cluster.Roster, transport http.RoundTripper, serverTLS *tls.Config, log *slog.Logger, why func() string) *Standby {
	s := &Standby{roster: roster, log: log, tls: serverTLS, why: why, sockets: sockets.NewSet()}
	s.proxy = httputil.ReverseProxy{
		Rewrite: s.aim, Transport: transport, ModifyResponse: keepAnswered, ErrorHandler: s.unanswered, FlushInterval: -1,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), // a client that leaves is no error
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.Collector(s.collect))
	s.mux.HandleFunc("GET /healthz", s.healthy)
	s.mux.HandleFunc("GET /readyz", s.ready)
	s.mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	s.mux.HandleFunc("/", s.handOn)
	return s
}

// Handler returns the API as a handler for another server.
func (s *Standby) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		beginRequest(s.sockets, w, r)
		s.mux.ServeHTTP(w, r)
	})
}

// Serve serves on a listener until ctx is done. Then it closes all connections, those of streams as
// well, and returns nil. It always closes the listener.
func (s *Standby) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn), TLSConfig: withMinVersion(s.tls), Protocols: onlyHTTP1(),
		BaseContext: func(net.Listener) context.Context { return ctx }, ConnContext: withConn, ConnState: noteIdle,
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	limited, err := s.sockets.Limit(listener, maxStandbyConnections)
	if err != nil {
		return errors.Join(fmt.Errorf("httpapi: %w", err), listener.Close())
	}
	if server.TLSConfig != nil {
		err = server.ServeTLS(limited, "", "")
	} else {
		err = server.Serve(limited)
	}
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("httpapi: serve: %w", err)
}

func (s *Standby) healthy(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set(cluster.TermHeader, strconv.FormatInt(s.roster.Self().Term, 10))
	writeText(w, "ok\n")
}

// ready says no, so that load balancers send devices to the judge.
func (s *Standby) ready(w http.ResponseWriter, _ *http.Request) {
	writeLater(w, http.StatusServiceUnavailable, time.Second, "standing by: "+s.why())
}

func (s *Standby) collect(m metrics.Sample) {
	self := s.roster.Self()
	buildInfo(m, self.Version, self.Node)
	judgeMetrics(m, s.roster, false)
}

// judgeMetrics reports what all servers of a fleet have.
func judgeMetrics(m metrics.Sample, roster *cluster.Roster, judge bool) {
	self, alive := roster.Self(), map[cluster.Role]uint64{cluster.Judge: 0, cluster.Standby: 0}
	for _, it := range roster.Members() {
		if it.Alive {
			alive[it.Role]++
		}
	}
	m.Flag("judge", "Whether this server judges: 1, or stands by: 0.", judge)
	m.Add("term", "Term of the judge, as far as this server knows; it grows with each judge.", float64(self.Term))
	for role, n := range alive {
		m.Count("nodes", "Servers of the fleet that are alive, as the database has it.", n, "role", string(role))
	}
}

// handOn hands a request on to the judge.
func (s *Standby) handOn(w http.ResponseWriter, r *http.Request) {
	judge, ok := s.roster.Judge()
	if !ok || judge.Process == s.roster.Self().Process {
		writeLater(w, http.StatusServiceUnavailable, time.Second, "this server stands by, and no other one judges at the moment: "+s.why())
		return
	}
	if r.Header.Get(clientHeader) != "" {
		writeProblem(w, http.StatusLoopDetected, fmt.Sprintf("this request was handed on already; node %s, which was the judge, stands by", s.roster.Self().Node))
		return
	}
	target, err := url.Parse(judge.API)
	if err != nil || target.Host == "" {
		writeLater(w, http.StatusServiceUnavailable, time.Second, fmt.Sprintf("node %s judges, and gives %q as its address; start it with --advertise", judge.Node, judge.API))
		return
	}
	s.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), judgeKey{}, target)))
}

// judgeKey is the key of the URL of the judge that a request is handed on to.
type judgeKey struct{}

// aim makes a request one to the judge. It keeps the host that was asked for, which the judge checks.
func (s *Standby) aim(r *httputil.ProxyRequest) {
	r.SetURL(r.In.Context().Value(judgeKey{}).(*url.URL))
	r.Out.Host = r.In.Host
	r.SetXForwarded()
	host, _, _ := net.SplitHostPort(r.In.RemoteAddr)
	r.Out.Header.Set(clientHeader, host)
}

// keepAnswered keeps the connection of a client whom the judge answers, where it asks for tokens if there are any.
func keepAnswered(answer *http.Response) error {
	r := answer.Request
	if c := connOf(r.Context()); c != nil && answer.StatusCode < http.StatusBadRequest && strings.HasPrefix(r.URL.Path, "/v1/") {
		c.Keep()
	}
	return nil
}

func (s *Standby) unanswered(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil { // the client is gone
		return
	}
	writeLater(w, http.StatusServiceUnavailable, time.Second, "this server stands by, and the judge does not answer: "+err.Error())
}

// fromElsewhere reports whether a standby has handed a request on for a client on another machine. What
// a client itself writes there cannot gain it anything.
func fromElsewhere(r *http.Request) bool {
	client := r.Header.Get(clientHeader)
	if client == "" {
		return false
	}
	address, err := netip.ParseAddr(client)
	return err != nil || !address.Unmap().IsLoopback()
}
