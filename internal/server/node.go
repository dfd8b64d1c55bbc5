package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/cluster"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/version"
)

const (
	// lookEvery is how often a standby looks whether the database is free.
	lookEvery = time.Second
	// comeBack is how long a judge has to renew its lease after the database was away: as long as
	// the lease.
	comeBack = 6 * time.Second
	// parting is how long the row of a server that ends may take to be removed.
	parting = 2 * time.Second
	// askEvery is how often a judge asks the others while it cannot renew its lease, and askFor for
	// how long one of them may give no answer.
	askEvery, askFor = 250 * time.Millisecond, 2 * time.Second
)

// errCutOff ends the work of a judge that cannot reach the database, while another server may have
// taken over.
var errCutOff = errors.New("the lease of the database could not be renewed, and another server may judge now")

// errUnknown is returned while a standby cannot ask who has the database.
var errUnknown = errors.New("the database cannot be reached")

// node is a server among those that share a database: a judge or a standby, in turns.
type node struct {
	config   config.Config                 // as at the start: what it has of the addresses, the database and the name holds for ever
	live     atomic.Pointer[config.Config] // what is in force, and what the next role begins with
	reloads  reloads
	role     role
	log      *slog.Logger
	stdout   io.Writer
	examine  Examine          // nil: none
	api      *net.TCPListener // of the API; each role serves on a duplicate
	ears     filer            // where ears connect; the same; nil if there are none
	roster   *cluster.Roster
	peers    *http.Client          // reaches the APIs of the others
	follower store.Follower        // what this server has read of the devices while it stood by
	tail     store.Tail            // what it has committed while it judged
	terms    sqldb.Terms           // those that it has seen
	why      atomic.Pointer[error] // this server stands by
	looks    atomic.Uint64         // whether the database is free
	service  service
	stoodBy  bool      // it has done so before; used by run only
	away     time.Time // when the database could last not be reached while this server stood by; used by run only
}

// Serve runs the whole of Holter until ctx is done. While another server has the database, it stands
// by: it hands requests on to that one, and takes over when it ends or is lost. Each value of hangups, see
// [Hangups], has it read its configuration again; nil: none. examine is what its API offers as an examination;
// nil: none.
func Serve(ctx context.Context, cfg config.Config, hangups <-chan os.Signal, examine Examine, stdout, stderr io.Writer) error {
	r := newReloads(newLogs(cfg.Log, cfg.Node, stderr))
	n := &node{config: cfg, log: r.log, reloads: r, stdout: stdout, examine: examine}
	n.live.Store(&cfg)
	n.role.set(nil, true)
	slog.SetDefault(n.log)
	defer reloading(ctx, hangups, n.log, n.reload)()
	n.config.Gateway.Loops = eventLoops()
	if err := Check(&cfg); err != nil {
		return BadConfig(err)
	}
	if err := n.listen(ctx); err != nil {
		return err
	}
	defer n.close()
	defer context.AfterFunc(ctx, n.close)() // nobody else is let in
	defer n.service.begin(ctx)()
	err := n.run(ctx)
	if err != nil {
		n.log.Error("holter has stopped", "error", err)
		return err
	}
	n.log.Info("holter has stopped")
	return nil
}

// close lets go of the addresses.
func (n *node) close() {
	_ = n.api.Close()
	if n.ears != nil {
		_ = n.ears.Close()
	}
}

// front returns what a role begins with.
func (n *node) front() front {
	c := *n.live.Load()
	c.Node, c.Gateway.Loops, c.Gateway.Pool = n.config.Node, n.config.Gateway.Loops, n.config.Gateway.Pool
	return front{config: c, live: &n.live, logs: n.reloads.logs, log: n.log, stdout: n.stdout, reloaders: make(map[cert.Files]*cert.Reloader)}
}

// listen binds the addresses of the API and of the link, and makes the roster of a server that has it.
func (n *node) listen(ctx context.Context) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", n.config.HTTP)
	if err != nil {
		return explainBind(err, "--http")
	}
	n.api = l.(*net.TCPListener)
	if n.config.Node == "" {
		if n.config.Node, err = os.Hostname(); err != nil || n.config.Node == "" {
			return errors.Join(BadConfig(errors.New("node (--node): the host has no name; give this server one")), l.Close())
		}
	}
	if n.config.Link.Listen != "" {
		if n.ears, err = listenLink(ctx, n.config.Link.Listen); err != nil {
			return errors.Join(err, l.Close())
		}
		n.config.Gateway.Pool = gatewayPool
	}
	n.roster = cluster.NewRoster(cluster.Member{Node: n.config.Node, Version: version.String(), API: n.advertised()})
	n.peers = &http.Client{Transport: n.transport()}
	return nil
}

