package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	answerTimeout     = time.Minute // streams have a deadline for each write instead
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	shutdownTimeout   = 5 * time.Second
)

// Serve serves the API on a listener until ctx is done, and listens to heartbeats meanwhile. Then it accepts nothing more, ends the
// streams with a comment, waits at most 5 s for what is under way, cuts off what is left, and returns nil. It closes the listener in any
// case. An error means that the listener failed, or that nothing could be listened to. With [Config.TLS] it speaks HTTPS. It speaks
// HTTP/1.1 only: there a connection is a request at a time, which is what the limits count. Call it once.
func (a *API) Serve(ctx context.Context, listener net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	heard := make(chan error, 1) // room for the one error; closed after it
	go func() {
		defer close(heard)
		if err := a.Listen(ctx); err != nil {
			heard <- err
			stop()
		}
	}()
	err := a.serve(ctx, listener)
	stop()
	return errors.Join(err, <-heard)
}

func (a *API) serve(ctx context.Context, listener net.Listener) error {
	server := a.server(ctx)
	limited := limit(listener, a.config.MaxConnections, a.crowd, a.sockets)
	a.sockets.listen(listener)
	defer a.sockets.stop()
	failed := make(chan error, 1) // room for the one error; closed after it
	go func() {
		defer close(failed)
		if server.TLSConfig != nil {
			failed <- server.ServeTLS(limited, "", "")
			return
		}
		failed <- server.Serve(limited)
	}()
	select {
	case err := <-failed:
		return errors.Join(fmt.Errorf("httpapi: serve: %w", err), server.Close())
	case <-ctx.Done():
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := server.Shutdown(stopCtx)
	if err != nil {
		a.config.Logger.Warn("connections cut off", "after", shutdownTimeout)
		_ = server.Close()
	}
	for range failed { // it ended when its listener was closed
	}
	return nil
}

// crowd is told whether connections wait because there are too many.
func (a *API) crowd(waits bool) {
	if a.ear != nil {
		a.ear.crowded.Store(waits)
	}
}

// server returns a server that is not started.
func (a *API) server(ctx context.Context) *http.Server {
	server := &http.Server{
		Handler:           a.handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(a.config.Logger.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withConn,
	}
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	if a.config.TLS != nil {
		server.TLSConfig = a.config.TLS.Clone()
		server.TLSConfig.MinVersion = max(server.TLSConfig.MinVersion, tls.VersionTLS12)
	}
	return server
}

// limit returns a listener that has at most n connections open at a time; others wait to be accepted. full is told when they begin to,
// and when they have a place.
func limit(l net.Listener, n int, full func(waits bool), s *sockets) net.Listener {
	return &limitListener{Listener: l, places: make(chan struct{}, n), closed: make(chan struct{}), full: full, sockets: s}
}

type limitListener struct {
	net.Listener

	places  chan struct{} // holds a token for each open connection; never closed
	closed  chan struct{} // closed by Close
	full    func(waits bool)
	sockets *sockets
	once    sync.Once
}

func (l *limitListener) Accept() (net.Conn, error) {
	if !l.place() {
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	limited := &limitedConn{Conn: c, listener: l}
	l.sockets.add(limited)
	return limited, nil
}

// place waits for a place, and says whether there is one.
func (l *limitListener) place() bool {
	select {
	case l.places <- struct{}{}:
		return true
	default:
	}
	l.full(true)
	defer l.full(false)
	select {
	case l.places <- struct{}{}:
		return true
	case <-l.closed:
		return false
	}
}

// Close closes the listener; the connections stay open.
func (l *limitListener) Close() error {
	l.sockets.stop()
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type connKey struct{}

// withConn lets a request find its connection.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// hush says that nothing is expected on the connection of a request any more, and nobody reads from it.
func hush(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*limitedConn); ok {
		c.quiet.Store(true)
	}
}
