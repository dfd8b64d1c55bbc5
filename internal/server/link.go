package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/cluster/link"
	"github.com/holter-iot/holter/internal/cluster/route"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/metrics"
	"github.com/holter-iot/holter/internal/version"
	"github.com/holter-iot/holter/liveness"
)

// gatewayPool is the pool of all sources that hold device connections, of this process and of ears.
const gatewayPool = "gateway"

// roleEar is that of an ear in the list of servers.
const roleEar = "ear"

// filer is a listener that can be duplicated.
type filer interface {
	net.Listener

	File() (*os.File, error)
}

// listenLink binds the address of a link: HOST:PORT or unix:PATH.
func listenLink(ctx context.Context, address string) (filer, error) {
	path, unix := config.UnixPath(address)
	var lc net.ListenConfig
	if !unix {
		l, err := lc.Listen(ctx, "tcp", address)
		if err != nil {
			return nil, explainBind(err, "--link")
		}
		return l.(filer), nil
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	lc.Control = func(_, _ string, c syscall.RawConn) error { // so that nobody else can connect before the Chmod below
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) })
	}
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, explainBind(err, "--link")
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l.(filer), nil
}

// removeStale removes the Unix socket of a process that is gone.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&os.ModeSocket == 0:
		return fmt.Errorf("%s is there, and is no socket; choose another path with --link", path)
	}
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close()
		return explainBind(fmt.Errorf("listen at %s: %w", path, syscall.EADDRINUSE), "--link")
	}
	return os.Remove(path)
}

// linkText returns an address as ears are told it.
func linkText(a net.Addr) string {
	if a.Network() == "unix" {
		return "unix:" + a.String()
	}
	return a.String()
}

// newLinkServer returns a server for ears.
func (f *front) newLinkServer() (*grpc.Server, error) {
	options := []grpc.ServerOption{
		grpc.ConnectionTimeout(5 * time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}),
		grpc.MaxRecvMsgSize(route.MaxFrame),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	}
	r, err := f.linkCertificates()
	if err != nil {
		return nil, err
	}
	if r != nil {
		c := &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			c, err := r.GetConfigForClient(hello)
			if err == nil {
				c = c.Clone()
				c.NextProtos = []string{"h2"}
			}
			return c, err
		}}
		options = append(options, grpc.Creds(credentials.NewTLS(c)))
	}
	return grpc.NewServer(options...), nil
}

// linkCertificates returns what reloads the certificates of the link; nil without TLS.
func (f *front) linkCertificates() (*cert.Reloader, error) {
	files := f.config.Link.TLS
	if files.Cert == "" {
		return nil, nil
	}
	files.MinVersion = "1.3"
	r, err := f.reloader(files)
	if err != nil {
		return nil, BadConfig(fmt.Errorf("link.tls (--link-cert, --link-key, --link-ca): %w", err))
	}
	return r, nil
}

// serveLink serves ears until run ends, which is when ctx is done. It closes the listener.
func serveLink(ctx context.Context, server *grpc.Server, l net.Listener, run func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		defer server.Stop()
		return run(ctx)
	})
	return group.Wait()
}

// newJudge returns the judge of ears. No source may have been pulsed yet.
func (s *server) newJudge() *link.Judge {
	cfg := s.config.Source
	source := liveness.SourceConfig{Pool: gatewayPool, ReconnectGrace: cfg.ReconnectGrace, ReconnectGraceMax: cfg.ReconnectGraceMax}
	j := link.NewJudge(s.registry, link.JudgeConfig{
		Fleet: s.database.ID(), Node: s.config.Node, Version: version.String(), Source: source, Logger: s.log,
		Term: func() uint64 { return uint64(s.database.Fence()) },
	})
	j.Register(s.linkServer)
	s.link.Store(j)
	return j
}

// earList is the ears, as the API knows them.
type earList struct{ *server }

// Nodes implements [httpapi.Ears].
func (l earList) Nodes() (all []httpapi.Node) {
	j := l.link.Load()
	if j == nil {
		return nil
	}
	for _, v := range j.Views() {
		all = append(all, httpapi.Node{
			Node: v.Name, Role: roleEar, Alive: true, Draining: v.Draining, Term: l.database.Fence(), Version: v.Version, Started: v.Since.UTC(), Renewed: time.Now().UTC(),
		})
	}
	return all
}

// Drain implements [httpapi.Ears].
func (l earList) Drain(name string) bool {
	j := l.link.Load()
	return j != nil && j.Drain(name)
}

// Remove implements [httpapi.Ears].
func (l earList) Remove(name string) bool {
	j := l.link.Load()
	return j != nil && j.Remove(name)
}

// judgeMetrics reports the ears of a judge.
func judgeMetrics(m metrics.Sample, ears []link.EarView) {
	m = m.Sub("link_")
	sessions, behind := 0, time.Duration(0)
	for _, v := range ears {
		sessions += v.Sessions
		behind = max(behind, v.Behind)
	}
	m.Add("ears", "Ears that are connected to this judge.", float64(len(ears)))
	m.Add("ear_sessions", "Sessions of devices that are connected to ears.", float64(sessions))
	m.Add("behind_seconds", "How far the clock of the slowest ear is behind; verdicts wait so long.", behind.Seconds())
}

// holdEars calls begin, and tells ears meanwhile that this server is to be the judge, so that they go on to
// hold their connections.
func (s *server) holdEars(ctx context.Context, begin func(context.Context) error) error {
	if s.ears == nil {
		return begin(ctx)
	}
	server, err := s.newLinkServer()
	if err != nil {
		return err
	}
	l, err := duplicate(ctx, s.ears.(filer))
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	holding, end := context.WithCancel(ctx)
	group.Go(func() error {
		return redirectEars(holding, s.log, server, l, func() bool { return s.database.Fence() > 0 && s.database.Lapsed() == 0 })
	})
	group.Go(func() error {
		defer end()
		return begin(ctx)
	})
	return group.Wait()
}

// redirectEars tells ears that this server is not the judge, until ctx is done; starting is that of
// [link.JudgeConfig].
func redirectEars(ctx context.Context, log *slog.Logger, server *grpc.Server, l net.Listener, starting func() bool) error {
	no := func() (string, bool) { return "", false }
	link.NewJudge(nil, link.JudgeConfig{Logger: log, Redirect: no, Starting: starting}).Register(server)
	return serveLink(ctx, server, l, func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
}