// advertised returns the URL at which the others reach the API.
func (n *node) advertised() string {
	if n.config.Advertise != "" {
		return n.config.Advertise
	}
	address, name := n.api.Addr().(*net.TCPAddr), n.config
	name.HTTP = address.String()
	if host, err := os.Hostname(); err == nil && address.IP.IsUnspecified() {
		name.HTTP = net.JoinHostPort(host, strconv.Itoa(address.Port))
	}
	return APIURL(name)
}

// transport returns what reaches the APIs of the other servers. It trusts whom the system trusts, and
// the certificate of this server's own API, which they may share.
func (n *node) transport() *http.Transport {
	t := &http.Transport{
		DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext, ResponseHeaderTimeout: 30 * time.Second,
		MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute, DisableCompression: true,
	}
	own, err := os.ReadFile(n.config.TLS.Cert)
	if err != nil { // there is none, or whoever needs it says so
		return t
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AppendCertsFromPEM(own)
	t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return t
}

// run judges while it has the database, and stands by while another server has it.
func (n *node) run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := n.judge(ctx)
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			break
		}
		if err == nil || !n.stepsBack(err) {
			return err
		}
		n.stoodBy = true
		n.why.Store(&err)
		if errors.Is(err, store.ErrChanged) { // the lease is still this server's
			continue
		}
		if err := n.standBy(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// stepsBack reports whether a server stands by after an error, and logs that.
func (n *node) stepsBack(err error) bool {
	switch {
	case errors.Is(err, sqldb.ErrLocked):
		n.log.Info("standing by: another server judges this fleet", "reason", reason(err))
	case errors.Is(err, sqldb.ErrFenced), errors.Is(err, errCutOff):
		n.log.Warn("this server judges no longer, and stands by", "reason", reason(err))
	case errors.Is(err, store.ErrChanged):
		n.log.Error("this server reads again what the database has, and appends again what it has lost, if that is known", "reason", reason(err))
	case errors.Is(err, errUnknown), n.stoodBy && errors.Is(err, syscall.EADDRINUSE):
		n.log.Error("this server cannot take over yet, and stands by", "reason", reason(err))
	default:
		return false
	}
	return true
}

// reason returns the first of joined errors, without the package that it comes from.
func reason(err error) string {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimPrefix(first, "sqldb: ")
}

// judge runs all parts until ctx is done or another server has the database.
func (n *node) judge(ctx context.Context) error {
	n.role.set(nil, true) // before the configuration is read
	defer n.role.set(nil, true)
	s := &server{
		front: n.front(), examine: n.examine, reload: n.reload, roster: n.roster, peers: n.peers, follower: &n.follower, tail: &n.tail,
		terms: &n.terms, service: &n.service,
	}
	s.started = func() { n.role.set(s, false) }
	if err := n.free(ctx); err != nil {
		return err
	}
	l, err := duplicate(ctx, n.api)
	if err != nil {
		return err
	}
	s.http = l
	if n.ears != nil {
		if s.ears, err = duplicate(ctx, n.ears); err != nil {
			return errors.Join(err, l.Close())
		}
		defer func() { _ = s.ears.Close() }()
	}
	s.wait("the database is being opened")
	s.service.is(s.startActivity())
	if err := s.build(ctx); err != nil {
		ended, end := context.WithCancel(ctx)
		end()
		s.release(ended)
		return errors.Join(err, l.Close())
	}
	return s.run(ctx)
}

// duplicate returns a listener for one role, at whose end the address stays bound. It fails when ctx is
// done.
func duplicate(ctx context.Context, of filer) (net.Listener, error) {
	f, err := of.File()
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("duplicate the listener at %s: %w", of.Addr(), err)
	}
	l, err := net.FileListener(f)
	return l, errors.Join(err, f.Close())
}

// free returns an error that wraps ErrLocked if another server has the database, or may take it again at
// once: while the database was away for everybody, a judge has kept its devices. Before this server has
// stood by, a database that cannot be reached counts as free, and so does one that a server of its own
// name has: that is mostly the process before, which was killed. Whoever opens it finds out.
func (n *node) free(ctx context.Context) error {
	cfg := DatabaseConfig(n.config)
	cfg.Terms = &n.terms
	db, err := sqldb.New(cfg)
	if err != nil {
		return err
	}
	holder, err := db.Holder(ctx)
	if err != nil {
		if n.stoodBy {
			n.away = time.Now()
			return fmt.Errorf("%w: %w", errUnknown, err)
		}
		n.log.Debug("it is not known who has the database; opening it will tell", "error", err)
		return nil
	}
	if holder.Lost { // it was replaced by a replica that was behind
		n.away = time.Now()
	}
	switch {
	case holder.Free && holder.Node != "" && holder.Node != n.config.Node && time.Since(n.away) < comeBack:
		return fmt.Errorf("%w by %s; the database was away, and this one has %v to renew it", sqldb.ErrLocked, holder.Text, comeBack)
	case holder.Free, holder.Node == n.config.Node && !n.stoodBy:
		return nil
	}
	return fmt.Errorf("%w by %s", sqldb.ErrLocked, holder.Text)
}

// standBy hands requests on until the database is free, or ctx is done.
func (n *node) standBy(parent context.Context) error {
	ctx, end := context.WithCancel(parent)
	defer end()
	n.role.set(nil, false)
	l, err := duplicate(ctx, n.api)
	if err != nil {
		return err
	}
	var certificates *tls.Config
	var all errgroup.Group
	if n.config.TLS.Cert != "" {
		r, err := cert.New(n.config.TLS, n.log)
		if err != nil {
			return errors.Join(err, l.Close())
		}
		certificates = &tls.Config{GetCertificate: r.GetCertificate, MinVersion: tls.VersionTLS12}
		all.Go(func() error { return r.Run(ctx) })
	}
	if n.ears != nil {
		if err := n.standByEars(ctx, &all); err != nil {
			end()
			return errors.Join(err, all.Wait(), l.Close())
		}
	}
	api := httpapi.NewStandby(n.roster, n.peers.Transport, certificates, n.log, func() string { return reason(*n.why.Load()) })
	all.Go(func() error {
		defer end()
		return api.Serve(ctx, l)
	})
	all.Go(func() error {
		n.enroll(ctx, parent)
		return nil
	})
	n.service.is(activity{
		ready: true, progress: func() []uint64 { return []uint64{n.looks.Load()} },
		status: func() string { return "standing by: " + reason(*n.why.Load()) },
	})
	n.awaitFree(ctx)
	end()
	return all.Wait()
}

// standByEars tells ears that this server is a standby, until ctx is done.
func (n *node) standByEars(ctx context.Context, all *errgroup.Group) error {
	f := n.front()
	server, err := f.newLinkServer()
	if err != nil {
		return err
	}
	l, err := duplicate(ctx, n.ears)
	if err != nil {
		return err
	}
	for _, r := range f.reloaders {
		all.Go(func() error { return r.Run(ctx) })
	}
	all.Go(func() error { return redirectEars(ctx, n.log, server, l, nil) })
	return nil
}

// enroll keeps the row of a standby, and follows what the judge writes, until ctx is done. It removes the
// row if parent is, too: this server ends.
func (n *node) enroll(ctx, parent context.Context) {
	for ctx.Err() == nil {
		db, err := sqldb.OpenShared(ctx, DatabaseConfig(n.config))
		if err != nil { // awaitFree says so
			pause(ctx, lookEvery)
			continue
		}
		var following sync.WaitGroup
		following.Go(func() { n.follow(ctx, db) })
		n.roster.Run(ctx, db, cluster.Standby, 0)
		following.Wait()
		if parent.Err() != nil {
			leave(ctx, n.roster, db)
		}
		_ = db.Close() // nothing depends on it
	}
}

// follow reads what the judge writes, until ctx is done. What fails is tried again, at the latest when this
// server takes over.
func (n *node) follow(ctx context.Context, db *sqldb.DB) {
	for said := false; ctx.Err() == nil; pause(ctx, lookEvery) {
		begin := time.Now()
		switch err := n.follower.Follow(ctx, db); {
		case err != nil:
			n.log.Debug("the devices could not be read; that is tried again", "error", err)
		case !said:
			n.log.Info("this server has read the devices, and goes on to read what changes", "devices", n.follower.Devices(), "took", time.Since(begin))
			said = true
		}
	}
}

// leave removes the row of a server that ends. Without that it counts as lost, which does no harm.
func leave(ctx context.Context, roster *cluster.Roster, db *sqldb.DB) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer cancel()
	_ = roster.Leave(ctx, db)
}

// awaitFree waits until the database is free, or ctx is done.
func (n *node) awaitFree(ctx context.Context) {
	for said := ""; ; {
		pause(ctx, lookEvery*3/4+rand.N(lookEvery/2))
		n.looks.Add(1)
		err := n.free(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		n.why.Store(&err)
		if why := sqldb.Explain(err); why != said && !errors.Is(err, sqldb.ErrLocked) {
			n.log.Error("the database cannot be reached; this server goes on to stand by", "error", err, "why", why)
			said = why
		}
	}
}

// pause waits, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// watchLease ends the work of this judge when its lease may be another server's, as soon as one says that
// it judges, or gives no answer for a while: the devices that are connected here would be silent for the
// other one.
func (s *server) watchLease(ctx context.Context) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for answered := time.Now(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		var err error
		if s.database.Lapsed() > 0 {
			err = s.roster.Ask(ctx, s.peers, s.database.Fence())
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil, s.database.Lapsed() == 0: // it was renewed meanwhile, so nobody has taken over
			answered = time.Now()
		case errors.Is(err, cluster.ErrAnotherJudge), time.Since(answered) > askFor:
			return fmt.Errorf("%w: %w", errCutOff, err)
		}
	}
}
